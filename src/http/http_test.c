/* The whole room over real sockets, with a server behind it that the test controls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "http/http.h"

typedef struct backend {
    lmc_lock lock;
    lmc_cond changed;
    bool gate_closed; /* status waits until it opens */
    unsigned waiting; /* status calls that wait */
    bool fail, not_ready;
    int clears;
    bool last_force;
} backend;

typedef struct fixture {
    backend backend;
    lmc_http_config config;
    lmc_http_provider provider;
    lmc_http *http;
    uint16_t port;
} fixture;

static lmc_status write_status(void *self, lmc_buffer *out) {
    backend *b = self;
    lmc_lock_take(&b->lock);
    b->waiting++;
    lmc_cond_broadcast(&b->changed);
    while (b->gate_closed)
        lmc_cond_wait(&b->changed, &b->lock);
    b->waiting--;
    bool fail = b->fail;
    lmc_lock_drop(&b->lock);
    lmc_buffer_text(out, "{\"is_healthy\":true}");
    return fail ? LMC_FAILED : LMC_OK;
}

static lmc_status write_config(void *self, lmc_buffer *out) {
    (void)self;
    lmc_buffer_text(out, "{\n  \"mp\": {}\n}");
    return LMC_OK;
}

static lmc_status write_metrics(void *self, lmc_buffer *out) {
    (void)self;
    lmc_buffer_text(out, "# TYPE up gauge\nup 1\n");
    return LMC_OK;
}

static lmc_status write_readiness(void *self, lmc_buffer *out, bool *ready) {
    *ready = !((backend *)self)->not_ready;
    lmc_buffer_printf(out, "{\"ready\":%s}", *ready ? "true" : "false");
    return LMC_OK;
}

static lmc_status clear(void *self, bool force) {
    backend *b = self;
    b->clears++;
    b->last_force = force;
    return LMC_OK;
}

static void each_loop(void *self, void (*visit)(void *arg, const lmc_http_loop *loop),
                      void *arg) {
    (void)self;
    visit(arg, &(lmc_http_loop){"l1-eviction", "high", 1.0, true, true, 0.4, 120, 0});
    visit(arg, &(lmc_http_loop){"reaper", "critical", 30.0, true, false, 90.5, 4, 1});
    visit(arg, &(lmc_http_loop){"supply", "low", 0.5, false, false, -1.0, 0, 0});
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    lmc_lock_init(&f->backend.lock, LMC_RANK_SERVER, "test");
    lmc_cond_init(&f->backend.changed);
    f->config = (lmc_http_config){.host = "127.0.0.1", .version = "0.1.0", .commit = "abc"};
    f->provider = (lmc_http_provider){.self = &f->backend,
                                      .write_status = write_status,
                                      .write_config = write_config,
                                      .write_metrics = write_metrics,
                                      .write_readiness = write_readiness,
                                      .clear = clear,
                                      .each_loop = each_loop};
    *state = f;
    return 0;
}

static void start(fixture *f) {
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_http_create(&f->config, &f->provider, &f->http, &error) != LMC_OK ||
        lmc_http_start(f->http, &error) != LMC_OK)
        fail_msg("%s", error.text);
    f->port = lmc_http_port(f->http);
}

static int teardown(void **state) {
    fixture *f = *state;
    lmc_http_destroy(f->http);
    lmc_cond_fini(&f->backend.changed);
    lmc_lock_fini(&f->backend.lock);
    free(f);
    return 0;
}

/* ---- a client ---- */

static int try_connect(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 20};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to(uint16_t port) {
    int fd = try_connect(port);
    assert_true(fd >= 0);
    return fd;
}

static void send_text(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* refused half-way; the reply tells */
        text += sent;
        size -= (size_t)sent;
    }
}

/* All bytes until the server closes. */
static char *read_all(int fd) {
    static char reply[1 << 20];
    size_t size = 0;
    ssize_t got;
    while (size < sizeof reply - 1 &&
           (got = recv(fd, reply + size, sizeof reply - 1 - size, 0)) > 0)
        size += (size_t)got;
    reply[size] = '\0';
    close(fd);
    return reply;
}

