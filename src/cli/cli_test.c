/* Which command the words name, and the server's words up to the point where it would start. */
#include "cli/cli_case.h"

static void no_command_is_help_and_a_failure(void **state) {
    (void)state;
    lmc_cli_outcome none = LMC_RUN(NULL), asked = LMC_RUN("--help"), letter = LMC_RUN("-h");
    assert_int_equal(none.status, 1);
    assert_int_equal(asked.status, 0);
    assert_int_equal(letter.status, 0);
    assert_string_equal(none.out, asked.out);
    assert_string_equal(letter.out, asked.out);
    assert_int_equal(strncmp(asked.out, "usage: lmcached [-h] [--version] <command>", 42), 0);
    assert_string_equal(none.err, "");
    lmc_outcome_fini(&none);
    lmc_outcome_fini(&asked);
    lmc_outcome_fini(&letter);
}

static void an_unknown_command_is_wrong_usage(void **state) {
    (void)state;
    lmc_cli_outcome seen = LMC_RUN("serve");
    assert_int_equal(seen.status, 2);
    assert_string_equal(seen.out, "");
    assert_non_null(strstr(seen.err, "lmcached: error: argument <command>: invalid choice: "
                                     "'serve' (choose from 'server', 'ping', "));
    lmc_outcome_fini(&seen);
}

static void commands_that_come_later_say_so(void **state) {
    (void)state;
    static const char *const names[] = {"quota", "query", "trace",
                                        "bench", "tool",  "coordinator"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char expected[96];
        snprintf(expected, sizeof expected, "lmcached %s: this command is not built yet\n",
                 names[i]);
        LMC_EXPECT(1, "", expected, names[i], "x");
        lmc_cli_outcome help = LMC_RUN(names[i], "--help");
        assert_int_equal(help.status, 0);
        assert_non_null(strstr(help.out, "not built yet"));
        lmc_outcome_fini(&help);
    }
}

static void every_command_has_help(void **state) {
    (void)state;
    static const char *const names[] = {"server",  "ping",    "describe",
                                        "kvcache", "version", "call"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "usage: lmcached %s [-h]", names[i]);
        lmc_cli_outcome help = LMC_RUN(names[i], "--help");
        assert_int_equal(help.status, 0);
        assert_int_equal(strncmp(help.out, usage, strlen(usage)), 0);
        assert_string_equal(help.err, "");
        lmc_outcome_fini(&help);
    }
}

static void the_version_goes_to_standard_output(void **state) {
    (void)state;
    lmc_cli_outcome word = LMC_RUN("version"), flag = LMC_RUN("--version");
    assert_int_equal(strncmp(word.out, "lmcached " LMC_VERSION, 9 + strlen(LMC_VERSION)), 0);
    assert_string_equal(word.out, flag.out);
    assert_int_equal(word.status + flag.status, 0);
    lmc_outcome_fini(&word);
    lmc_outcome_fini(&flag);
}

#define SERVER_USAGE \
    "usage: lmcached server [-h] --l1-size-gb GIB --eviction-policy POLICY [options]\n"

static void wrong_words_for_the_server_are_usage_errors(void **state) {
    (void)state;
    LMC_EXPECT(2, "",
               SERVER_USAGE "lmcached server: error: argument --port: invalid int value: 'x'\n",
               "server", "--port", "x");
    LMC_EXPECT(2, "", SERVER_USAGE "lmcached server: error: unrecognized arguments: --nope\n",
               "--nope");
}

static void a_rejected_configuration_is_a_failure(void **state) {
    (void)state;
    LMC_EXPECT(1, "", "", "server", "--l1-size-gb", "1"); /* the text is in the log */
}

static void check_config_prints_the_effective_configuration(void **state) {
    (void)state;
    lmc_cli_outcome seen = LMC_RUN("--check-config", "--l1-size-gb", "2", "--eviction-policy",
                                   "LRU", "--port", "6555");
    assert_int_equal(seen.status, 0);
    assert_ptr_equal(strstr(seen.out, "{\n  \"mp\": {\n    \"host\": \"localhost\",\n"),
                     seen.out);
    assert_non_null(strstr(seen.out, "    \"port\": 6555,\n"));
    assert_string_equal(seen.out + seen.out_size - 6, "  }\n}\n");
    lmc_outcome_fini(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_command_is_help_and_a_failure),
        cmocka_unit_test(an_unknown_command_is_wrong_usage),
        cmocka_unit_test(commands_that_come_later_say_so),
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(the_version_goes_to_standard_output),
        cmocka_unit_test(wrong_words_for_the_server_are_usage_errors),
        cmocka_unit_test(a_rejected_configuration_is_a_failure),
        cmocka_unit_test(check_config_prints_the_effective_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
