#include "module/closing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

#define LONG_NS (60 * LMC_NS_PER_S)
#define SHORT_NS (20 * LMC_NS_PER_MS)

static char closed[16];
static atomic_bool release_hung, took_over;

static void close_and_note(void *self) { strncat(closed, self, 1); }

/* Hangs until the take-over has happened. */
static void close_and_hang(void *self) {
    (void)self;
    while (!atomic_load(&release_hung))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void take_over(void *arg) {
    (void)arg;
    atomic_store(&took_over, true);
    atomic_store(&release_hung, true);
}

static int set_up(void **state) {
    (void)state;
    closed[0] = '\0';
    atomic_store(&release_hung, false);
    atomic_store(&took_over, false);
    return 0;
}

static void steps_run_in_the_order_given(void **state) {
    (void)state;
    const lmc_closing steps[] = {{"First", close_and_note, "1"},
                                 {"Nothing", NULL, NULL},
                                 {"Second", close_and_note, "2"}};
    assert_true(lmc_close_in_order(steps, 3, LONG_NS, take_over, NULL));
    assert_string_equal(closed, "12");
    assert_false(atomic_load(&took_over));
}

static void a_step_that_hangs_is_abandoned_and_the_rest_is_done(void **state) {
    (void)state;
    const lmc_closing steps[] = {{"First", close_and_note, "1"},
                                 {"Hung", close_and_hang, NULL},
                                 {"Last", close_and_note, "2"}};
    assert_false(lmc_close_in_order(steps, 3, SHORT_NS, take_over, NULL));
    assert_string_equal(closed, "12");
    assert_true(atomic_load(&took_over));
}

static void two_steps_that_hang_are_both_abandoned(void **state) {
    (void)state;
    const lmc_closing steps[] = {{"Hung", close_and_hang, NULL},
                                 {"HungToo", close_and_hang, NULL},
                                 {"Last", close_and_note, "3"}};
    assert_false(lmc_close_in_order(steps, 3, SHORT_NS, take_over, NULL));
    assert_string_equal(closed, "3");
    assert_true(atomic_load(&took_over));
}

static void nothing_to_close_is_done_at_once(void **state) {
    (void)state;
    assert_true(lmc_close_in_order(NULL, 0, LONG_NS, take_over, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(steps_run_in_the_order_given, set_up),
        cmocka_unit_test_setup(a_step_that_hangs_is_abandoned_and_the_rest_is_done, set_up),
        cmocka_unit_test_setup(two_steps_that_hang_are_both_abandoned, set_up),
        cmocka_unit_test_setup(nothing_to_close_is_done_at_once, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
