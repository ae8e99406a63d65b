#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/zmq/endless.h"

typedef struct line {
    int near, far;
} line;

/* A TCP connection with itself: the counters are TCP's. */
static int connect_line(void **state) {
    static line made;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    made.far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(made.far, (struct sockaddr *)&address, size), 0);
    made.near = accept(door, NULL, NULL);
    assert_true(made.near >= 0);
    close(door);
    *state = &made;
    return 0;
}

static int close_line(void **state) {
    const line *made = *state;
    close(made->near);
    close(made->far);
    return 0;
}

static void arrive(const line *made, size_t size) {
    static char bytes[1 << 10];
    for (; size > 0; size -= sizeof bytes) {
        assert_int_equal(send(made->far, bytes, sizeof bytes, 0), sizeof bytes);
        assert_int_equal(recv(made->near, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    }
}

static void what_came_since_the_last_message_counts(void **state) {
    const line *made = *state;
    lmc_zmq_progress progress = {0};
    arrive(made, 4 << 10);
    assert_int_equal(lmc_zmq_progress_look(&progress, made->near, 0), 4 << 10);
    assert_false(progress.stalled);
    arrive(made, 60 << 10);
    assert_int_equal(lmc_zmq_progress_look(&progress, made->near, 0), 64 << 10);
    assert_true(progress.large);
    assert_int_equal(lmc_zmq_progress_look(&progress, made->near, 1), 0);
    assert_false(progress.large);
}

static void a_message_is_stalled_when_two_looks_find_it_large(void **state) {
    const line *made = *state;
    lmc_zmq_progress progress = {0};
    arrive(made, 64 << 10);
    lmc_zmq_progress_look(&progress, made->near, 7);
    arrive(made, 64 << 10);
    lmc_zmq_progress_look(&progress, made->near, 7);
    assert_true(progress.large && !progress.stalled);
    lmc_zmq_progress_look(&progress, made->near, 7);
    assert_true(progress.stalled);
    arrive(made, 64 << 10);
    lmc_zmq_progress_look(&progress, made->near, 8);
    assert_false(progress.large || progress.stalled);
}

static void a_connection_that_goes_from_message_to_message_is_never_stalled(void **state) {
    const line *made = *state;
    lmc_zmq_progress progress = {0};
    for (uint32_t messages = 1; messages < 10; messages++) {
        arrive(made, 128 << 10);
        lmc_zmq_progress_look(&progress, made->near, messages);
        assert_false(progress.stalled);
    }
}

static void what_lies_unread_costs_nothing_here(void **state) {
    const line *made = *state;
    static char bytes[100];
    lmc_zmq_progress progress = {0};
    assert_int_equal(send(made->far, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(recv(made->near, bytes, sizeof bytes, MSG_PEEK | MSG_WAITALL), 100);
    assert_int_equal(lmc_zmq_progress_look(&progress, made->near, 0), 0);
}

static void growth_is_measured_from_what_was_accepted(void **state) {
    (void)state;
    lmc_zmq_growth growth;
    lmc_zmq_growth_accept(&growth);
    assert_true(growth.resident > 0);
    assert_false(lmc_zmq_growth_is_large(&growth));
    assert_false(lmc_zmq_growth_is_strange(&growth, 0));
    growth.resident = SIZE_MAX; /* what was there has gone */
    assert_false(lmc_zmq_growth_is_large(&growth));
    assert_true(growth.resident < SIZE_MAX);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, connect_line, close_line)
    const struct CMUnitTest tests[] = {
        T(what_came_since_the_last_message_counts),
        T(a_message_is_stalled_when_two_looks_find_it_large),
        T(a_connection_that_goes_from_message_to_message_is_never_stalled),
        T(what_lies_unread_costs_nothing_here),
        cmocka_unit_test(growth_is_measured_from_what_was_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
