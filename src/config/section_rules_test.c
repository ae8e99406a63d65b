/* Rules of sections mp, observability, http and coordinator; environment; what is not built. */
#include "config/parse_case.h"

#include <stdlib.h>

static void values_out_of_range_are_rejected_with_their_text(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--worker-reap-timeout-seconds", "5"},
         "worker reap timeout must be 0 (disabled) or >= 30s; keep it >= 3 x your configured "
         "lmcache.mp.heartbeat_interval (default 10s); got 5.0"},
        {{LMC_L1, "--worker-reap-timeout-seconds", "nan"},
         "worker reap timeout must be 0 (disabled) or >= 30s; keep it >= 3 x your configured "
         "lmcache.mp.heartbeat_interval (default 10s); got nan"},
        {{LMC_L1, "--worker-registration-grace-seconds", "60"},
         "worker registration grace must be >= the worker reap timeout (120.0s); got 60.0"},
        {{LMC_L1, "--worker-registration-grace-seconds", "inf"},
         "worker registration grace must be >= the worker reap timeout (120.0s); got inf"},
        {{LMC_L1, "--l2-prefetch-load-timeout", "0"},
         "prefetch_load_timeout must be a finite positive number of seconds or None to disable "
         "(got 0.0)"},
        {{LMC_L1, "--l2-prefetch-load-timeout", "nan"},
         "prefetch_load_timeout must be a finite positive number of seconds or None to disable "
         "(got nan)"},
        {{LMC_L1, "--l1-cache-download-max-size-bytes", "0"},
         "l1_cache_download_max_size_bytes must be positive"},
        {{LMC_L1, "--l1-cache-download-max-concurrency", "-1"},
         "l1_cache_download_max_concurrency must be positive"},
        {{LMC_L1, "--coordinator-heartbeat-interval", "0"},
         "coordinator heartbeat interval must be a finite number > 0, got 0.0"},
        {{LMC_L1, "--coordinator-event-flush-interval", "inf"},
         "coordinator event flush interval must be a finite number > 0, got inf"},
        {{LMC_L1, "--coordinator-l2-event-flush-interval", "-1"},
         "coordinator event flush interval must be a finite number > 0, got -1.0"},
        {{LMC_L1, "--coordinator-blend-timeout", "-2"},
         "coordinator blend timeout must be a finite number > 0, got -2.0"},
        {{LMC_L1, "--coordinator-blend-match-concurrency", "0"},
         "coordinator blend match concurrency must be >= 1, got 0"},
        {{LMC_L1, "--extra-logging-interval", "0"}, "--extra-logging-interval must be > 0."},
        {{LMC_L1, "--metrics-sample-rate", "0"},
         "--metrics-sample-rate must be in (0, 1], got 0.0"},
        {{LMC_L1, "--port", "70000"}, "--port must be between 0 and 65535, got 70000"},
        {{LMC_L1, "--chunk-size", "0"}, "--chunk-size must be between 1 and 4294967295, got 0"},
        {{LMC_L1, "--max-workers", "0"}, "--max-workers must be between 1 and 65536, got 0"},
        {{LMC_L1, "--shm-mode", "1777"}, "--shm-mode must be between 0000 and 0777, got 1777"},
        {{LMC_L1, "--session-lease-seconds", "-1"},
         "--session-lease-seconds must be a finite number >= 0, got -1.0"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void rules_across_options_are_rejected_with_their_text(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--hash-algorithm", "md5"},
         "unknown hash algorithm 'md5'; known: blake3, sha256_cbor, builtin"},
        {{LMC_L1, "--enable", "transfer_query", "warp"},
         "Unknown --enable name 'warp'; known: transfer_query"},
        {{LMC_L1, "--p2p-advertise-url", "h:1"},
         "P2P requires a coordinator for peer discovery: set --coordinator-url (or "
         "LMCACHE_COORDINATOR_URL) when --p2p-advertise-url is set."},
        {{LMC_L1, "--p2p-advertise-url", "h:1", "--coordinator-url", "http://c",
          "--gds-l1-path", "/g"},
         "P2P requires a single L1 memory region the transfer channel can register; it is "
         "incompatible with GDS L1 (--gds-l1-path) and Device-DAX L1 (--l1-devdax-path)."},
        {{LMC_L1, "--enable-tracing"},
         "--enable-tracing requires --otlp-endpoint to be set. Tracing needs an OTLP gRPC "
         "endpoint to export spans."},
        {{LMC_L1, "--enable-extra-logging", "--disable-observability"},
         "--enable-extra-logging requires the observability EventBus; remove "
         "--disable-observability."},
        {{LMC_L1, "--coordinator-event-reporting", "--disable-observability"},
         "--coordinator-event-reporting rides the observability event bus: remove "
         "--disable-observability to report cache events."},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void json_given_in_options_is_checked_in_order(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--runtime-plugin-config", "{"},
         "--runtime-plugin-config is not valid JSON: Expecting property name enclosed in "
         "double "
         "quotes: line 1 column 2 (char 1)"},
        {{LMC_L1, "--runtime-plugin-config", "[1]"},
         "--runtime-plugin-config must be a JSON object"},
        {{LMC_L1, "--server-module", ""},
         "--server-module must be valid JSON: Expecting value: line 1 column 1 (char 0)"},
        {{LMC_L1, "--server-module", "{\"a\":1} x"},
         "--server-module must be valid JSON: Extra data: line 1 column 9 (char 8)"},
        {{LMC_L1, "--server-module", "null"}, "--server-module entries must be JSON objects"},
        {{LMC_L1, "--server-module", "[[]]"}, "--server-module entries must be JSON objects"},
        {{LMC_L1, "--server-module", "{\"config\":3}"},
         "server module module_path must be a non-empty string"},
        {{LMC_L1, "--server-module", "{\"module_path\":\"\"}"},
         "server module module_path must be a non-empty string"},
        {{LMC_L1, "--server-module",
          "{\"module_path\":\"a\",\"factory_name\":\"\","
          "\"config\":3}"},
         "server module factory_name must be a non-empty string"},
        {{LMC_L1, "--server-module", "{\"module_path\":\"a\",\"config\":null}"},
         "server module config must be a JSON object"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void what_is_not_built_is_refused_by_name(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--transport", "grpc"}, "--transport grpc is not built yet; available: zmq"},
        {{LMC_L1, "--transport", "zmq,grpc"},
         "--transport zmq,grpc is not built yet; available: zmq"},
        {{"--l1-size-gb", "1", "--eviction-policy", "ARC"},
         "--eviction-policy ARC is not built yet; available: LRU, noop"},
        {{"--l1-size-gb", "1", "--eviction-policy", "IsolatedLRU"},
         "--eviction-policy IsolatedLRU is not built yet; available: LRU, noop"},
        {{LMC_L1, "--hash-algorithm", "sha256_cbor"},
         "--hash-algorithm sha256_cbor is not built yet; available: blake3"},
        {{LMC_L1, "--hash-algorithm", "builtin"},
         "--hash-algorithm builtin is not built yet; available: blake3"},
        {{LMC_L1, "--enable", "transfer_query"}, "--enable transfer_query is not built yet"},
        {{LMC_L1, "--engine-type", "blend"},
         "--engine-type blend is not built yet; available: default"},
        {{LMC_L1, "--supported-transfer-mode", "lmcache_driven"},
         "--supported-transfer-mode lmcache_driven is not built yet; available: auto, "
         "engine_driven"},
        {{LMC_L1, "--p2p-advertise-url", "h:1", "--coordinator-url", "http://c"},
         "--p2p-advertise-url is not built yet"},
        {{LMC_L1, "--coordinator-url", "http://c"}, "--coordinator-url is not built yet"},
        {{LMC_L1, "LMCACHE_COORDINATOR_URL=http://c"},
         "LMCACHE_COORDINATOR_URL is not built yet"},
        {{LMC_L1, "--enable-tracing", "--otlp-endpoint", "http://o:4318/v1"},
         "--enable-tracing is not built yet"},
        {{LMC_L1, "--otlp-endpoint", "http://o:4318/v1"}, "--otlp-endpoint is not built yet"},
        {{LMC_L1, "--trace-level", "storage"}, "--trace-level is not built yet"},
        {{LMC_L1, "--lookup-hash-log-dir", "/x"}, "--lookup-hash-log-dir is not built yet"},
        {{LMC_L1, "--chunk-hash-log-dir", "/x"}, "--lookup-hash-log-dir is not built yet"},
        {{LMC_L1, "--l2-store-policy", "skip_l1"},
         "--l2-store-policy skip_l1 is not built yet; available: default"},
        {{LMC_L1, "--l2-prefetch-policy", "retain"},
         "--l2-prefetch-policy retain is not built yet; available: default"},
        {{LMC_L1, "--l1-devdax-path", " /dev/dax0.0 ", "--no-l1-use-lazy"},
         "--l1-devdax-path is not built yet"},
        {{LMC_L1, "--gds-l1-path", "/g"}, "--gds-l1-path is not built yet"},
        {{LMC_L1, "--http-token-file", "/t"}, "--http-token-file is not built yet"},
        {{LMC_L1, "--grpc-port", "5556"}, "--grpc-port is not built yet"},
        {{LMC_L1, "--grpc-tls-cert-file", "/c"}, "--grpc-tls-cert-file is not built yet"},
        {{LMC_L1, "--grpc-tls-key-file", "/c"}, "--grpc-tls-key-file is not built yet"},
        {{LMC_L1, "--grpc-tls-client-ca-file", "/c"},
         "--grpc-tls-client-ca-file is not built yet"},
        {{LMC_L1, "--enable-l1-cache-download"}, "--enable-l1-cache-download is not built yet"},
        {{LMC_L1, "--run-script-api-enabled"}, "--run-script-api-enabled is not built yet"},
        {{LMC_L1, "--enable-extra-logging"}, "--enable-extra-logging is not built yet"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void two_doors_never_share_a_port(void **state) {
    (void)state;
#define BOTH(other, port, host, http_host)                             \
    "--port and " other " are both " port " on one host (--host " host \
    ", --http-host " http_host "); they need ports of their own"
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "--port", "8080"}, BOTH("--http-port", "8080", "localhost", "127.0.0.1")},
        {{LMC_L1, "--http-port", "5555", "--host", "0.0.0.0"},
         BOTH("--http-port", "5555", "0.0.0.0", "127.0.0.1")},
        {{LMC_L1, "--http-port", "5555", "--http-host", "0.0.0.0"},
         BOTH("--http-port", "5555", "localhost", "0.0.0.0")},
        {{LMC_L1, "--http-port", "5555", "--host", "::1", "--http-host", "[::]"},
         BOTH("--http-port", "5555", "::1", "[::]")},
        {{LMC_L1, "--http-port", "5555", "--host", "Node", "--http-host", "node"},
         BOTH("--http-port", "5555", "Node", "node")},
        {{LMC_L1, "--no-http", "--port", "9090"},
         BOTH("--prometheus-port", "9090", "localhost", "127.0.0.1")},
    };
#undef BOTH
    LMC_CASES(cases, LMC_INVALID);
    static const char *const lines[][12] = {
        {LMC_L1, "--port", "0", "--http-port", "0"},
        {LMC_L1, "--port", "9090"},
        {LMC_L1, "--port", "8080", "--no-http"},
        {LMC_L1, "--port", "8080", "--host", "10.0.0.1"},
        {LMC_L1, "--port", "8080", "--host", "::1"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lmc_config config;
        lmc_case_accept(&config, lines[i], NULL);
        lmc_config_fini(&config);
    }
}

static void an_option_that_another_silences_says_so_with_both_names(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1,
                           "--no-http",
                           "--http-port",
                           "8081",
                           "--shm-mode",
                           "0660",
                           "--enable-plugin-control",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "--http-port has no effect beside --no-http, where "
                                 "--prometheus-port is the only HTTP port"));
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "--enable-plugin-control has no effect beside --no-http: it "
                                 "controls over the HTTP port"));
    assert_true(lmc_case_noticed(
        &config, LMC_LOG_WARNING,
        "--shm-mode has no effect without --shm-name: there is no pool to map"));
    assert_int_equal(config.notice_count, 3);
    lmc_config_fini(&config);
    const char *ignored[] = {LMC_L1, "--prometheus-port", "9999", NULL};
    lmc_case_accept(&config, ignored, NULL);
    assert_true(lmc_case_noticed(
        &config, LMC_LOG_INFO,
        "--prometheus-port has no effect without --no-http: /metrics is on --http-port"));
    lmc_config_fini(&config);
}

