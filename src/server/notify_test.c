#include "server/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

static char directory[] = "/tmp/lmc-notify-XXXXXX";
static char path[64];

static int listen_at(const struct sockaddr_un *address, socklen_t size) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, size), 0);
    return fd;
}

static int listen_at_path(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    unlink(path);
    return listen_at(&address, sizeof address);
}

static void expect_message(int fd, const char *text) {
    char got[512];
    ssize_t size = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_true(size >= 0);
    got[size] = '\0';
    assert_string_equal(got, text);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    rmdir(directory);
    return 0;
}

static int clear_environment(void **state) {
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

static void without_a_service_manager_nothing_is_sent(void **state) {
    (void)state;
    lmc_notify notify;
    lmc_notify_open(&notify);
    assert_int_equal(notify.fd, -1);
    assert_int_equal(notify.watchdog_ns, 0);
    lmc_notify_ready(&notify, "serving");
    lmc_notify_watchdog(&notify);
    lmc_notify_close(&notify);
}

static void every_message_has_its_form(void **state) {
    (void)state;
    lmc_notify notify;
    int fd = listen_at_path();
    setenv("NOTIFY_SOCKET", path, 1);
    lmc_notify_open(&notify);
    lmc_notify_ready(&notify, "serving on tcp://127.0.0.1:5555");
    expect_message(fd, "READY=1\nSTATUS=serving on tcp://127.0.0.1:5555");
    lmc_notify_status(&notify, "two\nlines");
    expect_message(fd, "STATUS=two lines");
    lmc_notify_watchdog(&notify);
    expect_message(fd, "WATCHDOG=1");
    lmc_notify_stopping(&notify);
    expect_message(fd, "STOPPING=1\nSTATUS=stopping");
    lmc_notify_close(&notify);
    close(fd);
}

static void an_abstract_name_is_reached(void **state) {
    (void)state;
    lmc_notify notify;
    char name[64];
    snprintf(name, sizeof name, "@lmcached-notify-test-%d", (int)getpid());
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    int fd =
        listen_at(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
    setenv("NOTIFY_SOCKET", name, 1);
    lmc_notify_open(&notify);
    lmc_notify_watchdog(&notify);
    expect_message(fd, "WATCHDOG=1");
    lmc_notify_close(&notify);
    close(fd);
}

static void the_watchdog_period_is_read_for_this_process_only(void **state) {
    (void)state;
    lmc_notify notify;
    char pid[32];
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "30000000", 1);
    lmc_notify_open(&notify);
    assert_int_equal(notify.watchdog_ns, 30 * LMC_NS_PER_S);
    lmc_notify_close(&notify);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    lmc_notify_open(&notify);
    assert_int_equal(notify.watchdog_ns, 30 * LMC_NS_PER_S);
    lmc_notify_close(&notify);
    setenv("WATCHDOG_PID", "1", 1);
    lmc_notify_open(&notify);
    assert_int_equal(notify.watchdog_ns, 0);
    lmc_notify_close(&notify);
}

static void a_bad_name_or_period_is_ignored(void **state) {
    (void)state;
    lmc_notify notify;
    setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
    lmc_notify_open(&notify);
    assert_int_equal(notify.fd, -1);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "soon", 1);
    lmc_notify_open(&notify);
    assert_int_equal(notify.watchdog_ns, 0);
    lmc_notify_close(&notify);
}

static void a_manager_that_is_gone_is_no_failure(void **state) {
    (void)state;
    lmc_notify notify;
    unlink(path);
    setenv("NOTIFY_SOCKET", path, 1);
    lmc_notify_open(&notify);
    lmc_notify_ready(&notify, "serving");
    lmc_notify_close(&notify);
    assert_int_equal(notify.fd, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_service_manager_nothing_is_sent, clear_environment),
        cmocka_unit_test_setup(every_message_has_its_form, clear_environment),
        cmocka_unit_test_setup(an_abstract_name_is_reached, clear_environment),
        cmocka_unit_test_setup(the_watchdog_period_is_read_for_this_process_only,
                               clear_environment),
        cmocka_unit_test_setup(a_bad_name_or_period_is_ignored, clear_environment),
        cmocka_unit_test_setup(a_manager_that_is_gone_is_no_failure, clear_environment),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
