/* GET /config and the plugins' JSON. */
#include "config/parse_case.h"

#include <jansson.h>

#include "support/alloc_fault.h"

#define GOLDEN LMC_GOLDEN_DIR "/../../src/config/golden/config-default.json"

static char *render(const char *const *words, lmc_config_form form) {
    lmc_config config;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(lmc_config_render(&config, form, &out), LMC_OK);
    lmc_config_fini(&config);
    char *text = lmc_buffer_take(&out);
    assert_non_null(text);
    return text;
}

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (value == NULL)
        fail_msg("%s", error.text);
    return value;
}

/* Every key of `expected` is in `got` with an equal value, in the same order and before others.
 */
static void check_known_keys(json_t *expected, json_t *got, const char *where) {
    if (!json_is_object(expected)) {
        if (!json_equal(expected, got))
            fail_msg("%s differs", where);
        return;
    }
    void *at = json_object_iter(got);
    const char *name;
    json_t *value;
    json_object_foreach(expected, name, value) {
        if (at == NULL || strcmp(json_object_iter_key(at), name) != 0)
            fail_msg("%s.%s is missing or out of place", where, name);
        check_known_keys(value, json_object_iter_value(at), name);
        at = json_object_iter_next(got, at);
    }
}

static void the_default_configuration_is_the_specified_one(void **state) {
    (void)state;
    const char *words[] = {"--l1-size-gb",
                           "10",
                           "--eviction-policy",
                           "LRU",
                           "--instance-id",
                           "6f1c2b1e-6c1e-4b0e-9a60-3f8f0e6c9a11",
                           NULL};
    char *text = render(words, LMC_CONFIG_HTTP);
    json_error_t error;
    json_t *expected = json_load_file(GOLDEN, 0, &error);
    assert_non_null(expected);
    json_t *got = parse(text);
    check_known_keys(expected, got, "/config");
    json_decref(expected);
    json_decref(got);
    free(text);
}

static void our_own_options_follow_the_known_fields(void **state) {
    (void)state;
    const char *words[] = {LMC_L1, "--shm-mode", "660", "--no-http", NULL};
    char *text = render(words, LMC_CONFIG_HTTP);
    assert_non_null(strstr(text, "    \"server_modules\": [],\n    \"shm_mode\": \"0660\",\n"
                                 "    \"session_lease_seconds\": 30.0,\n"));
    assert_non_null(strstr(text, "    \"l1_cache_download_max_concurrency\": 2,\n"
                                 "    \"no_http\": true,\n"));
    assert_non_null(strstr(text, "    \"grpc_port\": null,\n"));
    free(text);
}

static void numbers_print_as_python_prints_them(void **state) {
    (void)state;
    const char *words[] = {LMC_L1,
                           "--eviction-ratio",
                           "1e-5",
                           "--runtime-plugin-config",
                           "{\"a\":[1,-0,2.50,1e22,1E400,NaN,12345678901234567890123]}",
                           NULL};
    char *text = render(words, LMC_CONFIG_PLUGIN);
    assert_non_null(strstr(text, "\"eviction_ratio\": 1e-05,"));
    assert_non_null(strstr(text, "\"extra_config\": {\"a\": [1, 0, 2.5, 1e+22, null, null, "
                                 "12345678901234567890123]}"));
    free(text);
}

#define SECRETS                                                                     \
    "{\"db_password\":\"p\",\"AccessToken\":\"q\",\"api-token\":7,\"secrets\":[1]," \
    "\"credentials\":{},\"apikey\":null,\"Token\":true,\"x_secret\":\"\","          \
    "\"url\":\"redis://me:pw@h/0\",\"deep\":[{\"private_key\":{\"a\":1}}]}"

static void secrets_are_masked_for_http(void **state) {
    (void)state;
    const char *words[] = {
        LMC_L1, "--runtime-plugin-config", SECRETS, "--instance-id", "http://u:p@h", NULL};
    char *text = render(words, LMC_CONFIG_HTTP);
    json_t *got = parse(text);
    json_t *expected = parse(
        "{\"db_password\":\"***\",\"AccessToken\":\"q\",\"api-token\":\"***\",\"secrets\":"
        "\"***\",\"credentials\":{},\"apikey\":null,\"Token\":true,\"x_secret\":\"\",\"url\":"
        "\"redis://me:***@h/0\",\"deep\":[{\"private_key\":\"***\"}]}");
    json_t *mp = json_object_get(got, "mp");
    json_t *extra =
        json_object_get(json_object_get(mp, "runtime_plugin_config"), "extra_config");
    assert_true(json_equal(extra, expected));
    assert_string_equal(json_string_value(json_object_get(mp, "instance_id")),
                        "http://u:***@h");
    json_decref(expected);
    json_decref(got);
    free(text);
}

