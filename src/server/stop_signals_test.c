#include "server/stop_signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs `body` in a child process; its exit status, or minus the signal that ended it. */
static int run_child(void (*body)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void wait_for_one(void) {
    if (lmc_stop_signals_install(NULL) != LMC_OK || lmc_stop_signals_pending())
        _exit(98);
    raise(SIGTERM);
    if (!lmc_stop_signals_pending())
        _exit(97);
    _exit(lmc_stop_signals_wait());
}

static void the_first_signal_is_waited_for(void **state) {
    (void)state;
    assert_int_equal(run_child(wait_for_one), SIGTERM);
}

static void block_and_wait(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    wait_for_one();
}

static void signals_that_the_parent_blocked_or_ignored_stop_all_the_same(void **state) {
    (void)state;
    assert_int_equal(run_child(block_and_wait), SIGTERM);
}

static void ignore_and_wait_for_a_child(void) {
    int status = 0;
    signal(SIGCHLD, SIG_IGN);
    if (lmc_stop_signals_install(NULL) != LMC_OK)
        _exit(98);
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    _exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 96);
}

static void children_can_be_waited_for_even_if_the_parent_ignored_them(void **state) {
    (void)state;
    assert_int_equal(run_child(ignore_and_wait_for_a_child), 7);
}

static void raise_two(void) {
    lmc_stop_signals_install(NULL);
    raise(SIGTERM);
    raise(SIGINT);
}

static void a_second_signal_ends_the_process_at_once(void **state) {
    (void)state;
    assert_int_equal(run_child(raise_two), 128 + SIGINT);
}

static char path[] = "/tmp/lmc-stop-XXXXXX";

static void raise_two_with_file(void) {
    lmc_stop_signals_install(NULL);
    lmc_stop_signals_set_file(path);
    raise(SIGINT);
    raise(SIGTERM);
}

static void and_takes_its_file_with_it(void **state) {
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(run_child(raise_two_with_file), 128 + SIGTERM);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void remove_and_raise(void) {
    lmc_stop_signals_install(NULL);
    lmc_stop_signals_remove();
    raise(SIGTERM);
}

static void removed_handlers_leave_the_default_action(void **state) {
    (void)state;
    assert_int_equal(run_child(remove_and_raise), -SIGTERM);
}

static void write_to_nobody(void) {
    int fds[2];
    lmc_stop_signals_install(NULL);
    if (pipe(fds) != 0)
        _exit(98);
    close(fds[0]);
    _exit(write(fds[1], "x", 1) < 0 ? 0 : 97);
}

static void a_reader_that_has_gone_does_not_end_the_process(void **state) {
    (void)state;
    assert_int_equal(run_child(write_to_nobody), 0);
}

static void raise_in_a_child(void) {
    lmc_stop_signals_install(NULL);
    lmc_stop_signals_set_file(path);
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGTERM);
        raise(SIGTERM);
        _exit(96);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        _exit(98);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
        _exit(97);
    _exit(lmc_stop_signals_pending() || access(path, F_OK) != 0 ? 95 : 0);
}

/* As a pool of processes does with those that a module forked. */
static void a_signal_to_a_forked_child_ends_the_child_only(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/lmc-stop-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(run_child(raise_in_a_child), 0);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_signal_is_waited_for),
        cmocka_unit_test(signals_that_the_parent_blocked_or_ignored_stop_all_the_same),
        cmocka_unit_test(children_can_be_waited_for_even_if_the_parent_ignored_them),
        cmocka_unit_test(a_second_signal_ends_the_process_at_once),
        cmocka_unit_test(and_takes_its_file_with_it),
        cmocka_unit_test(removed_handlers_leave_the_default_action),
        cmocka_unit_test(a_signal_to_a_forked_child_ends_the_child_only),
        cmocka_unit_test(a_reader_that_has_gone_does_not_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
