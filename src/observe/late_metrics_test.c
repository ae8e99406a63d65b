#include "observe/late_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/alloc_fault.h"

static const lmc_slice none;

static lmc_metric *declare(lmc_late_metrics *set, lmc_metric_type type, const char *name,
                           const char *label, lmc_error *error) {
    return lmc_late_metrics_declare(set, type, "lmcached_module_x", name, "Help", label, error);
}

static void a_declared_family_is_shown_with_its_prefix(void **state) {
    (void)state;
    lmc_late_metrics *set = lmc_late_metrics_create();
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_metric *plain = declare(set, LMC_COUNTER, "seen", NULL, NULL);
    lmc_metric *labelled = declare(set, LMC_COUNTER, "by_colour_total", "colour", NULL);
    lmc_metric *gauge = declare(set, LMC_GAUGE, "level", NULL, NULL);
    lmc_metric_add(plain, none, 2);
    lmc_metric_add(plain, none, -7); /* a counter only grows */
    lmc_metric_add(labelled, lmc_text("red"), 1);
    lmc_metric_set(gauge, none, 2.5);
    lmc_metric_add(gauge, none, -1);
    lmc_metric_set(plain, none, 99); /* a counter is not set */
    assert_int_equal(lmc_late_metrics_write(set, &out), LMC_OK);
    assert_string_equal(out.data, "# HELP lmcached_module_x_seen_total Help\n"
                                  "# TYPE lmcached_module_x_seen_total counter\n"
                                  "lmcached_module_x_seen_total 2\n"
                                  "# HELP lmcached_module_x_by_colour_total Help\n"
                                  "# TYPE lmcached_module_x_by_colour_total counter\n"
                                  "lmcached_module_x_by_colour_total{colour=\"red\"} 1\n"
                                  "# HELP lmcached_module_x_level Help\n"
                                  "# TYPE lmcached_module_x_level gauge\n"
                                  "lmcached_module_x_level 1.5\n");
    lmc_buffer_fini(&out);
    lmc_late_metrics_destroy(set);
}

static void the_same_name_is_the_same_family(void **state) {
    (void)state;
    lmc_late_metrics *set = lmc_late_metrics_create();
    lmc_error error = LMC_ERROR_INIT;
    lmc_metric *first = declare(set, LMC_COUNTER, "seen", NULL, &error);
    assert_non_null(first);
    assert_ptr_equal(declare(set, LMC_COUNTER, "seen_total", NULL, &error), first);
    assert_null(declare(set, LMC_COUNTER, "seen", "colour", &error));
    assert_string_equal(error.text, "metric 'seen' exists with another type or label");
    lmc_late_metrics_destroy(set);
}

static void what_is_no_name_is_refused(void **state) {
    (void)state;
    lmc_late_metrics *set = lmc_late_metrics_create();
    static const char *const names[] = {"", "a b", "1st", "a-b", "\xc3\xa4", NULL};
    for (size_t i = 0; names[i] != NULL; i++) {
        lmc_error error = LMC_ERROR_INIT;
        assert_null(declare(set, LMC_GAUGE, names[i], NULL, &error));
        assert_int_equal(error.status, LMC_INVALID);
        assert_null(declare(set, LMC_GAUGE, "fine", names[i], NULL));
    }
    assert_null(declare(set, LMC_GAUGE, NULL, NULL, NULL));
    lmc_late_metrics_destroy(set);
}

static void without_a_set_nothing_is_counted(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    assert_null(declare(NULL, LMC_GAUGE, "level", NULL, NULL));
    lmc_metric_add(NULL, none, 1);
    lmc_metric_set(NULL, none, 1);
    assert_int_equal(lmc_late_metrics_write(NULL, &out), LMC_OK);
    assert_int_equal(out.size, 0);
    lmc_late_metrics_destroy(NULL);
}

static void failed_allocations_declare_nothing(void **state) {
    (void)state;
    bool declared = false;
    for (size_t i = 0; !declared && i < 100; i++) {
        lmc_late_metrics *set = lmc_late_metrics_create();
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(i + 1, false);
        declared = declare(set, LMC_COUNTER, "seen", "colour", &error) != NULL;
        lmc_fault_disarm();
        if (!declared)
            assert_int_equal(error.status, LMC_NO_MEMORY);
        lmc_late_metrics_destroy(set);
    }
    assert_true(declared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_declared_family_is_shown_with_its_prefix),
        cmocka_unit_test(the_same_name_is_the_same_family),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(without_a_set_nothing_is_counted),
        cmocka_unit_test(failed_allocations_declare_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
