#include "server/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

/* What is left of the soft limit after the raise; 1: refused. In a process of its own. */
static int raise_from(rlim_t soft, rlim_t hard) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = {soft, hard};
        lmc_error error = LMC_ERROR_INIT;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(255);
        if (lmc_descriptor_limit_raise(&error) != LMC_OK)
            _exit(error.text[0] != '\0' ? 1 : 254);
        getrlimit(RLIMIT_NOFILE, &limit);
        _exit((int)limit.rlim_cur);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void the_soft_limit_is_raised_to_the_hard_one(void **state) {
    (void)state;
    assert_int_equal(raise_from(70, 200), 200);
    assert_int_equal(raise_from(20, 64), 64);
    assert_int_equal(raise_from(64, 64), 64);
}

static void too_few_are_refused_with_a_text(void **state) {
    (void)state;
    assert_int_equal(raise_from(63, 63), 1);
    assert_int_equal(raise_from(8, 20), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_soft_limit_is_raised_to_the_hard_one),
        cmocka_unit_test(too_few_are_refused_with_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
