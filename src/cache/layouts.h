/*
 * layouts.h: how the chunks of a model lie in memory, as its workers registered it.
 *
 * A lmc_layout is constant and refcounted: whoever needs it keeps it. The registry knows the
 * last one registered per (model name, world size) and counts registrations; an entry goes with
 * its last registration. One lock (LMC_RANK_LAYOUTS), never held while calling out. Any thread.
 */
#ifndef LMC_CACHE_LAYOUTS_H
#define LMC_CACHE_LAYOUTS_H

#include <stdatomic.h>

#include "base/hashmap.h"
#include "base/lock.h"
#include "cache/cache.h"

#define LMC_GROUPS_MAX 1024 /* object groups of one registration */

typedef struct lmc_layout {
    _Atomic uint32_t refs;
    uint32_t group_count;
    lmc_chunk_layout groups[];
} lmc_layout;

lmc_layout *lmc_layout_create(const lmc_chunk_layout *groups, size_t count);
lmc_layout *lmc_layout_keep(lmc_layout *layout);
void lmc_layout_drop(lmc_layout *layout); /* accepts NULL */

typedef struct lmc_layouts {
    lmc_lock lock;
    lmc_hashmap *entries;
} lmc_layouts;

lmc_status lmc_layouts_init(lmc_layouts *layouts);
void lmc_layouts_fini(lmc_layouts *layouts);

/* Counts one more registration; `layout` replaces the descriptor of earlier ones. */
lmc_status lmc_layouts_add(lmc_layouts *layouts, lmc_slice model, int64_t world_size,
                           lmc_layout *layout);
void lmc_layouts_remove(lmc_layouts *layouts, lmc_slice model, int64_t world_size);
/* Kept for the caller; NULL: not registered. */
lmc_layout *lmc_layouts_get(lmc_layouts *layouts, lmc_slice model, int64_t world_size);

#endif
