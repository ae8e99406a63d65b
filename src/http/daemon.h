/*
 * daemon.h: the state of the HTTP door, shared by the files of this room.
 *
 * Fields are set between create and start and constant afterwards, except the atomics and those
 * of the event thread.
 */
#ifndef LMC_HTTP_DAEMON_H
#define LMC_HTTP_DAEMON_H

#include <stdatomic.h>

#include "http/budget.h"
#include "http/pool.h"
#include "http/quota.h"

struct MHD_Daemon;

/* Per connection: request line, headers, and its buffers. */
#define LMC_HTTP_HEAD_MEMORY (32u << 10)

struct lmc_http {
    lmc_http_config config; /* strings borrowed, defaults filled in */
    lmc_http_provider provider;
    uint16_t port;
    int listen_fd; /* -1: none, or owned by the daemon */
    struct MHD_Daemon *daemon;
    lmc_http_pool *pool;
    lmc_http_pool *module_pool; /* for routes of modules */
    bool is_stuck;              /* one of them has not returned: nothing is freed */
    lmc_http_quotas *quotas;
    atomic_bool stopping;
    lmc_http_budget bodies, replies; /* event thread, as the next */
    size_t released;                 /* bytes, since the allocator was last trimmed */
    atomic_uint active; /* requests between their first line and the end of their reply */
};

#endif
