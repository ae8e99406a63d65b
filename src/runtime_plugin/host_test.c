/*
 * Host and guardian together: this program is its own guardian. Nothing here asserts how long
 * something takes; a wait that does not end is ended by the test's time limit.
 */
#include "runtime_plugin/plugin_case.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime_plugin/guardian.h"
#include "runtime_plugin/host.h"
#include "runtime_plugin/process_tree.h"

static lmc_plugin_host *start(const char *extra, int64_t grace_ns) {
    char *locations[] = {lmc_case_folder};
    lmc_error error = LMC_ERROR_INIT;
    lmc_plugin_host *host = NULL;
    const lmc_plugin_host_options options = {.locations = locations,
                                             .location_count = 1,
                                             .role = "",
                                             .worker_count = 1,
                                             .config = "{\"a\": 1}",
                                             .extra = extra,
                                             .grace_ns = grace_ns};
    assert_int_equal(lmc_plugin_host_start(&options, &host, &error), LMC_OK);
    assert_non_null(host);
    return host;
}

static lmc_plugin_row row_of(lmc_plugin_host *host, size_t number) {
    size_t count;
    lmc_plugin_row *rows = lmc_plugin_host_rows(host, &count);
    assert_true(number < count);
    lmc_plugin_row row = rows[number];
    free(rows);
    return row;
}

static void await_state(lmc_plugin_host *host, size_t number, lmc_plugin_state state) {
    while (row_of(host, number).report.state != state)
        usleep(2000);
}

static void await_lines(lmc_plugin_host *host, size_t number, uint64_t lines) {
    while (row_of(host, number).lines < lines)
        usleep(2000);
}

static void await_idle(lmc_plugin_host *host) {
    struct pollfd idle = {.fd = lmc_plugin_host_idle_fd(host), .events = POLLIN};
    assert_int_equal(poll(&idle, 1, -1), 1);
}

