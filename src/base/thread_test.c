#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"
#include "support/alloc_fault.h"

/* --- Threads. --- */

typedef struct seen {
    char name[32];
    sigset_t blocked;
    int policy;
} seen;

static void look_around(void *arg) {
    seen *s = arg;
    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    lmc_thread_lowest_priority();
    s->policy = sched_getscheduler(0);
}

static void a_thread_has_its_name_and_leaves_signals_to_others(void **state) {
    (void)state;
    seen s = {.name = ""};
    lmc_thread thread;
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(
        lmc_thread_start(&thread, "a-name-that-is-too-long", look_around, &s, NULL), LMC_OK);
    lmc_thread_join(&thread);
    lmc_thread_join(&thread); /* no-op */
    assert_string_equal(s.name, "a-name-that-is-");
    assert_true(sigismember(&s.blocked, SIGTERM) && sigismember(&s.blocked, SIGINT));
    assert_false(sigismember(&s.blocked, SIGSEGV) || sigismember(&s.blocked, SIGBUS));
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

/* What the kernel grants cannot be seen everywhere; what must stay as it was can. */
static void short_slices_change_neither_policy_nor_niceness(void **state) {
    (void)state;
    int policy = sched_getscheduler(0);
    int nice = getpriority(PRIO_PROCESS, 0);
    lmc_thread_short_slices(true);
    assert_int_equal(sched_getscheduler(0), policy);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
    lmc_thread_short_slices(false);
    assert_int_equal(sched_getscheduler(0), policy);
    assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
}

static void a_thread_that_cannot_be_started_is_an_error(void **state) {
    (void)state;
    lmc_thread thread;
    lmc_error error = LMC_ERROR_INIT;
    lmc_fault_arm(1, false);
    assert_int_equal(lmc_thread_start(&thread, "x", look_around, NULL, &error), LMC_NO_MEMORY);
    lmc_fault_disarm();
    lmc_thread_join(&thread);
    assert_non_null(strstr(error.text, "thread x"));
}

/* --- Timers, on a clock that is moved by hand. --- */

static _Atomic int64_t hand_time;

static int64_t hand_now(const lmc_clock *clock) {
    (void)clock;
    return hand_time;
}
static const lmc_clock hand_clock = {hand_now, hand_now};

typedef struct tally {
    sem_t fired;
    _Atomic int count;
    lmc_timer *timer; /* cancelled from its own callback when set */
    sem_t go_on;      /* waited for by a callback that blocks */
    lmc_timers *timers;
} tally;

static lmc_timers *timers;

static int create_timers(void **state) {
    (void)state;
    hand_time = 0;
    return lmc_timers_create(&hand_clock, &timers, NULL);
}

static int destroy_timers(void **state) {
    (void)state;
    lmc_timers_destroy(timers);
    return 0;
}

static void count_up(void *arg) {
    tally *t = arg;
    lmc_lock_assert_none();
    t->count++;
    sem_post(&t->fired);
}

static void move_to(int64_t now) {
    hand_time = now;
    lmc_timers_poke(timers);
}

static void a_one_shot_timer_fires_once_when_it_is_due(void **state) {
    (void)state;
    tally early = {.count = 0}, late = {.count = 0};
    sem_init(&early.fired, 0, 0);
    sem_init(&late.fired, 0, 0);
    lmc_timer *handle;
    assert_int_equal(
        lmc_timer_start(timers, 2 * LMC_NS_PER_S, 0, "late", count_up, &late, &handle, NULL),
        0);
    assert_int_equal(
        lmc_timer_start(timers, LMC_NS_PER_S, 0, "early", count_up, &early, NULL, NULL), 0);
    move_to(LMC_NS_PER_S);
    sem_wait(&early.fired);
    assert_int_equal(late.count, 0);
    move_to(2 * LMC_NS_PER_S);
    sem_wait(&late.fired);
    lmc_timer_cancel(handle); /* still valid after it fired */
    lmc_timer_cancel(NULL);
    assert_int_equal(early.count, 1);
    assert_int_equal(late.count, 1);
}

static void timers_fire_in_the_order_of_their_deadlines(void **state) {
    (void)state;
    enum { COUNT = 200 };
    static tally tallies[COUNT];
    static lmc_timer *handles[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sem_init(&tallies[i].fired, 0, 0);
        tallies[i].count = 0;
        int64_t delay = (i * 37 % COUNT + 1) * LMC_NS_PER_S;
        assert_int_equal(
            lmc_timer_start(timers, delay, 0, "n", count_up, &tallies[i], &handles[i], NULL),
            0);
    }
    for (int i = 0; i < COUNT; i += 3)
        lmc_timer_cancel(handles[i]);
    move_to(COUNT / 2 * LMC_NS_PER_S);
    for (int i = 0; i < COUNT; i++) {
        if (i % 3 != 0 && i * 37 % COUNT + 1 <= COUNT / 2)
            sem_wait(&tallies[i].fired);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 3 != 0)
            lmc_timer_cancel(handles[i]);
        bool due = i % 3 != 0 && i * 37 % COUNT + 1 <= COUNT / 2;
        assert_int_equal(tallies[i].count, due);
    }
}

