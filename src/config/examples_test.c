/* Command lines that people have in their scripts. */
#include "config/parse_case.h"

static void typical_lines_start_a_server(void **state) {
    (void)state;
    static const char *const lines[][LMC_CASE_WORDS] = {
        {"--l1-size-gb", "2", "--eviction-policy", "LRU"},
        {"--host", "0.0.0.0", "--port", "6555", "--l1-size-gb", "60", "--eviction-policy",
         "LRU", "--max-workers", "4"},
        {"--l1-size-gb", "60", "--eviction-policy", "LRU", "--supported-transfer-mode",
         "engine_driven", "--shm-name", "lmcache_pool"},
        {"--l1-size-gb", "10", "--eviction-policy", "LRU", "--http-host", "0.0.0.0",
         "--http-port", "8085", "--runtime-plugin-config",
         "{\"plugin.frontend.heartbeat-url\":\"http://localhost:5000/lmcache_heartbeat\"}"},
        {"--host", "localhost", "--port", "5555", "--l1-size-gb", "10", "--eviction-policy",
         "LRU", "--runtime-plugin-locations", "examples/mp_runtime_plugins/"},
        {"--host", "localhost", "--port", "5555", "--l1-size-gb", "10", "--eviction-policy",
         "LRU", "--http-host", "0.0.0.0", "--http-port", "8080", "--runtime-plugin-locations",
         "lmcache/lmcache_frontend/lmcache_mp_plugin/lmcache_mp_frontend_plugin.py",
         "--runtime-plugin-config",
         "{\"plugin.frontend.heartbeat_url\": \"http://localhost:5000/heartbeat\"}"},
        {"--chunk-size", "512", "--eviction-policy", "LRU", "--l1-manager",
         "{\"type\":\"DRAM\",\"tag\":\"_default\",\"size_gb\":8}"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lmc_config config;
        lmc_case_accept(&config, lines[i], NULL);
        assert_int_equal(config.storage_manager.l1_manager_count, 1);
        lmc_config_fini(&config);
    }
}

/* They parse; what they ask for comes later, and the answer names it. */
static void lines_that_ask_for_more_of_a_second_tier_are_answered_by_name(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--l1-size-gb", "100", "--eviction-policy", "noop", "--l2-store-policy", "skip_l1",
          "--l2-adapter", "{\"type\":\"fs\",\"base_path\":\"/data/l2\"}"},
         "--l2-store-policy skip_l1 is not built yet; available: default"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typical_lines_start_a_server),
        cmocka_unit_test(lines_that_ask_for_more_of_a_second_tier_are_answered_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
