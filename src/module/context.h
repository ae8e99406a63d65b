/*
 * context.h: what all modules of one server share.
 *
 * The server fills it before the first module is built and keeps it until the last is closed.
 * Modules read it from any thread; what it points to has rules of its own. Modules from outside
 * the tree see lmc_context as an opaque handle, each one a copy with what is its own in it.
 */
#ifndef LMC_MODULE_CONTEXT_H
#define LMC_MODULE_CONTEXT_H

#include <lmcached/module.h>

#include "base/lock.h"
#include "base/thread.h"
#include "config/config.h"
#include "dispatch/account.h"
#include "module/liveness.h"
#include "module/routes.h"
#include "module/unknown_ids.h"
#include "observe/events.h"
#include "observe/late_metrics.h"

/* What one module has of its own; the composition's. */
typedef struct lmc_module_own {
    const char *name; /* class name */
    char logger[96];  /* "lmcache.module.HelloModule" */
    char prefix[160]; /* of its metrics, "lmcached_module_hello_module" */
    lmc_account account;
    atomic_uint in_routes; /* threads inside its HTTP routes */
    lmc_lock lock;
    void *objects; /* held open (native/objects.c), under the lock */
    /* Takes back what the module left behind, after its close; NULL: nothing to do. */
    void (*tidy)(struct lmc_module_own *own);
} lmc_module_own;

struct lmc_context {
    const lmc_config *config;
    struct lmc_cache *cache;     /* cache/cache.h */
    struct lmc_metrics *metrics; /* observe/metrics.h; may be NULL */
    const lmc_clock *clock;
    lmc_timers *timers;             /* may be NULL in tests */
    lmc_liveness_set *liveness;     /* of the composition being built or running */
    lmc_unknown_ids *unknown_ids;   /* pings that were answered false */
    lmc_events *events;             /* NULL: there is no bus */
    lmc_routes *routes;             /* NULL: there is no HTTP port */
    lmc_late_metrics *late_metrics; /* NULL: metrics are off */
    lmc_slice config_text;          /* as GET /config shows it */
    lmc_module_own *own;            /* NULL in the context that all share */
};

#endif
