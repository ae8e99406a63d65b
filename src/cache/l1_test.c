#include "cache/l1_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_reserved_object_is_found_only_after_commit(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    key_list list;
    lmc_object_ref ref, read;
    lmc_reserve_result result;
    const lmc_l1_key *keys = keys_from(&f, &list, 1, 1);
    lmc_l1_reserve(f.l1, keys, 1, 100, &ref, &result);
    assert_int_equal(result, LMC_RESERVED);
    lmc_l1_acquire(f.l1, keys, 1, 1, &read);
    assert_int_equal(read, LMC_NO_OBJECT);
    assert_int_equal(report_of(&f).staging_count, 1);
    assert_int_equal(report_of(&f).staging_bytes, 100);
    memcpy(lmc_l1_data(f.l1, ref), "hello", 6);
    lmc_l1_commit(f.l1, &ref, 1);
    lmc_l1_acquire(f.l1, keys, 1, 1, &read);
    assert_int_not_equal(read, LMC_NO_OBJECT);
    assert_string_equal(lmc_l1_data(f.l1, read), "hello");
    assert_int_equal(lmc_l1_size(f.l1, read), 100);
    assert_int_equal(lmc_l1_offset(f.l1, read) % UNIT, 0);
    lmc_l1_release(f.l1, &read, 1, 1, true);
    assert_int_equal(f.seen.committed, 1);
    assert_int_equal(f.seen.read, 1);
    assert_string_equal(f.seen.last_salt, "salt");
    l1_fixture_fini(&f);
}

static void a_key_is_reserved_once(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    key_list list;
    lmc_object_ref refs[3];
    lmc_reserve_result results[3];
    const lmc_l1_key *keys = keys_from(&f, &list, 1, 1);
    lmc_l1_key twice[2] = {keys[0], keys[0]};
    lmc_l1_reserve(f.l1, twice, 2, UNIT, refs, results);
    assert_int_equal(results[0], LMC_RESERVED);
    assert_int_equal(results[1], LMC_RESERVE_STAGED);
    assert_int_equal(refs[1], LMC_NO_OBJECT);
    lmc_l1_commit(f.l1, refs, 1);
    lmc_l1_reserve(f.l1, keys, 1, UNIT, refs, results);
    assert_int_equal(results[0], LMC_RESERVE_RESIDENT);
    assert_int_equal(report_of(&f).used_bytes, UNIT);
    l1_fixture_fini(&f);
}

static void keys_differ_in_space_rank_and_group(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    lmc_key_space *other;
    assert_int_equal(lmc_key_space_get(f.l1, lmc_text("mode"), lmc_text("lsalt"), &other),
                     LMC_OK);
    assert_ptr_not_equal(other, f.space);
    uint8_t hash[LMC_HASH_SIZE];
    make_hash(5, hash);
    lmc_l1_key keys[4] = {{hash, f.space, 7, 0},
                          {hash, f.space, 7, 1},
                          {hash, f.space, 8, 0},
                          {hash, other, 7, 0}};
    lmc_object_ref refs[4];
    lmc_reserve_result results[4];
    lmc_l1_reserve(f.l1, keys, 4, UNIT, refs, results);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(results[i], LMC_RESERVED);
        *(int *)lmc_l1_data(f.l1, refs[i]) = i;
    }
    lmc_l1_commit(f.l1, refs, 4);
    lmc_l1_acquire(f.l1, keys, 4, 1, refs);
    for (int i = 0; i < 4; i++)
        assert_int_equal(*(int *)lmc_l1_data(f.l1, refs[i]), i);
    lmc_l1_release(f.l1, refs, 4, 1, false);
    lmc_key_space_drop(f.l1, other);
    l1_fixture_fini(&f);
}

static void a_discarded_object_was_never_there(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    key_list list;
    lmc_object_ref refs[4];
    lmc_reserve_result results[4];
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 4), 4, UNIT, refs, results);
    lmc_l1_discard(f.l1, refs, 4);
    lmc_l1_report report = report_of(&f);
    assert_int_equal(report.used_bytes, 0);
    assert_int_equal(report.staging_count, 0);
    assert_int_equal(report.staging_bytes, 0);
    assert_int_equal(f.seen.evicted, 0);
    assert_true(lmc_l1_check(f.l1));
    l1_fixture_fini(&f);
}

