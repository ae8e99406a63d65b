/*
 * chunk_layouts.h: from what an engine says about its KV cache to how its chunks lie in memory.
 *
 * One object group per element of engine_group_infos, or a single one without them (zmq-wire.md
 * 9.2, 9.5; D41). Results live in the caller's arena. Any thread.
 */
#ifndef LMC_MODULES_CHUNK_LAYOUTS_H
#define LMC_MODULES_CHUNK_LAYOUTS_H

#include <lmcached/messages.h>

#include "base/arena.h"
#include "cache/cache.h"

#define LMC_OBJECT_GROUPS_MAX 1024

typedef lmc_register_kv_cache_engine_driven_context_request lmc_engine_registration;

/* Bytes of one element of a torch dtype, named without prefix; 0: unknown. */
uint32_t lmc_dtype_size(lmc_slice dtype);

/* LMC_INVALID with a text for the client and the log when the layout cannot be used. */
lmc_status lmc_chunk_layouts(const lmc_engine_registration *registration, uint32_t chunk_size,
                             lmc_arena *arena, const lmc_chunk_layout **groups, size_t *count,
                             lmc_error *error);

#endif