static char *exchange(fixture *f, const char *method, const char *target, const char *body) {
    char head[2048];
    int fd = connect_to(f->port);
    size_t size = body != NULL ? strlen(body) : 0;
    int length = snprintf(head, sizeof head,
                          "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          method, target, size);
    send_text(fd, head, (size_t)length);
    send_text(fd, body != NULL ? body : "", size);
    return read_all(fd);
}

static const char *body_of(const char *reply) {
    const char *end = strstr(reply, "\r\n\r\n");
    return end != NULL ? end + 4 : "(no reply)";
}

static int status_of(const char *reply) {
    return strncmp(reply, "HTTP/1.1 ", 9) == 0 ? (int)strtol(reply + 9, NULL, 10) : 0;
}

static void expect(fixture *f, const char *method, const char *target, const char *body,
                   int status, const char *expected) {
    char *reply = exchange(f, method, target, body);
    if (status_of(reply) != status || strcmp(body_of(reply), expected) != 0)
        fail_msg("%s %s:\nexpected %d %s\ngot %s", method, target, status, expected, reply);
}

static void expect_header(fixture *f, const char *method, const char *target,
                          const char *header) {
    char *reply = exchange(f, method, target, NULL);
    if (strstr(reply, header) == NULL)
        fail_msg("%s %s: no '%s' in\n%s", method, target, header, reply);
}

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

/* ---- endpoints ---- */

static void identity_is_json_text(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/version", NULL, 200, "\"0.1.0-abc\"");
    expect(f, "GET", "/lmc_version", NULL, 200, "\"0.1.0\"");
    expect(f, "GET", "/commit_id", NULL, 200, "\"abc\"");
}

static void unknown_identity_is_na(void **state) {
    fixture *f = *state;
    f->config.version = NULL;
    f->config.commit = "";
    start(f);
    expect(f, "GET", "/version", NULL, 200, "\"NA-NA\"");
    expect(f, "GET", "/lmc_version", NULL, 200, "\"\"");
}

static void what_the_server_writes_is_served_under_every_name(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/api/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    expect(f, "GET", "/status", NULL, 200, "{\"is_healthy\":true}");
    expect(f, "GET", "/api/status", NULL, 200, "{\"is_healthy\":true}");
    expect(f, "GET", "/config", NULL, 200, "{\n  \"mp\": {}\n}");
    expect(f, "GET", "/conf", NULL, 200, "{\n  \"mp\": {}\n}");
    expect(f, "GET", "/config/adapters", NULL, 200, "{\"adapters\":[]}");
    expect_header(f, "GET", "/status", "Content-Type: application/json\r\n");
    expect_header(f, "GET", "/metrics",
                  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
}

static void a_failing_provider_is_500_and_its_output_is_dropped(void **state) {
    fixture *f = *state;
    f->backend.fail = true;
    start(f);
    expect(f, "GET", "/status", NULL, 500, "{\"detail\":\"Internal Server Error\"}");
}

static void what_is_not_there_yet_is_503_with_its_own_body(void **state) {
    fixture *f = *state;
    f->provider = (lmc_http_provider){.self = NULL};
    start(f);
    expect(f, "GET", "/healthcheck", NULL, 503,
           "{\"status\":\"unhealthy\",\"reason\":\"engine not initialized\"}");
    expect(f, "GET", "/status", NULL, 503, "{\"error\":\"engine not initialized\"}");
    expect(f, "GET", "/config", NULL, 503, "{\"error\":\"configs not initialized\"}");
    expect(f, "POST", "/cache/clear", NULL, 503, "{\"detail\":\"server not initialized\"}");
}

static void readiness_tells_the_truth(void **state) {
    fixture *f = *state;
    f->backend.not_ready = true;
    start(f);
    expect(f, "GET", "/readiness", NULL, 503, "{\"ready\":false}");
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
}

static void clear_takes_tier_and_force(void **state) {
    fixture *f = *state;
    static const char cleared[] = "{\"status\":\"ok\",\"cleared\":{\"tier\":\"l1\"}}";
    start(f);
    expect(f, "POST", "/cache/clear", NULL, 200, cleared);
    assert_true(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "{\"force\":false,\"tier\":\"l1\",\"x\":1}", 200,
           cleared);
    assert_false(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "null", 200, cleared);
    assert_true(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "{\"force\":\"off\"}", 200, cleared);
    assert_false(f->backend.last_force);
    expect(f, "POST", "/clear-cache", "not json", 200, "{\"status\":\"ok\"}");
    assert_true(f->backend.last_force);
    expect(f, "POST", "/api/clear-cache", "{\"force\":false}", 200, "{\"status\":\"ok\"}");
    assert_true(f->backend.last_force);
    assert_int_equal(f->backend.clears, 6);
}

static void clear_refuses_what_it_does_not_understand(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "POST", "/cache/clear", "{\"tier\":\"l2\"}", 400,
           "{\"detail\":\"tier 'l2' not supported; only 'l1'\"}");
    expect(f, "POST", "/cache/clear", "{\"tier\":\"l3\"}", 422,
           "{\"detail\":[{\"type\":\"literal_error\",\"loc\":[\"body\",\"tier\"],"
           "\"msg\":\"Input should be 'l1', 'l2' or 'all'\",\"input\":\"l3\","
           "\"ctx\":{\"expected\":\"'l1', 'l2' or 'all'\"}}]}");
    expect(f, "POST", "/cache/clear", "{\"force\":\"maybe\"}", 422,
           "{\"detail\":[{\"type\":\"bool_parsing\",\"loc\":[\"body\",\"force\"],"
           "\"msg\":\"Input should be a valid boolean, unable to interpret input\","
           "\"input\":\"maybe\"}]}");
    expect(f, "POST", "/cache/clear", "[1]", 422,
           "{\"detail\":[{\"type\":\"model_attributes_type\",\"loc\":[\"body\"],"
           "\"msg\":\"Input should be a valid dictionary or object to extract fields from\","
           "\"input\":[1]}]}");
    char *reply = exchange(f, "POST", "/cache/clear", "{\"tier\":");
    assert_int_equal(status_of(reply), 422);
    assert_non_null(strstr(reply, "\"type\":\"json_invalid\",\"loc\":[\"body\",8]"));
    assert_int_equal(f->backend.clears, 0);
}

