/* What modules may look at: hashes, sessions' hashes, layouts, objects. */
#include <string.h>

#include "base/bytes.h"
#include "cache/core.h"

size_t lmc_cache_hash(const lmc_cache *cache, const uint8_t *previous, const uint32_t *tokens,
                      size_t count, uint8_t *hashes, size_t room) {
    size_t chunks = count / cache->config.chunk_size;
    if (chunks > room)
        chunks = room;
    lmc_hasher_run(&cache->hasher, previous, tokens, chunks, hashes);
    return chunks;
}

size_t lmc_cache_session_hashes(lmc_cache *cache, lmc_slice request_id, size_t first,
                                uint8_t *hashes, size_t room) {
    lmc_chain *chain = lmc_sessions_peek(&cache->sessions, request_id);
    size_t known = chain != NULL && chain->count > first ? chain->count - first : 0;
    size_t taken = known < room ? known : room;
    if (taken > 0)
        memcpy(hashes, lmc_chain_hash(chain, first), taken * LMC_HASH_SIZE);
    lmc_chain_drop(chain);
    return known;
}

lmc_status lmc_cache_layout(lmc_cache *cache, lmc_slice model_name, int64_t world_size,
                            uint32_t group, lmc_chunk_layout *found) {
    lmc_layout *layout = lmc_layouts_get(&cache->layouts, model_name, world_size);
    bool there = layout != NULL && group < layout->group_count;
    if (there)
        *found = layout->groups[group];
    lmc_layout_drop(layout);
    return there ? LMC_OK : LMC_NOT_FOUND;
}

lmc_status lmc_cache_hold(lmc_cache *cache, const lmc_object_key *key, lmc_object_ref *ref) {
    lmc_key_space *space = NULL;
    *ref = LMC_NO_OBJECT;
    if (key->chunk_hash.size != LMC_HASH_SIZE || key->object_group_id < 0 ||
        key->object_group_id > UINT32_MAX)
        return LMC_INVALID;
    lmc_status status = lmc_key_space_get(cache->l1, key->model_name, key->cache_salt, &space);
    if (status != LMC_OK)
        return status;
    lmc_l1_key l1_key = {.hash = key->chunk_hash.data,
                         .space = space,
                         .kv_rank = (uint64_t)key->kv_rank,
                         .group = (uint32_t)key->object_group_id};
    lmc_l1_acquire(cache->l1, &l1_key, 1, 1, ref);
    lmc_key_space_drop(cache->l1, space);
    return *ref != LMC_NO_OBJECT ? LMC_OK : LMC_NOT_FOUND;
}

void lmc_cache_let_go(lmc_cache *cache, lmc_object_ref ref) {
    lmc_l1_release(cache->l1, &ref, 1, 1, false);
}
