#include "cache/l1_fixture.h"

static size_t count_resident(l1_fixture *f, uint64_t first, size_t count) {
    size_t resident = 0;
    for (size_t i = 0; i < count; i++)
        resident += is_resident(f, first + i);
    return resident;
}

static void of_one_request_the_last_chunks_go_first(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 1000);
    store(&f, 1, 600, UNIT); /* three batches */
    store(&f, 601, 400, UNIT);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 200);
    assert_int_equal(f.seen.ticks, 1);
    assert_int_equal(f.seen.triggered, 1);
    assert_int_equal(count_resident(&f, 1, 400), 400);
    assert_int_equal(count_resident(&f, 401, 200), 0);
    assert_int_equal(count_resident(&f, 601, 400), 400);
    l1_fixture_fini(&f);
}

static void below_the_watermark_nothing_goes(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 100);
    store(&f, 1, 79, UNIT);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 0);
    assert_int_equal(f.seen.ticks, 1);
    assert_int_equal(f.seen.triggered, 0);
    store(&f, 80, 1, UNIT);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 16);
    l1_fixture_fini(&f);
}

static void a_round_evicts_at_least_one(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 10);
    store(&f, 1, 1, 9 * UNIT);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 1);
    lmc_l1_evict_round(f.l1); /* nothing there */
    assert_int_equal(f.seen.ticks, 2);
    l1_fixture_fini(&f);
}

static void a_ratio_of_zero_evicts_nothing(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 10);
    f.config.eviction_ratio = 0;
    l1_fixture_open(&f);
    store(&f, 1, 10, UNIT);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 0);
    assert_int_equal(f.seen.triggered, 1);
    l1_fixture_fini(&f);
}

static void touched_chunks_stay(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 1000);
    store(&f, 1, 500, UNIT);
    store(&f, 501, 500, UNIT);
    key_list list;
    lmc_l1_touch(f.l1, keys_from(&f, &list, 1, 500), 500);
    lmc_l1_touch(f.l1, keys_from(&f, &list, 5000, 10), 10); /* unknown ones are ignored */
    lmc_l1_evict_round(f.l1);
    assert_int_equal(count_resident(&f, 1, 500), 500);
    assert_int_equal(count_resident(&f, 501, 300), 300);
    assert_int_equal(count_resident(&f, 801, 200), 0);
    l1_fixture_fini(&f);
}

static void all_shards_of_a_chunk_go_together_and_only_if_all_can(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 16);
    key_list list;
    lmc_object_ref refs[4], held;
    lmc_reserve_result results[4];
    for (uint64_t rank = 0; rank < 4; rank++) {
        const lmc_l1_key *keys = keys_of(&list, f.space, rank, 0, 1, 4);
        lmc_l1_reserve(f.l1, keys, 4, UNIT, refs, results);
        lmc_l1_commit(f.l1, refs, 4);
    }
    lmc_l1_acquire(f.l1, keys_of(&list, f.space, 2, 0, 4, 1), 1, 1, &held);
    lmc_l1_evict_round(f.l1); /* target 3 of 16: one chunk of four, not the one that is read */
    assert_int_equal(f.seen.evicted, 4);
    for (uint64_t rank = 0; rank < 4; rank++) {
        lmc_l1_acquire(f.l1, keys_of(&list, f.space, rank, 0, 1, 4), 4, 1, refs);
        for (int i = 0; i < 4; i++)
            assert_int_equal(refs[i] == LMC_NO_OBJECT, i == 2);
        lmc_l1_release(f.l1, refs, 4, 1, false);
    }
    lmc_l1_release(f.l1, &held, 1, 1, false);
    l1_fixture_fini(&f);
}

static void a_full_cache_makes_room_at_once(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 10);
    store(&f, 1, 10, UNIT);
    store(&f, 101, 3, UNIT);
    assert_int_equal(f.seen.evicted, 3);
    assert_string_equal(f.seen.last_salt, "salt");
    assert_int_equal(f.seen.no_memory, 0);
    assert_int_equal(count_resident(&f, 1, 7), 7);
    assert_int_equal(count_resident(&f, 101, 3), 3);
    l1_fixture_fini(&f);
}

static void large_objects_get_room_from_many_small_ones(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 1000);
    store(&f, 1, 1000, UNIT);
    store(&f, 2001, 1, 900 * UNIT);
    assert_true(f.seen.evicted >= 900);
    assert_true(is_resident(&f, 2001));
    assert_true(lmc_l1_check(f.l1));
    l1_fixture_fini(&f);
}

static void what_is_locked_never_goes_and_the_leading_keys_get_what_there_is(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 10);
    store(&f, 1, 10, UNIT);
    key_list list;
    lmc_object_ref held[8], refs[5];
    lmc_reserve_result results[5];
    lmc_l1_acquire(f.l1, keys_from(&f, &list, 1, 8), 8, 1, held);
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 101, 5), 5, UNIT, refs, results);
    for (int i = 0; i < 5; i++)
        assert_int_equal(results[i], i < 2 ? LMC_RESERVED : LMC_RESERVE_NO_MEMORY);
    assert_int_equal(f.seen.no_memory, 3);
    assert_int_equal(f.seen.evicted, 2);
    lmc_l1_commit(f.l1, refs, 5);
    lmc_l1_release(f.l1, held, 8, 1, false);
    assert_int_equal(count_resident(&f, 1, 8), 8);
    assert_int_equal(count_resident(&f, 101, 2), 2);
    l1_fixture_fini(&f);
}

static void a_reservation_does_not_evict_itself(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 300);
    key_list list;
    lmc_object_ref refs[400];
    lmc_reserve_result results[400];
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 400), 400, UNIT, refs, results);
    for (int i = 0; i < 400; i++)
        assert_int_equal(results[i], i < 300 ? LMC_RESERVED : LMC_RESERVE_NO_MEMORY);
    assert_int_equal(f.seen.no_memory, 100);
    lmc_l1_discard(f.l1, refs, 400);
    assert_int_equal(report_of(&f).used_bytes, 0);
    l1_fixture_fini(&f);
}

static void noop_keeps_everything(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 10);
    f.config.policy = LMC_EVICT_NONE;
    l1_fixture_open(&f);
    store(&f, 1, 10, UNIT);
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_touch(f.l1, keys_from(&f, &list, 1, 10), 10);
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 101, 1), 1, UNIT, &ref, &result);
    assert_int_equal(result, LMC_RESERVE_NO_MEMORY);
    lmc_l1_evict_round(f.l1);
    assert_int_equal(f.seen.evicted, 0);
    assert_int_equal(report_of(&f).resident_count, 10);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(report_of(&f).resident_count, 0);
    l1_fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_request_the_last_chunks_go_first),
        cmocka_unit_test(below_the_watermark_nothing_goes),
        cmocka_unit_test(a_round_evicts_at_least_one),
        cmocka_unit_test(a_ratio_of_zero_evicts_nothing),
        cmocka_unit_test(touched_chunks_stay),
        cmocka_unit_test(all_shards_of_a_chunk_go_together_and_only_if_all_can),
        cmocka_unit_test(a_full_cache_makes_room_at_once),
        cmocka_unit_test(large_objects_get_room_from_many_small_ones),
        cmocka_unit_test(what_is_locked_never_goes_and_the_leading_keys_get_what_there_is),
        cmocka_unit_test(a_reservation_does_not_evict_itself),
        cmocka_unit_test(noop_keeps_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