static void log_levels_are_read_and_set(void **state) {
    fixture *f = *state;
    lmc_log_level before = lmc_log_level_of("lmcache");
    start(f);
    expect(f, "GET", "/loglevel?logger_name=lmcache.test&level=warning", NULL, 200,
           "lmcache.test: WARNING");
    assert_int_equal(lmc_log_level_of("lmcache.test"), LMC_LOG_WARNING);
    expect(f, "GET", "/loglevel?logger_name=lmcache.test", NULL, 200, "lmcache.test: WARNING");
    expect(f, "GET", "/loglevel?level=DEBUG", NULL, 200, "null");
    assert_int_equal(lmc_log_level_of("lmcache"), before);
    expect(f, "GET", "/loglevel?logger_name=lmcache&level=loud", NULL, 400,
           "Invalid log level: loud");
    expect(f, "GET", "/loglevel?logger_name=a%0ab&level=INFO", NULL, 400,
           "Invalid logger name");
    char *reply = exchange(f, "GET", "/loglevel", NULL);
    assert_non_null(strstr(reply, "lmcache.test: WARNING\n"));
    assert_non_null(strstr(reply, "lmcache: "));
}

static void the_environment_is_sorted_and_masked(void **state) {
    fixture *f = *state;
    setenv("LMC_TEST_API_KEY", "hush", 1);
    setenv("LMC_TEST_DB", "redis://me:pass@host/0", 1);
    setenv("LMC_TEST_PLAIN", "shown", 1);
    start(f);
    char *reply = exchange(f, "GET", "/env", NULL);
    assert_non_null(strstr(reply, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(reply, "  \"LMC_TEST_API_KEY\": \"***\",\n"
                                  "  \"LMC_TEST_DB\": \"redis://me:***@host/0\",\n"
                                  "  \"LMC_TEST_PLAIN\": \"shown\""));
    assert_null(strstr(reply, "hush"));
}

static void threads_are_listed_by_name(void **state) {
    fixture *f = *state;
    start(f);
    char *reply = exchange(f, "GET", "/threads?name=HTTP-POOL", NULL);
    assert_int_equal(strncmp(body_of(reply), "Total threads: ", 15), 0);
    assert_non_null(strstr(reply, "Thread: http-pool (ID: "));
    assert_null(strstr(reply, "http_test"));
    reply = exchange(f, "GET", "/threads?thread_id=x", NULL);
    assert_int_equal(status_of(reply), 422);
    assert_non_null(strstr(reply, "\"loc\":[\"query\",\"thread_id\"]"));
}

static void loops_are_listed_filtered_and_judged(void **state) {
    fixture *f = *state;
    start(f);
    static const char reaper[] =
        "{\"name\":\"reaper\",\"level\":\"critical\",\"interval\":30.0,\"is_running\":true,"
        "\"is_active\":false,\"last_run_ago\":90.5,\"total_runs\":4,\"failed_runs\":1,"
        "\"success_rate\":75.0,\"last_summary\":{}}";
    char expected[1024];
    snprintf(expected, sizeof expected,
             "{\"summary\":{\"total_count\":3,\"running_count\":2,\"active_count\":1,"
             "\"by_level\":{\"critical\":{\"total\":1,\"running\":1,\"active\":0},"
             "\"high\":{\"total\":1,\"running\":1,\"active\":1},"
             "\"medium\":{\"total\":0,\"running\":0,\"active\":0},"
             "\"low\":{\"total\":1,\"running\":0,\"active\":0}}},\"threads\":[%s]}",
             reaper);
    expect(f, "GET", "/periodic-threads?level=critical&running_only=yes", NULL, 200, expected);
    expect(f, "GET", "/periodic-threads/reaper", NULL, 200, reaper);
    expect(f, "GET", "/periodic-threads/nobody", NULL, 404,
           "{\"error\":\"Thread not found: nobody\"}");
    expect(
        f, "GET", "/periodic-threads-health", NULL, 200,
        "{\"healthy\":false,\"unhealthy_count\":1,\"unhealthy_threads\":[{\"name\":\"reaper\","
        "\"level\":\"critical\",\"last_run_ago\":90.5,\"interval\":30.0}]}");
    assert_int_equal(status_of(exchange(f, "GET", "/periodic-threads?level=urgent", NULL)),
                     400);
    assert_int_equal(
        status_of(exchange(f, "GET", "/periodic-threads?active_only=perhaps", NULL)), 422);
}

static void quotas_are_kept(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "PUT", "/quota/alice", "{\"limit_gb\":10}", 200,
           "{\"cache_salt\":\"alice\",\"limit_gb\":10.0,\"status\":\"ok\"}");
    expect(f, "PUT", "/api/quota/_default", "{\"limit_gb\":\"1.5\"}", 200,
           "{\"cache_salt\":\"_default\",\"limit_gb\":1.5,\"status\":\"ok\"}");
    expect(f, "GET", "/quota", NULL, 200,
           "{\"users\":{\"_default\":{\"limit_gb\":1.5,\"current_usage_gb\":0.0},"
           "\"alice\":{\"limit_gb\":10.0,\"current_usage_gb\":0.0}}}");
    expect(f, "GET", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"limit_gb\":10.0,\"current_usage_gb\":0.0,"
           "\"exists\":true}");
    expect(f, "GET", "/quota/bob", NULL, 200,
           "{\"cache_salt\":\"bob\",\"limit_gb\":0.0,\"current_usage_gb\":0.0,"
           "\"exists\":false}");
    expect(f, "DELETE", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"status\":\"removed\"}");
    expect(f, "DELETE", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"status\":\"not_found\"}");
}

