/* The variables of a plugin. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/environment.h"
#include "support/alloc_fault.h"

#define PLENTY ((size_t)4 << 20)

static const lmc_plugin_settings plain = {.config = "{}",
                                          .config_file = "/x/config.json",
                                          .role = "",
                                          .mark = "m",
                                          .worker_count = 1,
                                          .copy_main = true,
                                          .copy_legacy = true};

static const char *value_of(const lmc_plugin_environment *environment, const char *name) {
    const char *found = NULL;
    size_t size = strlen(name);
    for (size_t i = 0; environment->strings[i] != NULL; i++)
        if (strncmp(environment->strings[i], name, size) == 0 &&
            environment->strings[i][size] == '=') {
            assert_null(found); /* no name twice */
            found = environment->strings[i] + size + 1;
        }
    return found;
}

static void all_variables_are_there_and_replace_inherited_ones(void **state) {
    (void)state;
    char *inherited[] = {"HOME=/h", "LMCACHE_PLUGIN_ROLE=old",           "PYTHONUNBUFFERED=0",
                         "odd",     "LMCACHE_RUNTIME_PLUGIN_READY_FD=9", NULL};
    static const char *const expected[][2] = {
        {"HOME", "/h"},
        {"LMCACHE_RUNTIME_PLUGIN_CONFIG", "{}"},
        {"LMCACHE_PLUGIN_CONFIG", "{}"},
        {"LMCACHE_RUNTIME_PLUGIN_ROLE", ""},
        {"LMCACHE_PLUGIN_ROLE", ""},
        {"LMCACHE_RUNTIME_PLUGIN_WORKER_COUNT", "1"},
        {"LMCACHE_PLUGIN_WORKER_COUNT", "1"},
        {"LMCACHE_RUNTIME_PLUGIN_WORKER_ID", "0"},
        {"LMCACHE_PLUGIN_WORKER_ID", "0"},
        {"LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE", "/x/config.json"},
        {"PYTHONUNBUFFERED", "1"},
        {LMC_PLUGIN_MARK, "m"}};
    lmc_plugin_environment e;
    assert_int_equal(lmc_plugin_environment_build(&e, inherited, &plain, NULL, -1), LMC_OK);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_string_equal(value_of(&e, expected[i][0]), expected[i][1]);
    assert_null(value_of(&e, LMC_PLUGIN_READY_FD));
    assert_null(value_of(&e, "LMCACHE_RUNTIME_PLUGIN_EXTRA_CONFIG"));
    assert_string_equal(e.strings[1], "odd");
    lmc_plugin_environment_fini(&e);
}

static void assignments_of_the_first_line_win(void **state) {
    (void)state;
    char *inherited[] = {"A=1", NULL}, *assignments[] = {"A=2", "PYTHONUNBUFFERED=", NULL};
    lmc_plugin_environment e;
    assert_int_equal(lmc_plugin_environment_build(&e, inherited, &plain, assignments, 3),
                     LMC_OK);
    assert_string_equal(value_of(&e, "A"), "2");
    assert_string_equal(value_of(&e, "PYTHONUNBUFFERED"), "");
    assert_string_equal(value_of(&e, LMC_PLUGIN_READY_FD), "3");
    lmc_plugin_environment_fini(&e);
}

/* A configuration of this size, and which copies fit. */
static void check_copies(size_t size, size_t limit, bool copy_main, bool copy_legacy) {
    lmc_plugin_settings settings = plain;
    char *config = malloc(size + 1);
    assert_non_null(config);
    memset(config, 'c', size);
    config[size] = '\0';
    settings.config = config;
    lmc_plugin_config_copies(&settings, limit, 1000);
    assert_int_equal(settings.copy_main, copy_main);
    assert_int_equal(settings.copy_legacy, copy_legacy);
    free(config);
}

static void copies_fit_up_to_the_kernels_limit(void **state) {
    (void)state;
    size_t head = strlen("LMCACHE_RUNTIME_PLUGIN_CONFIG=") + 1;
    check_copies(LMC_ENVIRONMENT_STRING_MAX - head, PLENTY, true, true);
    check_copies(LMC_ENVIRONMENT_STRING_MAX - head + 1, PLENTY, false, false);
    check_copies(100000, 201062, true, true);
    check_copies(100000, 201061, true, false);
    check_copies(100000, 101031, true, false);
    check_copies(100000, 101030, false, false);
}

static void what_does_not_fit_is_not_inherited_either(void **state) {
    (void)state;
    char *inherited[] = {"LMCACHE_RUNTIME_PLUGIN_CONFIG=old", "LMCACHE_PLUGIN_CONFIG=old",
                         "LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE=/old", NULL};
    lmc_plugin_settings settings = plain;
    settings.copy_main = settings.copy_legacy = false;
    settings.config_file = NULL;
    lmc_plugin_environment e;
    assert_int_equal(lmc_plugin_environment_build(&e, inherited, &settings, NULL, -1), LMC_OK);
    assert_null(value_of(&e, "LMCACHE_RUNTIME_PLUGIN_CONFIG"));
    assert_null(value_of(&e, "LMCACHE_PLUGIN_CONFIG"));
    assert_null(value_of(&e, "LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE"));
    lmc_plugin_environment_fini(&e);
}

static void running_out_of_memory_leaks_nothing(void **state) {
    (void)state;
    char *inherited[] = {"A=1", "B=2", NULL}, *assignments[] = {"A=3", NULL};
    lmc_status status = LMC_NO_MEMORY;
    for (uint64_t nth = 1; status != LMC_OK && nth < 200; nth++) {
        lmc_plugin_environment e;
        lmc_fault_arm(nth, true);
        status = lmc_plugin_environment_build(&e, inherited, &plain, assignments, 3);
        lmc_fault_disarm();
        lmc_plugin_environment_fini(&e);
    }
    assert_int_equal(status, LMC_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_variables_are_there_and_replace_inherited_ones),
        cmocka_unit_test(assignments_of_the_first_line_win),
        cmocka_unit_test(copies_fit_up_to_the_kernels_limit),
        cmocka_unit_test(what_does_not_fit_is_not_inherited_either),
        cmocka_unit_test(running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
