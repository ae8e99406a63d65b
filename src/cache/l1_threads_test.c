/* Many threads at once; worth most under a thread sanitizer. */
#include "cache/l1_fixture.h"

#include <pthread.h>

#include "base/bytes.h"

#define WORKERS 4
#define ROUNDS 300
#define KEYS 24

typedef struct shared_state {
    l1_fixture f;
    _Atomic bool done;
    _Atomic uint64_t reads;
} shared_state;

typedef struct worker {
    pthread_t thread;
    shared_state *shared;
    unsigned number;
} worker;

/* What the bytes of a chunk must be, whoever wrote them. */
static void fill(lmc_l1 *l1, lmc_object_ref ref, uint64_t number) {
    memset(lmc_l1_data(l1, ref), (int)(number & 0x7f), lmc_l1_size(l1, ref));
}

static bool is_filled(lmc_l1 *l1, lmc_object_ref ref, uint64_t number) {
    const unsigned char *data = lmc_l1_data(l1, ref);
    uint64_t size = lmc_l1_size(l1, ref);
    return data[0] == (number & 0x7f) && data[size - 1] == (number & 0x7f);
}

static void store_some(shared_state *s, const lmc_l1_key *keys, uint64_t first, bool drop) {
    lmc_object_ref refs[KEYS];
    lmc_reserve_result results[KEYS];
    lmc_l1 *l1 = s->f.l1;
    lmc_l1_reserve(l1, keys, KEYS, UNIT + 5, refs, results);
    for (size_t i = 0; i < KEYS; i++) {
        if (refs[i] != LMC_NO_OBJECT)
            fill(l1, refs[i], first + i);
    }
    if (drop)
        lmc_l1_discard(l1, refs, KEYS);
    else
        lmc_l1_commit(l1, refs, KEYS);
}

static bool read_some(shared_state *s, const lmc_l1_key *keys, uint64_t first) {
    lmc_object_ref refs[KEYS];
    bool good = true;
    lmc_l1_acquire(s->f.l1, keys, KEYS, 2, refs);
    for (size_t i = 0; i < KEYS; i++) {
        if (refs[i] == LMC_NO_OBJECT)
            continue;
        good &= is_filled(s->f.l1, refs[i], first + i);
        atomic_fetch_add(&s->reads, 1);
    }
    lmc_l1_release(s->f.l1, refs, KEYS, 1, false);
    lmc_l1_release(s->f.l1, refs, KEYS, 1, true);
    return good;
}

static void *work(void *arg) {
    worker *self = arg;
    shared_state *s = self->shared;
    key_list list;
    uintptr_t bad = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t first = (round * 7 + self->number * 13) % 100;
        lmc_key_space *space;
        if (lmc_key_space_get(s->f.l1, lmc_text("m"), lmc_text(round % 3 == 0 ? "a" : "b"),
                              &space) != LMC_OK)
            return (void *)1;
        const lmc_l1_key *keys = keys_of(&list, space, round % 2, 0, first, KEYS);
        store_some(s, keys, first, round % 5 == 0);
        bad += !read_some(s, keys, first);
        lmc_l1_touch(s->f.l1, keys, KEYS);
        lmc_key_space_drop(s->f.l1, space);
    }
    return (void *)bad;
}

static void *disturb(void *arg) {
    shared_state *s = arg;
    uintptr_t bad = 0;
    for (unsigned round = 0; !atomic_load(&s->done); round++) {
        lmc_l1_report report;
        lmc_l1_evict_round(s->f.l1);
        if (round % 16 == 0)
            lmc_l1_clear(s->f.l1, round % 32 == 0);
        lmc_l1_report_get(s->f.l1, &report);
        bad += !report.is_sound || !lmc_l1_check(s->f.l1);
    }
    return (void *)bad;
}

/* Observers of several threads at once: only counters. */
typedef struct counters {
    _Atomic size_t counted;
    _Atomic size_t seen[16]; /* by bit */
} counters;

static void count_only(void *arg, lmc_slice text, size_t count) {
    (void)text;
    atomic_fetch_add(&((counters *)arg)->counted, count);
}

static void saw(void *arg, uint32_t what, const lmc_l1_sight *sights, size_t count) {
    counters *c = arg;
    for (size_t i = 0; i < count; i++)
        if (lmc_slice_is(lmc_key_space_model(sights[i].space), "m"))
            atomic_fetch_add(&c->seen[__builtin_ctz(what)], 1);
}

static size_t seen(const counters *c, uint32_t what) {
    return atomic_load(&c->seen[__builtin_ctz(what)]);
}

static void threads_do_not_disturb_each_other(void **state) {
    (void)state;
    static shared_state s;
    static const _Atomic uint32_t interest = UINT32_MAX;
    static counters c;
    l1_fixture_prepare(&s.f, 256);
    lmc_l1_observer observer = {.arg = &c,
                                .interest = &interest,
                                .saw = saw,
                                .committed = count_only,
                                .evicted = count_only,
                                .read = count_only};
    assert_int_equal(lmc_l1_create(&s.f.config, &lmc_system_clock, &observer, &s.f.l1, NULL),
                     LMC_OK);
    worker workers[WORKERS];
    pthread_t disturber;
    assert_int_equal(pthread_create(&disturber, NULL, disturb, &s), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.shared = &s, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    void *bad;
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, &bad), 0);
        assert_null(bad);
    }
    atomic_store(&s.done, true);
    assert_int_equal(pthread_join(disturber, &bad), 0);
    assert_null(bad);
    assert_true(atomic_load(&s.reads) > 0);
    lmc_l1_report report = report_of(&s.f);
    assert_int_equal(report.staging_count, 0);
    assert_int_equal(report.read_locked_count, 0);
    lmc_l1_clear(s.f.l1, false);
    assert_int_equal(report_of(&s.f).used_bytes, 0);
    assert_int_equal(s.f.l1->spaces.table.count, 0);
    assert_int_equal(seen(&c, LMC_L1_WRITE_FINISHED), seen(&c, LMC_L1_EVICTED));
    assert_int_equal(2 * seen(&c, LMC_L1_READ_RESERVED), seen(&c, LMC_L1_READ_RELEASED));
    assert_int_equal(seen(&c, LMC_L1_READ_RESERVED), seen(&c, LMC_L1_READ_FINISHED));
    lmc_l1_destroy(s.f.l1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
