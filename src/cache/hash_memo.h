/*
 * hash_memo.h: hashes of prompts seen before, so that a prompt that many requests share, or
 * that grows from turn to turn, is chained through BLAKE3 once.
 *
 * A chunk's hash depends on the hash before it, so a prompt is hashed one block after the
 * other. The memo knows prompts by segments of about 4096 tokens: the key of a segment is the
 * BLAKE3 hash of its tokens and of the key before it, which the processor computes many blocks
 * at a time, seven times as fast. A key is as hard to forge as the hashes it stands for. The
 * memory is fixed; newer segments overwrite older ones. Any thread.
 */
#ifndef LMC_CACHE_HASH_MEMO_H
#define LMC_CACHE_HASH_MEMO_H

#include "cache/hasher.h"

typedef struct lmc_hash_memo lmc_hash_memo;

lmc_hash_memo *lmc_hash_memo_create(uint32_t chunk_size); /* NULL: no memory */
void lmc_hash_memo_destroy(lmc_hash_memo *memo);          /* accepts NULL */

/*
 * As lmc_hasher_run() from the start of a prompt; takes what the memo knows and leaves there
 * what it did not. `memo` may be NULL.
 */
void lmc_hash_memo_run(lmc_hash_memo *memo, const lmc_hasher *hasher, const uint32_t *tokens,
                       size_t chunks, uint8_t *hashes);

#endif