static size_t descriptors(void) {
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void nothing_is_left(void) {
    lmc_processes left;
    assert_int_equal(lmc_process_descendants(getpid(), &left), LMC_OK);
    assert_int_equal(left.count, 0);
    lmc_processes_fini(&left);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

#define SLEEPER "#!/bin/sh\necho up\nexec sleep 1000\n"
#define STUBBORN                                                                           \
    "#!/bin/sh\ntrap '' TERM\n(setsid sh -c \"trap '' TERM; sleep 1000; sleep 1000\" &)\n" \
    "echo up\nwhile true; do sleep 1000; done\n"

static void plugins_run_and_end_with_the_host(void **state) {
    (void)state;
    size_t before = descriptors();
    lmc_case_file("a.sh", SLEEPER);
    lmc_case_file("b.sh", "#!/bin/sh\necho one; echo two >&2; exit 3\n");
    lmc_plugin_host *host = start("{}", 5 * LMC_NS_PER_S);
    await_state(host, 1, LMC_PLUGIN_EXITED);
    lmc_plugin_row row = row_of(host, 1);
    assert_int_equal(row.report.exit_code, 3);
    assert_int_equal(row.lines, 2);
    assert_int_equal(row.bytes, 8);
    await_lines(host, 0, 1);
    assert_true(row_of(host, 0).report.pid > 0);
    assert_true(lmc_plugin_host_guardian(host) > 0);
    assert_true(lmc_plugin_host_watcher(host) > 0);
    lmc_plugin_host_stop(host);
    assert_int_equal(row_of(host, 0).report.state, LMC_PLUGIN_EXITED);
    assert_int_equal(row_of(host, 0).report.exit_code, -SIGTERM);
    assert_int_equal(lmc_plugin_host_guardian(host), 0);
    lmc_plugin_host_destroy(host);
    nothing_is_left();
    assert_int_equal(descriptors(), before);
}

static void the_stubborn_are_killed_with_all_they_left(void **state) {
    (void)state;
    lmc_case_file("a.sh", STUBBORN);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S / 5);
    await_lines(host, 0, 1);
    lmc_plugin_host_stop(host);
    assert_int_equal(row_of(host, 0).report.exit_code, -SIGKILL);
    lmc_plugin_host_destroy(host);
    nothing_is_left();
}

static void a_killed_guardian_leaves_nothing(void **state) {
    (void)state;
    lmc_case_file("a.sh", STUBBORN);
    lmc_case_file("b.sh", SLEEPER);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    await_lines(host, 1, 1);
    kill((pid_t)lmc_plugin_host_guardian(host), SIGKILL);
    await_idle(host);
    nothing_is_left();
    assert_int_equal(row_of(host, 0).report.state, LMC_PLUGIN_FATAL);
    assert_int_equal(lmc_plugin_host_control(host, lmc_text("a.sh"), LMC_PLUGIN_START, NULL),
                     LMC_CLOSED);
    lmc_plugin_host_destroy(host);
}

static void a_killed_watcher_leaves_nothing(void **state) {
    (void)state;
    lmc_case_file("a.sh", STUBBORN);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    kill((pid_t)lmc_plugin_host_watcher(host), SIGKILL);
    await_idle(host);
    nothing_is_left();
    assert_int_equal(lmc_plugin_host_guardian(host), 0);
    lmc_plugin_host_destroy(host);
}

/* Left its session, wiped its environment, was orphaned: nothing but its blood tells. */
#define CHANGELING                                                           \
    "#!/bin/sh\n(setsid env -i sh -c 'trap \"\" TERM; exec sleep 1009' &)\n" \
    "sleep 0.2; echo ready; exec sleep 1009\n"

static void a_descendant_without_any_mark_ends_with(int victims) {
    lmc_case_file("a.sh", CHANGELING);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    pid_t guardian = (pid_t)lmc_plugin_host_guardian(host);
    if ((victims & 1) != 0)
        kill((pid_t)lmc_plugin_host_watcher(host), SIGKILL);
    if ((victims & 2) != 0)
        kill(guardian, SIGKILL);
    await_idle(host);
    nothing_is_left();
    lmc_plugin_host_destroy(host);
}

static void what_no_mark_tells_ends_with_guardian_watcher_or_both(void **state) {
    (void)state;
    for (int victims = 1; victims <= 3; victims++)
        a_descendant_without_any_mark_ends_with(victims);
}

static void other_children_are_none_of_its_business(void **state) {
    (void)state;
    pid_t other = fork();
    if (other == 0) {
        setsid();
        for (;;)
            pause();
    }
    lmc_case_file("a.sh", STUBBORN);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    kill((pid_t)lmc_plugin_host_guardian(host), SIGKILL);
    await_idle(host);
    assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    nothing_is_left();
    lmc_plugin_host_destroy(host);
}

/* In the server's place: starts plugins, forks somebody who lives on, and is killed. */
static void be_a_server_that_is_killed(void) {
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    if (fork() == 0)
        for (;;)
            pause();
    kill(getpid(), SIGKILL);
}

static void a_forked_child_of_the_server_does_not_keep_plugins_alive(void **state) {
    (void)state;
    lmc_processes left;
    lmc_case_file("a.sh", STUBBORN);
    pid_t server = fork();
    if (server == 0)
        be_a_server_that_is_killed();
    assert_int_equal(waitpid(server, NULL, 0), server);
    for (;;) { /* this process has adopted the guardian and the child */
        assert_int_equal(lmc_process_descendants(getpid(), &left), LMC_OK);
        if (left.count == 1)
            break;
        lmc_processes_fini(&left);
        waitpid(-1, NULL, WNOHANG);
        usleep(2000);
    }
    kill(left.items[0].pid, SIGKILL);
    assert_int_equal(waitpid(left.items[0].pid, NULL, 0), left.items[0].pid);
    lmc_processes_fini(&left);
}

static void plugins_are_controlled_by_name(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    lmc_tail_line *lines = NULL;
    uint64_t next = 0;
    lmc_case_file("a.sh", SLEEPER);
    lmc_slice name = lmc_text("a.sh"), path = lmc_text(lmc_case_path("a.sh"));
    lmc_plugin_host *host = start("{}", 5 * LMC_NS_PER_S);
    await_lines(host, 0, 1);
    assert_int_equal(lmc_plugin_host_control(host, name, LMC_PLUGIN_STOP, NULL), LMC_OK);
    await_state(host, 0, LMC_PLUGIN_EXITED);
    assert_int_equal(lmc_plugin_host_control(host, name, LMC_PLUGIN_STOP, NULL), LMC_OK);
    await_state(host, 0, LMC_PLUGIN_EXITED);
    assert_int_equal(lmc_plugin_host_control(host, path, LMC_PLUGIN_RESTART, NULL), LMC_OK);
    await_lines(host, 0, 2);
    assert_int_equal(row_of(host, 0).report.restarts, 1);
    assert_int_equal(lmc_plugin_host_control(host, lmc_text("b"), LMC_PLUGIN_STOP, &error),
                     LMC_NOT_FOUND);
    assert_string_equal(error.text, "there is no runtime plugin b");
    assert_int_equal(lmc_plugin_host_logs(host, name, 1, 10, &lines, &next), LMC_OK);
    assert_int_equal(next, 2);
    assert_memory_equal(lines->text, "up", 2);
    assert_null(lines->next);
    lmc_tail_lines_free(lines);
    assert_int_equal(lmc_plugin_host_logs(host, lmc_text("b"), 0, 10, &lines, &next),
                     LMC_NOT_FOUND);
    lmc_plugin_host_destroy(host);
    nothing_is_left();
}

static void without_plugins_there_is_no_guardian(void **state) {
    (void)state;
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    size_t count = 9;
    assert_null(lmc_plugin_host_rows(host, &count));
    assert_int_equal(count, 0);
    assert_int_equal(lmc_plugin_host_guardian(host), 0);
    await_idle(host);
    lmc_plugin_host_destroy(host);
    lmc_plugin_host_destroy(NULL);
    nothing_is_left();
}

static void the_host_is_idle_once_all_have_ended(void **state) {
    (void)state;
    lmc_case_file("a.sh", "#!/bin/sh\n");
    lmc_case_file("b.sh", "#!/bin/sh\nexit 0\n");
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_idle(host);
    assert_true(lmc_plugin_host_all_well(host));
    lmc_plugin_host_destroy(host);
    lmc_case_file("b.sh", "#!/bin/sh\nexit 1\n");
    host = start("{}", LMC_NS_PER_S);
    await_idle(host);
    assert_false(lmc_plugin_host_all_well(host));
    lmc_plugin_host_destroy(host);
}

static void many_hosts_leave_no_descriptor(void **state) {
    (void)state;
    lmc_case_file("a.sh", SLEEPER);
    size_t before = descriptors();
    for (int i = 0; i < 10; i++) {
        lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
        if (i % 2 == 0)
            await_lines(host, 0, 1);
        lmc_plugin_host_destroy(host);
        nothing_is_left();
    }
    assert_int_equal(descriptors(), before);
}

/* ---- a guardian with a test in the server's place ---- */

static pid_t start_guardian(int *server_end) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char *words[] = {"guardian", LMC_GUARDIAN_COMMAND, NULL};
        if (dup2(ends[1], LMC_GUARDIAN_FD) < 0)
            _exit(9);
        execv("/proc/self/exe", words);
        _exit(9);
    }
    close(ends[1]);
    *server_end = ends[0];
    return pid;
}

