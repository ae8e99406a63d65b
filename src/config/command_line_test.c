#include "config/parse_case.h"

#include <math.h>

static void wrong_words_are_told_in_the_original_wording(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--port", "x"}, "argument --port: invalid int value: 'x'"},
        {{"--port", "0x10"}, "argument --port: invalid int value: '0x10'"},
        {{"--port", "1__0"}, "argument --port: invalid int value: '1__0'"},
        {{"--port="}, "argument --port: invalid int value: ''"},
        {{"--port", "99999999999999999999"},
         "argument --port: invalid int value: '99999999999999999999'"},
        {{"--port", "it's"}, "argument --port: invalid int value: \"it's\""},
        {{"--l1-size-gb", "ten"}, "argument --l1-size-gb: invalid float value: 'ten'"},
        {{"--l1-size-gb", "0x1p3"}, "argument --l1-size-gb: invalid float value: '0x1p3'"},
        {{"--shm-mode", "0888"}, "argument --shm-mode: invalid octal value: '0888'"},
        {{"--transport", "foo"},
         "argument --transport: invalid choice: 'foo' (choose from 'zmq', 'grpc')"},
        {{"--transport=zmq,zmq"},
         "argument --transport: invalid choice: 'zmq,zmq' (choose from 'zmq', 'grpc')"},
        {{"--eviction-policy", "lru"},
         "argument --eviction-policy: invalid choice: 'lru' (choose from 'LRU', 'ARC', "
         "'IsolatedLRU', 'noop')"},
        {{"--nope"}, "unrecognized arguments: --nope"},
        {{"--config", "a.toml"}, "unrecognized arguments: --config a.toml"},
        {{"--nope", "x", "--port", "3", "y"}, "unrecognized arguments: --nope x y"},
        {{"stray"}, "unrecognized arguments: stray"},
        {{"--", "--port", "1"}, "unrecognized arguments: --port 1"},
        {{"-x"}, "unrecognized arguments: -x"},
        {{"-1"}, "unrecognized arguments: -1"},
        {{"--l1-size-gb"}, "argument --l1-size-gb: expected one argument"},
        {{"--l1-size-gb", "--port", "1"}, "argument --l1-size-gb: expected one argument"},
        {{"--host", "-1e5"}, "argument --host: expected one argument"},
        {{"--port", "--", "5"}, "argument --port: expected one argument"},
        {{"--l1-manager"}, "argument --l1-manager: expected one argument"},
        {{"--enable-tracing=1"}, "argument --enable-tracing: ignored explicit argument '1'"},
        {{"--l1-use-lazy=yes"},
         "argument --l1-use-lazy/--no-l1-use-lazy: ignored explicit argument 'yes'"},
        {{"--help=1"}, "argument -h/--help: ignored explicit argument '1'"},
        {{"--no-enable-tracing"}, "unrecognized arguments: --no-enable-tracing"},
    };
    LMC_CASES(cases, LMC_MALFORMED);
}

static void an_ambiguous_prefix_names_every_option_it_could_be(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--evict", "LRU"},
         "ambiguous option: --evict could match --eviction-policy, "
         "--eviction-trigger-watermark, --eviction-ratio"},
        {{"--l1-use=1"},
         "ambiguous option: --l1-use=1 could match --l1-use-lazy, --l1-use-hugepages"},
        {{"--help", "--no-l1-use"},
         "ambiguous option: --no-l1-use could match --no-l1-use-lazy, --no-l1-use-hugepages"},
    };
    LMC_CASES(cases, LMC_MALFORMED);
}

static void our_own_options_need_their_full_name(void **state) {
    (void)state;
    static const lmc_parse_case cases[] = {
        {{"--check-conf"}, "unrecognized arguments: --check-conf"},
        {{"--no-htt"}, "unrecognized arguments: --no-htt"},
        {{"--shm-m", "0600"}, "unrecognized arguments: --shm-m 0600"},
        {{"--chunk-hash-log-d", "x"}, "unrecognized arguments: --chunk-hash-log-d x"},
    };
    LMC_CASES(cases, LMC_MALFORMED);
    lmc_config config;
    const char *words[] = {LMC_L1, "--shm", "pool", "--chunk", "64", "--check-config", NULL};
    lmc_case_accept(&config, words, NULL);
    assert_string_equal(config.mp.shm_name, "pool");
    assert_int_equal(config.mp.chunk_size, 64);
    assert_true(config.check_config);
    lmc_config_fini(&config);
}

static void an_unambiguous_prefix_is_the_option(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {"--l1-size",
                           "10",
                           "--eviction-p=LRU",
                           "--no-l1-use-l",
                           "--por=0",
                           "--coordinator-l2-event-r",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.storage_manager.l1_managers[0].memory_config.size_in_bytes,
                     INT64_C(10) << 30);
    assert_false(config.storage_manager.l1_managers[0].memory_config.use_lazy);
    assert_int_equal(config.mp.port, 0);
    assert_true(config.coordinator.event_reporting);
    lmc_config_fini(&config);
}

