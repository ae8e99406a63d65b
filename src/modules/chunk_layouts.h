/*
 * chunk_layouts.h: from what an engine says about its KV cache to how its chunks lie in memory.
 *
 * One object group per element of engine_group_infos, or a single one without them (zmq-wire.md
 * 9.2, 9.5; D41). With kernel_groups an object is several tensors one after another: one group
 * of plain bytes, and the tensors beside it. Results live in the caller's arena. Any thread.
 */
#ifndef LMC_MODULES_CHUNK_LAYOUTS_H
#define LMC_MODULES_CHUNK_LAYOUTS_H

#include <lmcached/messages.h>

#include "base/arena.h"
#include "cache/cache.h"
#include "modules/tensor_shapes.h"

#define LMC_OBJECT_GROUPS_MAX 1024

typedef lmc_register_kv_cache_engine_driven_context_request lmc_engine_registration;

typedef struct lmc_chunk_layouts {
    const lmc_chunk_layout *groups; /* one per object group */
    size_t group_count;
    lmc_object_tensors tensors; /* count 0: each object is one tensor of its group's layout */
} lmc_chunk_layouts;

/* LMC_INVALID with a text for the client and the log when the layout cannot be used. */
lmc_status lmc_chunk_layouts_read(const lmc_engine_registration *registration,
                                  uint32_t chunk_size, lmc_arena *arena,
                                  lmc_chunk_layouts *layouts, lmc_error *error);

#endif
