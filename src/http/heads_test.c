#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>

#include "http/daemon.h"
#include "http/http_fixture.h"

/* Heads that the library refuses or gives up by itself, and heads that say two things. */

#define FIFTY "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

enum { ROUNDS = 300 };

/* `count` times `piece` between the two, as one request that ends the connection. */
static char *build(const char *before, const char *piece, size_t count, const char *after) {
    lmc_buffer head = LMC_BUFFER_INIT;
    lmc_buffer_text(&head, before);
    for (size_t i = 0; i < count; i++)
        lmc_buffer_text(&head, piece);
    lmc_buffer_text(&head, after);
    lmc_buffer_append(&head, "", 1);
    assert_false(head.failed);
    return lmc_buffer_take(&head);
}

static char *ask(fixture *f, const char *text) {
    int fd = connect_to(f->port);
    send_text(fd, text, strlen(text));
    return read_all(fd);
}

/* For a head that may be no whole one: the server need not wait for more. */
static void send_all(fixture *f, const char *text) {
    int fd = connect_to(f->port);
    send_text(fd, text, strlen(text));
    shutdown(fd, SHUT_WR);
    read_all(fd);
}

/* The server says everything else the same afterwards, holds no request and no memory. */
static void leaves_nothing(fixture *f, const char *text) {
    for (size_t i = 0; i < 20; i++)
        send_all(f, text);
    size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < ROUNDS; i++)
        send_all(f, text);
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    size_t after = mallinfo2().uordblks;
    assert_true(after < before + ROUNDS * 1024);
    while (atomic_load(&f->http->active) > 0)
        usleep(1000);
}

static void many_query_parameters_are_refused_in_words(void **state) {
    fixture *f = *state;
    start(f);
    char *text = build("GET /healthcheck?a", "&a=1", 2000, " HTTP/1.1\r\nHost: x\r\n\r\n");
    char *reply = ask(f, text);
    assert_int_equal(status_of(reply), 414);
    assert_string_equal(body_of(reply), "{\"detail\":\"more than 128 query parameters\"}");
    leaves_nothing(f, text);
    free(text);
}

static void as_many_query_parameters_as_are_allowed_are_answered(void **state) {
    fixture *f = *state;
    start(f);
    char *text = build("GET /healthcheck?a", "&abcdef=1234", LMC_HTTP_PARAMS_ALLOWED - 1,
                       " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(ask(f, text)), 200);
    free(text);
}

static void heads_that_the_library_gives_up_leave_nothing(void **state) {
    fixture *f = *state;
    static const struct {
        const char *before, *piece;
        size_t count;
        const char *after;
    } heads[] = {
        {"GET /?", "&" FIFTY FIFTY FIFTY FIFTY FIFTY, 115, " HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"GET /?", "aaaaaaaaa&", 120, "=\xff HTTP/1.1\r\nHost x\r\n\r\n"},
        {"GET / HTTP/1.1\r\nHost: x\r\nCookie: a=1", "; abc=d", 4000, "\r\n\r\n"},
        {"GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", 4000, "\r\n"},
        {"GET / HTTP/1.1\r\nHost: x\r\nX: ", "xxxxxxxxxx", 5000, "\r\n\r\n"},
        {"GET /", "xxxxxxxxxx", 5000, " HTTP/1.1\r\nHost: x\r\n\r\n"},
        {"GET /?", "xxxxxxxxxx", 3050, " HTTP/1.1\r\nHost: x\r\nCookie: a=1; b=2\r\n\r\n"},
        {"GET / HTTP/1.1\r\n", " folded\r\n", 3000, "\r\n"},
        {"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999", "9",
         9, "\r\n\r\n"},
        {"GET / HTTP/9", ".9", 3000, "\r\n\r\n"},
    };
    start(f);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char *text = build(heads[i].before, heads[i].piece, heads[i].count, heads[i].after);
        leaves_nothing(f, text);
        free(text);
    }
}

static void a_request_that_is_given_up_does_not_hold_up_a_stop(void **state) {
    fixture *f = *state;
    start(f);
    int fd = connect_to(f->port);
    send_text(fd, "GET /healthcheck HTTP/1.1\r\nHo", 29);
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    assert_int_equal(atomic_load(&f->http->active), 0);
    lmc_http_stop(f->http);
    assert_string_equal(read_all(fd), "");
}

static void a_body_whose_size_is_said_twice_is_refused(void **state) {
    fixture *f = *state;
    static const char *const headers[] = {
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    };
    start(f);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "POST /cache/clear HTTP/1.1\r\nHost: x\r\n%s\r\n"
                 "GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
                 headers[i]);
        char *reply = ask(f, text);
        assert_int_equal(status_of(reply), 400);
        assert_non_null(strstr(reply, "Connection: close\r\n"));
        assert_null(strstr(reply, "is_healthy"));
    }
    assert_int_equal(f->backend.clears, 0);
}

static void a_body_whose_size_is_said_twice_alike_or_in_chunks_is_taken(void **state) {
    fixture *f = *state;
    static const char *const requests[] = {
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "Transfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    };
    start(f);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "POST /cache/clear HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s",
                 requests[i]);
        assert_int_equal(status_of(ask(f, text)), 200);
    }
    assert_int_equal(f->backend.clears, 2);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(many_query_parameters_are_refused_in_words),
        T(as_many_query_parameters_as_are_allowed_are_answered),
        T(heads_that_the_library_gives_up_leave_nothing),
        T(a_request_that_is_given_up_does_not_hold_up_a_stop),
        T(a_body_whose_size_is_said_twice_is_refused),
        T(a_body_whose_size_is_said_twice_alike_or_in_chunks_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
