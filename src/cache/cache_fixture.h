/*
 * cache_fixture.h: one small cache with a hand-moved clock, for the cache_*_test.c programs.
 *
 * Chunks have 4 tokens; token lists are made from a seed, so equal seeds share prefixes. Models
 * have world size 1 or 2. Test only; every function is static in the including program.
 */
#ifndef LMC_CACHE_CACHE_FIXTURE_H
#define LMC_CACHE_CACHE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cache/core.h"
#include "cache/l1_internal.h"

#define CHUNK 4
#define TOKENS_MAX 4096
#define OBJECT_SIZE 256
#define S LMC_NS_PER_S
#define UNUSED __attribute__((unused))

typedef struct test_clock {
    lmc_clock clock;
    _Atomic int64_t now;
} test_clock;

static int64_t test_now(const lmc_clock *clock) {
    return atomic_load(&((const test_clock *)(const void *)clock)->now);
}

typedef struct seen_lookup {
    size_t count;
    uint64_t requested, hit, keys;
    char early[32];
} seen_lookup;

typedef struct cache_fixture {
    test_clock clock;
    lmc_cache_config config;
    lmc_cache *cache;
    lmc_arena arena;
    seen_lookup lookups;
    size_t read_failures, reads, no_memory;
    bool unlocked; /* observers were never called with a lock held */
    uint32_t tokens[TOKENS_MAX];
} cache_fixture;

static void on_lookup(void *arg, lmc_slice model, lmc_slice salt, uint64_t requested,
                      uint64_t hit, uint64_t keys, const char *early, lmc_slice request_id) {
    cache_fixture *f = arg;
    (void)model;
    (void)salt;
    (void)request_id;
    lmc_lock_assert_none();
    f->lookups.count++;
    f->lookups.requested = requested;
    f->lookups.hit = hit;
    f->lookups.keys = keys;
    (void)snprintf(f->lookups.early, sizeof(f->lookups.early), "%s", early);
}

static void on_read_failed(void *arg, lmc_slice model, size_t count, const char *reason) {
    cache_fixture *f = arg;
    (void)model;
    lmc_lock_assert_none();
    assert_string_equal(reason, "not_found");
    f->read_failures += count;
}

static void on_read(void *arg, lmc_slice salt, size_t count) {
    cache_fixture *f = arg;
    (void)salt;
    lmc_lock_assert_none();
    f->reads += count;
}

static void on_no_memory(void *arg, lmc_slice model, size_t count) {
    cache_fixture *f = arg;
    (void)model;
    lmc_lock_assert_none();
    f->no_memory += count;
}

static UNUSED lmc_cache_config default_config(void) {
    return (lmc_cache_config){
        .chunk_size = CHUNK,
        .l1 = {.capacity = 1 << 20,
               .init_size = 1 << 20,
               .align = 256,
               .shm_name = "",
               .shm_mode = 0600,
               .policy = LMC_EVICT_LRU,
               .watermark = 0.8,
               .eviction_ratio = 0.2},
        .read_ttl_ns = 300 * S,
        .write_ttl_ns = 600 * S,
        .session_ttl_ns = 600 * S,
        .session_lease_ns = 30 * S,
        .disconnect_lease_ns = 30 * S,
    };
}

static UNUSED lmc_status fixture_open(cache_fixture *f, const lmc_cache_config *config) {
    *f = (cache_fixture){.config = *config};
    f->clock.clock = (lmc_clock){.monotonic_ns = test_now, .wall_ns = test_now};
    atomic_store(&f->clock.now, 1000 * S);
    lmc_arena_init(&f->arena, 1 << 16);
    for (size_t i = 0; i < TOKENS_MAX; i++)
        f->tokens[i] = (uint32_t)(i * 7);
    lmc_cache_observer observer = {.arg = f,
                                   .l1 = {.arg = f, .read = on_read, .no_memory = on_no_memory},
                                   .lookup_done = on_lookup,
                                   .read_failed = on_read_failed};
    return lmc_cache_create(config, &f->clock.clock, &observer, &f->cache, NULL);
}

