/*
 * hasher.h: token chunks to chunk hashes: a BLAKE3 chain over big-endian token ids (storage.md
 * 1.2), and marks, a cheap keyed checksum of the same tokens.
 *
 * A hash says which prompt prefix a chunk ends; it is what objects are stored under. A mark
 * only tells whether token ids are the ones that earlier hashes were made from: it is 32 bits
 * of a seeded running checksum, never stored outside the process.
 *
 * A hasher is constant once set up; any thread may use it. Nothing here allocates or locks.
 */
#ifndef LMC_CACHE_HASHER_H
#define LMC_CACHE_HASHER_H

#include <lmcached/types.h>

#include "cache/l1.h"

#define LMC_HASH_BLOCK 1024 /* tokens converted at a time */

typedef void (*lmc_token_swap)(const uint32_t *tokens, size_t count, uint32_t *out);

typedef struct lmc_hasher {
    uint32_t chunk_size;          /* tokens */
    uint8_t none[LMC_HASH_SIZE];  /* what chunk 0 is chained on */
    uint64_t seed;                /* of the marks; secret, new per process */
    lmc_token_swap to_big_endian; /* the fastest of this machine */
    struct lmc_hash_memo *memo;   /* for chains from the start of a prompt; NULL: none */
} lmc_hasher;

lmc_status lmc_hasher_init(lmc_hasher *hasher, uint32_t chunk_size);

/*
 * Hashes `chunks` chunks at `tokens`; `previous` is the hash of the chunk before them, NULL at
 * the start of a prompt. Writes LMC_HASH_SIZE bytes per chunk.
 */
void lmc_hasher_run(const lmc_hasher *hasher, const uint8_t *previous, const uint32_t *tokens,
                    size_t chunks, uint8_t *hashes);

/*
 * Takes the running checksum `state` (hasher->seed at the start of a prompt) over `chunks`
 * chunks and returns it. When `marks` is given it receives one mark per chunk.
 */
uint64_t lmc_hasher_mark(const lmc_hasher *hasher, uint64_t state, const uint32_t *tokens,
                         size_t chunks, uint32_t *marks);
/* Takes it over the tokens after the last full chunk. */
uint64_t lmc_hasher_mark_tail(uint64_t state, const uint32_t *tokens, size_t count);

#endif
