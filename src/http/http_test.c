#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>

#include "base/log.h"
#include "http/http_fixture.h"

/* ---- start and stop ---- */

static void connections_are_refused_between_create_and_start(void **state) {
    fixture *f = *state;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_http_create(&f->config, &f->provider, &f->http, &error), LMC_OK);
    assert_true(try_connect(lmc_http_port(f->http)) < 0);
    assert_int_equal(lmc_http_start(f->http, &error), LMC_OK);
    f->port = lmc_http_port(f->http);
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
}

static void a_busy_port_is_refused_by_name(void **state) {
    fixture *f = *state;
    lmc_http *second = NULL;
    lmc_error error = LMC_ERROR_INIT;
    char expected[160];
    start(f);
    f->config.port = f->port;
    assert_int_equal(lmc_http_create(&f->config, &f->provider, &second, &error), LMC_BUSY);
    snprintf(expected, sizeof expected,
             "cannot bind the HTTP port 127.0.0.1:%u: address already in use; "
             "--http-port chooses another",
             f->port);
    assert_string_equal(error.text, expected);
    lmc_error_clear(&error);
    f->config.metrics_only = true;
    assert_int_equal(lmc_http_create(&f->config, &f->provider, &second, &error), LMC_BUSY);
    assert_non_null(strstr(error.text, "in use; --prometheus-port chooses another"));
}

static void of_two_that_bound_the_second_to_listen_is_refused(void **state) {
    fixture *f = *state;
    lmc_http *second = NULL;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_http_create(&f->config, &f->provider, &f->http, &error), LMC_OK);
    f->config.port = lmc_http_port(f->http);
    if (lmc_http_create(&f->config, &f->provider, &second, &error) == LMC_OK) {
        assert_int_equal(lmc_http_start(f->http, &error), LMC_OK);
        assert_int_equal(lmc_http_start(second, &error), LMC_BUSY);
    }
    assert_non_null(strstr(error.text, "address already in use"));
    lmc_http_destroy(second);
}

static void an_unknown_host_is_named(void **state) {
    fixture *f = *state;
    lmc_error error = LMC_ERROR_INIT;
    f->config.host = "no such host";
    assert_int_equal(lmc_http_create(&f->config, &f->provider, &f->http, &error), LMC_FAILED);
    assert_non_null(strstr(error.text, "'no such host'"));
    f->http = NULL;
}

static void an_empty_host_is_not_taken_for_every_interface(void **state) {
    fixture *f = *state;
    static const char *const hosts[] = {"", "[]"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        lmc_error error = LMC_ERROR_INIT;
        f->config.host = hosts[i];
        assert_int_equal(lmc_http_create(&f->config, &f->provider, &f->http, &error),
                         LMC_INVALID);
        assert_non_null(strstr(error.text, "names no address"));
    }
}

static void await_waiting(backend *b, unsigned count) {
    lmc_lock_take(&b->lock);
    while (b->waiting < count)
        lmc_cond_wait(&b->changed, &b->lock);
    lmc_lock_drop(&b->lock);
}

static void open_gate(backend *b) {
    lmc_lock_take(&b->lock);
    b->gate_closed = false;
    lmc_cond_broadcast(&b->changed);
    lmc_lock_drop(&b->lock);
}

static int ask_for_status(fixture *f) {
    static const char request[] =
        "GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = connect_to(f->port);
    send_text(fd, request, sizeof request - 1);
    return fd;
}

static void probes_are_answered_while_every_pool_thread_waits(void **state) {
    fixture *f = *state;
    int fds[6];
    f->backend.gate_closed = true;
    start(f);
    for (size_t i = 0; i < 6; i++)
        fds[i] = ask_for_status(f);
    await_waiting(&f->backend, 2);
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    expect(f, "GET", "/readiness", NULL, 200, "{\"ready\":true}");
    open_gate(&f->backend);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(status_of(read_all(fds[i])), 200);
}

static void *stop_it(void *arg) {
    lmc_http_stop(arg);
    return NULL;
}

static void
a_running_request_is_answered_through_a_stop_and_queued_ones_are_refused(void **state) {
    fixture *f = *state;
    int fds[3];
    pthread_t stopper;
    f->backend.gate_closed = true;
    start(f);
    fds[0] = ask_for_status(f);
    fds[1] = ask_for_status(f);
    await_waiting(&f->backend, 2);
    fds[2] = ask_for_status(f);
    expect(f, "GET", "/", NULL, 200, "{\"status\":\"ok\",\"service\":\"LMCache HTTP API\"}");
    assert_int_equal(pthread_create(&stopper, NULL, stop_it, f->http), 0);
    for (int fd; (fd = try_connect(f->port)) >= 0;)
        close(fd); /* until it no longer accepts */
    open_gate(&f->backend);
    assert_int_equal(status_of(read_all(fds[0])), 200);
    assert_int_equal(status_of(read_all(fds[1])), 200);
    int queued = status_of(read_all(fds[2]));
    assert_true(queued == 503 || queued == 200); /* taken by a thread that came free */
    pthread_join(stopper, NULL);
}

