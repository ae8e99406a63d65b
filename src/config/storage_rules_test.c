/* The L1 list in both forms, and --l2-adapter. */
#include "config/parse_case.h"

#include <stdlib.h>
#include <unistd.h>

#define DRAM(more) "{\"type\":\"DRAM\",\"tag\":\"_default\",\"size_gb\":8" more "}"
#define POLICY ",\"eviction\":{\"eviction_policy\":\"noop\"}"
#define MANAGER(more) \
    { "--eviction-policy", "LRU", "--l1-manager", DRAM(more) }

static void the_legacy_form_is_checked(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{NULL}, "Legacy L1 configuration requires --l1-size-gb and --eviction-policy"},
        {{"--l1-size-gb", "1"},
         "Legacy L1 configuration requires --l1-size-gb and --eviction-policy"},
        {{"--eviction-policy", "LRU"},
         "Legacy L1 configuration requires --l1-size-gb and --eviction-policy"},
        {{"--l1-size-gb", "nan", "--eviction-policy", "LRU"},
         "--l1-size-gb must be a finite positive number, got nan"},
        {{"--l1-size-gb", "-1", "--eviction-policy", "LRU"},
         "--l1-size-gb must be a finite positive number, got -1.0"},
        {{"--l1-size-gb", "1e-6", "--eviction-policy", "LRU"},
         "--l1-size-gb must provide at least --l1-align-bytes bytes"},
        {{"--l1-size-gb", "1e300", "--eviction-policy", "LRU"},
         "--l1-size-gb is more than any machine has"},
        {{LMC_L1, "--l1-align-bytes", "4095"},
         "--l1-align-bytes must be a power of two, got 4095"},
        {{LMC_L1, "--l1-read-ttl-seconds", "0"},
         "--l1-read-ttl-seconds must be a finite number > 0, got 0"},
        {{LMC_L1, "--eviction-trigger-watermark", "1.5"},
         "--eviction-trigger-watermark must be between zero and one, got 1.5"},
        {{LMC_L1, "--eviction-ratio", "nan"},
         "--eviction-ratio must be between zero and one, got nan"},
        {{LMC_L1, "--l1-manager", DRAM("")}, "Use either --l1-manager or legacy L1 flags"},
        {{"--gds-l1-path", "/g", "--l1-manager", DRAM("")},
         "Use either --l1-manager or legacy L1 flags"},
        {{"--l1-devdax-path", "/d", "--l1-manager", DRAM("")},
         "Use either --l1-manager or legacy L1 flags"},
        {{LMC_L1, "--l1-devdax-path", "/d"},
         "l1-devdax-path requires lazy allocation to be disabled. Please set "
         "--no-l1-use-lazy."},
        {{LMC_L1, "--l1-devdax-path", "/d", "--no-l1-use-lazy", "--shm-name", "x"},
         "l1-devdax-path requires SHM to be disabled. Please set --shm-name \"\"."},
        {{LMC_L1, "--l1-use-hugepages", "--shm-name", "x"},
         "l1-use-hugepages is incompatible with shared memory. Please set --shm-name \"\" to "
         "disable SHM when enabling hugepages."},
        {{LMC_L1, "--gds-l1-path", "/g", "--l1-devdax-path", "/d"},
         "gds-l1-path cannot be used with l1-devdax-path"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void an_l1_object_is_checked(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--l1-manager", "{"},
         "Invalid JSON for --l1-manager #1: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"},
        {{"--l1-manager", "[]"}, "--l1-manager requires type DRAM, DEVDAX or GDS"},
        {{"--l1-manager", "{\"type\":\"dram\"}"},
         "--l1-manager requires type DRAM, DEVDAX or GDS"},
        {MANAGER(",\"z\":1,\"path\":2"), "Unknown L1 fields: ['path', 'z']"},
        {{"--l1-manager", "{\"type\":\"DRAM\",\"tag\":\"\"}"},
         "tag must be a non-empty string"},
        {{"--l1-manager", "{\"type\":\"DRAM\"}"}, "tag must be a non-empty string"},
        {{"--l1-manager", "{\"type\":\"GDS\",\"tag\":\"_default\"}"},
         "Only DRAM can use the _default tag"},
        {MANAGER(",\"align_bytes\":0"), "align_bytes must be a positive integer"},
        {MANAGER(",\"align_bytes\":true"), "align_bytes must be a positive integer"},
        {MANAGER(",\"read_ttl_seconds\":1.5"), "read_ttl_seconds must be a positive integer"},
        {MANAGER(",\"write_ttl_seconds\":\"9\""),
         "write_ttl_seconds must be a positive integer"},
        {MANAGER(",\"align_bytes\":4097"), "align_bytes must be a power of two"},
        {{"--l1-manager", "{\"type\":\"DRAM\",\"tag\":\"a\"}"},
         "size_gb must be a finite positive number"},
        {MANAGER(",\"size_gb\":true"), "size_gb must be a finite positive number"},
        {MANAGER(",\"size_gb\":NaN"), "size_gb must be a finite positive number"},
        {MANAGER(",\"size_gb\":1e-6"), "size_gb must provide at least align_bytes bytes"},
        {MANAGER(",\"eviction\":[]"),
         "eviction must contain policy, watermark and ratio settings only"},
        {MANAGER(",\"eviction\":{\"extra\":1}"),
         "eviction must contain policy, watermark and ratio settings only"},
        {{"--l1-manager", DRAM("")}, "An eviction policy is required for each L1"},
        {MANAGER(",\"eviction\":{\"eviction_policy\":\"x\"}"),
         "eviction.eviction_policy must be 'LRU', 'ARC', 'IsolatedLRU', or 'noop', got 'x'"},
        {MANAGER(",\"eviction\":{\"trigger_watermark\":2}"),
         "trigger_watermark must be between zero and one"},
        {MANAGER(",\"eviction\":{\"eviction_ratio\":true}"),
         "eviction_ratio must be between zero and one"},
        {MANAGER(",\"shm_name\":3"), "shm_name must be a string"},
        {MANAGER(",\"shm_name\":\"x\""), "shm_name cannot coexist with use_lazy"},
        {MANAGER(",\"shm_name\":\"x\",\"use_lazy\":false,\"use_hugepages\":true"),
         "l1-use-hugepages is incompatible with shared memory. Please set --shm-name \"\" to "
         "disable SHM when enabling hugepages."},
        {MANAGER(",\"use_lazy\":1"), "use_lazy must be a boolean"},
        {MANAGER(",\"use_hugepages\":null"), "use_hugepages must be a boolean"},
        {MANAGER(",\"init_size_gb\":0"), "init_size_gb must be a finite positive number"},
        {{"--l1-manager",
          "{\"type\":\"GDS\",\"tag\":\"g\",\"size_gb\":1,\"align_bytes\":512" POLICY "}"},
         "GDS align_bytes must be at least 4096"},
        {{"--l1-manager", "{\"type\":\"DEVDAX\",\"tag\":\"g\",\"size_gb\":1" POLICY "}"},
         "path must be a non-empty string"},
        {{"--l1-manager", "{\"type\":\"GDS\",\"tag\":\"g\",\"size_gb\":1,\"path\":\"/g\","
                          "\"direct_io\":0" POLICY "}"},
         "direct_io must be a boolean"},
        {{"--l1-manager", DRAM(POLICY), "--l1-manager", DRAM(POLICY)},
         "L1 tags must be unique"},
        {{"--l1-manager", DRAM(POLICY ",\"use_lazy\":false,\"shm_name\":\"p\""), "--l1-manager",
          "{\"type\":\"DRAM\",\"tag\":\"b\",\"size_gb\":1,\"use_lazy\":false,"
          "\"shm_name\":\"p\"" POLICY "}"},
         "DRAM L1 managers require distinct shm_name values"},
        {{"--l1-manager",
          "{\"type\":\"GDS\",\"tag\":\"g\",\"size_gb\":1,\"path\":\"/g\"" POLICY "}",
          "--l1-manager",
          "{\"type\":\"GDS\",\"tag\":\"h\",\"size_gb\":1,\"path\":\"/h\"" POLICY "}"},
         "Only one GDS L1 slab is supported per process"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void kinds_of_l1_that_are_not_built_are_refused(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--l1-manager",
          "{\"type\":\"GDS\",\"tag\":\"g\",\"size_gb\":1,\"path\":\"/g\"" POLICY "}"},
         "--l1-manager of type GDS is not built yet"},
        {{"--l1-manager",
          "{\"type\":\"DEVDAX\",\"tag\":\"g\",\"size_gb\":1,\"path\":\"/g\"" POLICY "}"},
         "--l1-manager of type DEVDAX is not built yet"},
        {{"--l1-manager", DRAM(POLICY), "--l1-manager",
          "{\"type\":\"DRAM\",\"tag\":\"b\",\"size_gb\":1" POLICY "}"},
         "more than one --l1-manager is not built yet"},
        {{"--l1-manager", DRAM(",\"eviction\":{\"eviction_policy\":\"ARC\"}")},
         "--eviction-policy ARC is not built yet; available: LRU, noop"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void an_adapter_object_is_checked_and_then_refused_by_name(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\"}", "--l2-adapter", "x"},
         "Invalid JSON for --l2-adapter #2: Expecting value: line 1 column 1 (char 0)"},
        {{LMC_L1, "--l2-adapter", "[]"}, "--l2-adapter #1: expected a JSON object, got list"},
        {{LMC_L1, "--l2-adapter", "\"fs\""},
         "--l2-adapter #1: expected a JSON object, got str"},
        {{LMC_L1, "--l2-adapter", "3"}, "--l2-adapter #1: expected a JSON object, got int"},
        {{LMC_L1, "--l2-adapter", "null"},
         "--l2-adapter #1: expected a JSON object, got NoneType"},
        {{LMC_L1, "--l2-adapter", "{}"}, "--l2-adapter #1: missing 'type' field"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"tape\"}"},
         "--l2-adapter #1: unknown adapter type 'tape'. Known: aerospike, bigtable, dax, "
         "fault_inject, fs, fs_native, hfbucket, mock, mooncake_store, native_plugin, "
         "nixl_store, nixl_store_dynamic, plugin, raw_block, resp, s3, sagemaker-hyperpod, "
         "valkey"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"eviction\":{\"eviction_policy\":\"x\"}}"},
         "eviction.eviction_policy must be 'LRU', 'IsolatedLRU', or 'noop', got 'x'"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"eviction\":{}}"},
         "eviction.eviction_policy must be 'LRU', 'IsolatedLRU', or 'noop', got None"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"serde\":[1]}"},
         "'serde' must be a dict, got list"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"serde\":{}}"},
         "'serde' dict must include a 'type' field"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"affinity_tag\":\"hot\"}"},
         "Unknown L1 affinity_tag: 'hot'"},
        {{"--l1-manager",
          "{\"type\":\"GDS\",\"tag\":\"g\",\"size_gb\":1,\"path\":\"/g\"" POLICY "}",
          "--l2-adapter", "{\"type\":\"fs\",\"affinity_tag\":\"g\"}"},
         "L2 affinity requires a host-backed DRAM or DEVDAX L1"},
        {{LMC_L1, "--l2-adapter", "{\"type\":\"fs\",\"base_path\":\"/data/l2\"}"},
         "--l2-adapter #1: adapter type 'fs' is not built yet"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void one_dram_object_is_the_whole_l1(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {"--l1-manager",
                           DRAM(",\"use_lazy\":false,\"shm_name\":\"p\",\"align_bytes\":8192,"
                                "\"read_ttl_seconds\":7,\"init_size_gb\":0.5,\"eviction\":"
                                "{\"eviction_policy\":\"noop\",\"eviction_ratio\":1}"),
                           "--l1-write-ttl-seconds",
                           "11",
                           "--eviction-policy",
                           "LRU",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.storage_manager.l1_manager_count, 1);
    const lmc_l1_manager_config *l1 = config.storage_manager.l1_managers;
    assert_int_equal(l1->memory_config.size_in_bytes, INT64_C(8) << 30);
    assert_int_equal(l1->memory_config.init_size_in_bytes, 1 << 29);
    assert_int_equal(l1->memory_config.align_bytes, 8192);
    assert_string_equal(l1->memory_config.shm_name, "p");
    assert_int_equal(l1->read_ttl_seconds, 7);
    assert_int_equal(l1->write_ttl_seconds, 11);
    assert_string_equal(l1->eviction.eviction_policy, "noop");
    assert_true(l1->eviction.trigger_watermark == 0.8 && l1->eviction.eviction_ratio == 1.0);
    assert_string_equal(config.storage_manager.eviction_config.eviction_policy, "noop");
    lmc_config_fini(&config);
}

static void a_pool_named_by_flag_belongs_to_the_l1_object_too(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {"--shm-name", "pool", "--l1-manager", DRAM(POLICY), NULL};
    lmc_case_accept(&config, words, NULL);
    assert_string_equal(config.storage_manager.l1_managers[0].memory_config.shm_name, "pool");
    assert_true(config.storage_manager.l1_managers[0].memory_config.use_lazy);
    lmc_config_fini(&config);
}

static void lazy_supply_stays_on_beside_shared_memory(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {"--l1-size-gb",
                           "0.5",
                           "--eviction-policy",
                           "noop",
                           "--shm-name",
                           "p",
                           "--l1-init-size-gb",
                           "3",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    const lmc_l1_memory_config *memory = &config.storage_manager.l1_managers[0].memory_config;
    assert_true(memory->use_lazy);
    assert_string_equal(memory->shm_name, "p");
    assert_int_equal(memory->size_in_bytes, 1 << 29);
    assert_int_equal(memory->init_size_in_bytes, 1 << 29);
    lmc_config_fini(&config);
}

static lmc_status parse_with_hugepages(lmc_config *config, const char *pages,
                                       lmc_error *error) {
    char path[] = "/tmp/lmc-hugepages-XXXXXX";
    char *words[] = {(char *)"--l1-size-gb",      (char *)"0.01",
                     (char *)"--eviction-policy", (char *)"LRU",
                     (char *)"--l1-use-lazy",     (char *)"--l1-use-hugepages"};
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, pages, strlen(pages)), (ssize_t)strlen(pages));
    close(file);
    const lmc_config_world world = {.get_variable = lmc_case_variable,
                                    .free_hugepages_path = path};
    lmc_status status = lmc_config_parse(config, 6, words, &world, error);
    unlink(path);
    return status;
}

