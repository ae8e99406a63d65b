#include "server/notify.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define LMC_LOGGER "lmcache.server"
#define STATUS_MAX 256

static bool parse_number(const char *text, int64_t *value) {
    char *end;
    if (text == NULL || *text == '\0')
        return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < 0)
        return false;
    *value = number;
    return true;
}

static int64_t read_watchdog(void) {
    const char *text = getenv("WATCHDOG_USEC");
    int64_t microseconds = 0, pid = 0;
    if (text == NULL)
        return 0;
    if (!parse_number(text, &microseconds) || microseconds > INT64_MAX / 1000) {
        LMC_WARNING("WATCHDOG_USEC is not a number of microseconds: %s", text);
        return 0;
    }
    if (parse_number(getenv("WATCHDOG_PID"), &pid) && pid != getpid())
        return 0; /* meant for another process */
    return microseconds * 1000;
}

/* False when the name is no socket address. */
static bool fill_address(lmc_notify *notify, const char *name) {
    size_t size = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || size < 2 ||
        size >= sizeof notify->address.sun_path)
        return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, size);
    if (name[0] == '@')
        notify->address.sun_path[0] = '\0';
    notify->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

void lmc_notify_open(lmc_notify *notify) {
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (lmc_notify){.fd = -1};
    if (name == NULL || *name == '\0')
        return;
    if (!fill_address(notify, name)) {
        LMC_WARNING("NOTIFY_SOCKET is neither a path nor an abstract name: %s", name);
        return;
    }
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0) {
        LMC_WARNING("no socket to notify the service manager: %s", strerror(errno));
        return;
    }
    notify->watchdog_ns = read_watchdog();
}

void lmc_notify_close(lmc_notify *notify) {
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

static void send_text(const lmc_notify *notify, const char *text, size_t size) {
    if (notify->fd < 0)
        return;
    ssize_t sent;
    do
        sent = sendto(notify->fd, text, size, MSG_NOSIGNAL,
                      (const struct sockaddr *)&notify->address, notify->address_size);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        LMC_DEBUG("the service manager was not told: %s", strerror(errno));
}

/* `first` and a status line, whose line ends become blanks so that it stays one assignment. */
static void send_status(const lmc_notify *notify, const char *first, const char *status) {
    char text[STATUS_MAX];
    int size = snprintf(text, sizeof text, "%sSTATUS=%s", first, status);
    if (size < 0)
        return;
    size_t used = (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    for (size_t i = strlen(first); i < used; i++)
        if (text[i] == '\n')
            text[i] = ' ';
    send_text(notify, text, used);
}

void lmc_notify_ready(const lmc_notify *notify, const char *status) {
    send_status(notify, "READY=1\n", status);
}

void lmc_notify_status(const lmc_notify *notify, const char *status) {
    send_status(notify, "", status);
}

void lmc_notify_stopping(const lmc_notify *notify) {
    static const char text[] = "STOPPING=1\nSTATUS=stopping";
    send_text(notify, text, sizeof text - 1);
}

void lmc_notify_watchdog(const lmc_notify *notify) {
    static const char text[] = "WATCHDOG=1";
    send_text(notify, text, sizeof text - 1);
}