static void options_that_act_are_not_commented_on(void **state) {
    (void)state;
    static const char *const lines[][14] = {
        {LMC_L1, "--http-port", "8081", "--enable-plugin-control"},
        {LMC_L1, "--no-http", "--prometheus-port", "9999", "--http-host", "0.0.0.0"},
        {LMC_L1, "--shm-mode", "0660", "--shm-name", "x"},
        {"--l1-manager",
         "{\"type\":\"DRAM\",\"tag\":\"a\",\"size_gb\":1,\"shm_name\":\"x\",\"use_lazy\":"
         "false}",
         "--eviction-policy", "LRU", "--shm-mode", "0660"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lmc_config config;
        lmc_case_accept(&config, lines[i], NULL);
        assert_int_equal(config.notice_count, 0);
        lmc_config_fini(&config);
    }
}

static void what_has_no_effect_is_accepted(void **state) {
    (void)state;
    static const char *const lines[][10] = {
        {LMC_L1, "--enable-gc-monitor", "--gc-monitor-min-pause-ms", "2"},
        {LMC_L1, "--prometheus-port", "9999", "--grpc-server-workers", "4"},
        {LMC_L1, "--coordinator-l2-event-reporting", "--coordinator-url", ""},
        {LMC_L1, "--supported-transfer-mode", "auto", "--coordinator-advertise-ip", "10.0.0.1"},
        {LMC_L1, "--p2p-transfer-engine", "verbs", "--p2p-rdma-port", "2"},
        {LMC_L1, "--isolated-ipc", "--separate-object-groups", "--trace-output", "x"},
        {LMC_L1, "--server-module", "[]", "--runtime-plugin-locations"},
        {LMC_L1, "--runtime-plugin-locations", "a", "b", "--enable-plugin-control"},
        {LMC_L1, "--runtime-plugin-config", "", "--otlp-endpoint", ""},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lmc_config config;
        lmc_case_accept(&config, lines[i], NULL);
        lmc_config_fini(&config);
    }
}

static void a_key_of_a_module_that_means_nothing_is_named(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {
        LMC_L1, "--server-module",
        "[{\"module_path\":\"a\",\"confg\":{},\"x\":1},{\"config\":{},\"module_path\":\"b\"}]",
        NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.mp.server_module_count, 2);
    assert_true(lmc_case_noticed(&config, LMC_LOG_INFO,
                                 "--server-module: 'confg' has no effect; the keys are "
                                 "module_path, config and factory_name"));
    assert_int_equal(config.notice_count, 2);
    lmc_config_fini(&config);
}

static void an_option_without_effect_says_so_once(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1, "--enable-gc-monitor", "--metrics-sample-rate", "0.5", NULL};
    lmc_case_accept(&config, words, NULL);
    assert_true(lmc_case_noticed(
        &config, LMC_LOG_INFO,
        "--enable-gc-monitor has no effect: this server has no garbage collector"));
    assert_true(lmc_case_noticed(
        &config, LMC_LOG_INFO,
        "--metrics-sample-rate has no effect: the life of chunks is not measured yet"));
    assert_int_equal(config.notice_count, 2);
    lmc_config_fini(&config);
}