static void huge_pages_must_be_free_and_turn_lazy_supply_off(void **state) {
    (void)state;
    lmc_config config;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(parse_with_hugepages(&config, "5\n", &error), LMC_INVALID);
    assert_string_equal(
        error.text, "Insufficient hugepages: 5 free, 6 required for a 10737418 byte L1 "
                    "buffer. Grow the 2 MiB hugepage pool (e.g. sysctl vm.nr_hugepages=6).");
    lmc_config_fini(&config);
    lmc_error_clear(&error);
    assert_int_equal(parse_with_hugepages(&config, "6\n", &error), LMC_OK);
    assert_false(config.storage_manager.l1_managers[0].memory_config.use_lazy);
    assert_true(lmc_case_noticed(&config, LMC_LOG_INFO,
                                 "hugepages are allocated at start: lazy supply is off"));
    lmc_config_fini(&config);
}

static void an_unreadable_page_count_is_only_a_warning(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1, "--l1-use-hugepages", NULL};
    lmc_case_accept(&config, words, NULL);
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "cannot read /nonexistent/free_hugepages; the number of free "
                                 "2 MiB pages is not checked"));
    lmc_config_fini(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_legacy_form_is_checked),
        cmocka_unit_test(an_l1_object_is_checked),
        cmocka_unit_test(kinds_of_l1_that_are_not_built_are_refused),
        cmocka_unit_test(an_adapter_object_is_checked_and_then_refused_by_name),
        cmocka_unit_test(one_dram_object_is_the_whole_l1),
        cmocka_unit_test(a_pool_named_by_flag_belongs_to_the_l1_object_too),
        cmocka_unit_test(lazy_supply_stays_on_beside_shared_memory),
        cmocka_unit_test(huge_pages_must_be_free_and_turn_lazy_supply_off),
        cmocka_unit_test(an_unreadable_page_count_is_only_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
