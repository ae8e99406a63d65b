/*
 * work_alone: what parts of a request cost by themselves, without sockets and threads.
 *
 * Decoding the frames of a LOOKUP, hashing its tokens as the cache core does, chained BLAKE3 on
 * the same bytes, and memcpy. Each is run in turn for a number of rounds; the medians are
 * printed as one JSON object.
 */
#include <blake3.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lmcached/messages.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cache/hasher.h"
#include "rpc/rpc.h"

#define TOKENS 32768u
#define CHUNK 256u
#define CHUNKS (TOKENS / CHUNK)
#define VOCABULARY 128000u
#define COPY_BYTES ((size_t)32 << 20)
#define ROUNDS_MAX 1001

typedef struct work {
    lmc_hasher hasher;
    uint32_t tokens[TOKENS];
    uint32_t big_endian[TOKENS];
    uint8_t hashes[CHUNKS * LMC_HASH_SIZE], expected[CHUNKS * LMC_HASH_SIZE];
    lmc_arena encoded, decoded;
    lmc_slice frames[LMC_FRAMES_MAX];
    size_t frame_count;
    unsigned char *from, *to;
} work;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "work_alone: %s\n", what);
    exit(1);
}

static uint64_t next_random(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void encode_lookup(work *w) {
    lmc_lookup_request request = {.present = LMC_LOOKUP_REQUEST_HAS_KEY |
                                             LMC_LOOKUP_REQUEST_HAS_TP_SIZE,
                                  .key = {.model_name = lmc_text("bench"),
                                          .world_size = 1,
                                          .token_ids = {w->tokens, TOKENS, false},
                                          .end = TOKENS,
                                          .request_id = lmc_text("cmpl-bench-00000000"),
                                          .num_kv_readers = 1},
                                  .tp_size = 1};
    if (lmc_zmq_encode_request(lmc_operation_at(LMC_OP_lookup), &request, &w->encoded,
                               w->frames, &w->frame_count) != LMC_OK)
        die("cannot encode the lookup");
}

static void prepare(work *w) {
    if (lmc_hasher_init(&w->hasher, CHUNK) != LMC_OK)
        die("no random seed");
    for (size_t i = 0; i < TOKENS; i++) {
        w->tokens[i] = (uint32_t)(next_random() % VOCABULARY);
        w->big_endian[i] = __builtin_bswap32(w->tokens[i]);
    }
    lmc_arena_init(&w->encoded, 0);
    lmc_arena_init(&w->decoded, (size_t)1 << 20);
    encode_lookup(w);
    w->from = malloc(COPY_BYTES);
    w->to = malloc(COPY_BYTES);
    if (w->from == NULL || w->to == NULL)
        die("out of memory");
    memset(w->from, 1, COPY_BYTES);
    memset(w->to, 2, COPY_BYTES);
}

/* ---- what is measured ---- */

static void decode(work *w) {
    lmc_lookup_request request = {0};
    lmc_arena_reset(&w->decoded);
    if (lmc_zmq_decode_request(lmc_operation_at(LMC_OP_lookup), w->frames, w->frame_count,
                               &w->decoded, &request, NULL) != LMC_OK ||
        request.key.token_ids.count != TOKENS)
        die("the lookup does not decode");
}

static void hash(work *w) { lmc_hasher_run(&w->hasher, NULL, w->tokens, CHUNKS, w->hashes); }

/* The floor: the same chain over bytes that are in their final order already. */
static void chain_blake3(work *w) {
    const uint8_t *previous = w->hasher.none;
    for (size_t i = 0; i < CHUNKS; i++) {
        blake3_hasher blake3;
        blake3_hasher_init(&blake3);
        blake3_hasher_update(&blake3, previous, LMC_HASH_SIZE);
        blake3_hasher_update(&blake3, w->big_endian + i * CHUNK, CHUNK * sizeof(uint32_t));
        previous = w->expected + i * LMC_HASH_SIZE;
        blake3_hasher_finalize(&blake3, w->expected + i * LMC_HASH_SIZE, LMC_HASH_SIZE);
    }
}

static void copy(work *w) {
    memcpy(w->to, w->from, COPY_BYTES);
    __asm__ volatile("" : : "r"(w->to) : "memory");
}

/* ---- rounds ---- */

typedef struct part {
    const char *name;
    void (*run)(work *);
    int64_t took[ROUNDS_MAX];
} part;

static part parts[] = {{"decode_ns", decode, {0}},
                       {"hash_ns", hash, {0}},
                       {"blake3_ns", chain_blake3, {0}},
                       {"memcpy_ns", copy, {0}}};
#define PARTS (sizeof parts / sizeof parts[0])

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void measure(work *w, size_t rounds) {
    for (size_t i = 0; i < rounds; i++) {
        for (size_t p = 0; p < PARTS; p++) {
            int64_t start = lmc_now(&lmc_system_clock);
            parts[p].run(w);
            parts[p].took[i] = lmc_now(&lmc_system_clock) - start;
        }
    }
}

int main(int count, char **words) {
    static work w;
    size_t rounds = count > 1 ? strtoul(words[1], NULL, 10) : 101;
    if (rounds < 1 || rounds > ROUNDS_MAX)
        die("usage: work_alone [rounds, at most 1001]");
    prepare(&w);
    measure(&w, 3); /* warms up; overwritten */
    measure(&w, rounds);
    if (memcmp(w.hashes, w.expected, sizeof w.hashes) != 0)
        die("hasher and chained BLAKE3 differ");
    printf("{\"tokens\": %u, \"chunk\": %u, \"copy_bytes\": %zu, \"rounds\": %zu", TOKENS,
           CHUNK, COPY_BYTES, rounds);
    for (size_t p = 0; p < PARTS; p++) {
        qsort(parts[p].took, rounds, sizeof parts[p].took[0], by_value);
        printf(", \"%s\": %" PRId64, parts[p].name, parts[p].took[rounds / 2]);
    }
    printf("}\n");
    lmc_arena_fini(&w.encoded);
    lmc_arena_fini(&w.decoded);
    free(w.from);
    free(w.to);
    return 0;
}
