/*
 * door_fixture.h: a served ZMQ door with small handlers, and raw clients, for the tests of this
 * room.
 *
 * Clients speak bytes: frames are written in hexadecimal, separated by '|'. Each test file
 * includes this once.
 */
#ifndef LMC_TRANSPORT_ZMQ_DOOR_FIXTURE_H
#define LMC_TRANSPORT_ZMQ_DOOR_FIXTURE_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "transport/zmq/transport.h"

#define KEPT_MAX 256
#define CLIENTS_MAX 64
#define CLOSED_MAX 1024
#define FRAMES_MAX 12

typedef struct door {
    lmc_registry *registry;
    lmc_dispatcher *dispatcher;
    lmc_zmq_transport *transport;
    lmc_zmq_options options;
    void *context; /* of the clients */
    void *clients[CLIENTS_MAX];
    pthread_mutex_t mutex;
    lmc_call *kept[KEPT_MAX]; /* of wait_prefetch_status, until somebody completes them */
    _Atomic uint32_t kept_count;
    uint64_t closed[CLOSED_MAX]; /* connections reported as closed */
    _Atomic uint32_t closed_count;
    _Atomic uint64_t latest_connection; /* of the latest ping */
    _Atomic uint64_t handled;
    _Atomic bool stuck, unstick; /* of get_experimental */
} door;

/* ---- handlers ---- */

static void answer_noop(void *self, lmc_call *call) {
    (void)self;
    lmc_noop_reply *reply = lmc_call_reply(call);
    reply->message = lmc_text("OK");
    lmc_complete(call, LMC_OK);
}

static void answer_ping(void *self, lmc_call *call) {
    door *d = self;
    lmc_ping_reply *reply = lmc_call_reply(call);
    atomic_store(&d->latest_connection, lmc_call_connection(call));
    reply->ok = true;
    lmc_complete(call, LMC_OK);
}

static void answer_clear(void *self, lmc_call *call) {
    atomic_fetch_add(&((door *)self)->handled, 1);
    lmc_complete(call, LMC_OK);
}

/* Pending for "p", failed for "f", else 2. */
static void answer_query(void *self, lmc_call *call) {
    (void)self;
    const lmc_query_prefetch_status_request *request = lmc_call_request(call);
    lmc_query_prefetch_status_reply *reply = lmc_call_reply(call);
    reply->chunk_count = 2;
    if (lmc_slice_is(request->request_id, "p"))
        lmc_complete(call, LMC_AGAIN);
    else
        lmc_complete(call, lmc_slice_is(request->request_id, "f") ? LMC_FAILED : LMC_OK);
}

static void keep_wait(void *self, lmc_call *call) {
    door *d = self;
    lmc_wait_prefetch_status_reply *reply = lmc_call_reply(call);
    reply->chunk_count = 3;
    pthread_mutex_lock(&d->mutex);
    uint32_t at = atomic_load(&d->kept_count);
    assert_true(at < KEPT_MAX);
    d->kept[at] = call;
    atomic_store(&d->kept_count, at + 1);
    pthread_mutex_unlock(&d->mutex);
}

/* Echoes the payload; the method "zeros" answers 8 MiB of them. */
static void answer_module_call(void *self, lmc_call *call) {
    static const uint8_t zeros[8 << 20];
    static const lmc_slice many = {zeros, sizeof zeros};
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    atomic_fetch_add(&((door *)self)->handled, 1);
    reply->success = true;
    reply->payload = request->payload;
    if (lmc_slice_is(request->method, "zeros"))
        reply->payload = (lmc_pieces){&many, 1, many.size};
    lmc_complete(call, LMC_OK);
}

/* Holds up the request loop until the test lets go. */
static void stick(void *self, lmc_call *call) {
    door *d = self;
    atomic_store(&d->stuck, true);
    while (!atomic_load(&d->unstick))
        sched_yield();
    lmc_complete(call, LMC_OK);
}

static const lmc_operation door_operations[] = {
    {.name = "noop", .scheduling = LMC_SYNC, .handle = answer_noop},
    {.name = "ping", .scheduling = LMC_NORMAL, .flags = LMC_NEVER_WAITS, .handle = answer_ping},
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = answer_clear},
    {.name = "query_prefetch_status", .scheduling = LMC_NORMAL, .handle = answer_query},
    {.name = "wait_prefetch_status", .scheduling = LMC_NORMAL, .handle = keep_wait},
    {.name = "get_experimental", .scheduling = LMC_SYNC, .handle = stick},
    {.name = "server_module_call", .scheduling = LMC_AFFINITY, .handle = answer_module_call},
    {.name = NULL}};

static void note_closed(void *arg, uint64_t connection) {
    door *d = arg;
    uint32_t at = atomic_load(&d->closed_count);
    if (at < CLOSED_MAX)
        d->closed[at] = connection;
    atomic_store(&d->closed_count, at + 1);
}

static const char *hint(void *arg, const lmc_operation_def *operation) {
    (void)arg;
    (void)operation;
    return "see --supported-transfer-mode";
}

/* ---- the door ---- */

static door *door_make(void) {
    door *d = calloc(1, sizeof *d);
    assert_non_null(d);
    pthread_mutex_init(&d->mutex, NULL);
    d->options = (lmc_zmq_options){
        .host = "127.0.0.1", .connection_closed = note_closed, .unserved_hint = hint, .arg = d};
    return d;
}

