#include "module/own.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "observe/families.h"

/* "HelloModule" as "hello_module", "P2PController" as "p2p_controller". */
static void write_snake_case(char *out, size_t room, const char *name) {
    size_t used = 0;
    for (size_t i = 0; name[i] != '\0' && used + 2 < room; i++) {
        unsigned char c = (unsigned char)name[i];
        bool after_word = i > 0 && islower((unsigned char)name[i - 1]);
        bool before_word = i > 0 && name[i - 1] != '_' && islower((unsigned char)name[i + 1]);
        if (isupper(c) && (after_word || before_word))
            out[used++] = '_';
        out[used++] = (char)tolower(c);
    }
    out[used] = '\0';
}

void lmc_module_record_init(lmc_module_record *record, const char *name, bool outside,
                            const lmc_context *shared) {
    lmc_module_own *own = &record->own;
    char snake[128];
    write_snake_case(snake, sizeof snake, name);
    own->name = name;
    snprintf(own->logger, sizeof own->logger, "lmcache.module.%.70s", name);
    snprintf(own->prefix, sizeof own->prefix, "lmcached_module_%s", snake);
    lmc_lock_init(&own->lock, LMC_RANK_MODULES, "module");
    own->account.owner = name;
    own->account.outside = outside;
    record->context = *shared;
    record->context.own = own;
}

void lmc_module_own_meter(lmc_module_own *own, struct lmc_metrics *metrics) {
    const lmc_slice label = lmc_text(own->name);
    own->account.latency =
        lmc_histogram_of(lmc_metrics_family(metrics, LMC_M_MODULE_CALL_SECONDS), &label);
}

void lmc_module_record_fini(lmc_module_record *record) {
    if (record->own.name != NULL)
        lmc_lock_fini(&record->own.lock);
}
