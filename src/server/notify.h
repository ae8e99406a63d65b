/*
 * notify.h: tells the service manager (systemd) about start, stop and being alive.
 *
 * One datagram per message to the socket that NOTIFY_SOCKET names, a path or, with a leading
 * '@', an abstract name. Without that variable every function does nothing. Sending never
 * waits; a message that cannot be delivered is dropped. After open, any thread may call the
 * functions.
 */
#ifndef LMC_SERVER_NOTIFY_H
#define LMC_SERVER_NOTIFY_H

#include <lmcached/types.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct lmc_notify {
    int fd; /* -1: nobody to tell */
    struct sockaddr_un address;
    socklen_t address_size;
    int64_t watchdog_ns; /* a WATCHDOG message is expected at least this often; 0: not at all */
} lmc_notify;

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. A bad value is a WARNING. */
void lmc_notify_open(lmc_notify *notify);
void lmc_notify_close(lmc_notify *notify);

void lmc_notify_ready(const lmc_notify *notify, const char *status);
void lmc_notify_status(const lmc_notify *notify, const char *status);
void lmc_notify_stopping(const lmc_notify *notify);
void lmc_notify_watchdog(const lmc_notify *notify);

#endif