static void shares_are_counted_per_object(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    store(&f, 1, 1, UNIT);
    key_list list;
    lmc_object_ref ref;
    lmc_l1_acquire(f.l1, keys_from(&f, &list, 1, 1), 1, 3, &ref);
    lmc_l1_acquire_more(f.l1, &ref, 1, 2);
    assert_int_equal(report_of(&f).read_locked_count, 1);
    lmc_l1_release(f.l1, &ref, 1, 4, false);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(report_of(&f).resident_count, 1);
    lmc_l1_release(f.l1, &ref, 1, 1, false);
    assert_int_equal(report_of(&f).read_locked_count, 0);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(report_of(&f).resident_count, 0);
    assert_int_equal(f.seen.evicted, 1);
    assert_int_equal(f.seen.read, 0);
    l1_fixture_fini(&f);
}

static void a_cleared_object_keeps_its_bytes_until_its_reader_is_done(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 8);
    store(&f, 1, 8, UNIT);
    key_list list;
    lmc_object_ref ref;
    lmc_l1_acquire(f.l1, keys_from(&f, &list, 3, 1), 1, 2, &ref);
    memset(lmc_l1_data(f.l1, ref), 'x', UNIT);
    lmc_l1_clear(f.l1, true);
    lmc_l1_report report = report_of(&f);
    assert_int_equal(report.resident_count, 0);
    assert_int_equal(report.read_locked_count, 0);
    assert_int_equal(report.used_bytes, UNIT);
    assert_int_equal(f.seen.evicted, 8);
    assert_false(is_resident(&f, 3));
    store(&f, 3, 7, UNIT); /* the same key again, elsewhere */
    assert_int_equal(((char *)lmc_l1_data(f.l1, ref))[UNIT - 1], 'x');
    lmc_l1_release(f.l1, &ref, 1, 1, true);
    assert_int_equal(report_of(&f).used_bytes, 8 * UNIT);
    lmc_l1_release(f.l1, &ref, 1, 1, true);
    assert_int_equal(report_of(&f).used_bytes, 7 * UNIT);
    assert_int_equal(report_of(&f).read_locked_count, 0);
    assert_int_equal(f.seen.read, 2);
    assert_true(lmc_l1_check(f.l1));
    l1_fixture_fini(&f);
}

static void a_cleared_reservation_is_dropped_at_commit(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    key_list list;
    lmc_object_ref refs[2];
    lmc_reserve_result results[2];
    const lmc_l1_key *keys = keys_from(&f, &list, 1, 2);
    lmc_l1_reserve(f.l1, keys, 2, UNIT, refs, results);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(report_of(&f).staging_count, 2);
    lmc_l1_clear(f.l1, true);
    assert_int_equal(report_of(&f).staging_count, 0);
    assert_int_equal(report_of(&f).used_bytes, 2 * UNIT);
    lmc_object_ref again;
    lmc_l1_reserve(f.l1, keys, 1, UNIT, &again, results);
    assert_int_equal(results[0], LMC_RESERVED);
    lmc_l1_commit(f.l1, refs, 1);
    lmc_l1_discard(f.l1, refs + 1, 1);
    assert_false(is_resident(&f, 1));
    lmc_l1_commit(f.l1, &again, 1);
    assert_true(is_resident(&f, 1));
    assert_int_equal(f.seen.committed, 1);
    assert_int_equal(report_of(&f).used_bytes, UNIT);
    l1_fixture_fini(&f);
}

static void clear_keeps_what_is_locked_unless_forced(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 1024);
    store(&f, 1, 700, UNIT);
    key_list list;
    lmc_object_ref refs[600];
    lmc_l1_acquire(f.l1, keys_from(&f, &list, 101, 600), 600, 1, refs);
    lmc_l1_clear(f.l1, false);
    assert_int_equal(report_of(&f).resident_count, 600);
    assert_int_equal(f.seen.evicted, 100);
    lmc_l1_clear(f.l1, true);
    assert_int_equal(report_of(&f).resident_count, 0);
    assert_int_equal(f.seen.evicted, 700);
    assert_int_equal(report_of(&f).used_bytes, 600 * UNIT);
    lmc_l1_release(f.l1, refs, 600, 1, false);
    assert_int_equal(report_of(&f).used_bytes, 0);
    assert_true(lmc_l1_check(f.l1));
    l1_fixture_fini(&f);
}

static void an_object_that_can_never_fit_evicts_nothing(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 8);
    store(&f, 1, 8, UNIT);
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    const uint64_t sizes[] = {9 * UNIT, UINT64_MAX, UINT64_MAX - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lmc_l1_reserve(f.l1, keys_from(&f, &list, 50, 1), 1, sizes[i], &ref, &result);
        assert_int_equal(result, LMC_RESERVE_NO_MEMORY);
        assert_int_equal(ref, LMC_NO_OBJECT);
    }
    assert_int_equal(report_of(&f).resident_count, 8);
    assert_int_equal(f.seen.no_memory, 3);
    l1_fixture_fini(&f);
}

