/* Every allocation of a scenario fails in turn, once and from there on. */
#include "cache/l1_fixture.h"
#include "support/alloc_fault.h"

/* Stores, reads, clears; tolerates failures, and checks at the end that nothing is stuck. */
static void scenario(l1_fixture *f) {
    key_list list;
    lmc_object_ref refs[64];
    lmc_reserve_result results[64];
    lmc_key_space *space = NULL;
    if (lmc_key_space_get(f->l1, lmc_text("model"), lmc_text("s"), &space) != LMC_OK)
        return;
    for (uint64_t round = 0; round < 3; round++) {
        const lmc_l1_key *keys = keys_of(&list, space, round, 0, 1 + 32 * round, 64);
        lmc_l1_reserve(f->l1, keys, 64, 3 * UNIT, refs, results);
        bool missing = false;
        for (int i = 0; i < 64; i++) {
            assert_int_equal(refs[i] != LMC_NO_OBJECT, results[i] == LMC_RESERVED);
            missing |= results[i] == LMC_RESERVE_NO_MEMORY;
            assert_true(!missing || results[i] != LMC_RESERVED); /* the leading ones only */
        }
        lmc_l1_discard(f->l1, refs, 8);
        lmc_l1_commit(f->l1, refs + 8, 56);
        lmc_l1_acquire(f->l1, keys, 64, 2, refs);
        if (round == 1)
            lmc_l1_clear(f->l1, true);
        lmc_l1_release(f->l1, refs, 64, 2, true);
        lmc_l1_evict_round(f->l1);
    }
    lmc_key_space_drop(f->l1, space);
}

static void check_nothing_is_stuck(l1_fixture *f) {
    lmc_l1_report report = report_of(f);
    assert_true(report.is_sound);
    assert_int_equal(report.staging_count, 0);
    assert_int_equal(report.read_locked_count, 0);
    assert_int_equal(report.used_bytes, report.resident_count * 3 * UNIT);
    assert_true(lmc_l1_check(f->l1));
    lmc_l1_clear(f->l1, false);
    report = report_of(f);
    assert_int_equal(report.resident_count, 0);
    assert_int_equal(report.used_bytes, 0);
    assert_int_equal(f->l1->spaces.table.count, 0);
}

/* One run with the nth allocation failing; false: there are fewer. */
static bool run_with_failure(uint64_t nth, bool persistent) {
    l1_fixture f;
    l1_fixture_prepare(&f, 100);
    lmc_fault_arm(nth, persistent);
    lmc_status status = l1_fixture_try(&f);
    if (status == LMC_OK)
        scenario(&f);
    bool hit = lmc_fault_hit();
    lmc_fault_disarm();
    if (status != LMC_OK) {
        assert_true(hit);
        return true;
    }
    check_nothing_is_stuck(&f);
    lmc_l1_destroy(f.l1);
    return hit;
}

static void any_one_failing_allocation_is_survived(void **state) {
    (void)state;
    uint64_t nth = 1;
    while (run_with_failure(nth, false))
        nth++;
    assert_true(nth > 10);
}

static void memory_that_stays_away_is_survived(void **state) {
    (void)state;
    uint64_t nth = 1;
    while (run_with_failure(nth, true))
        nth++;
    assert_true(nth > 10);
}

static void a_failing_start_says_so(void **state) {
    (void)state;
    lmc_l1_config config = l1_fixture_config(16);
    for (uint64_t nth = 1;; nth++) {
        lmc_l1 *l1 = NULL;
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_l1_create(&config, &lmc_system_clock, NULL, &l1, &error);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status == LMC_OK, l1 != NULL);
        assert_int_equal(status == LMC_OK, error.text[0] == '\0');
        lmc_l1_destroy(l1);
        if (!hit)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_one_failing_allocation_is_survived),
        cmocka_unit_test(memory_that_stays_away_is_survived),
        cmocka_unit_test(a_failing_start_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
