/*
 * l1_fixture.h: what the tests of L1 share: a clock that stands, pages that cost nothing, keys
 * made from numbers, and counting observers. Included by tests only.
 */
#ifndef LMC_CACHE_L1_FIXTURE_H
#define LMC_CACHE_L1_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cache/l1_internal.h"

#define UNIT 4096

typedef struct fake_clock {
    lmc_clock clock;
    _Atomic int64_t now;
} fake_clock;

static inline int64_t fake_now(const lmc_clock *clock) {
    return atomic_load(&((const fake_clock *)clock)->now);
}

static inline fake_clock fake_clock_make(void) {
    fake_clock fake = {.clock = {fake_now, fake_now}};
    atomic_init(&fake.now, LMC_NS_PER_S);
    return fake;
}

/* Pages: `limit` bytes from the start of the pool can be had. */
typedef struct fake_pages {
    _Atomic uint64_t limit;
    _Atomic uint64_t left;
    _Atomic uint64_t supplied;
} fake_pages;

static inline lmc_status fake_supply(void *arg, uint64_t offset, uint64_t length) {
    fake_pages *pages = arg;
    if (offset + length > atomic_load(&pages->limit))
        return LMC_NO_MEMORY;
    atomic_fetch_add(&pages->supplied, length);
    return LMC_OK;
}

static inline uint64_t fake_left(void *arg) { return atomic_load(&((fake_pages *)arg)->left); }

typedef struct seen_events {
    _Atomic size_t committed, evicted, read, no_memory, ticks, triggered;
    char last_salt[32];
} seen_events;

static inline void see_salt(seen_events *seen, lmc_slice salt) {
    assert_true(salt.size < sizeof seen->last_salt);
    memcpy(seen->last_salt, salt.data, salt.size);
    seen->last_salt[salt.size] = '\0';
}
static inline void see_committed(void *arg, lmc_slice salt, size_t count) {
    lmc_lock_assert_none();
    see_salt(arg, salt);
    ((seen_events *)arg)->committed += count;
}
static inline void see_evicted(void *arg, lmc_slice salt, size_t count) {
    lmc_lock_assert_none();
    see_salt(arg, salt);
    ((seen_events *)arg)->evicted += count;
}
static inline void see_read(void *arg, lmc_slice salt, size_t count) {
    lmc_lock_assert_none();
    see_salt(arg, salt);
    ((seen_events *)arg)->read += count;
}
static inline void see_no_memory(void *arg, lmc_slice model, size_t count) {
    lmc_lock_assert_none();
    (void)model;
    ((seen_events *)arg)->no_memory += count;
}
static inline void see_tick(void *arg, bool triggered) {
    ((seen_events *)arg)->ticks++;
    ((seen_events *)arg)->triggered += triggered;
}

static inline lmc_l1_observer seeing(seen_events *seen) {
    return (lmc_l1_observer){.arg = seen,
                             .committed = see_committed,
                             .evicted = see_evicted,
                             .read = see_read,
                             .no_memory = see_no_memory,
                             .eviction_tick = see_tick};
}

/* An L1 of `units` units of 4 KiB over pages that cost nothing. */
typedef struct l1_fixture {
    fake_clock clock;
    fake_pages pages;
    seen_events seen;
    lmc_l1_config config;
    lmc_l1 *l1;
    lmc_key_space *space;
} l1_fixture;

static inline lmc_l1_config l1_fixture_config(uint64_t units) {
    return (lmc_l1_config){.capacity = units * UNIT,
                           .align = UNIT,
                           .use_lazy = true,
                           .shm_name = "",
                           .shm_mode = 0600,
                           .policy = LMC_EVICT_LRU,
                           .watermark = 0.8,
                           .eviction_ratio = 0.2};
}

static inline lmc_status l1_fixture_try(l1_fixture *f) {
    lmc_l1_observer observer = seeing(&f->seen);
    lmc_page_source source = {fake_supply, fake_left, &f->pages};
    return lmc_l1_create_from(&f->config, &source, &f->clock.clock, &observer, &f->l1, NULL);
}

static inline void l1_fixture_prepare(l1_fixture *f, uint64_t units) {
    memset(f, 0, sizeof *f);
    f->clock = fake_clock_make();
    f->config = l1_fixture_config(units);
    atomic_init(&f->pages.limit, UINT64_MAX);
    atomic_init(&f->pages.left, UINT64_MAX);
}

static inline void l1_fixture_open(l1_fixture *f) {
    assert_int_equal(l1_fixture_try(f), LMC_OK);
    assert_int_equal(lmc_key_space_get(f->l1, lmc_text("model"), lmc_text("salt"), &f->space),
                     LMC_OK);
}

static inline void l1_fixture_init(l1_fixture *f, uint64_t units) {
    l1_fixture_prepare(f, units);
    l1_fixture_open(f);
}

static inline void l1_fixture_fini(l1_fixture *f) {
    lmc_key_space_drop(f->l1, f->space);
    lmc_l1_destroy(f->l1);
}

/* `count` keys: chunks first, first+1, ... of one shard. */
typedef struct key_list {
    lmc_l1_key keys[1024];
    uint8_t hashes[1024][LMC_HASH_SIZE];
} key_list;

static inline void make_hash(uint64_t number, uint8_t hash[LMC_HASH_SIZE]) {
    for (size_t i = 0; i < LMC_HASH_SIZE; i += 8) {
        uint64_t word = (number + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        word ^= word >> 29;
        memcpy(hash + i, &word, 8);
    }
}

static inline const lmc_l1_key *keys_of(key_list *list, lmc_key_space *space, uint64_t kv_rank,
                                        uint32_t group, uint64_t first, size_t count) {
    for (size_t i = 0; i < count; i++) {
        make_hash(first + i, list->hashes[i]);
        list->keys[i] = (lmc_l1_key){list->hashes[i], space, kv_rank, group};
    }
    return list->keys;
}

static inline const lmc_l1_key *keys_from(l1_fixture *f, key_list *list, uint64_t first,
                                          size_t count) {
    return keys_of(list, f->space, 7, 0, first, count);
}

/* Reserves and commits; every key must fit. */
static inline void store(l1_fixture *f, uint64_t first, size_t count, uint64_t size) {
    key_list list;
    lmc_object_ref refs[1024];
    lmc_reserve_result results[1024];
    lmc_l1_reserve(f->l1, keys_from(f, &list, first, count), count, size, refs, results);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(results[i], LMC_RESERVED);
    lmc_l1_commit(f->l1, refs, count);
}

static inline bool is_resident(l1_fixture *f, uint64_t number) {
    key_list list;
    lmc_object_ref ref;
    lmc_l1_acquire(f->l1, keys_from(f, &list, number, 1), 1, 1, &ref);
    if (ref == LMC_NO_OBJECT)
        return false;
    lmc_l1_release(f->l1, &ref, 1, 1, false);
    return true;
}

static inline lmc_l1_report report_of(l1_fixture *f) {
    lmc_l1_report report;
    lmc_l1_report_get(f->l1, &report);
    return report;
}

#endif
