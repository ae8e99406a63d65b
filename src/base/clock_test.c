#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/clock.h"

#define YEAR_NS (INT64_C(365) * 24 * 60 * 60 * LMC_NS_PER_S)

static void seconds_become_nanoseconds(void **state) {
    (void)state;
    assert_int_equal(lmc_ns_of_seconds(0), 0);
    assert_int_equal(lmc_ns_of_seconds(1.5), 1500 * LMC_NS_PER_MS);
    assert_int_equal(lmc_ns_of_seconds(-2), -2 * LMC_NS_PER_S);
    assert_int_equal(lmc_ns_of_seconds(NAN), 0);
}

static void a_time_beyond_all_measure_is_long_and_can_be_added_to_now(void **state) {
    (void)state;
    static const double numbers[] = {1e12, 9223372036854775807.0, 1e300, INFINITY};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        int64_t ns = lmc_ns_of_seconds(numbers[i]), sum;
        assert_true(ns > 49 * YEAR_NS && ns < 51 * YEAR_NS);
        assert_false(
            __builtin_add_overflow(lmc_system_clock.wall_ns(&lmc_system_clock), ns, &sum));
        assert_true(lmc_ns_of_seconds(-numbers[i]) == -ns);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_become_nanoseconds),
        cmocka_unit_test(a_time_beyond_all_measure_is_long_and_can_be_added_to_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
