#include "module/liveness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"

#define LONG_NS (60 * LMC_NS_PER_S)

/* A module with instance state of its own, as far as liveness sees it. */
typedef struct fake_module {
    int64_t stale[2]; /* ids its next scan reaps */
    size_t stale_count;
    int64_t tracked;
    atomic_int touched, dropped;
    _Atomic int64_t last_dropped;
    atomic_bool *hang_until; /* drop waits for this */
} fake_module;

static void pause_briefly(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void touch(void *self, int64_t id) {
    (void)id;
    atomic_fetch_add(&((fake_module *)self)->touched, 1);
}

static void reap(void *self, int64_t timeout_ns, int64_t grace_ns,
                 void (*found)(void *arg, int64_t id), void *arg) {
    fake_module *module = self;
    (void)timeout_ns;
    (void)grace_ns;
    for (size_t i = 0; i < module->stale_count; i++)
        found(arg, module->stale[i]);
    module->stale_count = 0;
}

static int64_t tracked(void *self) { return ((fake_module *)self)->tracked; }

static void drop(void *self, int64_t id) {
    fake_module *module = self;
    while (module->hang_until != NULL && !atomic_load(module->hang_until))
        pause_briefly();
    atomic_store(&module->last_dropped, id);
    atomic_fetch_add(&module->dropped, 1);
}

static const lmc_liveness table = {.touch_instance = touch,
                                   .reap_stale_instances = reap,
                                   .tracked_instance_count = tracked,
                                   .drop_instance_state = drop};

static lmc_liveness_set *set_of(fake_module *a, fake_module *b, bool outside) {
    lmc_liveness_set *set = lmc_liveness_create();
    assert_non_null(set);
    assert_int_equal(lmc_liveness_add(set, "A", &table, a, outside, NULL), LMC_OK);
    if (b != NULL)
        assert_int_equal(lmc_liveness_add(set, "B", &table, b, false, NULL), LMC_OK);
    return set;
}

static void every_member_drops_what_any_member_reaped(void **state) {
    (void)state;
    fake_module a = {.stale = {11, 12}, .stale_count = 2},
                b = {.stale = {13}, .stale_count = 1};
    lmc_liveness_set *set = set_of(&a, &b, false);
    lmc_liveness_scan(set, 1, 1);
    assert_true(lmc_liveness_stop(set, LONG_NS));
    assert_int_equal(a.dropped, 3);
    assert_int_equal(b.dropped, 3);
    assert_int_equal(a.last_dropped, 13);
    lmc_liveness_destroy(set);
}

static void a_slow_drop_delays_no_other_member(void **state) {
    (void)state;
    atomic_bool go_on = false;
    fake_module a = {.stale = {1}, .stale_count = 1, .hang_until = &go_on}, b = {0};
    lmc_liveness_set *set = set_of(&a, &b, false);
    lmc_liveness_scan(set, 1, 1);
    while (atomic_load(&b.dropped) == 0)
        pause_briefly();
    assert_int_equal(a.dropped, 0);
    atomic_store(&go_on, true);
    assert_true(lmc_liveness_stop(set, LONG_NS));
    assert_int_equal(a.dropped, 1);
    lmc_liveness_destroy(set);
}

static void stopping_does_not_wait_for_ever_for_a_drop(void **state) {
    (void)state;
    atomic_bool go_on = false;
    fake_module a = {.stale = {1}, .stale_count = 1, .hang_until = &go_on};
    lmc_liveness_set *set = set_of(&a, NULL, false);
    lmc_liveness_scan(set, 1, 1);
    assert_false(lmc_liveness_stop(set, LMC_NS_PER_MS));
    atomic_store(&go_on, true);
    assert_true(lmc_liveness_stop(set, LONG_NS));
    lmc_liveness_destroy(set);
}

static void only_members_from_outside_are_touched_here(void **state) {
    (void)state;
    fake_module outside = {0}, built_in = {0};
    lmc_liveness_set *set = set_of(&outside, &built_in, true);
    assert_true(lmc_liveness_has_outside(set));
    lmc_liveness_touch(set, 5);
    while (atomic_load(&outside.touched) == 0)
        pause_briefly();
    assert_true(lmc_liveness_stop(set, LONG_NS));
    assert_int_equal(built_in.touched, 0);
    lmc_liveness_destroy(set);
}

static void tracked_instances_are_summed(void **state) {
    (void)state;
    fake_module a = {.tracked = 2}, b = {.tracked = 5};
    lmc_liveness_set *set = set_of(&a, &b, false);
    assert_int_equal(lmc_liveness_members(set), 2);
    assert_int_equal(lmc_liveness_tracked(set), 7);
    assert_false(lmc_liveness_has_outside(set));
    lmc_liveness_destroy(set);
}

static void the_reaper_scans_members_that_came_after_it(void **state) {
    (void)state;
    fake_module a = {0}, late = {.stale = {21}, .stale_count = 1};
    lmc_liveness_set *set = set_of(&a, NULL, false);
    assert_int_equal(lmc_liveness_start(set, 40 * LMC_NS_PER_MS, LONG_NS, NULL), LMC_OK);
    assert_int_equal(lmc_liveness_add(set, "Late", &table, &late, true, NULL), LMC_OK);
    while (atomic_load(&a.dropped) == 0)
        pause_briefly();
    assert_int_equal(a.last_dropped, 21);
    lmc_liveness_report report = {0};
    while (report.runs == 0) {
        lmc_liveness_report_get(set, &report);
        pause_briefly();
    }
    assert_true(report.running && report.last_run_ns > 0);
    assert_int_equal(report.period_ns, 10 * LMC_NS_PER_MS);
    assert_true(lmc_liveness_stop(set, LONG_NS));
    lmc_liveness_report_get(set, &report);
    assert_false(report.running);
    lmc_liveness_destroy(set);
}

static void a_table_with_a_hole_is_refused(void **state) {
    (void)state;
    static const lmc_liveness hole = {.touch_instance = touch};
    lmc_error error = LMC_ERROR_INIT;
    lmc_liveness_set *set = lmc_liveness_create();
    assert_int_equal(lmc_liveness_add(set, "Hole", &hole, NULL, true, &error), LMC_INVALID);
    assert_string_equal(error.text, "Hole has an incomplete liveness table");
    lmc_liveness_destroy(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_drops_what_any_member_reaped),
        cmocka_unit_test(a_slow_drop_delays_no_other_member),
        cmocka_unit_test(stopping_does_not_wait_for_ever_for_a_drop),
        cmocka_unit_test(only_members_from_outside_are_touched_here),
        cmocka_unit_test(tracked_instances_are_summed),
        cmocka_unit_test(the_reaper_scans_members_that_came_after_it),
        cmocka_unit_test(a_table_with_a_hole_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