static void the_last_of_repeated_values_wins(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1,
                           "--port",
                           "1",
                           "--port",
                           "2",
                           "--no-l1-use-lazy",
                           "--host",
                           "a",
                           "--host=b",
                           "--l1-use-lazy",
                           "--script-allowed-imports",
                           "x",
                           "y",
                           "--script-allowed-imports",
                           "z",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.mp.port, 2);
    assert_string_equal(config.mp.host, "b");
    assert_true(config.storage_manager.l1_managers[0].memory_config.use_lazy);
    assert_int_equal(config.mp.script_allowed_imports.count, 1);
    assert_string_equal(config.mp.script_allowed_imports.items[0], "z");
    lmc_config_fini(&config);
}

static void numbers_may_have_blanks_signs_and_underscores(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {"--l1-size-gb",
                           " 1_0.5e0 ",
                           "--eviction-policy",
                           "noop",
                           "--port",
                           "+6_555",
                           "--null-block-id",
                           "-1",
                           NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.storage_manager.l1_managers[0].memory_config.size_in_bytes,
                     (INT64_C(21) << 30) / 2);
    assert_int_equal(config.mp.port, 6555);
    assert_int_equal(config.mp.null_block_id, -1);
    lmc_config_fini(&config);
}

static void a_list_takes_words_up_to_the_next_option(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {
        LMC_L1, "--script-allowed-imports", "os", "-1", "-2.5", "--port", "3", "--enable",
        NULL};
    lmc_case_accept(&config, words, NULL);
    assert_int_equal(config.mp.script_allowed_imports.count, 3);
    assert_string_equal(config.mp.script_allowed_imports.items[2], "-2.5");
    assert_int_equal(config.mp.port, 3);
    assert_int_equal(config.mp.enable.count, 0);
    lmc_config_fini(&config);
}

static void a_word_with_a_blank_is_a_value_even_behind_dashes(void **state) {
    (void)state;
    lmc_config config;
    const char *words[] = {LMC_L1, "--instance-id", "--x y", "--host", "-", "--", NULL};
    lmc_case_accept(&config, words, NULL);
    assert_string_equal(config.mp.instance_id, "--x y");
    assert_string_equal(config.mp.host, "-");
    lmc_config_fini(&config);
}

static void help_goes_before_what_is_unrecognized(void **state) {
    (void)state;
    static const char *const lines[][4] = {
        {"--help"}, {"-h"}, {"--hel"}, {"--nope", "--help"}, {"--help", "--port", "x"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lmc_config config;
        lmc_error error = LMC_ERROR_INIT;
        assert_int_equal(lmc_case_parse(&config, lines[i], NULL, &error), LMC_DECLINED);
        lmc_config_fini(&config);
    }
}

static void help_tells_every_option_and_its_default(void **state) {
    (void)state;
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_config_help(&text, "lmcached server");
    assert_false(text.failed);
    static const char *const parts[] = {"usage: lmcached server [-h]",
                                        "  --port PORT",
                                        "(default: 5555)",
                                        "--[no-]l1-use-lazy",
                                        "--runtime-plugin-locations [PATH ...]",
                                        "--shm-mode OCTAL",
                                        "blend engines only [no effect]",
                                        "  -h, --help",
                                        "[LMCACHE_COORDINATOR_URL]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(text.data, parts[i]));
    const char *adapter = strstr(text.data, "  --l2-adapter "),
               *mark = strstr(adapter, " yet]");
    assert_true(mark < strstr(adapter, "  --l2-store-policy "));
    assert_null(strstr(text.data, "--coordinator-l2-event-reporting"));
    for (const char *at = text.data; *at != '\0'; at += strcspn(at, "\n") + 1)
        assert_true(strcspn(at, "\n") <= 100);
    lmc_buffer_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_told_in_the_original_wording),
        cmocka_unit_test(an_ambiguous_prefix_names_every_option_it_could_be),
        cmocka_unit_test(our_own_options_need_their_full_name),
        cmocka_unit_test(an_unambiguous_prefix_is_the_option),
        cmocka_unit_test(the_last_of_repeated_values_wins),
        cmocka_unit_test(numbers_may_have_blanks_signs_and_underscores),
        cmocka_unit_test(a_list_takes_words_up_to_the_next_option),
        cmocka_unit_test(a_word_with_a_blank_is_a_value_even_behind_dashes),
        cmocka_unit_test(help_goes_before_what_is_unrecognized),
        cmocka_unit_test(help_tells_every_option_and_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