static void a_periodic_timer_skips_the_runs_it_missed(void **state) {
    (void)state;
    tally t = {.count = 0};
    sem_init(&t.fired, 0, 0);
    lmc_timer *handle;
    assert_int_equal(lmc_timer_start(timers, LMC_NS_PER_S, LMC_NS_PER_S, "beat", count_up, &t,
                                     &handle, NULL),
                     0);
    move_to(LMC_NS_PER_S);
    sem_wait(&t.fired);
    move_to(2 * LMC_NS_PER_S);
    sem_wait(&t.fired);
    move_to(100 * LMC_NS_PER_S);
    sem_wait(&t.fired);
    move_to(101 * LMC_NS_PER_S);
    sem_wait(&t.fired);
    lmc_timer_cancel(handle);
    assert_int_equal(t.count, 4);
}

static void cancel_itself(void *arg) {
    tally *t = arg;
    lmc_timer_cancel(t->timer);
    count_up(arg);
}

static void a_callback_may_cancel_its_own_timer(void **state) {
    (void)state;
    tally t = {.count = 0}, next = {.count = 0};
    sem_init(&t.fired, 0, 0);
    sem_init(&next.fired, 0, 0);
    lmc_timer_start(timers, LMC_NS_PER_S, LMC_NS_PER_S, "self", cancel_itself, &t, &t.timer,
                    NULL);
    move_to(LMC_NS_PER_S);
    sem_wait(&t.fired);
    lmc_timer_start(timers, LMC_NS_PER_S, 0, "next", count_up, &next, NULL, NULL);
    move_to(5 * LMC_NS_PER_S);
    sem_wait(&next.fired);
    assert_int_equal(t.count, 1);
}

static void block(void *arg) {
    tally *t = arg;
    sem_post(&t->fired);
    sem_wait(&t->go_on);
    t->count++;
}

static void release_soon(void *arg) {
    tally *t = arg;
    for (int i = 0; i < 100; i++)
        sched_yield();
    sem_post(&t->go_on);
}

static void cancel_waits_for_a_running_callback(void **state) {
    (void)state;
    tally t = {.count = 0};
    sem_init(&t.fired, 0, 0);
    sem_init(&t.go_on, 0, 0);
    lmc_thread helper;
    lmc_timer *handle;
    lmc_timer_start(timers, 0, 0, "blocks", block, &t, &handle, NULL);
    sem_wait(&t.fired);
    assert_int_equal(lmc_thread_start(&helper, "release", release_soon, &t, NULL), LMC_OK);
    lmc_timer_cancel(handle);
    assert_int_equal(t.count, 1);
    lmc_thread_join(&helper);
}

static void start_another(void *arg) {
    tally *t = arg;
    lmc_timer_start(t->timers, 0, 0, "second", count_up, t, NULL, NULL);
}

static void a_callback_may_start_a_timer(void **state) {
    (void)state;
    tally t = {.count = 0, .timers = timers};
    sem_init(&t.fired, 0, 0);
    lmc_timer_start(timers, 0, 0, "first", start_another, &t, NULL, NULL);
    sem_wait(&t.fired);
    assert_int_equal(t.count, 1);
}

typedef struct report_copy {
    int rows;
    lmc_timer_report last;
    char name[64];
} report_copy;

