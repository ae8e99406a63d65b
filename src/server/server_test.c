#include "server/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

/* A socket that stands for the service manager: it hears when a server is ready. */
static int manager = -1;
static char manager_name[64];

static int set_up(void **state) {
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(manager_name, sizeof manager_name, "@lmcached-server-test-%d", (int)getpid());
    memcpy(address.sun_path + 1, manager_name + 1, strlen(manager_name) - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return bind(manager, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(manager_name)));
}

static int tear_down(void **state) {
    (void)state;
    return close(manager);
}

static void expect_message(const char *beginning) {
    char text[512];
    ssize_t size = recv(manager, text, sizeof text - 1, 0);
    assert_true(size > 0);
    text[size] = '\0';
    assert_int_equal(strncmp(text, beginning, strlen(beginning)), 0);
}

static uint16_t listen_somewhere(int *fd) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(*fd, 1), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static uint16_t free_port(void) {
    int fd;
    uint16_t port = listen_somewhere(&fd);
    close(fd);
    return port;
}

/* A server in a child process, so that signals and exit status are its own. */
static pid_t start_server(uint16_t port, uint16_t http_port) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    static char ports[2][8];
    snprintf(ports[0], sizeof ports[0], "%u", port);
    snprintf(ports[1], sizeof ports[1], "%u", http_port);
    char *words[] = {"--l1-size-gb", "0.01",   "--eviction-policy", "LRU",
                     "--port",       ports[0], "--http-port",       ports[1]};
    lmc_config config;
    setenv("NOTIFY_SOCKET", manager_name, 1);
    if (lmc_config_parse(&config, sizeof words / sizeof words[0], words, NULL, NULL) != LMC_OK)
        _exit(98);
    int status = lmc_server_run(&config, "lmcached server");
    lmc_config_fini(&config);
    _exit(status);
}

static int exit_status(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_stop_signal_ends_a_server_that_is_ready(void **state) {
    (void)state;
    const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = start_server(free_port(), free_port());
        expect_message("READY=1\nSTATUS=serving on tcp://");
        kill(pid, signals[i]);
        expect_message("STOPPING=1");
        assert_int_equal(exit_status(pid), 0);
    }
}

static void a_busy_port_fails_the_start(void **state) {
    (void)state;
    int fd;
    uint16_t busy = listen_somewhere(&fd);
    pid_t pid = start_server(free_port(), busy);
    expect_message("STOPPING=1");
    assert_int_equal(exit_status(pid), 1);
    pid = start_server(busy, free_port());
    expect_message("STOPPING=1");
    assert_int_equal(exit_status(pid), 1);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_signal_ends_a_server_that_is_ready),
        cmocka_unit_test(a_busy_port_fails_the_start),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
