#include "cache/hash_memo.h"

#include <blake3.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

#define SEGMENT_TOKENS 4096u
#define MEMO_BYTES ((size_t)2 << 20)
#define ENTRIES_MIN 16

/* Entries are a key and the hashes of a segment's chunks; a key of zeros means none. */
struct lmc_hash_memo {
    lmc_lock lock; /* guards the entries */
    uint32_t chunk_size;
    size_t segment_chunks;
    size_t hash_bytes; /* of one entry */
    size_t entry_count;
    uint8_t *entries;
};

lmc_hash_memo *lmc_hash_memo_create(uint32_t chunk_size) {
    lmc_hash_memo *memo = calloc(1, sizeof *memo);
    if (memo == NULL)
        return NULL;
    memo->chunk_size = chunk_size;
    memo->segment_chunks = chunk_size < SEGMENT_TOKENS ? SEGMENT_TOKENS / chunk_size : 1;
    memo->hash_bytes = memo->segment_chunks * LMC_HASH_SIZE;
    memo->entry_count = MEMO_BYTES / (LMC_HASH_SIZE + memo->hash_bytes);
    if (memo->entry_count < ENTRIES_MIN)
        memo->entry_count = ENTRIES_MIN;
    memo->entries = calloc(memo->entry_count, LMC_HASH_SIZE + memo->hash_bytes);
    if (memo->entries == NULL) {
        free(memo);
        return NULL;
    }
    lmc_lock_init(&memo->lock, LMC_RANK_HASHES, "hash memo");
    return memo;
}

void lmc_hash_memo_destroy(lmc_hash_memo *memo) {
    if (memo == NULL)
        return;
    lmc_lock_fini(&memo->lock);
    free(memo->entries);
    free(memo);
}

/* The tokens first: whole blocks, which go through BLAKE3 side by side. */
static void next_key(const uint32_t *tokens, size_t count, uint8_t key[LMC_HASH_SIZE]) {
    blake3_hasher blake3;
    blake3_hasher_init(&blake3);
    blake3_hasher_update(&blake3, tokens, count * sizeof *tokens);
    blake3_hasher_update(&blake3, key, LMC_HASH_SIZE);
    blake3_hasher_finalize(&blake3, key, LMC_HASH_SIZE);
}

static uint8_t *entry_of(const lmc_hash_memo *memo, const uint8_t key[LMC_HASH_SIZE]) {
    uint64_t word;
    memcpy(&word, key, sizeof word);
    return memo->entries + (word % memo->entry_count) * (LMC_HASH_SIZE + memo->hash_bytes);
}

static bool recall(lmc_hash_memo *memo, const uint8_t key[LMC_HASH_SIZE], uint8_t *hashes) {
    const uint8_t *entry = entry_of(memo, key);
    lmc_lock_take(&memo->lock);
    bool known = memcmp(entry, key, LMC_HASH_SIZE) == 0;
    if (known)
        memcpy(hashes, entry + LMC_HASH_SIZE, memo->hash_bytes);
    lmc_lock_drop(&memo->lock);
    return known;
}

static void remember(lmc_hash_memo *memo, const uint8_t key[LMC_HASH_SIZE],
                     const uint8_t *hashes) {
    uint8_t *entry = entry_of(memo, key);
    lmc_lock_take(&memo->lock);
    memcpy(entry, key, LMC_HASH_SIZE);
    memcpy(entry + LMC_HASH_SIZE, hashes, memo->hash_bytes);
    lmc_lock_drop(&memo->lock);
}

void lmc_hash_memo_run(lmc_hash_memo *memo, const lmc_hasher *hasher, const uint32_t *tokens,
                       size_t chunks, uint8_t *hashes) {
    size_t step = memo != NULL ? memo->segment_chunks : 0;
    uint8_t key[LMC_HASH_SIZE] = {0};
    size_t done = 0;
    for (; step > 0 && done + step <= chunks; done += step) {
        const uint32_t *segment = tokens + done * hasher->chunk_size;
        uint8_t *out = hashes + done * LMC_HASH_SIZE;
        next_key(segment, step * hasher->chunk_size, key);
        if (recall(memo, key, out))
            continue;
        lmc_hasher_run(hasher, done > 0 ? out - LMC_HASH_SIZE : NULL, segment, step, out);
        remember(memo, key, out);
    }
    lmc_hasher_run(hasher, done > 0 ? hashes + (done - 1) * LMC_HASH_SIZE : NULL,
                   tokens + done * hasher->chunk_size, chunks - done,
                   hashes + done * LMC_HASH_SIZE);
}
