#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/budget.h"

static void shares_are_granted_up_to_the_limit(void **state) {
    (void)state;
    lmc_http_budget budget = {.limit = 100, .small = 5};
    size_t one = 0, two = 0, three = 0;
    assert_true(lmc_http_budget_take(&budget, &one, 40));
    assert_true(lmc_http_budget_take(&budget, &two, 40));
    assert_false(lmc_http_budget_take(&budget, &three, 21));
    assert_int_equal(three, 0);
    assert_true(lmc_http_budget_take(&budget, &three, 20));
    assert_false(lmc_http_budget_take(&budget, &one, 41));
    assert_int_equal(one, 40);
    assert_int_equal(lmc_http_budget_release(&budget, &two), 40);
    assert_true(lmc_http_budget_take(&budget, &one, 80));
    assert_int_equal(budget.held, 100);
}

static void small_shares_are_always_granted_and_count_nothing(void **state) {
    (void)state;
    lmc_http_budget budget = {.limit = 100, .small = 5};
    size_t large = 0, small = 0;
    assert_true(lmc_http_budget_take(&budget, &large, 100));
    assert_true(lmc_http_budget_take(&budget, &small, 5));
    assert_false(lmc_http_budget_take(&budget, &small, 6));
    assert_int_equal(lmc_http_budget_release(&budget, &small), 5);
    assert_int_equal(budget.held, 100);
    lmc_http_budget_release(&budget, &large);
    assert_int_equal(budget.held, 0);
}

static void who_is_alone_may_exceed_the_limit(void **state) {
    (void)state;
    lmc_http_budget budget = {.limit = 100, .small = 5};
    size_t one = 0, other = 0;
    assert_true(lmc_http_budget_take(&budget, &one, 60));
    assert_true(lmc_http_budget_take(&budget, &one, SIZE_MAX));
    assert_false(lmc_http_budget_take(&budget, &other, 6));
    assert_false(lmc_http_budget_take(&budget, &other, SIZE_MAX));
    lmc_http_budget_release(&budget, &one);
    assert_true(lmc_http_budget_take(&budget, &other, 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_granted_up_to_the_limit),
        cmocka_unit_test(small_shares_are_always_granted_and_count_nothing),
        cmocka_unit_test(who_is_alone_may_exceed_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