static void a_deprecated_flag_is_accepted_with_a_warning(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1,
                           "--coordinator-l2-event-reporting",
                           "--coordinator-event-flush-interval",
                           "3",
                           "--coordinator-l2-event-flush-interval",
                           "2",
                           "--chunk-hash-log-max-files=7",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_true(config.coordinator.event_reporting);
    assert_true(config.coordinator.event_flush_interval == 3.0);
    assert_int_equal(config.observability.lookup_hash_log.max_files, 7);
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "--coordinator-l2-event-reporting is deprecated, use "
                                 "--coordinator-event-reporting instead"));
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "--coordinator-l2-event-flush-interval is deprecated, use "
                                 "--coordinator-event-flush-interval instead"));
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "--chunk-hash-log-max-files is deprecated, use "
                                 "--lookup-hash-log-max-files instead"));
    lmc_config_fini(&config);
}

static void flags_go_before_new_variables_and_those_before_old_ones(void **state) {
    (void)state;
    lmc_config config;
    const char *flag[] = {
        LMC_L1, "--coordinator-l2-event-flush-interval", "4", "--coordinator-url", "", NULL};
    const char *none[] = {LMC_L1, NULL};
    const char *both[] = {"LMCACHE_COORDINATOR_EVENT_FLUSH_INTERVAL=2.5",
                          "LMCACHE_COORDINATOR_L2_EVENT_FLUSH_INTERVAL=9",
                          "LMCACHE_COORDINATOR_EVENT_REPORTING=YES", NULL};
    const char *url[] = {"LMCACHE_COORDINATOR_URL=http://c",
                         "LMCACHE_COORDINATOR_EVENT_FLUSH_INTERVAL=2.5", NULL};
    const char *old[] = {"LMCACHE_COORDINATOR_L2_EVENT_FLUSH_INTERVAL=9",
                         "LMCACHE_COORDINATOR_HEARTBEAT_INTERVAL=",
                         "LMCACHE_COORDINATOR_L2_EVENT_REPORTING=no", NULL};

    lmc_case_accept(&config, flag, url);
    assert_true(config.coordinator.event_flush_interval == 4.0);
    assert_string_equal(config.coordinator.url, "");
    lmc_config_fini(&config);

    lmc_case_accept(&config, none, both);
    assert_true(config.coordinator.event_flush_interval == 2.5);
    assert_true(config.coordinator.event_reporting);
    lmc_config_fini(&config);

    lmc_case_accept(&config, none, old);
    assert_true(config.coordinator.event_flush_interval == 9.0);
    assert_true(config.coordinator.heartbeat_interval == 5.0);
    assert_false(config.coordinator.event_reporting);
    assert_true(lmc_case_noticed(&config, LMC_LOG_WARNING,
                                 "LMCACHE_COORDINATOR_L2_EVENT_FLUSH_INTERVAL is deprecated, "
                                 "use LMCACHE_COORDINATOR_EVENT_FLUSH_INTERVAL instead"));
    lmc_config_fini(&config);
}

