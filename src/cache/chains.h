/*
 * chains.h: the chunk hashes of one token prefix, with the marks of the tokens they came from.
 *
 * A chain is constant and refcounted, so readers need no lock. Any thread.
 */
#ifndef LMC_CACHE_CHAINS_H
#define LMC_CACHE_CHAINS_H

#include <stdatomic.h>

#include <lmcached/values.h>

#include "cache/hasher.h"

typedef struct lmc_chain {
    _Atomic uint32_t refs;
    size_t count;    /* chunks */
    uint32_t *marks; /* behind the hashes */
    uint8_t hashes[];
} lmc_chain;

lmc_chain *lmc_chain_keep(lmc_chain *chain); /* accepts NULL */
void lmc_chain_drop(lmc_chain *chain);       /* accepts NULL */

static inline const uint8_t *lmc_chain_hash(const lmc_chain *chain, size_t chunk) {
    return chain->hashes + chunk * LMC_HASH_SIZE;
}
static inline size_t lmc_chain_bytes(const lmc_chain *chain) {
    return chain == NULL ? 0
                         : sizeof(*chain) + chain->count * (LMC_HASH_SIZE + sizeof(uint32_t));
}

/*
 * A chain of at least the first `chunks` chunks of `tokens`: `old` (may be NULL) itself when it
 * covers them, else a new one, which takes over the hashes of `old` when the tokens go on where
 * it ends. Token ids that were only counted are taken to be those of `old`; LMC_INVALID when it
 * does not cover them. *state (may be NULL) is the running mark after the last of these chunks,
 * 0 when the ids are not there.
 */
lmc_status lmc_chain_resolve(const lmc_hasher *hasher, lmc_chain *old, const lmc_tokens *tokens,
                             size_t chunks, lmc_chain **chain, uint64_t *state);

/* Whether `chain` was made from these tokens, as far as both go; yes when they were only
 * counted. */
bool lmc_chain_matches(const lmc_hasher *hasher, const lmc_chain *chain,
                       const lmc_tokens *tokens, size_t chunks);
/* Whether `chain` has `count` chunks and the last of them has this hash. */
bool lmc_chain_reaches(const lmc_chain *chain, size_t count, const uint8_t *hash);

#endif
