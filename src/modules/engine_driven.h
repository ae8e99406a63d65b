/*
 * engine_driven.h: what the files of the engine-driven transfer module share.
 *
 * The engine copies between its own cache and chunk buffers: through the pool in shared memory
 * that registration names, or, where it cannot map that, as pickled tensors inside the calls.
 * The module keeps no state of its own; instances and transfers are the cache core's.
 */
#ifndef LMC_MODULES_ENGINE_DRIVEN_H
#define LMC_MODULES_ENGINE_DRIVEN_H

#include <lmcached/messages.h>

#include "cache/cache.h"
#include "module/context.h"
#include "modules/tensor_shapes.h"

typedef struct lmc_engine_driven {
    const lmc_context *context;
    lmc_cache *cache;
    lmc_tensor_shapes *shapes;
} lmc_engine_driven;

/* engine_register.c; request loop, they do not wait */
void lmc_engine_register(void *self, lmc_call *call);
void lmc_engine_unregister(void *self, lmc_call *call);
void lmc_engine_refuse_register_kv_cache(void *self, lmc_call *call);
void lmc_engine_unregister_kv_cache(void *self, lmc_call *call);
void lmc_engine_refuse_store(void *self, lmc_call *call);

/* engine_store.c, engine_retrieve.c; affinity pool */
void lmc_engine_prepare_store(void *self, lmc_call *call);
void lmc_engine_commit_store(void *self, lmc_call *call);
void lmc_engine_prepare_retrieve(void *self, lmc_call *call);
void lmc_engine_commit_retrieve(void *self, lmc_call *call);

/*
 * Why a call about an instance found nothing: true, with a line in the log, when the server
 * does not know the instance. Its worker takes the answer for "nothing there" and cannot tell.
 */
bool lmc_engine_is_unknown(const lmc_engine_driven *module, const char *operation,
                           const lmc_cache_key *key, int64_t instance_id);

/* Tokens of the full chunks of a key's range. */
int64_t lmc_engine_range_tokens(const lmc_cache_key *key, uint32_t chunk_size);

uint64_t lmc_engine_transfer_bytes(const lmc_transfer *transfer);

/*
 * The "context" of a prepared transfer, in the arena: the slots, or none when the bytes go with
 * the call, and where each chunk belongs. Empty: out of memory.
 */
enum { LMC_CONTEXT_SLOTS = 1, LMC_CONTEXT_INDICES = 2 };
lmc_slice lmc_slot_context(const lmc_transfer *transfer, unsigned parts, lmc_arena *arena);

#endif