static void door_serve(door *d) {
    lmc_error error = LMC_ERROR_INIT;
    lmc_pools_options pools = {.normal_threads = 2, .affinity_threads = 2};
    assert_int_equal(lmc_registry_create(&d->registry, NULL), LMC_OK);
    assert_int_equal(
        lmc_registry_add(d->registry, door_operations, d, "TestModule", false, &error), LMC_OK);
    lmc_registry_freeze(d->registry);
    assert_int_equal(lmc_dispatcher_create(&pools, d->registry, &d->dispatcher, &error),
                     LMC_OK);
    lmc_status status =
        lmc_zmq_transport_create(&d->options, d->dispatcher, &d->transport, &error);
    if (status != LMC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(lmc_zmq_transport_start(d->transport, &error), LMC_OK);
    d->context = zmq_ctx_new();
}

static void door_close(door *d) {
    lmc_zmq_transport_stop(d->transport, LMC_NS_PER_S);
    assert_int_equal(lmc_pools_stop(d->dispatcher->pools, INT64_MAX), LMC_OK);
    lmc_zmq_transport_destroy(d->transport);
    lmc_dispatcher_destroy(d->dispatcher);
    lmc_registry_destroy(d->registry);
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (d->clients[i] != NULL)
            zmq_close(d->clients[i]);
    }
    zmq_ctx_term(d->context);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

static int door_setup(void **state) {
    *state = door_make();
    door_serve(*state);
    return 0;
}

static int door_teardown(void **state) {
    door_close(*state);
    return 0;
}

static lmc_zmq_stats door_stats(door *d) {
    lmc_zmq_stats stats;
    lmc_zmq_transport_stats(d->transport, &stats);
    return stats;
}

/* A reply may be read before the loop has put its request away. */
static inline void door_await_idle(door *d) {
    while (door_stats(d).in_flight > 0 || door_stats(d).in_flight_bytes > 0)
        sched_yield();
}

/* Waits until the counter has at least this value; the test's time limit ends a wait in vain.
 */
#define AWAIT_STAT(d, member, value)       \
    while (door_stats(d).member < (value)) \
    sched_yield()
#define AWAIT_COUNT(counter, value)        \
    while (atomic_load(counter) < (value)) \
    sched_yield()

/* ---- clients ---- */

static void client_close(door *d, void *client) {
    for (int i = 0; i < CLIENTS_MAX; i++) {
        if (d->clients[i] == client)
            d->clients[i] = NULL;
    }
    zmq_close(client);
}

static void *client_open_named(door *d, const char *id) {
    int linger = 0, patience = 20000;
    void *client = zmq_socket(d->context, ZMQ_DEALER);
    assert_non_null(client);
    int at = 0;
    while (d->clients[at] != NULL)
        assert_true(++at < CLIENTS_MAX);
    d->clients[at] = client; /* closed at the end even if the test fails */
    zmq_setsockopt(client, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(client, ZMQ_RCVTIMEO, &patience, sizeof patience);
    if (id != NULL)
        zmq_setsockopt(client, ZMQ_ROUTING_ID, id, strlen(id));
    assert_int_equal(zmq_connect(client, lmc_zmq_transport_endpoint(d->transport)), 0);
    return client;
}

static inline void *client_open(door *d) { return client_open_named(d, NULL); }

static size_t unhex(const char *text, size_t size, uint8_t *out) {
    for (size_t i = 0; i + 1 < size; i += 2) {
        char pair[3] = {text[i], text[i + 1], 0};
        out[i / 2] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size / 2;
}

static void client_send(void *client, const char *frames) {
    while (frames != NULL) {
        const char *end = strchr(frames, '|');
        size_t size = end != NULL ? (size_t)(end - frames) : strlen(frames);
        uint8_t bytes[4096];
        assert_true(size / 2 <= sizeof bytes);
        size = unhex(frames, size, bytes);
        assert_true(zmq_send(client, bytes, size, end != NULL ? ZMQ_SNDMORE : 0) >= 0);
        frames = end != NULL ? end + 1 : NULL;
    }
}

/* Reads one message into text of the form of client_send(); long frames are given by size. */
static const char *client_read(void *client) {
    static _Thread_local char text[8192];
    size_t used = 0;
    int more = 1;
    text[0] = '\0';
    for (int part = 0; more; part++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, client, 0) < 0)
            return "nothing";
        const uint8_t *bytes = zmq_msg_data(&frame);
        if (part > 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "|");
        if (zmq_msg_size(&frame) > 600)
            used += (size_t)snprintf(text + used, sizeof text - used, "%zu bytes",
                                     zmq_msg_size(&frame));
        for (size_t i = 0; i < zmq_msg_size(&frame) && zmq_msg_size(&frame) <= 600; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%02x", bytes[i]);
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    return text;
}

static inline void expect(void *client, const char *frames) {
    assert_string_equal(client_read(client), frames);
}

static inline void ask(void *client, const char *request, const char *reply) {
    client_send(client, request);
    expect(client, reply);
}

/* The server has read everything sent before, and this client has no reply to any of it. */
static inline void expect_silence(void *client) { ask(client, "7f|18", "7f|18|a24f4b"); }

#endif
