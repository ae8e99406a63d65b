/* Descendants, and signals to exactly one process. */
#include "runtime_plugin/plugin_case.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "runtime_plugin/process_tree.h"
#include "support/alloc_fault.h"

static void sleep_for_ever(void) {
    for (;;)
        pause();
}

/* A child that has a child in a session of its own; `ends` tells the test the second's number.
 */
static pid_t start_family(pid_t *grandchild) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t next = fork();
        if (next == 0) {
            setsid();
            sleep_for_ever();
        }
        if (write(ends[1], &next, sizeof next) != (ssize_t)sizeof next)
            _exit(1);
        sleep_for_ever();
    }
    assert_true(child > 0);
    assert_int_equal(read(ends[0], grandchild, sizeof *grandchild), sizeof *grandchild);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static const lmc_process *find(const lmc_processes *all, pid_t pid) {
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].pid == pid)
            return &all->items[i];
    return NULL;
}

static void await_session(pid_t pid) {
    lmc_process p;
    while (lmc_process_read(pid, &p) && p.session != pid)
        usleep(1000);
}

static void descendants_are_found_wherever_they_went(void **state) {
    (void)state;
    pid_t grandchild = 0, child = start_family(&grandchild);
    lmc_processes all;
    await_session(grandchild);
    assert_int_equal(lmc_process_descendants(getpid(), &all), LMC_OK);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.items[0].pid, child);
    assert_int_equal(all.items[1].parent, child);
    assert_int_equal(find(&all, grandchild)->session, grandchild);
    assert_int_equal(all.items[0].group, getpgrp());
    assert_true(lmc_process_signal(&all.items[0], SIGKILL));
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(waitpid(grandchild, NULL, WNOHANG), 0); /* adopted, and alive */
    lmc_process same = all.items[1];
    lmc_processes_fini(&all);
    assert_true(lmc_process_signal(&same, SIGKILL));
    assert_int_equal(waitpid(grandchild, NULL, 0), grandchild);
    assert_int_equal(lmc_process_descendants(getpid(), &all), LMC_OK);
    assert_int_equal(all.count, 0);
    lmc_processes_fini(&all);
}

static void a_number_given_anew_is_not_signalled(void **state) {
    (void)state;
    lmc_process other;
    pid_t child = fork();
    if (child == 0)
        sleep_for_ever();
    assert_true(lmc_process_read(child, &other));
    other.started++; /* as if this number had belonged to an earlier process */
    assert_false(lmc_process_signal(&other, SIGKILL));
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    other.started--;
    assert_true(lmc_process_signal(&other, SIGKILL));
    siginfo_t dead;
    assert_int_equal(waitid(P_PID, (id_t)child, &dead, WEXITED | WNOWAIT), 0);
    assert_true(lmc_process_read(child, &other));
    assert_true(other.is_zombie);
    waitpid(child, NULL, 0);
    assert_false(lmc_process_read(child, &other));
    assert_false(lmc_process_signal(&other, 0));
}

static void flipped_dump_bits_outlive_fork_and_exec(void **state) {
    (void)state;
    unsigned own = 0, filter = 0;
    if (!lmc_process_dump_filter(getpid(), &own))
        skip();
    pid_t child = fork();
    if (child == 0) {
        lmc_process_flip_dump_bits();
        if (fork() == 0) {
            setsid();
            execle("/bin/sleep", "sleep", "1000", NULL, (char *[]){NULL});
        }
        sleep_for_ever();
    }
    lmc_processes all = {0};
    while (all.count < 2 || !lmc_process_dump_filter(all.items[1].pid, &filter) ||
           filter == own) {
        lmc_processes_fini(&all);
        assert_int_equal(lmc_process_descendants(getpid(), &all), LMC_OK);
    }
    assert_int_equal(filter, own ^ LMC_PLUGIN_DUMP_BITS);
    assert_true(lmc_process_dump_filter(all.items[0].pid, &filter));
    assert_int_equal(filter, own ^ LMC_PLUGIN_DUMP_BITS);
    for (size_t i = 0; i < 2; i++)
        assert_true(lmc_process_signal(&all.items[i], SIGKILL));
    for (size_t i = 0; i < 2; i++)
        waitpid(all.items[i].pid, NULL, 0);
    assert_false(lmc_process_dump_filter(all.items[0].pid, &filter));
    lmc_processes_fini(&all);
}

static void a_name_full_of_parentheses_is_read(void **state) {
    (void)state;
    lmc_process self;
    assert_int_equal(prctl(PR_SET_NAME, ") R 1 (x"), 0);
    assert_true(lmc_process_read(getpid(), &self));
    assert_int_equal(self.parent, getppid());
    assert_int_equal(self.group, getpgrp());
    assert_true(self.started > 0);
}

static void marks_are_found_in_long_environments(void **state) {
    (void)state;
    char filling[9000], *words[] = {"/bin/sleep", "100", NULL};
    memset(filling, 'f', sizeof filling);
    memcpy(filling, "F=", 2);
    filling[sizeof filling - 1] = '\0';
    char *environment[] = {filling, "THE_MARK=abc:7:", "Z=1", NULL};
    pid_t child = fork();
    if (child == 0) {
        execve(words[0], words, environment);
        _exit(1);
    }
    while (!lmc_process_is_marked(child, "THE_MARK=abc:") && waitpid(child, NULL, WNOHANG) == 0)
        usleep(1000);
    assert_true(lmc_process_is_marked(child, "THE_MARK=abc:7:"));
    assert_false(lmc_process_is_marked(child, "THE_MARK=abc:71:"));
    assert_false(lmc_process_is_marked(child, ""));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_false(lmc_process_is_marked(child, "THE_MARK"));
}

static void running_out_of_memory_leaks_nothing(void **state) {
    (void)state;
    lmc_processes all;
    lmc_fault_arm(1, true);
    lmc_status status = lmc_process_descendants(getpid(), &all);
    lmc_fault_disarm();
    assert_true(status == LMC_NO_MEMORY || status == LMC_FAILED);
    assert_null(all.items);
}

int main(void) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descendants_are_found_wherever_they_went),
        cmocka_unit_test(a_number_given_anew_is_not_signalled),
        cmocka_unit_test(flipped_dump_bits_outlive_fork_and_exec),
        cmocka_unit_test(a_name_full_of_parentheses_is_read),
        cmocka_unit_test(marks_are_found_in_long_environments),
        cmocka_unit_test(running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
