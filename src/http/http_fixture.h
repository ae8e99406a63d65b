/*
 * http_fixture.h: the room over real sockets, with a server behind it that the test controls,
 * and a client that speaks bytes. Each test file of this room that needs it includes it once.
 */
#ifndef LMC_HTTP_FIXTURE_H
#define LMC_HTTP_FIXTURE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock.h"
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

__attribute__((unused)) static void expect_header(fixture *f, const char *method,
                                                  const char *target, const char *header) {
    char *reply = exchange(f, method, target, NULL);
    if (strstr(reply, header) == NULL)
        fail_msg("%s %s: no '%s' in\n%s", method, target, header, reply);
}

#endif
