#include "module/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "module/status_writer.h"
#include "support/alloc_fault.h"

#define LONG_NS (60 * LMC_NS_PER_S)

static lmc_status report_core(void *arg, lmc_writer *writer) {
    lmc_write_bool(writer, "is_healthy", arg == NULL);
    lmc_write_text(writer, "engine_type", lmc_text("MPCacheServer"));
    return LMC_OK;
}

static void expect_status(lmc_status_collector *collector, const char *text) {
    lmc_buffer out = LMC_BUFFER_INIT;
    assert_int_equal(lmc_status_collect(collector, report_core, NULL, &out), LMC_OK);
    assert_string_equal(out.data, text);
    lmc_buffer_fini(&out);
}

static lmc_status_collector *collector_of(int64_t budget_ns, const char *name,
                                          lmc_status_report report, void *self) {
    lmc_status_collector *collector = lmc_status_collector_create(budget_ns);
    assert_non_null(collector);
    assert_int_equal(lmc_status_collector_add(collector, name, report, self), LMC_OK);
    return collector;
}

static lmc_status report_values(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_object_begin(writer, "mine");
    lmc_write_real(writer, "ratio", 0.8);
    lmc_write_null(writer, "none");
    lmc_write_text(writer, "absent", (lmc_slice){0});
    lmc_write_list_begin(writer, "ids");
    lmc_write_int(writer, NULL, INT64_MAX);
    lmc_write_bool(writer, NULL, true);
    lmc_write_list_end(writer);
    lmc_write_object_end(writer);
    lmc_write_list_begin(writer, "empty");
    lmc_write_list_end(writer);
    return LMC_OK;
}

static void the_core_comes_first_and_modules_are_merged_flat(void **state) {
    (void)state;
    lmc_status_collector *c = collector_of(LONG_NS, "Values", report_values, NULL);
    expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"MPCacheServer\",\"mine\":{"
                     "\"ratio\":0.8,\"none\":null,\"absent\":null,\"ids\":[9223372036854775807,"
                     "true]},\"empty\":[]}");
    lmc_status_collector_destroy(c);
}

static lmc_status report_override(void *self, lmc_writer *writer) {
    lmc_write_text(writer, "engine_type", lmc_text(self));
    return LMC_OK;
}

static void a_later_module_replaces_an_earlier_value_in_its_place(void **state) {
    (void)state;
    lmc_status_collector *c = collector_of(LONG_NS, "One", report_override, "one");
    lmc_status_collector_add(c, "Two", report_override, "two");
    expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"two\"}");
    lmc_status_collector_destroy(c);
}

static lmc_status report_health(void *self, lmc_writer *writer) {
    lmc_write_bool(writer, "is_healthy", *(bool *)self);
    return LMC_OK;
}

static lmc_status report_odd_health(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_text(writer, "is_healthy", lmc_text("rather"));
    return LMC_OK;
}

static void health_can_be_lowered_and_never_raised(void **state) {
    (void)state;
    bool ill = false, well = true;
    const char *name;
    lmc_status_collector *c = collector_of(LONG_NS, "Ill", report_health, &ill);
    lmc_status_collector_add(c, "Well", report_health, &well);
    lmc_status_collector_add(c, "Odd", report_odd_health, NULL);
    expect_status(c, "{\"is_healthy\":false,\"engine_type\":\"MPCacheServer\"}");
    assert_false(lmc_status_modules_healthy(c, &name));
    assert_string_equal(name, "Ill");
    ill = true;
    lmc_status_refresh(c);
    assert_true(lmc_status_modules_healthy(c, &name));
    lmc_status_collector_destroy(c);
}

static void the_cores_own_ill_health_stays(void **state) {
    (void)state;
    bool well = true;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_status_collector *c = collector_of(LONG_NS, "Well", report_health, &well);
    assert_int_equal(lmc_status_collect(c, report_core, c, &out), LMC_OK);
    assert_string_equal(out.data, "{\"is_healthy\":false,\"engine_type\":\"MPCacheServer\"}");
    lmc_buffer_fini(&out);
    lmc_status_collector_destroy(c);
}

static lmc_status report_failure(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_int(writer, "half", 1);
    return LMC_FAILED;
}

static lmc_status report_unclosed(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_object_begin(writer, "open");
    return LMC_OK;
}

static lmc_status report_unnamed(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_int(writer, NULL, 1);
    return LMC_OK;
}

static void a_module_that_fails_stands_in_status_errors(void **state) {
    (void)state;
    lmc_status_collector *c = collector_of(LONG_NS, "Failing", report_failure, NULL);
    lmc_status_collector_add(c, "Unclosed", report_unclosed, NULL);
    lmc_status_collector_add(c, "Unnamed", report_unnamed, NULL);
    lmc_status_collector_add(c, "Fine", report_override, "fine");
    expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"fine\",\"status_errors\":{"
                     "\"Failing\":\"report_status failed\","
                     "\"Unclosed\":\"report_status did not write a JSON object\","
                     "\"Unnamed\":\"report_status did not write a JSON object\"}}");
    lmc_status_collector_destroy(c);
}

typedef struct slow_module {
    atomic_bool slow, go_on;
    int calls;
} slow_module;

static lmc_status report_slowly(void *self, lmc_writer *writer) {
    slow_module *module = self;
    module->calls++;
    lmc_write_int(writer, "calls", module->calls);
    while (atomic_load(&module->slow) && !atomic_load(&module->go_on))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return LMC_OK;
}

static void a_slow_module_is_waited_for_once_and_its_last_result_used(void **state) {
    (void)state;
    slow_module module = {0};
    lmc_status_collector *c = collector_of(20 * LMC_NS_PER_MS, "Slow", report_slowly, &module);
    lmc_status_collector_add(c, "Fast", report_override, "fast");
    expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"fast\",\"calls\":1}");
    atomic_store(&module.slow, true);
    for (int i = 0; i < 3; i++)
        expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"fast\",\"calls\":1,"
                         "\"status_errors\":{\"Slow\":"
                         "\"report_status has not returned; its last result is shown\"}}");
    assert_true(lmc_status_collector_is_late(c, &module));
    assert_false(lmc_status_collector_stop(c, LMC_NS_PER_MS));
    atomic_store(&module.go_on, true);
    assert_true(lmc_status_collector_stop(c, LONG_NS));
    assert_int_equal(module.calls, 2);
    assert_false(lmc_status_collector_is_late(c, &module));
    expect_status(c, "{\"is_healthy\":true,\"engine_type\":\"fast\",\"calls\":3}");
    lmc_status_collector_destroy(c);
}

static void any_failed_allocation_is_an_error_and_no_crash(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth < 60; nth++) {
        lmc_status_collector *c = collector_of(LONG_NS, "Values", report_values, NULL);
        lmc_buffer out = LMC_BUFFER_INIT;
        lmc_fault_arm(nth, false);
        lmc_status_collect(c, report_core, NULL, &out);
        lmc_fault_disarm();
        lmc_buffer_fini(&out);
        lmc_status_collector_destroy(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_comes_first_and_modules_are_merged_flat),
        cmocka_unit_test(a_later_module_replaces_an_earlier_value_in_its_place),
        cmocka_unit_test(health_can_be_lowered_and_never_raised),
        cmocka_unit_test(the_cores_own_ill_health_stays),
        cmocka_unit_test(a_module_that_fails_stands_in_status_errors),
        cmocka_unit_test(a_slow_module_is_waited_for_once_and_its_last_result_used),
        cmocka_unit_test(any_failed_allocation_is_an_error_and_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