static void a_variable_that_is_no_number_is_named(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{LMC_L1, "LMCACHE_COORDINATOR_HEARTBEAT_INTERVAL=soon"},
         "LMCACHE_COORDINATOR_HEARTBEAT_INTERVAL is not a number: 'soon'"},
        {{LMC_L1, "LMCACHE_COORDINATOR_EVENT_FLUSH_INTERVAL=1s"},
         "LMCACHE_COORDINATOR_EVENT_FLUSH_INTERVAL is not a number: '1s'"},
        {{LMC_L1, "LMCACHE_COORDINATOR_HEARTBEAT_INTERVAL=-1"},
         "coordinator heartbeat interval must be a finite number > 0, got -1.0"},
    };
    LMC_CASES(cases, LMC_INVALID);
}

static void unset_values_follow_others(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1, "--max-workers", "3", "--max-cpu-workers",
                           "5",    "--instance-id", "",  NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.mp.max_gpu_workers, 3);
    assert_int_equal(config.mp.max_cpu_workers, 5);
    assert_int_equal(strlen(config.mp.instance_id), 36);
    assert_int_equal(config.mp.instance_id[14], '4');
    assert_true(config.mp.session_ttl_seconds == 600.0);
    assert_int_equal(config.mp.shm_mode, 0600);
    lmc_config_fini(&config);
}

