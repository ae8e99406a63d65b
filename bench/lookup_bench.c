/*
 * lookup_bench: LOOKUP in the cache core, without sockets: with 10^3 and with 10^6 resident
 * objects, and while a fifth of them is evicted.
 *
 * A lookup is of a prompt of 32,768 tokens, 128 chunks, all resident: hashes, session, probe,
 * locks. Objects are of 64 bytes, so that only the bookkeeping costs. Prints one JSON object.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/lock.h"
#include "cache/cache.h"
#include "histogram.h"

#define TOKENS 32768u
#define CHUNK 256u
#define CHUNKS (TOKENS / CHUNK)
#define OBJECT_SIZE 64u
#define FEW ((size_t)1024)
#define MANY ((size_t)1 << 20)
#define QUIET_LOOKUPS 3000
#define EVICTIONS 7
#define INSTANCE 1

typedef struct bench {
    lmc_cache *cache;
    lmc_arena arena;
    size_t objects;
    uint32_t prompts; /* stored so far */
    uint32_t hot[TOKENS], other[TOKENS];
} bench;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "lookup_bench: %s\n", what);
    exit(1);
}

static int64_t now(void) { return lmc_now(&lmc_system_clock); }

static uint32_t next_token(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % 128000);
}

static lmc_cache_key key_of(const uint32_t *tokens, bool worker) {
    return (lmc_cache_key){
        .present = worker ? LMC_CACHE_KEY_HAS_WORKER_ID : 0,
        .model_name = lmc_text("bench"),
        .world_size = 1,
        .token_ids = {tokens, TOKENS, false},
        .end = TOKENS,
        .request_id = lmc_text(worker ? "store" : "lookup"),
        .num_kv_readers = 1,
    };
}

static void store(bench *b, uint32_t *tokens) {
    lmc_cache_key key = key_of(tokens, true);
    lmc_transfer transfer;
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_cache_prepare_store(b->cache, &key, INSTANCE, 1, &b->arena, &transfer, &error) !=
        LMC_OK)
        die(error.text);
    if (transfer.slot_count > 0 &&
        lmc_cache_commit_store(b->cache, &key, INSTANCE, 1, NULL, NULL) != LMC_OK)
        die("a store found no room");
    lmc_cache_end_session(b->cache, key.request_id);
    lmc_arena_reset(&b->arena);
}

static size_t resident(const bench *b) {
    lmc_l1_report report;
    lmc_l1_report_get(lmc_cache_l1(b->cache), &report);
    return report.resident_count;
}

/* Every other prompt differs from its first token on. */
static void fill(bench *b) {
    store(b, b->hot);
    while (resident(b) + CHUNKS <= b->objects) {
        b->other[0] = 1000000 + b->prompts++;
        store(b, b->other);
    }
}

static void create(bench *b, size_t objects) {
    lmc_cache_config config = {
        .chunk_size = CHUNK,
        .l1 = {.capacity = objects * OBJECT_SIZE * 2,
               .init_size = objects * OBJECT_SIZE * 2,
               .align = OBJECT_SIZE,
               .use_lazy = true,
               .shm_name = "",
               .policy = LMC_EVICT_LRU,
               .watermark = 0.01, /* every tick evicts; ticks are called here alone */
               .eviction_ratio = 0.2},
        .read_ttl_ns = 300 * LMC_NS_PER_S,
        .write_ttl_ns = 600 * LMC_NS_PER_S,
        .session_ttl_ns = 600 * LMC_NS_PER_S,
        .session_lease_ns = 30 * LMC_NS_PER_S,
    };
    lmc_chunk_layout layout = {
        .dim_count = 1, .dims = {OBJECT_SIZE}, .dtype = "uint8", .item_size = 1, .size = 64};
    lmc_instance_config instance = {.instance_id = INSTANCE,
                                    .model_name = lmc_text("bench"),
                                    .world_size = 1,
                                    .block_size = 16,
                                    .groups = &layout,
                                    .group_count = 1};
    lmc_error error = LMC_ERROR_INIT;
    bool created;
    *b = (bench){.objects = objects};
    lmc_arena_init(&b->arena, (size_t)1 << 20);
    for (size_t i = 0; i < TOKENS; i++) {
        b->hot[i] = next_token();
        b->other[i] = next_token();
    }
    if (lmc_cache_create(&config, &lmc_system_clock, NULL, &b->cache, &error) != LMC_OK ||
        lmc_cache_register(b->cache, &instance, 1, &created, &error) != LMC_OK)
        die(error.text);
    fill(b);
}

