#include "cli/cli_case.h"

#include <string.h>

static void call_needs_a_server_and_a_method(void **state) {
    (void)state;
    static const char usage[] =
        "usage: lmcached call [-h] [--timeout SECONDS] URL METHOD [PAYLOAD]\n"
        "lmcached call: error: the following arguments are required: METHOD\n";
    LMC_EXPECT(2, "", usage, "call", "tcp://localhost:1");
    lmc_cli_outcome seen = LMC_RUN("call", "a", "b", "c", "d");
    assert_int_equal(seen.status, 2);
    assert_non_null(strstr(seen.err, "unrecognized arguments: d\n"));
    lmc_outcome_fini(&seen);
    seen = LMC_RUN("call", "--timeout", "soon", "a", "b");
    assert_int_equal(seen.status, 2);
    assert_non_null(strstr(seen.err, "argument --timeout: expected a number of seconds"));
    lmc_outcome_fini(&seen);
    seen = LMC_RUN("call", "--help");
    assert_int_equal(seen.status, 0);
    assert_non_null(strstr(seen.out, "METHOD             for example hello.greet"));
    lmc_outcome_fini(&seen);
}

static void call_says_when_nobody_answers(void **state) {
    (void)state;
    LMC_EXPECT(
        1, "",
        "Command failed: no answer from tcp://127.0.0.1:1 within 0.05 s: the method takes "
        "longer, or this is not the --port of a running server\n",
        "call", "tcp://127.0.0.1:1", "a.b", "x", "--timeout", "0.05");
    LMC_EXPECT(1, "", "Command failed: cannot read /nowhere/x: No such file or directory\n",
               "call", "tcp://127.0.0.1:1", "a.b", "@/nowhere/x");
}

static void check_module_lists_what_is_wrong(void **state) {
    (void)state;
    lmc_cli_outcome seen = LMC_RUN("check-module", "/nowhere/a.so", "./CMakeLists.txt");
    assert_int_equal(seen.status, 1);
    assert_non_null(
        strstr(seen.out, "violation: server module /nowhere/a.so cannot be loaded: "));
    assert_non_null(
        strstr(seen.out, "violation: server module ./CMakeLists.txt cannot be loaded: "));
    assert_non_null(strstr(seen.out, "      fix: "));
    assert_non_null(strstr(seen.out, "2 violations\n"));
    lmc_outcome_fini(&seen);
}

static void check_module_says_what_is_wrong_with_a_path(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"/nowhere/a.so", "fix: there is no such file: "},
        {"nowhere.so", "fix: there is no such file: "},
        {"./CMakeLists.txt/a.so", "fix: there is no such file: "},
        {"./python/lmcache/_loader.py", "fix: name a module in Python as an import does"},
        {"./CMakeLists.txt", "fix: give the path of a shared object"},
        {"./src", "fix: give the path of a shared object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_cli_outcome seen = LMC_RUN("check-module", cases[i][0]);
        assert_int_equal(seen.status, 1);
        assert_non_null(strstr(seen.out, cases[i][1]));
        lmc_outcome_fini(&seen);
    }
}

static void check_module_wants_a_path_and_an_object(void **state) {
    (void)state;
    static const char usage[] =
        "usage: lmcached check-module [-h] [--config JSON] [--factory NAME] PATH [PATH ...]\n"
        "lmcached check-module: error: ";
    lmc_cli_outcome seen = LMC_RUN("check-module");
    assert_int_equal(seen.status, 2);
    assert_memory_equal(seen.err, usage, sizeof usage - 1);
    lmc_outcome_fini(&seen);
    seen = LMC_RUN("check-module", "--config", "[1]", "a.so");
    assert_int_equal(seen.status, 2);
    assert_non_null(strstr(seen.err, "argument --config: not a JSON object: [1]"));
    lmc_outcome_fini(&seen);
    seen = LMC_RUN("check-module", "--colour", "a.so");
    assert_int_equal(seen.status, 2);
    lmc_outcome_fini(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_needs_a_server_and_a_method),
        cmocka_unit_test(call_says_when_nobody_answers),
        cmocka_unit_test(check_module_lists_what_is_wrong),
        cmocka_unit_test(check_module_says_what_is_wrong_with_a_path),
        cmocka_unit_test(check_module_wants_a_path_and_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