static void quotas_refuse_what_is_not_a_limit(void **state) {
    fixture *f = *state;
    static const struct {
        const char *target, *body, *text;
    } cases[] = {
        {"/quota/a", "{", "invalid JSON body"},
        {"/quota/a", NULL, "invalid JSON body"},
        {"/quota/a", "[]", "body must be {'limit_gb': <float>}"},
        {"/quota/a", "{}", "body must be {'limit_gb': <float>}"},
        {"/quota/a", "{\"limit_gb\":null}", "limit_gb must be numeric"},
        {"/quota/a", "{\"limit_gb\":\"much\"}", "limit_gb must be numeric"},
        {"/quota/a", "{\"limit_gb\":\"inf\"}", "limit_gb must be finite"},
        {"/quota/a", "{\"limit_gb\":-1}", "limit_gb must be non-negative"},
        {"/quota/a%40b", "{\"limit_gb\":1}",
         "cache_salt must not contain '@', '/', '\\\\' or NUL"},
    };
    start(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "{\"error\":\"%s\"}", cases[i].text);
        expect(f, "PUT", cases[i].target, cases[i].body, 400, expected);
    }
    expect(f, "PUT", "/quota/a%2fb", "{\"limit_gb\":1}", 404, "{\"detail\":\"Not Found\"}");
    expect(f, "GET", "/quota", NULL, 200, "{\"users\":{}}");
}

static void run_script_says_how_to_enable_it(void **state) {
    fixture *f = *state;
    start(f);
    char *reply = exchange(f, "POST", "/run_script", "x");
    assert_int_equal(status_of(reply), 404);
    assert_non_null(strstr(reply, "Content-Type: text/plain"));
    assert_non_null(strstr(reply, "--run-script-api-enabled"));
}

static void run_script_is_501_when_enabled(void **state) {
    fixture *f = *state;
    f->config.run_script_enabled = true;
    start(f);
    assert_int_equal(status_of(exchange(f, "POST", "/run_script", "x")), 501);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(connections_are_refused_between_create_and_start),
        T(a_busy_port_is_refused_by_name),
        T(of_two_that_bound_the_second_to_listen_is_refused),
        T(an_unknown_host_is_named),
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
        T(identity_is_json_text),
        T(unknown_identity_is_na),
        T(what_the_server_writes_is_served_under_every_name),
        T(a_failing_provider_is_500_and_its_output_is_dropped),
        T(what_is_not_there_yet_is_503_with_its_own_body),
        T(readiness_tells_the_truth),
        T(clear_takes_tier_and_force),
        T(clear_refuses_what_it_does_not_understand),
        T(log_levels_are_read_and_set),
        T(the_environment_is_sorted_and_masked),
        T(threads_are_listed_by_name),
        T(loops_are_listed_filtered_and_judged),
        T(quotas_are_kept),
        T(quotas_refuse_what_is_not_a_limit),
        T(run_script_says_how_to_enable_it),
        T(run_script_is_501_when_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