static void sizes_are_rounded_up_to_the_alignment(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    store(&f, 1, 1, UNIT + 1);
    store(&f, 2, 1, 0);
    assert_int_equal(report_of(&f).used_bytes, 3 * UNIT);
    l1_fixture_fini(&f);
}

static void bad_sizes_are_refused_by_name(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    lmc_l1 *l1 = NULL;
    lmc_l1_config config = l1_fixture_config(16);
    config.align = 4095;
    assert_int_equal(lmc_l1_create(&config, &lmc_system_clock, NULL, &l1, &error), LMC_INVALID);
    assert_non_null(strstr(error.text, "--l1-align-bytes"));
    lmc_error_clear(&error);
    config.align = 4096;
    config.capacity = 4095;
    assert_int_equal(lmc_l1_create(&config, &lmc_system_clock, NULL, &l1, &error), LMC_INVALID);
    assert_non_null(strstr(error.text, "--l1-size-gb"));
    assert_null(l1);
    lmc_l1_destroy(NULL);
}

static void a_huge_arena_of_small_units_can_be_made(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_prepare(&f, 0);
    f.config.capacity = UINT64_C(1) << 40;
    f.config.align = 64;
    l1_fixture_open(&f);
    store(&f, 1, 3, 1);
    assert_true(report_of(&f).used_bytes % 64 == 0);
    assert_true(report_of(&f).metadata_bytes < 64u << 20);
    l1_fixture_fini(&f);
}

static void a_space_lives_as_long_as_it_is_used(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    uint64_t before = report_of(&f).metadata_bytes;
    lmc_key_space *space, *same;
    lmc_slice model = lmc_text("another model"), salt = lmc_text("s");
    assert_int_equal(lmc_key_space_get(f.l1, model, salt, &space), LMC_OK);
    assert_int_equal(lmc_key_space_get(f.l1, model, salt, &same), LMC_OK);
    assert_ptr_equal(space, same);
    assert_true(lmc_slice_is(lmc_key_space_model(space), "another model"));
    assert_true(lmc_slice_is(lmc_key_space_salt(space), "s"));
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_reserve(f.l1, keys_of(&list, space, 1, 0, 1, 1), 1, UNIT, &ref, &result);
    lmc_key_space_drop(f.l1, space);
    lmc_key_space_drop(f.l1, same);
    lmc_key_space_drop(f.l1, NULL);
    lmc_l1_commit(f.l1, &ref, 1); /* the chunk still holds it */
    assert_string_equal(f.seen.last_salt, "s");
    lmc_l1_clear(f.l1, true);
    lmc_l1_report report = report_of(&f);
    assert_true(report.metadata_bytes - before < 256u * 1024);
    assert_int_equal(f.l1->spaces.table.count, 1);
    l1_fixture_fini(&f);
}

#ifndef NDEBUG
static void a_stale_reference_aborts_in_debug_builds(void **state) {
    (void)state;
    l1_fixture f;
    l1_fixture_init(&f, 64);
    key_list list;
    lmc_object_ref ref;
    lmc_reserve_result result;
    lmc_l1_reserve(f.l1, keys_from(&f, &list, 1, 1), 1, UNIT, &ref, &result);
    lmc_l1_discard(f.l1, &ref, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)!freopen("/dev/null", "w", stderr);
        (void)lmc_l1_offset(f.l1, ref);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    l1_fixture_fini(&f);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_object_is_found_only_after_commit),
        cmocka_unit_test(a_key_is_reserved_once),
        cmocka_unit_test(keys_differ_in_space_rank_and_group),
        cmocka_unit_test(a_discarded_object_was_never_there),
        cmocka_unit_test(shares_are_counted_per_object),
        cmocka_unit_test(a_cleared_object_keeps_its_bytes_until_its_reader_is_done),
        cmocka_unit_test(a_cleared_reservation_is_dropped_at_commit),
        cmocka_unit_test(clear_keeps_what_is_locked_unless_forced),
        cmocka_unit_test(an_object_that_can_never_fit_evicts_nothing),
        cmocka_unit_test(sizes_are_rounded_up_to_the_alignment),
        cmocka_unit_test(bad_sizes_are_refused_by_name),
        cmocka_unit_test(a_huge_arena_of_small_units_can_be_made),
        cmocka_unit_test(a_space_lives_as_long_as_it_is_used),
#ifndef NDEBUG
        cmocka_unit_test(a_stale_reference_aborts_in_debug_builds),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
