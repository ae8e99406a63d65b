/*
 * chunk_keys.h: from the key of a request to what it names: checks (D1, D73), chunk range,
 * ranks.
 *
 * Pure functions over a borrowed lmc_cache_key; any thread.
 */
#ifndef LMC_CACHE_CHUNK_KEYS_H
#define LMC_CACHE_CHUNK_KEYS_H

#include <lmcached/messages.h>

#include "cache/l1.h"

#define LMC_SALT_MAX 128    /* code points */
#define LMC_NAME_MAX 4096   /* bytes of a model name or request id; ours, bounds memory */
#define LMC_READERS_MAX 128 /* read shares that one lookup takes on an object */
/* Cells (chunks x groups x ranks) that one request may be about; ours, bounds time and memory.
 */
#define LMC_CELLS_MAX ((size_t)1 << 22)

typedef struct lmc_chunk_range {
    size_t first, end;               /* chunk indexes, first <= end */
    uint32_t first_rank, rank_count; /* KV ranks that the key names */
} lmc_chunk_range;

/* (world_size << 24) | (rank << 16) | (world_size << 8) | rank, unmasked (storage.md 1.7). */
static inline uint64_t lmc_kv_rank(int64_t world_size, uint32_t rank) {
    uint64_t world = (uint64_t)world_size;
    return world << 24 | (uint64_t)rank << 16 | world << 8 | rank;
}

lmc_status lmc_model_name_check(lmc_slice model_name, lmc_error *error);
lmc_status lmc_world_size_check(int64_t world_size, lmc_error *error);
lmc_status lmc_cache_salt_check(lmc_slice salt, lmc_error *error);

/* Names, ranks and token values that no operation accepts otherwise. */
lmc_status lmc_key_check(const lmc_cache_key *key, lmc_error *error);
/* Scheduler side: `end` is cut to the tokens and floored, `start` floored; all ranks. */
lmc_chunk_range lmc_key_lookup_range(const lmc_cache_key *key, uint32_t chunk_size);
/* Worker side: needs a rank, an aligned start and an end within the tokens; checks the key. */
lmc_status lmc_key_transfer_range(const lmc_cache_key *key, uint32_t chunk_size,
                                  lmc_chunk_range *range, lmc_error *error);

/* How many read shares a lookup takes, or a free gives back, per object (D38). */
uint32_t lmc_key_readers(const lmc_cache_key *key, int64_t tp_size);

/* Whether the chunk at `index`, counted from the range's start, is masked in `group` (D39). */
bool lmc_key_is_masked(const lmc_cache_key *key, size_t group, size_t index);

/* The one place where a raw hash becomes an object key. */
static inline lmc_l1_key lmc_object_key_of(const uint8_t *hash, lmc_key_space *space,
                                           int64_t world_size, uint32_t rank, uint32_t group) {
    return (lmc_l1_key){
        .hash = hash, .space = space, .kv_rank = lmc_kv_rank(world_size, rank), .group = group};
}

#endif