static UNUSED void fixture_init(cache_fixture *f) {
    lmc_cache_config config = default_config();
    assert_int_equal(fixture_open(f, &config), LMC_OK);
}

static UNUSED lmc_l1_report report_of(cache_fixture *f) {
    lmc_l1_report report;
    lmc_l1_report_get(f->cache->l1, &report);
    return report;
}

/* Nothing may be held or half written any more, and no instance or session may need closing. */
static UNUSED void assert_at_rest(cache_fixture *f) {
    lmc_l1_report report = report_of(f);
    assert_int_equal(report.read_locked_count, 0);
    assert_int_equal(report.staging_count, 0);
    assert_int_equal(report.staging_bytes, 0);
    assert_true(lmc_l1_check(f->cache->l1));
}

static UNUSED void fixture_fini(cache_fixture *f) {
    lmc_cache_destroy(f->cache);
    lmc_arena_fini(&f->arena);
}

static UNUSED void advance(cache_fixture *f, int64_t seconds) {
    atomic_fetch_add(&f->clock.now, seconds * S);
    lmc_cache_tick(f->cache);
}

/* ---- keys ---- */

/* The scheduler's key of the first `chunks` chunks of the fixture's tokens. */
static UNUSED lmc_cache_key scheduler_key(cache_fixture *f, const char *id, size_t chunks) {
    return (lmc_cache_key){
        .model_name = lmc_text("model"),
        .world_size = 1,
        .token_ids = {.ids = f->tokens, .count = chunks * CHUNK},
        .start = 0,
        .end = (int64_t)(chunks * CHUNK),
        .request_id = lmc_text(id),
        .num_kv_readers = 1,
    };
}

/* A worker's key of chunks [first, end). */
static UNUSED lmc_cache_key worker_key(cache_fixture *f, const char *id, int64_t worker,
                                       size_t first, size_t end) {
    lmc_cache_key key = scheduler_key(f, id, end);
    key.present |= LMC_CACHE_KEY_HAS_WORKER_ID;
    key.worker_id = worker;
    key.start = (int64_t)(first * CHUNK);
    return key;
}

static UNUSED lmc_cache_key world2(lmc_cache_key key) {
    key.world_size = 2;
    return key;
}

/* ---- operations ---- */

static UNUSED void register_groups(cache_fixture *f, int64_t id, int64_t world_size,
                                   const lmc_chunk_layout *groups, size_t count,
                                   uint64_t connection) {
    lmc_instance_config config = {.instance_id = id,
                                  .kind = LMC_TRANSFER_ENGINE_DRIVEN,
                                  .model_name = lmc_text("model"),
                                  .world_size = world_size,
                                  .groups = groups,
                                  .group_count = count};
    bool created;
    assert_int_equal(lmc_cache_register(f->cache, &config, connection, &created, NULL), LMC_OK);
    assert_true(created);
}

static UNUSED lmc_chunk_layout layout_of(int64_t window) {
    return (lmc_chunk_layout){.dim_count = 1,
                              .dims = {OBJECT_SIZE},
                              .dtype = "uint8",
                              .item_size = 1,
                              .size = OBJECT_SIZE,
                              .window = window};
}

static UNUSED void register_one(cache_fixture *f, int64_t id, int64_t world_size) {
    lmc_chunk_layout layout = layout_of(-1);
    register_groups(f, id, world_size, &layout, 1, 0);
}

static UNUSED size_t prepare_store(cache_fixture *f, int64_t instance, lmc_cache_key key,
                                   lmc_transfer *transfer) {
    lmc_arena_reset(&f->arena);
    assert_int_equal(
        lmc_cache_prepare_store(f->cache, &key, instance, 0, &f->arena, transfer, NULL),
        LMC_OK);
    return transfer->slot_count;
}

