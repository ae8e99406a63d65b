#include "cache/chains.h"

#include <stdlib.h>
#include <string.h>

#include "cache/hash_memo.h"

lmc_chain *lmc_chain_keep(lmc_chain *chain) {
    if (chain != NULL)
        atomic_fetch_add_explicit(&chain->refs, 1, memory_order_relaxed);
    return chain;
}

void lmc_chain_drop(lmc_chain *chain) {
    if (chain != NULL && atomic_fetch_sub_explicit(&chain->refs, 1, memory_order_acq_rel) == 1)
        free(chain);
}

static lmc_chain *allocate(size_t chunks) {
    size_t each = LMC_HASH_SIZE + sizeof(uint32_t);
    if (chunks > (SIZE_MAX - sizeof(lmc_chain)) / each)
        return NULL;
    lmc_chain *chain = malloc(sizeof(*chain) + chunks * each);
    if (chain == NULL)
        return NULL;
    atomic_init(&chain->refs, 1);
    chain->count = chunks;
    chain->marks = (uint32_t *)(void *)(chain->hashes + chunks * LMC_HASH_SIZE);
    return chain;
}

/* Whether `old` was made from these tokens, as far as both go; *state as in resolve. */
static bool continues(const lmc_hasher *hasher, const lmc_chain *old, const lmc_tokens *tokens,
                      size_t chunks, uint64_t *state) {
    size_t shared = old->count < chunks ? old->count : chunks;
    *state = lmc_hasher_mark(hasher, hasher->seed, tokens->ids, shared, NULL);
    return shared == 0 || (uint32_t)*state == old->marks[shared - 1];
}

/* A chain that takes its first `kept` chunks from `old`. */
static lmc_chain *extend(const lmc_hasher *hasher, const lmc_chain *old, size_t kept,
                         const lmc_tokens *tokens, size_t chunks, uint64_t *state) {
    lmc_chain *chain = allocate(chunks);
    if (chain == NULL)
        return NULL;
    if (kept > 0) {
        memcpy(chain->hashes, old->hashes, kept * LMC_HASH_SIZE);
        memcpy(chain->marks, old->marks, kept * sizeof(*chain->marks));
    }
    const uint32_t *rest = tokens->ids + kept * hasher->chunk_size;
    *state = lmc_hasher_mark(hasher, kept > 0 ? *state : hasher->seed, rest, chunks - kept,
                             chain->marks + kept);
    if (kept == 0)
        lmc_hash_memo_run(hasher->memo, hasher, rest, chunks, chain->hashes);
    else
        lmc_hasher_run(hasher, lmc_chain_hash(old, kept - 1), rest, chunks - kept,
                       chain->hashes + kept * LMC_HASH_SIZE);
    return chain;
}

lmc_status lmc_chain_resolve(const lmc_hasher *hasher, lmc_chain *old, const lmc_tokens *tokens,
                             size_t chunks, lmc_chain **chain, uint64_t *state) {
    uint64_t unused;
    if (state == NULL)
        state = &unused;
    *state = 0;
    size_t known = old != NULL ? old->count : 0;
    if (tokens->ids == NULL && chunks > 0) {
        if (chunks > known)
            return LMC_INVALID;
        *chain = lmc_chain_keep(old);
        return LMC_OK;
    }
    *state = hasher->seed;
    bool same = old != NULL && continues(hasher, old, tokens, chunks, state);
    if (same && chunks <= known)
        *chain = lmc_chain_keep(old);
    else
        *chain = extend(hasher, old, same ? known : 0, tokens, chunks, state);
    return *chain != NULL ? LMC_OK : LMC_NO_MEMORY;
}

bool lmc_chain_matches(const lmc_hasher *hasher, const lmc_chain *chain,
                       const lmc_tokens *tokens, size_t chunks) {
    uint64_t state;
    return tokens->ids == NULL || continues(hasher, chain, tokens, chunks, &state);
}

bool lmc_chain_reaches(const lmc_chain *chain, size_t count, const uint8_t *hash) {
    return count > 0 && chain->count >= count &&
           memcmp(lmc_chain_hash(chain, count - 1), hash, LMC_HASH_SIZE) == 0;
}
