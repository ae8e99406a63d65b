#include "cache/l1_fixture.h"

#include <sched.h>

#define MIB_UNITS 256u /* units in a MiB */

/* Waits for the thread to get where it goes by itself; a test that hangs here has failed. */
static void wait_supplied(l1_fixture *f, uint64_t bytes) {
    while (report_of(f).supplied_bytes < bytes)
        sched_yield();
}

static void wait_asleep(l1_fixture *f) {
    bool asleep = false;
    while (!asleep) {
        lmc_l1_enter(f->l1);
        asleep = f->l1->supply.sleeping;
        lmc_l1_leave(f->l1);
        sched_yield();
    }
}

static void eager_supply_covers_the_capacity_in_the_background(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 100 * MIB_UNITS + 3);
    f.config.use_lazy = false;
    l1_fixture_open(&f);
    wait_supplied(&f, f.config.capacity);
    wait_asleep(&f);
    assert_int_equal(report_of(&f).supplied_bytes, f.config.capacity);
    assert_int_equal(report_of(&f).used_bytes, 0);
    l1_fixture_fini(&f);
}

static void lazy_supply_stops_at_the_initial_size(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 4096 * MIB_UNITS);
    f.config.init_size = UINT64_C(1024) << 20;
    l1_fixture_open(&f);
    wait_supplied(&f, f.config.init_size);
    wait_asleep(&f);
    assert_int_equal(report_of(&f).supplied_bytes, f.config.init_size);
    l1_fixture_fini(&f);
}

static void lazy_supply_stays_ahead_of_demand(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 64 * MIB_UNITS);
    l1_fixture_open(&f);
    wait_supplied(&f, UINT64_C(8) << 20);
    wait_asleep(&f);
    assert_int_equal(report_of(&f).supplied_bytes, UINT64_C(8) << 20);
    store(&f, 1, 1, UINT64_C(6) << 20);
    wait_supplied(&f, UINT64_C(14) << 20);
    wait_asleep(&f);
    assert_int_equal(report_of(&f).supplied_bytes, UINT64_C(16) << 20);
    l1_fixture_fini(&f);
}

static void an_allocation_that_overtakes_supply_brings_its_own(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64 * MIB_UNITS);
    store(&f, 1, 1, UINT64_C(50) << 20);
    assert_true(report_of(&f).supplied_bytes >= UINT64_C(50) << 20);
    assert_int_equal(f.seen.evicted, 0);
    l1_fixture_fini(&f);
}

static void where_pages_end_memory_ends(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 64 * MIB_UNITS);
    f.config.policy = LMC_EVICT_NONE;
    atomic_store(&f.pages.limit, UINT64_C(20) << 20);
    l1_fixture_open(&f);
    key_list list;
    lmc_object_ref refs[10];
    lmc_reserve_result results[10];
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 10), 10, UINT64_C(4) << 20, refs, results);
    for (int i = 0; i < 10; i++)
        assert_int_equal(results[i], i < 5 ? LMC_RESERVED : LMC_RESERVE_NO_MEMORY);
    assert_int_equal(f.seen.no_memory, 5);
    lmc_l1_report report = report_of(&f);
    assert_int_equal(report.used_bytes, UINT64_C(20) << 20);
    assert_int_equal(report.supplied_bytes, UINT64_C(20) << 20);
    assert_true(report.is_sound);
    assert_true(lmc_l1_check(f.l1));
    /* Somebody gave memory back; after a while the next shortage finds it. */
    atomic_store(&f.pages.limit, UINT64_MAX);
    lmc_l1_reserve(f.l1, list.keys + 5, 1, UINT64_C(4) << 20, refs + 5, results + 5);
    assert_int_equal(results[5], LMC_RESERVE_NO_MEMORY);
    atomic_fetch_add(&f.clock.now, 11 * LMC_NS_PER_S);
    lmc_l1_reserve(f.l1, list.keys + 5, 5, UINT64_C(4) << 20, refs + 5, results + 5);
    for (int i = 5; i < 10; i++)
        assert_int_equal(results[i], LMC_RESERVED);
    lmc_l1_commit(f.l1, refs, 10);
    assert_true(lmc_l1_check(f.l1));
    l1_fixture_fini(&f);
}

static void where_pages_end_the_oldest_makes_room(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 64 * MIB_UNITS);
    atomic_store(&f.pages.limit, UINT64_C(8) << 20);
    l1_fixture_open(&f);
    for (uint64_t i = 1; i <= 20; i++)
        store(&f, i, 1, UINT64_C(1) << 20);
    assert_int_equal(report_of(&f).resident_count, 8);
    assert_false(is_resident(&f, 12));
    assert_true(is_resident(&f, 13));
    l1_fixture_fini(&f);
}

static void supply_stops_short_of_what_the_machine_has_left(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 64 * MIB_UNITS);
    atomic_store(&f.pages.left, UINT64_C(1) << 20);
    l1_fixture_open(&f);
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 1), 1, UNIT, &ref, &result);
    assert_int_equal(result, LMC_RESERVE_NO_MEMORY);
    assert_int_equal(atomic_load(&f.pages.supplied), 0);
    l1_fixture_fini(&f);
}

static uint64_t wakeups(l1_fixture *f) {
    wait_asleep(f);
    lmc_l1_enter(f->l1);
    uint64_t count = f->l1->supply.wakeups;
    lmc_l1_leave(f->l1);
    return count;
}

static void the_thread_is_woken_only_when_memory_runs_low(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64 * MIB_UNITS);
    store(&f, 1, 1, 1);
    wait_supplied(&f, UINT64_C(12) << 20);
    uint64_t before = wakeups(&f);
    for (uint64_t i = 0; i < 50; i++)
        store(&f, 2 + i, 1, 1);
    assert_true(is_resident(&f, 2));
    assert_int_equal(wakeups(&f), before);
    store(&f, 100, 1, UINT64_C(5) << 20);
    wait_supplied(&f, UINT64_C(16) << 20);
    assert_int_equal(wakeups(&f), before + 1);
    l1_fixture_fini(&f);
}

static void real_pages_are_there_before_they_are_handed_out(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 16 * MIB_UNITS);
    lmc_l1_observer observer = seeing(&f.seen);
    assert_int_equal(lmc_l1_create(&f.config, &f.clock.clock, &observer, &f.l1, NULL), LMC_OK);
    assert_int_equal(lmc_key_space_get(f.l1, lmc_text("m"), lmc_text(""), &f.space), LMC_OK);
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 1), 1, f.config.capacity, &ref, &result);
    assert_int_equal(result, LMC_RESERVED);
    memset(lmc_l1_data(f.l1, ref), 1, f.config.capacity);
    lmc_l1_commit(f.l1, &ref, 1);
    l1_fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_supply_covers_the_capacity_in_the_background),
        cmocka_unit_test(lazy_supply_stops_at_the_initial_size),
        cmocka_unit_test(lazy_supply_stays_ahead_of_demand),
        cmocka_unit_test(an_allocation_that_overtakes_supply_brings_its_own),
        cmocka_unit_test(where_pages_end_memory_ends),
        cmocka_unit_test(where_pages_end_the_oldest_makes_room),
        cmocka_unit_test(supply_stops_short_of_what_the_machine_has_left),
        cmocka_unit_test(the_thread_is_woken_only_when_memory_runs_low),
        cmocka_unit_test(real_pages_are_there_before_they_are_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
