/*
 * core.h: what the files behind cache.h share: the parts of one cache. Nobody else includes it.
 */
#ifndef LMC_CACHE_CORE_H
#define LMC_CACHE_CORE_H

#include "cache/cache.h"
#include "cache/hasher.h"
#include "cache/instances.h"
#include "cache/jobs.h"
#include "cache/layouts.h"
#include "cache/sessions.h"

struct lmc_cache {
    lmc_cache_config config;
    const lmc_clock *clock;
    lmc_cache_observer observer;
    lmc_l1 *l1;
    lmc_hasher hasher;
    lmc_layouts layouts;
    lmc_sessions sessions;
    lmc_instances instances;
};

#endif
