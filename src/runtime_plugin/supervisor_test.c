/* The life of a plugin, by a clock of the test's own. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/supervisor.h"

#define S LMC_NS_PER_S
#define GRACE (5 * S)

static lmc_supervisor make(lmc_plugin_policy policy, int64_t max_restarts, bool ready_fd) {
    lmc_supervisor s;
    lmc_plugin_options options;
    lmc_plugin_options_default(&options);
    options.restart = policy;
    options.max_restarts = max_restarts;
    options.ready_fd = ready_fd;
    lmc_supervisor_init(&s, &options, GRACE, 12345);
    return s;
}

static void a_plugin_runs_once_it_is_up_for_a_second(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_NEVER, 10, false);
    assert_true(lmc_supervisor_is_final(&s));
    assert_int_equal(lmc_supervisor_start(&s, 10 * S), LMC_ORDER_SPAWN);
    assert_int_equal(lmc_supervisor_start(&s, 10 * S), LMC_ORDER_NOTHING);
    assert_int_equal(s.state, LMC_PLUGIN_STARTING);
    assert_int_equal(lmc_supervisor_deadline(&s), 11 * S);
    lmc_supervisor_tick(&s, 11 * S - 1);
    assert_int_equal(s.state, LMC_PLUGIN_STARTING);
    lmc_supervisor_tick(&s, 11 * S);
    assert_int_equal(s.state, LMC_PLUGIN_RUNNING);
}

static void with_a_descriptor_it_runs_once_it_says_so(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_NEVER, 10, true);
    lmc_supervisor_start(&s, 0);
    assert_int_equal(lmc_supervisor_deadline(&s), INT64_MAX);
    lmc_supervisor_tick(&s, 1000 * S);
    assert_int_equal(s.state, LMC_PLUGIN_STARTING);
    lmc_supervisor_ready(&s);
    assert_int_equal(s.state, LMC_PLUGIN_RUNNING);
    lmc_supervisor_ready(&s);
    assert_int_equal(s.state, LMC_PLUGIN_RUNNING);
}

static void policies_decide_about_another_start(void **state) {
    (void)state;
    static const struct {
        lmc_plugin_policy policy;
        bool failed;
        lmc_plugin_state state;
    } cases[] = {{LMC_PLUGIN_NEVER, true, LMC_PLUGIN_EXITED},
                 {LMC_PLUGIN_NEVER, false, LMC_PLUGIN_EXITED},
                 {LMC_PLUGIN_ON_FAILURE, true, LMC_PLUGIN_BACKOFF},
                 {LMC_PLUGIN_ON_FAILURE, false, LMC_PLUGIN_EXITED},
                 {LMC_PLUGIN_ALWAYS, true, LMC_PLUGIN_BACKOFF},
                 {LMC_PLUGIN_ALWAYS, false, LMC_PLUGIN_BACKOFF}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_supervisor s = make(cases[i].policy, 10, false);
        lmc_supervisor_start(&s, 0);
        lmc_supervisor_exited(&s, cases[i].failed, S);
        assert_int_equal(s.state, cases[i].state);
    }
}

static void delays_double_with_jitter_from_one_to_sixty_seconds(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ALWAYS, 0, false);
    int64_t now = 0, seen[40];
    bool varied = false;
    lmc_supervisor_start(&s, now);
    for (int i = 0; i < 40; i++) {
        int64_t base = i < 6 ? S << i : 60 * S;
        lmc_supervisor_exited(&s, true, now);
        seen[i] = lmc_supervisor_deadline(&s) - now;
        assert_in_range(seen[i], base * 3 / 4 < S ? S : base * 3 / 4,
                        base * 5 / 4 > 60 * S ? 60 * S : base * 5 / 4);
        varied = varied || (i > 6 && seen[i] != seen[i - 1]);
        now = lmc_supervisor_deadline(&s);
        assert_int_equal(lmc_supervisor_tick(&s, now - 1), LMC_ORDER_NOTHING);
        assert_int_equal(lmc_supervisor_tick(&s, now), LMC_ORDER_SPAWN);
        assert_int_equal(s.restarts, i + 1);
    }
    assert_true(varied);
}

static void it_is_given_up_after_so_many_restarts_in_a_row(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ON_FAILURE, 3, false);
    int64_t now = 0;
    lmc_supervisor_start(&s, now);
    for (int i = 0; i < 3; i++) {
        lmc_supervisor_exited(&s, true, now);
        assert_int_equal(s.state, LMC_PLUGIN_BACKOFF);
        now = lmc_supervisor_deadline(&s);
        lmc_supervisor_tick(&s, now);
    }
    lmc_supervisor_exited(&s, true, now);
    assert_int_equal(s.state, LMC_PLUGIN_FATAL);
    assert_int_equal(lmc_supervisor_deadline(&s), INT64_MAX);
    assert_int_equal(lmc_supervisor_start(&s, now), LMC_ORDER_SPAWN); /* a person may */
    assert_int_equal(s.in_a_row, 0);
}

static void five_minutes_of_life_forget_earlier_restarts(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ALWAYS, 2, false);
    lmc_supervisor_start(&s, 0);
    lmc_supervisor_exited(&s, true, 0);
    lmc_supervisor_tick(&s, 2 * S);
    lmc_supervisor_exited(&s, true, 2 * S);
    lmc_supervisor_tick(&s, 10 * S);
    assert_int_equal(s.in_a_row, 2);
    lmc_supervisor_tick(&s, 11 * S);
    assert_int_equal(s.state, LMC_PLUGIN_RUNNING);
    lmc_supervisor_tick(&s, 310 * S);
    assert_int_equal(s.in_a_row, 0);
    lmc_supervisor_exited(&s, true, 320 * S);
    assert_int_equal(s.state, LMC_PLUGIN_BACKOFF);
    assert_in_range(lmc_supervisor_deadline(&s), 321 * S, 322 * S);
}