/* Stores what is missing; each object's bytes are its chunk index and group. */
static UNUSED size_t store(cache_fixture *f, int64_t instance, lmc_cache_key key) {
    lmc_transfer transfer;
    size_t count = prepare_store(f, instance, key, &transfer);
    for (size_t i = 0; i < count; i++)
        memset(lmc_l1_data(f->cache->l1, transfer.slots[i].object),
               (int)(transfer.slots[i].chunk_index + key.start / CHUNK), OBJECT_SIZE);
    if (count > 0)
        assert_int_equal(lmc_cache_commit_store(f->cache, &key, instance, 0, NULL, NULL),
                         LMC_OK);
    return count;
}

static UNUSED int64_t lookup_on(cache_fixture *f, lmc_cache_key key, uint64_t connection) {
    int64_t chunks = -1;
    lmc_cache_lookup(f->cache, &key, 1, connection);
    assert_int_equal(lmc_cache_query(f->cache, key.request_id, &chunks), LMC_OK);
    return chunks;
}

static UNUSED int64_t lookup(cache_fixture *f, lmc_cache_key key) {
    return lookup_on(f, key, 0);
}

static UNUSED lmc_status prepare_retrieve(cache_fixture *f, int64_t instance, lmc_cache_key key,
                                          lmc_transfer *transfer) {
    lmc_arena_reset(&f->arena);
    return lmc_cache_prepare_retrieve(f->cache, &key, instance, 0, true, &f->arena, transfer,
                                      NULL);
}

static UNUSED lmc_status retrieve(cache_fixture *f, int64_t instance, lmc_cache_key key) {
    lmc_transfer transfer;
    lmc_status status = prepare_retrieve(f, instance, key, &transfer);
    lmc_cache_commit_retrieve(f->cache, &key, instance, 0);
    return status;
}

static UNUSED void free_locks(cache_fixture *f, lmc_cache_key key) {
    key.token_ids.ids = NULL; /* only counted */
    assert_int_equal(lmc_cache_free_locks(f->cache, &key, 1, NULL), LMC_OK);
}

static UNUSED void end_session(cache_fixture *f, const char *id) {
    lmc_cache_end_session(f->cache, lmc_text(id));
}

/* ---- looking at one object ---- */

/* Read shares on a chunk of the fixture's tokens; -1: not resident. */
static UNUSED int64_t shares_on(cache_fixture *f, int64_t world_size, uint32_t rank,
                                uint32_t group, size_t chunk) {
    uint8_t hashes[(TOKENS_MAX / CHUNK) * LMC_HASH_SIZE];
    lmc_key_space *space;
    lmc_l1 *l1 = f->cache->l1;
    lmc_object_ref ref;
    lmc_hasher_run(&f->cache->hasher, NULL, f->tokens, chunk + 1, hashes);
    assert_int_equal(lmc_key_space_get(l1, lmc_text("model"), lmc_text(""), &space), LMC_OK);
    lmc_l1_key key =
        lmc_object_key_of(hashes + chunk * LMC_HASH_SIZE, space, world_size, rank, group);
    lmc_l1_acquire(l1, &key, 1, 1, &ref);
    lmc_key_space_drop(l1, space);
    if (ref == LMC_NO_OBJECT)
        return -1;
    lmc_lock_take(&l1->lock);
    int64_t readers = lmc_object_at(&l1->table, lmc_l1_object(l1, ref))->readers - 1;
    lmc_lock_drop(&l1->lock);
    lmc_l1_release(l1, &ref, 1, 1, false);
    return readers;
}

/* Asserts shares of rank `rank` on chunks 0 ... count-1 of group 0. */
static UNUSED void assert_shares(cache_fixture *f, int64_t world_size, uint32_t rank,
                                 const int *expected, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(shares_on(f, world_size, rank, 0, i), expected[i]);
}

#endif
