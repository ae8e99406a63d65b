/* plugins against a made-up server. */
#include <string.h>

#include "cli/cli_case.h"

#define ROWS                                                                                   \
    "{\"plugins\":[{\"name\":\"a.py\",\"path\":\"p/a.py\",\"pid\":12,\"state\":\"RUNNING\","   \
    "\"exit_code\":null,\"restarts\":2,\"uptime_seconds\":61.5,\"lines\":7,"                   \
    "\"dropped_lines\":0},{\"name\":\"b.sh\",\"path\":\"p/b.sh\",\"pid\":null,"                \
    "\"state\":\"EXITED\",\"exit_code\":-9,\"restarts\":0,\"uptime_seconds\":0.0,\"lines\":1," \
    "\"dropped_lines\":3}]}"

static void answer(int status, const char *reason, const char *body) {
    lmc_fake = (lmc_fake_server){.status = status, .reason = reason, .body = body};
}

static void the_list_is_a_table_or_the_answer_itself(void **state) {
    (void)state;
    answer(200, "OK", ROWS);
    LMC_EXPECT(
        0,
        "NAME                             STATE         PID RESTARTS  EXIT  UPTIME/S     "
        "LINES  DROPPED\n"
        "a.py                             RUNNING        12        2     -        62"
        "         7        0\n"
        "b.sh                             EXITED          -        0    -9         0"
        "         1        3\n",
        "", "plugins", "list", "--url", "h:1");
    assert_string_equal(lmc_fake.asked, "GET http://h:1/plugins");
    LMC_EXPECT(0, ROWS "\n", "", "plugins", "list", "--format=json");
    assert_string_equal(lmc_fake.asked, "GET http://127.0.0.1:8080/plugins");
    LMC_EXPECT(1, "", "Unknown format 'xml'. Available: json, terminal\n", "plugins", "list",
               "--format", "xml");
}

static void a_change_is_asked_for_and_its_outcome_shown(void **state) {
    (void)state;
    answer(200, "OK", ROWS);
    LMC_EXPECT(0, "a.py: RUNNING\n", "", "plugins", "restart", "a.py");
    LMC_EXPECT(1, "a.py: RUNNING\n", "", "plugins", "stop", "a.py"); /* it did not stop */
    LMC_EXPECT(0, "p/b.sh: EXITED\n", "", "plugins", "stop", "p/b.sh");
    answer(403, "Forbidden", "{\"detail\":\"plugin control is disabled\"}");
    LMC_EXPECT(1, "", "plugin control is disabled\n", "plugins", "start", "a.py");
    assert_string_equal(lmc_fake.asked, "POST http://127.0.0.1:8080/plugins/-/start?name=a.py");
    LMC_EXPECT(1, "", "plugin control is disabled\n", "plugins", "stop", "a b&\xC3\xA4.py");
    assert_non_null(strstr(lmc_fake.asked, "?name=a%20b%26%C3%A4.py"));
    answer(500, "Broken", "");
    LMC_EXPECT(1, "", "HTTP 500 from http://127.0.0.1:8080: Broken\n", "plugins", "start",
               "a.py");
    answer(404, "Not Found", "{\"detail\":\"Not Found\"}"); /* as on --prometheus-port */
    LMC_EXPECT(1, "", "HTTP 404 from http://h:9090: Not Found\n", "plugins", "list", "--url",
               "h:9090");
}

static void control_characters_do_not_reach_the_terminal(void **state) {
    (void)state;
    answer(200, "OK",
           "{\"plugins\":[{\"name\":\"a\\u001b[2J\\n\",\"state\":\"\\u009bX\"}],"
           "\"lines\":[{\"text\":\"\\u001b]0;x\\u0007\\ty\\u00e4\"}],\"next\":1}");
    lmc_cli_outcome list = LMC_RUN("plugins", "list");
    assert_non_null(strstr(list.out, "\na\\x1b[2J\\x0a  "));
    assert_non_null(strstr(list.out, " \\xc2\\x9bX "));
    lmc_outcome_fini(&list);
    LMC_EXPECT(0, "\\x1b]0;x\\x07\ty\xC3\xA4\n", "", "plugins", "logs", "a");
    answer(403, "Forbidden", "{\"detail\":\"\\u001b[2J\"}");
    LMC_EXPECT(1, "", "\\x1b[2J\n", "plugins", "stop", "a");
}