static void end_guardian(pid_t pid, int server_end, int expected) {
    int wait_status;
    close(server_end);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    assert_int_equal(WEXITSTATUS(wait_status), expected);
}

static void a_guardian_ends_when_its_server_talks_nonsense(void **state) {
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.0\r\n\r\n", "\1\1\0\0\377\377\377\377",
                                        "\1\2\0\0\0\0\0\0", "\1\1\0\0\0\0\0\0", ""};
    static const size_t sizes[] = {18, 8, 8, 8, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int end;
        pid_t pid = start_guardian(&end);
        assert_int_equal(write(end, texts[i], sizes[i]), sizes[i]);
        if (i + 1 < sizeof sizes / sizeof sizes[0]) {
            char byte; /* it hangs up by itself */
            assert_true(read(end, &byte, 1) <= 0);
        }
        end_guardian(pid, end, 0);
    }
    nothing_is_left();
}

static void signals_do_not_stop_a_guardian(void **state) {
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};
    lmc_case_file("a.sh", SLEEPER);
    lmc_plugin_host *host = start("{}", LMC_NS_PER_S);
    await_lines(host, 0, 1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        kill((pid_t)lmc_plugin_host_guardian(host), numbers[i]);
    lmc_plugin_host_control(host, lmc_text("a.sh"), LMC_PLUGIN_RESTART, NULL);
    await_lines(host, 0, 2);
    lmc_plugin_host_destroy(host);
    nothing_is_left();
}

static void it_is_started_by_a_server_only(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        char *words[] = {"guardian", LMC_GUARDIAN_COMMAND, NULL};
        close(LMC_GUARDIAN_FD);
        close(2);
        execv("/proc/self/exe", words);
        _exit(9);
    }
    int wait_status;
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_int_equal(WEXITSTATUS(wait_status), 2);
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], LMC_GUARDIAN_COMMAND) == 0)
        return lmc_plugin_guardian_main();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const struct CMUnitTest tests[] = {
        LMC_FOLDER_TEST(plugins_run_and_end_with_the_host),
        LMC_FOLDER_TEST(the_stubborn_are_killed_with_all_they_left),
        LMC_FOLDER_TEST(a_killed_guardian_leaves_nothing),
        LMC_FOLDER_TEST(a_killed_watcher_leaves_nothing),
        LMC_FOLDER_TEST(what_no_mark_tells_ends_with_guardian_watcher_or_both),
        LMC_FOLDER_TEST(other_children_are_none_of_its_business),
        LMC_FOLDER_TEST(a_forked_child_of_the_server_does_not_keep_plugins_alive),
        LMC_FOLDER_TEST(plugins_are_controlled_by_name),
        LMC_FOLDER_TEST(without_plugins_there_is_no_guardian),
        LMC_FOLDER_TEST(the_host_is_idle_once_all_have_ended),
        LMC_FOLDER_TEST(many_hosts_leave_no_descriptor),
        LMC_FOLDER_TEST(a_guardian_ends_when_its_server_talks_nonsense),
        LMC_FOLDER_TEST(signals_do_not_stop_a_guardian),
        LMC_FOLDER_TEST(it_is_started_by_a_server_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
