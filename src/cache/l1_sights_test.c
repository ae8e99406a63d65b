/* What L1 tells about single objects to those who want to know. */
#include "cache/l1_fixture.h"

#include "base/bytes.h"
#include "support/alloc_fault.h"

typedef struct watcher {
    _Atomic uint32_t interest;
    size_t counts[16]; /* by bit */
    lmc_l1_sight last;
    size_t calls;
} watcher;

static void saw(void *arg, uint32_t what, const lmc_l1_sight *sights, size_t count) {
    watcher *w = arg;
    lmc_lock_assert_none();
    assert_true((atomic_load(&w->interest) & what) != 0);
    for (size_t i = 0; i < count; i++)
        assert_true(lmc_slice_is(lmc_key_space_model(sights[i].space), "model"));
    w->counts[__builtin_ctz(what)] += count;
    w->last = sights[count - 1];
    w->calls++;
}

static size_t count_of(const watcher *w, uint32_t what) {
    return w->counts[__builtin_ctz(what)];
}

static void open_watched(l1_fixture *f, watcher *w, uint64_t units) {
    l1_fixture_prepare(f, units);
    lmc_l1_observer observer = {.arg = w, .interest = &w->interest, .saw = saw};
    lmc_page_source source = {fake_supply, fake_left, &f->pages};
    assert_int_equal(
        lmc_l1_create_from(&f->config, &source, &f->clock.clock, &observer, &f->l1, NULL),
        LMC_OK);
    assert_int_equal(lmc_key_space_get(f->l1, lmc_text("model"), lmc_text("salt"), &f->space),
                     LMC_OK);
}

static void read_once(l1_fixture *f, uint64_t first, size_t count, bool transfer) {
    key_list list;
    lmc_object_ref refs[1024];
    lmc_l1_acquire(f->l1, keys_from(f, &list, first, count), count, 1, refs);
    lmc_l1_release(f->l1, refs, count, 1, transfer);
}

static void nothing_is_told_that_nobody_wants_to_know(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {0};
    open_watched(&f, &w, 64);
    store(&f, 1, 4, UNIT);
    read_once(&f, 1, 4, true);
    lmc_l1_clear(f.l1, true);
    assert_int_equal(w.calls, 0);
    atomic_store(&w.interest, LMC_L1_WRITE_FINISHED);
    store(&f, 1, 4, UNIT);
    read_once(&f, 1, 4, true);
    assert_int_equal(w.calls, 1);
    l1_fixture_fini(&f);
}

static void an_object_is_told_of_from_write_to_eviction(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {.interest = UINT32_MAX};
    key_list list;
    open_watched(&f, &w, 512);
    store(&f, 1, 300, 100);
    assert_int_equal(count_of(&w, LMC_L1_WRITE_RESERVED), 300);
    assert_int_equal(count_of(&w, LMC_L1_WRITE_FINISHED), 300);
    assert_int_equal(w.last.size, 100);
    assert_int_equal(w.last.kv_rank, 7);
    read_once(&f, 1, 400, true); /* a hundred are not there */
    read_once(&f, 1, 10, false);
    assert_int_equal(count_of(&w, LMC_L1_READ_RESERVED), 310);
    assert_int_equal(count_of(&w, LMC_L1_READ_FINISHED), 300);
    assert_int_equal(count_of(&w, LMC_L1_READ_RELEASED), 310);
    lmc_l1_touch(f.l1, keys_from(&f, &list, 291, 20), 20);
    assert_int_equal(count_of(&w, LMC_L1_ACCESSED), 10);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(count_of(&w, LMC_L1_EVICTED), 300);
    l1_fixture_fini(&f);
}

static void the_object_that_went_for_another_is_named(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {.interest = LMC_L1_EVICTED};
    uint8_t hash[LMC_HASH_SIZE];
    open_watched(&f, &w, 4);
    store(&f, 1, 1, UNIT);
    store(&f, 2, 3, UNIT);
    store(&f, 9, 1, UNIT);
    assert_int_equal(w.calls, 1);
    make_hash(1, hash);
    assert_memory_equal(w.last.hash, hash, sizeof hash);
    l1_fixture_fini(&f);
}

static void a_forced_clear_tells_of_what_is_held_once(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {.interest = LMC_L1_EVICTED};
    key_list list;
    lmc_object_ref ref;
    open_watched(&f, &w, 64);
    store(&f, 1, 3, UNIT);
    lmc_l1_acquire(f.l1, keys_from(&f, &list, 2, 1), 1, 1, &ref);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(count_of(&w, LMC_L1_EVICTED), 2);
    lmc_l1_clear(f.l1, true);
    assert_int_equal(count_of(&w, LMC_L1_EVICTED), 3);
    lmc_l1_release(f.l1, &ref, 1, 1, true);
    lmc_l1_clear(f.l1, true);
    assert_int_equal(count_of(&w, LMC_L1_EVICTED), 3);
    l1_fixture_fini(&f);
}

static void what_found_no_memory_is_named(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {.interest = LMC_L1_NO_MEMORY};
    key_list list;
    lmc_object_ref refs[8];
    lmc_reserve_result results[8];
    uint8_t hash[LMC_HASH_SIZE];
    open_watched(&f, &w, 4);
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 5), 5, UNIT, refs, results);
    assert_int_equal(count_of(&w, LMC_L1_NO_MEMORY), 1);
    make_hash(5, hash);
    assert_memory_equal(w.last.hash, hash, sizeof hash);
    assert_int_equal(w.last.size, UNIT);
    lmc_l1_discard(f.l1, refs, 5);
    l1_fixture_fini(&f);
}

static void without_memory_for_it_nothing_is_told_and_all_goes_on(void **state) {
    (void)state;
    l1_fixture f;
    watcher w = {.interest = UINT32_MAX};
    open_watched(&f, &w, 64);
    store(&f, 1, 4, UNIT);
    size_t before = w.calls;
    lmc_fault_arm(1, true);
    read_once(&f, 1, 4, true);
    lmc_fault_disarm();
    assert_int_equal(w.calls, before);
    assert_int_equal(report_of(&f).read_locked_count, 0);
    l1_fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_told_that_nobody_wants_to_know),
        cmocka_unit_test(an_object_is_told_of_from_write_to_eviction),
        cmocka_unit_test(the_object_that_went_for_another_is_named),
        cmocka_unit_test(a_forced_clear_tells_of_what_is_held_once),
        cmocka_unit_test(what_found_no_memory_is_named),
        cmocka_unit_test(without_memory_for_it_nothing_is_told_and_all_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
