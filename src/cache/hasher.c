#include "cache/hasher.h"

#include <blake3.h>
#include <string.h>

#include "base/bytes.h"

/* Plain loops: the compiler turns them into byte shuffles of the widest vectors it may use. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SWAP_TOKENS(tokens, count, out)  \
    for (size_t i = 0; i < (count); i++) \
    (out)[i] = __builtin_bswap32((tokens)[i])
#else
#define SWAP_TOKENS(tokens, count, out) memcpy(out, tokens, (count) * sizeof(*(out)))
#endif

static void swap_plain(const uint32_t *tokens, size_t count, uint32_t *out) {
    SWAP_TOKENS(tokens, count, out);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void swap_avx2(const uint32_t *tokens, size_t count,
                                                      uint32_t *out) {
    SWAP_TOKENS(tokens, count, out);
}
#endif

static lmc_token_swap best_swap(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return swap_avx2;
#endif
    return swap_plain;
}

lmc_status lmc_hasher_init(lmc_hasher *hasher, uint32_t chunk_size) {
    static const uint8_t seed[12]; /* i64_be(0) || u32_be(0) */
    blake3_hasher blake3;
    blake3_hasher_init(&blake3);
    blake3_hasher_update(&blake3, seed, sizeof(seed));
    blake3_hasher_finalize(&blake3, hasher->none, sizeof(hasher->none));
    hasher->chunk_size = chunk_size;
    hasher->memo = NULL;
    hasher->to_big_endian = best_swap();
    return lmc_random(&hasher->seed, sizeof(hasher->seed));
}

/* One chunk. Prefix and tokens go in with one update as long as they fit the block. */
static void hash_chunk(const lmc_hasher *hasher, const uint8_t *previous,
                       const uint32_t *tokens, uint8_t *hash) {
    size_t count = hasher->chunk_size;
    struct {
        uint8_t prefix[LMC_HASH_SIZE];
        uint32_t tokens[LMC_HASH_BLOCK];
    } input;
    blake3_hasher blake3;
    blake3_hasher_init(&blake3);
    memcpy(input.prefix, previous, LMC_HASH_SIZE);
    size_t first = count < LMC_HASH_BLOCK ? count : LMC_HASH_BLOCK;
    hasher->to_big_endian(tokens, first, input.tokens);
    blake3_hasher_update(&blake3, &input, LMC_HASH_SIZE + first * sizeof(uint32_t));
    for (size_t done = first; done < count;) {
        size_t more = count - done < LMC_HASH_BLOCK ? count - done : LMC_HASH_BLOCK;
        hasher->to_big_endian(tokens + done, more, input.tokens);
        blake3_hasher_update(&blake3, input.tokens, more * sizeof(uint32_t));
        done += more;
    }
    blake3_hasher_finalize(&blake3, hash, LMC_HASH_SIZE);
}

void lmc_hasher_run(const lmc_hasher *hasher, const uint8_t *previous, const uint32_t *tokens,
                    size_t chunks, uint8_t *hashes) {
    const uint8_t *chained = previous != NULL ? previous : hasher->none;
    for (size_t i = 0; i < chunks; i++) {
        uint8_t *hash = hashes + i * LMC_HASH_SIZE;
        hash_chunk(hasher, chained, tokens + i * hasher->chunk_size, hash);
        chained = hash;
    }
}

/* ---- marks ---- */

static const uint64_t odd_a = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t odd_b = UINT64_C(0xd6e8feb86659fd93);

/* Both halves of the 128-bit product, folded. */
static inline uint64_t fold_product(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t pair_at(const uint32_t *tokens) {
    uint64_t pair;
    memcpy(&pair, tokens, sizeof(pair));
    return pair;
}

/* Two independent lanes over eight tokens at a time: multiplications overlap. */
static uint64_t mark_tokens(uint64_t state, const uint32_t *tokens, size_t count) {
    uint64_t left = state, right = state ^ odd_b;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        left = fold_product(left ^ pair_at(tokens + i), pair_at(tokens + i + 2) ^ odd_a);
        right = fold_product(right ^ pair_at(tokens + i + 4), pair_at(tokens + i + 6) ^ odd_b);
    }
    for (; i < count; i++)
        left = fold_product(left ^ tokens[i], odd_a);
    return fold_product(left ^ odd_a, right ^ odd_b) ^ count;
}

uint64_t lmc_hasher_mark(const lmc_hasher *hasher, uint64_t state, const uint32_t *tokens,
                         size_t chunks, uint32_t *marks) {
    for (size_t i = 0; i < chunks; i++) {
        state = mark_tokens(state, tokens + i * hasher->chunk_size, hasher->chunk_size);
        if (marks != NULL)
            marks[i] = (uint32_t)state;
    }
    return state;
}

uint64_t lmc_hasher_mark_tail(uint64_t state, const uint32_t *tokens, size_t count) {
    return count == 0 ? state : mark_tokens(state ^ odd_a, tokens, count);
}