static void module_specs_keep_order_and_the_text_of_their_config(void **state) {
    (void)state;
    lmc_config config;
    lmc_error error = LMC_ERROR_INIT;
    const char *words[] = {LMC_L1,
                           "--server-module",
                           "[{\"module_path\":\"a\",\"x\":1},{\"module_path\":\"b\","
                           "\"factory_name\":\"f\",\"config\": {\"n\": 1.00 }}]",
                           "--server-module",
                           "{\"module_path\":\"c\"}",
                           NULL};
    assert_int_equal(lmc_case_parse(&config, words, NULL, &error), LMC_OK);
    assert_int_equal(config.mp.server_module_count, 3);
    const lmc_module_spec *specs = config.mp.server_modules;
    assert_string_equal(specs[0].module_path, "a");
    assert_string_equal(specs[0].config, "{}");
    assert_null(specs[0].factory_name);
    assert_string_equal(specs[1].factory_name, "f");
    assert_string_equal(specs[1].config, "{\"n\": 1.00 }");
    assert_string_equal(specs[2].module_path, "c");
    lmc_config_fini(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_out_of_range_are_rejected_with_their_text),
        cmocka_unit_test(rules_across_options_are_rejected_with_their_text),
        cmocka_unit_test(json_given_in_options_is_checked_in_order),
        cmocka_unit_test(what_is_not_built_is_refused_by_name),
        cmocka_unit_test(two_doors_never_share_a_port),
        cmocka_unit_test(an_option_that_another_silences_says_so_with_both_names),
        cmocka_unit_test(options_that_act_are_not_commented_on),
        cmocka_unit_test(what_has_no_effect_is_accepted),
        cmocka_unit_test(a_key_of_a_module_that_means_nothing_is_named),
        cmocka_unit_test(an_option_without_effect_says_so_once),
        cmocka_unit_test(a_deprecated_flag_is_accepted_with_a_warning),
        cmocka_unit_test(flags_go_before_new_variables_and_those_before_old_ones),
        cmocka_unit_test(a_variable_that_is_no_number_is_named),
        cmocka_unit_test(unset_values_follow_others),
        cmocka_unit_test(module_specs_keep_order_and_the_text_of_their_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
