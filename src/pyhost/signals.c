/* The stop signals are the server's, whatever a module does with them while it is built. */
#include "pyhost/python.h"

#include <signal.h>

static const int numbers[] = {SIGTERM, SIGINT};
#define COUNT (sizeof numbers / sizeof numbers[0])
static struct sigaction kept[COUNT];

void lmc_py_keep_signals(void) {
    for (size_t i = 0; i < COUNT; i++)
        sigaction(numbers[i], NULL, &kept[i]);
}

void lmc_py_restore_signals(const char *whose) {
    for (size_t i = 0; i < COUNT; i++) {
        struct sigaction now;
        sigaction(numbers[i], NULL, &now);
        if (now.sa_handler == kept[i].sa_handler)
            continue;
        sigaction(numbers[i], &kept[i], NULL);
        lmc_py_server->lmc_log_write(
            LMC_LOG_WARNING, "lmcache.python", __FILE_NAME__, __LINE__,
            "%s set a handler for signal %d; stop signals stay the server's", whose,
            numbers[i]);
    }
}
