#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

static lmc_lock outer, inner;

static int set_up(void **state) {
    (void)state;
    lmc_lock_init(&outer, LMC_RANK_SESSIONS, "sessions");
    lmc_lock_init(&inner, LMC_RANK_L1, "objects");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lmc_lock_fini(&inner);
    lmc_lock_fini(&outer);
    return 0;
}

#ifndef NDEBUG
/* Runs broken() in a child and gives what it said before it aborted. */
static void assert_aborts(void (*broken)(void), const char *first, const char *second) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        broken();
        _exit(0);
    }
    close(ends[1]);
    char said[512] = "";
    ssize_t size = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT);
    assert_true(size > 0);
    assert_non_null(strstr(said, first));
    assert_non_null(strstr(said, second));
}

static void take_in_wrong_order(void) {
    lmc_lock_take(&inner);
    lmc_lock_take(&outer);
}
static void try_in_wrong_order(void) {
    lmc_lock_take(&inner);
    lmc_lock_try(&outer);
}
static void take_twice(void) {
    lmc_lock_take(&inner);
    lmc_lock_take(&inner);
}
static void call_out_with_a_lock(void) {
    lmc_lock_take(&outer);
    lmc_lock_assert_none();
}
static void drop_what_is_not_held(void) { lmc_lock_drop(&outer); }

static void a_broken_order_aborts_with_both_names(void **state) {
    (void)state;
    assert_aborts(take_in_wrong_order, "sessions", "objects");
    assert_aborts(try_in_wrong_order, "sessions", "objects");
    assert_aborts(take_twice, "taken twice", "objects");
    assert_aborts(call_out_with_a_lock, "calling out", "sessions");
    assert_aborts(drop_what_is_not_held, "without being held", "sessions");
}
#endif

static void locks_nest_by_rank_and_drop_in_any_order(void **state) {
    (void)state;
    lmc_lock_take(&outer);
    lmc_lock_take(&inner);
    lmc_lock_drop(&outer);
    lmc_lock_drop(&inner);
    lmc_lock_assert_none();
    assert_true(lmc_lock_try(&inner));
    lmc_lock_drop(&inner);
    lmc_lock_take(&outer);
    lmc_lock_drop(&outer);
}

static void try_from_another_thread(void *arg) { *(bool *)arg = lmc_lock_try(&outer); }

static void a_lock_that_is_held_cannot_be_had(void **state) {
    (void)state;
    bool got = true;
    lmc_thread thread;
    lmc_lock_take(&outer);
    assert_int_equal(lmc_thread_start(&thread, "try", try_from_another_thread, &got, NULL), 0);
    lmc_thread_join(&thread);
    lmc_lock_drop(&outer);
    assert_false(got);
}

static void hold_times_are_measured_when_asked_for(void **state) {
    (void)state;
    lmc_lock_take(&outer);
    lmc_lock_measure(true);
    lmc_lock_drop(&outer);
    assert_int_equal(lmc_lock_longest_ns(&outer), 0);
    lmc_lock_take(&outer);
    for (int64_t end = lmc_now(&lmc_system_clock) + 1000; lmc_now(&lmc_system_clock) < end;)
        ;
    lmc_lock_drop(&outer);
    lmc_lock_measure(false);
    assert_true(lmc_lock_longest_ns(&outer) >= 1000);
    assert_int_equal(lmc_lock_longest_ns(&outer), 0);
}

typedef struct hand_off {
    lmc_cond cond;
    int turn;
} hand_off;

static void take_turns(void *arg) {
    hand_off *h = arg;
    lmc_lock_take(&outer);
    for (int i = 0; i < 100; i++) {
        while (h->turn % 2 == 0)
            lmc_cond_wait(&h->cond, &outer);
        h->turn++;
        lmc_cond_signal(&h->cond);
    }
    lmc_lock_drop(&outer);
}

static void waiting_gives_the_lock_away_and_takes_it_back(void **state) {
    (void)state;
    hand_off h = {.turn = 0};
    lmc_cond_init(&h.cond);
    lmc_thread thread;
    assert_int_equal(lmc_thread_start(&thread, "turns", take_turns, &h, NULL), 0);
    lmc_lock_take(&outer);
    for (int i = 0; i < 100; i++) {
        while (h.turn % 2 == 1)
            lmc_cond_wait(&h.cond, &outer);
        h.turn++;
        lmc_cond_broadcast(&h.cond);
    }
    lmc_lock_drop(&outer);
    lmc_thread_join(&thread);
    assert_int_equal(h.turn, 200);
    lmc_cond_fini(&h.cond);
}

static void a_deadline_in_the_past_times_out(void **state) {
    (void)state;
    lmc_cond cond;
    lmc_cond_init(&cond);
    lmc_lock_take(&outer);
    assert_false(lmc_cond_wait_until(&cond, &outer, -5));
    assert_false(lmc_cond_wait_until(&cond, &outer, lmc_now(&lmc_system_clock) + 1000));
    lmc_lock_drop(&outer);
    lmc_cond_fini(&cond);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifndef NDEBUG
        cmocka_unit_test_setup_teardown(a_broken_order_aborts_with_both_names, set_up,
                                        tear_down),
#endif
        cmocka_unit_test_setup_teardown(locks_nest_by_rank_and_drop_in_any_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(hold_times_are_measured_when_asked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(waiting_gives_the_lock_away_and_takes_it_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_deadline_in_the_past_times_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_that_is_held_cannot_be_had, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