static void destroy(bench *b) {
    lmc_cache_destroy(b->cache);
    lmc_arena_fini(&b->arena);
}

/* One whole cycle; the lookup is timed. */
static void look_up(bench *b, histogram *latencies) {
    lmc_cache_key key = key_of(b->hot, false);
    int64_t chunks = 0, start = now();
    lmc_cache_lookup(b->cache, &key, 1, 1);
    histogram_add(latencies, (uint64_t)(now() - start));
    if (lmc_cache_query(b->cache, key.request_id, &chunks) != LMC_OK || chunks != CHUNKS)
        die("a lookup missed");
    lmc_cache_free_locks(b->cache, &key, 1, NULL);
    lmc_cache_end_session(b->cache, key.request_id);
}

/* ---- eviction, while this thread looks up ---- */

typedef struct eviction {
    lmc_cache *cache;
    _Atomic bool started, done;
    int64_t took_ns;
} eviction;

static void *evict(void *arg) {
    eviction *e = arg;
    atomic_store(&e->started, true);
    int64_t start = now();
    lmc_cache_tick(e->cache);
    e->took_ns = now() - start;
    atomic_store(&e->done, true);
    return NULL;
}

static int64_t evict_while_looking_up(bench *b, histogram *latencies, size_t *evicted) {
    eviction e = {.cache = b->cache};
    pthread_t thread;
    size_t before = resident(b);
    if (pthread_create(&thread, NULL, evict, &e) != 0)
        die("cannot start a thread");
    while (!atomic_load(&e.started)) {
    }
    while (!atomic_load(&e.done))
        look_up(b, latencies);
    pthread_join(thread, NULL);
    *evicted = before - resident(b);
    return e.took_ns;
}

/* A thread that evicts nothing, for the same number of processors in use. */
static void *turn(void *arg) {
    _Atomic bool *stop = arg;
    while (!atomic_load(stop)) {
    }
    return NULL;
}

static void measure_quiet(bench *b, histogram *latencies) {
    _Atomic bool stop = false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, turn, &stop) != 0)
        die("cannot start a thread");
    for (int i = 0; i < QUIET_LOOKUPS; i++)
        look_up(b, latencies);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void print_evictions(bench *b) {
    static histogram latencies;
    double p99[EVICTIONS], took[EVICTIONS], hold[EVICTIONS], longest = 0;
    size_t evicted = 0;
    lmc_lock_measure(true);
    for (int i = 0; i < EVICTIONS; i++) {
        latencies = (histogram){0};
        (void)lmc_l1_longest_hold_ns(lmc_cache_l1(b->cache));
        took[i] = (double)evict_while_looking_up(b, &latencies, &evicted) / 1e6;
        hold[i] = (double)lmc_l1_longest_hold_ns(lmc_cache_l1(b->cache)) / 1e3;
        longest = hold[i] > longest ? hold[i] : longest;
        p99[i] = histogram_quantile(&latencies, 0.99) / 1e3;
        fill(b);
    }
    lmc_lock_measure(false);
    printf(", \"evicted\": %zu, \"eviction_ms\": %.2f, \"evicting_p99_us\": %.2f, "
           "\"hold_us\": %.2f, \"longest_hold_us\": %.2f",
           evicted, median(took, EVICTIONS), median(p99, EVICTIONS), median(hold, EVICTIONS),
           longest);
}

static void measure(const char *name, size_t objects, bool evicting) {
    static histogram latencies;
    static bench b;
    latencies = (histogram){0};
    create(&b, objects);
    measure_quiet(&b, &latencies);
    printf("\"%s\": {\"objects\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f", name, resident(&b),
           histogram_quantile(&latencies, 0.5) / 1e3,
           histogram_quantile(&latencies, 0.99) / 1e3);
    if (evicting)
        print_evictions(&b);
    printf("}");
    destroy(&b);
}

int main(void) {
    printf("{");
    measure("few", FEW, false);
    printf(", ");
    measure("many", MANY, true);
    printf("}\n");
    return 0;
}