static void a_plugin_that_the_server_does_not_list_is_told(void **state) {
    (void)state;
    answer(200, "OK", ROWS);
    LMC_EXPECT(1, "", "http://127.0.0.1:8080 does not tell the state of c.py\n", "plugins",
               "restart", "c.py");
}

static void lines_are_printed_as_they_are(void **state) {
    (void)state;
    answer(200, "OK",
           "{\"name\":\"a.py\",\"lines\":[{\"text\":\"one\"},{\"text\":\"\"},{\"x\":1}],"
           "\"next\":9}");
    LMC_EXPECT(0, "one\n\n", "", "plugins", "logs", "a.py", "-n", "5");
    assert_non_null(strstr(lmc_fake.asked, "/plugins/-/logs?name=a.py&after=0&lines=5"));
    answer(200, "OK",
           "{\"lines\":[{\"text\":\"a\",\"stream\":\"stdout\"},{\"text\":\"b\",\"stream\":"
           "\"stderr\"}],\"next\":2}");
    LMC_EXPECT(0, "a\n", "b\n", "plugins", "logs", "a.py");
    answer(200, "OK", "not JSON");
    LMC_EXPECT(1, "", "http://127.0.0.1:8080 does not answer with JSON\n", "plugins", "logs",
               "a.py");
}

static void a_server_that_is_not_there_is_told(void **state) {
    (void)state;
    answer(0, "", "");
    LMC_EXPECT(1, "",
               "Cannot reach http://u:***@h \xe2\x80\x94 is the server running? (nobody "
               "listens)\n",
               "plugins", "list", "--url", "u:p@h");
}

static void every_action_has_help(void **state) {
    (void)state;
    static const char *const names[] = {"run", "list", "start", "stop", "restart", "logs"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lmc_cli_outcome seen = LMC_RUN("plugins", names[i], "-h");
        assert_int_equal(seen.status, 0);
        assert_non_null(strstr(seen.out, "usage: lmcached plugins "));
        assert_non_null(strstr(seen.out, "  -h, --help "));
        lmc_outcome_fini(&seen);
    }
    lmc_cli_outcome help = LMC_RUN("plugins", "--help");
    assert_int_equal(help.status, 0);
    assert_non_null(strstr(help.out, "  restart  "));
    lmc_outcome_fini(&help);
}

static void wrong_words_are_usage_errors(void **state) {
    (void)state;
    static const struct {
        const char *words[4];
        const char *text;
    } cases[] = {
        {{NULL}, "lmcached plugins: error: the following arguments are required: action\n"},
        {{"walk"},
         "lmcached plugins: error: argument action: invalid choice: 'walk' (choose from "
         "'run', 'list', 'start', 'stop', 'restart', 'logs')\n"},
        {{"run"}, "plugins run: error: the following arguments are required: LOCATION\n"},
        {{"logs"}, "plugins logs: error: the following arguments are required: NAME\n"},
        {{"list", "x"}, "plugins list: error: unrecognized arguments: x\n"},
        {{"list", "-f"}, "plugins list: error: unrecognized arguments: -f\n"},
        {{"run", "x", "--worker-id", "-1"}, "argument --worker-id: invalid int value: '-1'\n"},
        {{"run", "x", "--stop-grace-seconds=nan"},
         "argument --stop-grace-seconds: invalid float value: 'nan'\n"},
        {{"list", "--url"}, "argument --url: expected one argument\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_cli_outcome seen = LMC_RUN("plugins", cases[i].words[0], cases[i].words[1],
                                       cases[i].words[2], cases[i].words[3]);
        assert_int_equal(seen.status, 2);
        assert_non_null(strstr(seen.err, cases[i].text));
        assert_string_equal(seen.out, "");
        lmc_outcome_fini(&seen);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_is_a_table_or_the_answer_itself),
        cmocka_unit_test(a_change_is_asked_for_and_its_outcome_shown),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(a_plugin_that_the_server_does_not_list_is_told),
        cmocka_unit_test(lines_are_printed_as_they_are),
        cmocka_unit_test(a_server_that_is_not_there_is_told),
        cmocka_unit_test(every_action_has_help),
        cmocka_unit_test(wrong_words_are_usage_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