static void a_stop_waits_for_the_last_process_and_kills_after_the_grace(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ALWAYS, 10, false);
    lmc_supervisor_start(&s, 0);
    assert_int_equal(lmc_supervisor_stop(&s, true, 10 * S), LMC_ORDER_TERM);
    assert_int_equal(lmc_supervisor_stop(&s, true, 11 * S), LMC_ORDER_NOTHING);
    lmc_supervisor_exited(&s, true, 12 * S);
    assert_int_equal(s.state, LMC_PLUGIN_STOPPING); /* something is left */
    assert_int_equal(lmc_supervisor_tick(&s, 15 * S - 1), LMC_ORDER_NOTHING);
    assert_int_equal(lmc_supervisor_tick(&s, 15 * S), LMC_ORDER_KILL);
    assert_int_equal(lmc_supervisor_tick(&s, 16 * S), LMC_ORDER_KILL); /* again */
    assert_int_equal(lmc_supervisor_emptied(&s, 16 * S), LMC_ORDER_NOTHING);
    assert_int_equal(s.state, LMC_PLUGIN_EXITED); /* a stop is no failure */
    assert_int_equal(lmc_supervisor_stop(&s, false, 17 * S), LMC_ORDER_NOTHING);
    assert_int_equal(lmc_supervisor_stop(&s, true, 17 * S), LMC_ORDER_TERM); /* left behind */
}

static void a_stop_ends_the_wait_for_another_start(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ALWAYS, 10, false);
    lmc_supervisor_start(&s, 0);
    lmc_supervisor_exited(&s, true, S);
    assert_int_equal(lmc_supervisor_stop(&s, false, S), LMC_ORDER_NOTHING);
    assert_int_equal(s.state, LMC_PLUGIN_EXITED);
    assert_int_equal(lmc_supervisor_tick(&s, 100 * S), LMC_ORDER_NOTHING);
}

static void a_start_ends_the_wait_for_another_start(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_ALWAYS, 10, false);
    lmc_supervisor_start(&s, 0);
    lmc_supervisor_exited(&s, true, S);
    assert_int_equal(lmc_supervisor_start(&s, S), LMC_ORDER_SPAWN);
}

static void a_restart_is_a_stop_and_a_start(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_NEVER, 10, false);
    lmc_supervisor_start(&s, 0);
    assert_int_equal(lmc_supervisor_restart(&s, false, S), LMC_ORDER_TERM);
    lmc_supervisor_exited(&s, true, 2 * S);
    assert_int_equal(lmc_supervisor_emptied(&s, 2 * S), LMC_ORDER_SPAWN);
    assert_int_equal(s.state, LMC_PLUGIN_STARTING);
    assert_int_equal(s.restarts, 1);
    lmc_supervisor_exited(&s, false, 3 * S);
    assert_int_equal(lmc_supervisor_restart(&s, false, 4 * S), LMC_ORDER_SPAWN);
    assert_int_equal(lmc_supervisor_restart(&s, false, 4 * S), LMC_ORDER_TERM);
    assert_int_equal(lmc_supervisor_stop(&s, false, 4 * S), LMC_ORDER_NOTHING); /* after all */
    assert_int_equal(lmc_supervisor_emptied(&s, 5 * S), LMC_ORDER_NOTHING);
    assert_int_equal(s.state, LMC_PLUGIN_EXITED);
}

static void a_start_during_a_stop_follows_it(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_NEVER, 10, false);
    lmc_supervisor_start(&s, 0);
    lmc_supervisor_stop(&s, false, S);
    assert_int_equal(lmc_supervisor_start(&s, S), LMC_ORDER_NOTHING);
    assert_int_equal(lmc_supervisor_emptied(&s, 2 * S), LMC_ORDER_SPAWN);
}

static void what_cannot_start_is_fatal(void **state) {
    (void)state;
    lmc_supervisor s = make(LMC_PLUGIN_NEVER, 10, false);
    lmc_supervisor_start(&s, 0);
    lmc_supervisor_unable(&s);
    assert_int_equal(s.state, LMC_PLUGIN_FATAL);
    lmc_supervisor_exited(&s, true, S);
    assert_int_equal(s.state, LMC_PLUGIN_FATAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_runs_once_it_is_up_for_a_second),
        cmocka_unit_test(with_a_descriptor_it_runs_once_it_says_so),
        cmocka_unit_test(policies_decide_about_another_start),
        cmocka_unit_test(delays_double_with_jitter_from_one_to_sixty_seconds),
        cmocka_unit_test(it_is_given_up_after_so_many_restarts_in_a_row),
        cmocka_unit_test(five_minutes_of_life_forget_earlier_restarts),
        cmocka_unit_test(a_stop_waits_for_the_last_process_and_kills_after_the_grace),
        cmocka_unit_test(a_stop_ends_the_wait_for_another_start),
        cmocka_unit_test(a_start_ends_the_wait_for_another_start),
        cmocka_unit_test(a_restart_is_a_stop_and_a_start),
        cmocka_unit_test(a_start_during_a_stop_follows_it),
        cmocka_unit_test(what_cannot_start_is_fatal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