static void what_is_meant_for_plugins_reaches_them_as_it_is(void **state) {
    (void)state;
    const char *words[] = {
        LMC_L1, "--runtime-plugin-config", SECRETS, "--instance-id", "http://u:p@h", NULL};
    char *text = render(words, LMC_CONFIG_PLUGIN);
    json_t *got = parse(text), *expected = parse(SECRETS);
    json_t *mp = json_object_get(got, "mp_config");
    json_t *extra =
        json_object_get(json_object_get(mp, "runtime_plugin_config"), "extra_config");
    assert_true(json_equal(extra, expected));
    assert_true(json_equal(json_object_get(got, "runtime_plugin_extra_config"), expected));
    assert_string_equal(json_string_value(json_object_get(mp, "instance_id")),
                        "http://u:***@h");
    json_decref(expected);
    json_decref(got);
    free(text);
}

static void plugins_may_be_given_the_secrets(void **state) {
    (void)state;
    const char *words[] = {
        LMC_L1, "--runtime-plugin-secrets", "pass", "--instance-id", "http://u:p@h", NULL};
    char *text = render(words, LMC_CONFIG_PLUGIN);
    assert_non_null(strstr(text, "\"instance_id\": \"http://u:p@h\""));
    free(text);
    text = render(words, LMC_CONFIG_HTTP);
    assert_null(strstr(text, "u:p@h"));
    free(text);
}

static void the_plugin_form_is_one_ascii_line_with_its_own_names(void **state) {
    (void)state;
    const char *words[] = {LMC_L1, "--host", "b\xc3\xbc", NULL};
    char *text = render(words, LMC_CONFIG_PLUGIN);
    assert_int_equal(
        strncmp(text, "{\"mp_config\": {\"host\": \"b\\u00fc\", \"port\": 5555, ", 45), 0);
    assert_null(strchr(text, '\n'));
    json_t *got = parse(text);
    static const char *const names[] = {"mp_config", "storage_manager_config", "obs_config",
                                        "http_config"};
    void *at = json_object_iter(got);
    for (size_t i = 0; i < 4; i++, at = json_object_iter_next(got, at))
        assert_string_equal(json_object_iter_key(at), names[i]);
    assert_null(at);
    json_decref(got);
    free(text);
}

static void without_http_plugins_get_no_http_section(void **state) {
    (void)state;
    const char *words[] = {LMC_L1, "--no-http", NULL};
    char *text = render(words, LMC_CONFIG_PLUGIN);
    assert_null(strstr(text, "http_config"));
    free(text);
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    const char *words[] = {"--l1-manager",
                           "{\"type\":\"DRAM\",\"tag\":\"_default\",\"size_gb\":1}",
                           "--eviction-policy",
                           "LRU",
                           "--runtime-plugin-config",
                           SECRETS,
                           "--script-allowed-imports",
                           "a",
                           "b",
                           "--server-module",
                           "[]",
                           "--coordinator-l2-event-reporting",
                           NULL};
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        lmc_config config;
        lmc_buffer out = LMC_BUFFER_INIT;
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(n, false);
        lmc_status status = lmc_case_parse(&config, words, NULL, &error);
        if (status == LMC_OK)
            status = lmc_config_render(&config, LMC_CONFIG_HTTP, &out);
        failed = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status, failed ? LMC_NO_MEMORY : LMC_OK);
        lmc_buffer_fini(&out);
        lmc_config_fini(&config);
    }
}

static void running_out_of_memory_before_a_rejection_leaks_nothing(void **state) {
    (void)state;
    const char *words[] = {LMC_L1,
                           "--server-module",
                           "[{\"module_path\":\"a\",\"factory_name\":\"f\",\"config\":{}}]",
                           "--l2-adapter",
                           "{\"type\":\"fs\"}",
                           NULL};
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        lmc_config config;
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(n, false);
        lmc_status status = lmc_case_parse(&config, words, NULL, &error);
        failed = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status, failed ? LMC_NO_MEMORY : LMC_INVALID);
        lmc_config_fini(&config);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_configuration_is_the_specified_one),
        cmocka_unit_test(our_own_options_follow_the_known_fields),
        cmocka_unit_test(numbers_print_as_python_prints_them),
        cmocka_unit_test(secrets_are_masked_for_http),
        cmocka_unit_test(what_is_meant_for_plugins_reaches_them_as_it_is),
        cmocka_unit_test(plugins_may_be_given_the_secrets),
        cmocka_unit_test(the_plugin_form_is_one_ascii_line_with_its_own_names),
        cmocka_unit_test(without_http_plugins_get_no_http_section),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaks_nothing),
        cmocka_unit_test(running_out_of_memory_before_a_rejection_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
