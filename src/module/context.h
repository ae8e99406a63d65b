/*
 * context.h: what all modules of one server share.
 *
 * The server fills it before the first module is built and keeps it until the last is closed.
 * Modules read it from any thread; what it points to has rules of its own. Modules from outside
 * the tree see lmc_context as an opaque handle.
 */
#ifndef LMC_MODULE_CONTEXT_H
#define LMC_MODULE_CONTEXT_H

#include <lmcached/module.h>

#include "base/thread.h"
#include "config/config.h"
#include "module/liveness.h"
#include "module/unknown_ids.h"

struct lmc_context {
    const lmc_config *config;
    struct lmc_cache *cache;     /* cache/cache.h */
    struct lmc_metrics *metrics; /* observe/metrics.h; may be NULL */
    const lmc_clock *clock;
    lmc_timers *timers;           /* may be NULL in tests */
    lmc_liveness_set *liveness;   /* of the composition being built or running */
    lmc_unknown_ids *unknown_ids; /* pings that were answered false */
};

#endif
