/* How single plugins are supervised. */
#include "runtime_plugin/plugin_case.h"

#include "base/error.h"
#include "runtime_plugin/options.h"
#include "support/alloc_fault.h"

static lmc_plugin_options read_for(const char *name, const char *config) {
    lmc_plugin_options options;
    assert_int_equal(lmc_plugin_options_read(&options, lmc_text(config), name, NULL), LMC_OK);
    return options;
}

static void without_keys_everything_has_its_default(void **state) {
    (void)state;
    lmc_plugin_options expected, got = read_for("a.py", "{\"plugin.frontend.url\": \"x\"}");
    lmc_plugin_options_default(&expected);
    assert_memory_equal(&got, &expected, sizeof got);
    assert_int_equal(got.restart, LMC_PLUGIN_NEVER);
    assert_int_equal(got.memory_mb, LMC_PLUGIN_UNSET);
    got = read_for("a.py", "not JSON");
    assert_memory_equal(&got, &expected, sizeof got);
}

static void every_option_is_read(void **state) {
    (void)state;
    lmc_plugin_options o = read_for(
        "a.b.py",
        "{\"plugin.a.b.py.restart\": \"on-failure\", \"plugin.a.b.py.max_restarts\": 0,"
        "\"plugin.a.b.py.ready_fd\": true, \"plugin.a.b.py.memory_mb\": 64,"
        "\"plugin.a.b.py.cpu_seconds\": 9, \"plugin.a.b.py.open_files\": 8,"
        "\"plugin.a.b.py.nice\": -5, \"plugin.a.b.py.no_new_privs\": true,"
        "\"plugin.a.b.py.split_stderr\": true, \"plugin.a.b.py.level_prefixes\": true,"
        "\"plugin.a.b.py.max_lines_per_second\": 0, \"plugin.a.b.py.user\": \"me\"}");
    assert_int_equal(o.restart, LMC_PLUGIN_ON_FAILURE);
    assert_int_equal(o.max_restarts, 0);
    assert_int_equal(o.memory_mb, 64);
    assert_int_equal(o.cpu_seconds, 9);
    assert_int_equal(o.open_files, 8);
    assert_int_equal(o.nice, -5);
    assert_int_equal(o.max_lines_per_second, 0);
    assert_true(o.ready_fd && o.no_new_privs && o.split_stderr && o.level_prefixes);
    assert_string_equal(o.user, "me");
}

static void keys_of_other_plugins_are_not_read(void **state) {
    (void)state;
    const char *config = "{\"plugin.b.py.restart\": \"always\", \"plugin.a.py.restart.x\": 1,"
                         "\"plugin.a.pyrestart\": \"always\", \"a.py.restart\": \"always\"}";
    assert_int_equal(read_for("a.py", config).restart, LMC_PLUGIN_NEVER);
    assert_int_equal(read_for("b.py", config).restart, LMC_PLUGIN_ALWAYS);
}

static void bad_values_leave_the_default(void **state) {
    (void)state;
    lmc_plugin_options expected;
    lmc_plugin_options o = read_for(
        "a.py", "{\"plugin.a.py.restart\": true, \"plugin.a.py.max_restarts\": -1,"
                "\"plugin.a.py.memory_mb\": 0, \"plugin.a.py.nice\": 2.5,"
                "\"plugin.a.py.open_files\": \"9\", \"plugin.a.py.ready_fd\": 1,"
                "\"plugin.a.py.user\": \"\", \"plugin.a.py.cpu_seconds\": 99999999999999999999,"
                "\"plugin.a.py.split_stderr\": null, \"plugin.a.py.unknown\": 1}");
    lmc_plugin_options_default(&expected);
    assert_memory_equal(&o, &expected, sizeof o);
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    lmc_plugin_options options;
    lmc_slice config = lmc_text("{\"plugin.a.py.restart\": \"always\"}");
    lmc_fault_arm(1, true);
    lmc_status status = lmc_plugin_options_read(&options, config, "a.py", NULL);
    lmc_fault_disarm();
    assert_int_equal(status, LMC_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys_everything_has_its_default),
        cmocka_unit_test(every_option_is_read),
        cmocka_unit_test(keys_of_other_plugins_are_not_read),
        cmocka_unit_test(bad_values_leave_the_default),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