static void keep_report(void *arg, const lmc_timer_report *row) {
    report_copy *copy = arg;
    lmc_lock_assert_none();
    copy->rows++;
    copy->last = *row;
    strncpy(copy->name, row->name, sizeof copy->name - 1);
}

static void periodic_timers_report_themselves(void **state) {
    (void)state;
    tally t = {.count = 0}, after = {.count = 0};
    sem_init(&t.fired, 0, 0);
    sem_init(&after.fired, 0, 0);
    lmc_timer *handle, *once;
    lmc_timer_start(timers, 9 * LMC_NS_PER_S, 0, "one shot", count_up, &after, &once, NULL);
    lmc_timer_start(timers, LMC_NS_PER_S, LMC_NS_PER_S, "beat", count_up, &t, &handle, NULL);
    report_copy copy = {.rows = 0};
    lmc_timers_each(timers, keep_report, &copy);
    assert_int_equal(copy.rows, 1);
    assert_string_equal(copy.name, "beat");
    assert_int_equal(copy.last.last_run_ago_ns, -1);
    assert_int_equal(copy.last.runs, 0);
    move_to(LMC_NS_PER_S);
    sem_wait(&t.fired);
    lmc_timer_start(timers, 0, 0, "after", count_up, &after, NULL, NULL);
    sem_wait(&after.fired); /* so the periodic callback has returned */
    hand_time = LMC_NS_PER_S + 7;
    copy.rows = 0;
    lmc_timers_each(timers, keep_report, &copy);
    assert_int_equal(copy.last.runs, 1);
    assert_int_equal(copy.last.last_run_ago_ns, 7);
    assert_int_equal(copy.last.period_ns, LMC_NS_PER_S);
    lmc_timer_cancel(handle);
    lmc_timer_cancel(once);
}

static void destroying_drops_what_is_pending(void **state) {
    (void)state;
    tally t = {.count = 0};
    sem_init(&t.fired, 0, 0);
    lmc_timers *own;
    lmc_timer *handle;
    assert_int_equal(lmc_timers_create(&lmc_system_clock, &own, NULL), LMC_OK);
    lmc_timer_start(own, 3600 * LMC_NS_PER_S, 0, "far", count_up, &t, &handle, NULL);
    lmc_timer_start(own, 0, 0, "now", count_up, &t, NULL, NULL);
    sem_wait(&t.fired);
    lmc_timers_destroy(own);
    lmc_timers_destroy(NULL);
    assert_int_equal(t.count, 1);
}

static void a_timer_without_memory_is_an_error(void **state) {
    (void)state;
    tally t = {.count = 0};
    for (uint64_t nth = 1; nth <= 2; nth++) {
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(nth, false);
        assert_int_equal(lmc_timer_start(timers, 0, 0, "t", count_up, &t, NULL, &error),
                         LMC_NO_MEMORY);
        lmc_fault_disarm();
        assert_non_null(strstr(error.text, "timer t"));
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        lmc_timers *none = NULL;
        lmc_fault_arm(nth, false);
        assert_int_equal(lmc_timers_create(&hand_clock, &none, NULL), LMC_NO_MEMORY);
        lmc_fault_disarm();
        assert_null(none);
    }
    assert_int_equal(t.count, 0);
}

#define WITH_TIMERS(test) cmocka_unit_test_setup_teardown(test, create_timers, destroy_timers)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_its_name_and_leaves_signals_to_others),
        cmocka_unit_test(short_slices_change_neither_policy_nor_niceness),
        cmocka_unit_test(a_thread_that_cannot_be_started_is_an_error),
        WITH_TIMERS(a_one_shot_timer_fires_once_when_it_is_due),
        WITH_TIMERS(timers_fire_in_the_order_of_their_deadlines),
        WITH_TIMERS(a_periodic_timer_skips_the_runs_it_missed),
        WITH_TIMERS(a_callback_may_cancel_its_own_timer),
        WITH_TIMERS(cancel_waits_for_a_running_callback),
        WITH_TIMERS(a_callback_may_start_a_timer),
        WITH_TIMERS(periodic_timers_report_themselves),
        WITH_TIMERS(a_timer_without_memory_is_an_error),
        cmocka_unit_test(destroying_drops_what_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