static void a_stop_closes_idle_connections(void **state) {
    fixture *f = *state;
    start(f);
    int fd = connect_to(f->port);
    send_text(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    char first;
    assert_int_equal(recv(fd, &first, 1, 0), 1);
    lmc_http_stop(f->http);
    assert_non_null(strstr(read_all(fd), "LMCache HTTP API"));
}

/* ---- conventions ---- */

static void unknown_paths_are_404(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/nope", NULL, 404, "{\"detail\":\"Not Found\"}");
    expect(f, "GET", "/status/x", NULL, 404, "{\"detail\":\"Not Found\"}");
    expect(f, "POST", "//status", NULL, 404, "{\"detail\":\"Not Found\"}");
    expect(f, "OPTIONS", "*", NULL, 404, "{\"detail\":\"Not Found\"}");
}

static void a_wrong_method_is_405_with_allow(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "DELETE", "/status", NULL, 405, "{\"detail\":\"Method Not Allowed\"}");
    expect(f, "BREW", "/status", NULL, 405, "{\"detail\":\"Method Not Allowed\"}");
    expect_header(f, "POST", "/status", "Allow: GET, HEAD\r\n");
    expect_header(f, "GET", "/cache/clear", "Allow: POST\r\n");
    expect_header(f, "POST", "/quota/a", "Allow: GET, HEAD, PUT, DELETE\r\n");
}

static void head_answers_like_get_without_a_body(void **state) {
    fixture *f = *state;
    start(f);
    char *reply = exchange(f, "HEAD", "/healthcheck", NULL);
    assert_int_equal(status_of(reply), 200);
    assert_non_null(strstr(reply, "Content-Length: 20\r\n"));
    assert_string_equal(body_of(reply), "");
}

static void a_trailing_slash_is_answered_directly(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/healthcheck/", NULL, 200, "{\"status\":\"healthy\"}");
    expect(f, "GET", "/status/?x=1", NULL, 200, "{\"is_healthy\":true}");
}

static void two_requests_share_a_connection(void **state) {
    fixture *f = *state;
    start(f);
    static const char both[] = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n"
                               "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = connect_to(f->port);
    send_text(fd, both, sizeof both - 1);
    char *reply = read_all(fd);
    assert_non_null(strstr(reply, "{\"is_healthy\":true}"));
    assert_non_null(strstr(reply, "\"0.1.0-abc\""));
}

static void a_body_beyond_the_limit_is_413(void **state) {
    fixture *f = *state;
    f->config.body_limit = 100;
    start(f);
    char body[300];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    expect(f, "POST", "/cache/clear", body, 413,
           "{\"detail\":\"request body larger than 100 bytes\"}");
    assert_int_equal(f->backend.clears, 0);
}

static void a_head_beyond_the_limit_is_refused_and_others_are_served(void **state) {
    fixture *f = *state;
    start(f);
    int fd = connect_to(f->port);
    send_text(fd, "GET / HTTP/1.1\r\nHost: x\r\nX: ", 28);
    char filler[4096];
    memset(filler, 'x', sizeof filler);
    for (int i = 0; i < 20; i++)
        send_text(fd, filler, sizeof filler);
    char *reply = read_all(fd);
    assert_true(status_of(reply) == 431 || status_of(reply) == 413 || reply[0] == '\0');
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
}

static void garbage_does_not_stop_the_server(void **state) {
    fixture *f = *state;
    static const char *const garbage[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /cache/clear HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    start(f);
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int fd = connect_to(f->port);
        send_text(fd, garbage[i], strlen(garbage[i]));
        shutdown(fd, SHUT_WR);
        read_all(fd);
    }
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    assert_int_equal(f->backend.clears, 0);
}

static void clients_that_leave_in_the_middle_of_a_request_free_their_places(void **state) {
    fixture *f = *state;
    static const char *const halves[] = {
        "GET / HTTP/1.1\r\nHost", "\x16\x03\x01",
        "POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab"};
    f->config.connection_limit = 4;
    start(f);
    for (size_t i = 0; i < 30; i++) {
        int fd = connect_to(f->port);
        send_text(fd, halves[i % 3], strlen(halves[i % 3]));
        close(fd);
    }
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
}

static void a_client_that_leaves_while_its_request_runs_does_no_harm(void **state) {
    fixture *f = *state;
    f->backend.gate_closed = true;
    start(f);
    int fd = ask_for_status(f);
    await_waiting(&f->backend, 1);
    close(fd);
    open_gate(&f->backend);
    expect(f, "GET", "/status", NULL, 200, "{\"is_healthy\":true}");
}

static void metrics_only_serves_nothing_else(void **state) {
    fixture *f = *state;
    f->config.metrics_only = true;
    start(f);
    expect(f, "GET", "/metrics", NULL, 200, "# TYPE up gauge\nup 1\n");
    expect(f, "GET", "/status", NULL, 404, "{\"detail\":\"Not Found\"}");
    expect(f, "POST", "/cache/clear", NULL, 404, "{\"detail\":\"Not Found\"}");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(connections_are_refused_between_create_and_start),
        T(a_busy_port_is_refused_by_name),
        T(of_two_that_bound_the_second_to_listen_is_refused),
        T(an_unknown_host_is_named),
        T(an_empty_host_is_not_taken_for_every_interface),
        T(probes_are_answered_while_every_pool_thread_waits),
        T(a_running_request_is_answered_through_a_stop_and_queued_ones_are_refused),
        T(a_stop_closes_idle_connections),
        T(unknown_paths_are_404),
        T(a_wrong_method_is_405_with_allow),
        T(head_answers_like_get_without_a_body),
        T(a_trailing_slash_is_answered_directly),
        T(two_requests_share_a_connection),
        T(a_body_beyond_the_limit_is_413),
        T(a_head_beyond_the_limit_is_refused_and_others_are_served),
        T(garbage_does_not_stop_the_server),
        T(clients_that_leave_in_the_middle_of_a_request_free_their_places),
        T(a_client_that_leaves_while_its_request_runs_does_no_harm),
        T(metrics_only_serves_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
