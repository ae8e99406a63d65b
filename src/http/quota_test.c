#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "http/quota.h"
#include "support/alloc_fault.h"

static void collect(void *arg, lmc_slice salt, double limit_gb) {
    lmc_buffer_printf(arg, "%.*s=%g ", LMC_SLICE_ARGS(salt), limit_gb);
}

static void salts_are_kept_in_order_and_replaced(void **state) {
    (void)state;
    lmc_http_quotas *quotas = lmc_http_quotas_create();
    lmc_buffer text = LMC_BUFFER_INIT;
    assert_non_null(quotas);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_text("b"), 1, NULL), LMC_OK);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_text("a"), 2, NULL), LMC_OK);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_text(""), 3, NULL), LMC_OK);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_text("ab"), 4, NULL), LMC_OK);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_text("a"), 5, NULL), LMC_OK);
    lmc_http_quota_each(quotas, collect, &text);
    assert_string_equal(text.data, "=3 a=5 ab=4 b=1 ");
    assert_true(lmc_http_quota_remove(quotas, lmc_text("ab")));
    assert_false(lmc_http_quota_remove(quotas, lmc_text("ab")));
    lmc_buffer_fini(&text);
    lmc_http_quotas_destroy(quotas);
}

static void a_full_table_says_so(void **state) {
    (void)state;
    lmc_http_quotas *quotas = lmc_http_quotas_create();
    lmc_error error = LMC_ERROR_INIT;
    lmc_status status = LMC_OK;
    char salt[16];
    assert_non_null(quotas);
    int count = 0;
    for (; status == LMC_OK && count < 100000; count++) {
        snprintf(salt, sizeof salt, "s%d", count);
        status = lmc_http_quota_set(quotas, lmc_text(salt), 1, &error);
    }
    assert_int_equal(status, LMC_BUSY);
    assert_string_equal(error.text, "more than 4096 quotas");
    lmc_http_quotas_destroy(quotas);
}

static void a_long_salt_is_measured_in_characters(void **state) {
    (void)state;
    lmc_http_quotas *quotas = lmc_http_quotas_create();
    char salt[2 * 129];
    assert_non_null(quotas);
    for (size_t i = 0; i < sizeof salt; i += 2)
        memcpy(salt + i, "\xc3\xa9", 2);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_slice_of(salt, 256), 1, NULL), LMC_OK);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_slice_of(salt, 258), 1, NULL), LMC_INVALID);
    assert_int_equal(lmc_http_quota_set(quotas, lmc_slice_of(salt, 3), 1, NULL), LMC_INVALID);
    lmc_http_quotas_destroy(quotas);
}

static void a_failed_allocation_leaves_the_table_as_it_was(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        lmc_http_quotas *quotas = lmc_http_quotas_create();
        double limit;
        assert_non_null(quotas);
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_http_quota_set(quotas, lmc_text("a"), 1, NULL);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status, hit ? LMC_NO_MEMORY : LMC_OK);
        assert_int_equal(lmc_http_quota_get(quotas, lmc_text("a"), &limit), !hit);
        lmc_http_quotas_destroy(quotas);
        if (!hit)
            return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salts_are_kept_in_order_and_replaced),
        cmocka_unit_test(a_full_table_says_so),
        cmocka_unit_test(a_long_salt_is_measured_in_characters),
        cmocka_unit_test(a_failed_allocation_leaves_the_table_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
