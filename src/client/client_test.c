#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>
#include <lmcached/client.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/bytes.h"
#include "support/alloc_fault.h"

/* A server of a few lines: a ROUTER that answers what its script says. */
typedef struct fake_server {
    void *context;
    void *router;
    pthread_t thread;
    char url[64];
    _Atomic bool silent; /* take requests, answer none */
    _Atomic bool old;    /* answer ping and clear without arguments only */
    _Atomic bool stop;
    _Atomic int requests;
} fake_server;

static const uint8_t OK_TEXT[] = {0xa2, 'O', 'K'};
static const uint8_t TRUE_VALUE[] = {0xc3};
static const uint8_t CHUNK_256[] = {0xcd, 0x01, 0x00};
static const uint8_t MODULE_REPLY[] = {0x83, 0xa7, 's',  'u', 'c', 'c', 'e', 's', 's',  0xc3,
                                       0xa7, 'p',  'a',  'y', 'l', 'o', 'a', 'd', 0xc4, 0x02,
                                       'h',  'i',  0xa5, 'e', 'r', 'r', 'o', 'r', 0xa0};

static lmc_slice answer_to(const uint8_t *operation, size_t size) {
    if (size == 1 && operation[0] == 24)
        return (lmc_slice){OK_TEXT, sizeof(OK_TEXT)};
    if (size == 1 && operation[0] == 22)
        return (lmc_slice){TRUE_VALUE, sizeof(TRUE_VALUE)};
    if (size == 1 && operation[0] == 21)
        return (lmc_slice){CHUNK_256, sizeof(CHUNK_256)};
    if (size > 1)
        return (lmc_slice){MODULE_REPLY, sizeof(MODULE_REPLY)};
    return (lmc_slice){NULL, 0}; /* void */
}

static size_t receive(fake_server *server, uint8_t frames[8][256], size_t sizes[8]) {
    size_t count = 0;
    int more = 1;
    size_t more_size = sizeof(more);
    while (more && count < 8) {
        int size = zmq_recv(server->router, frames[count], 256, 0);
        if (size < 0)
            return 0;
        sizes[count++] = (size_t)size;
        zmq_getsockopt(server->router, ZMQ_RCVMORE, &more, &more_size);
    }
    return count;
}

static void *serve(void *arg) {
    fake_server *server = arg;
    while (!server->stop) {
        uint8_t frames[8][256];
        size_t sizes[8], count = receive(server, frames, sizes);
        if (count < 3)
            continue;
        server->requests++;
        bool has_older_form = frames[2][0] == 22 || frames[2][0] == 20;
        if (server->silent || (server->old && has_older_form && count > 3))
            continue;
        lmc_slice answer = answer_to(frames[2], sizes[2]);
        zmq_send(server->router, frames[0], sizes[0], ZMQ_SNDMORE);
        zmq_send(server->router, frames[1], sizes[1], ZMQ_SNDMORE);
        zmq_send(server->router, frames[2], sizes[2], answer.data != NULL ? ZMQ_SNDMORE : 0);
        if (answer.data != NULL)
            zmq_send(server->router, answer.data, answer.size, 0);
    }
    return NULL;
}

static void start_server(fake_server *server, const char *bind_to, bool silent) {
    *server = (fake_server){.silent = silent};
    server->context = zmq_ctx_new();
    server->router = zmq_socket(server->context, ZMQ_ROUTER);
    int timeout = 20, linger = 0;
    zmq_setsockopt(server->router, ZMQ_RCVTIMEO, &timeout, sizeof(timeout));
    zmq_setsockopt(server->router, ZMQ_LINGER, &linger, sizeof(linger));
    assert_int_equal(zmq_bind(server->router, bind_to), 0);
    size_t size = sizeof(server->url);
    zmq_getsockopt(server->router, ZMQ_LAST_ENDPOINT, server->url, &size);
    pthread_create(&server->thread, NULL, serve, server);
}

static void stop_server(fake_server *server) {
    server->stop = true;
    pthread_join(server->thread, NULL);
    zmq_close(server->router);
    zmq_ctx_term(server->context);
}

static void the_common_calls_give_their_values(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    lmc_client *client = lmc_client_open(server.url);
    assert_non_null(client);
    bool ok = false;
    int64_t id = INT64_C(0x7fffffffffffffff), chunk_size = 0;
    assert_int_equal(lmc_client_ping(client, &id, 5, &ok), LMC_OK);
    assert_true(ok);
    assert_int_equal(lmc_client_ping(client, NULL, 5, &ok), LMC_OK);
    assert_int_equal(lmc_client_chunk_size(client, 5, &chunk_size), LMC_OK);
    assert_int_equal(chunk_size, 256);
    lmc_client_close(client);
    stop_server(&server);
}

static void an_older_form_is_tried_when_a_live_server_ignores_the_newest(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    server.old = true;
    lmc_client *client = lmc_client_open(server.url);
    int64_t id = 7;
    bool ok = false;
    assert_int_equal(lmc_client_ping(client, &id, 4, &ok), LMC_OK);
    assert_true(ok);
    assert_int_equal(lmc_client_clear(client, true, 4), LMC_OK);
    int before = server.requests;
    assert_int_equal(lmc_client_ping(client, &id, 20, &ok), LMC_OK);
    assert_int_equal(lmc_client_clear(client, true, 20), LMC_OK);
    assert_int_equal(server.requests, before + 2); /* the older form is remembered */
    lmc_client_close(client);
    stop_server(&server);
}

static void a_clear_that_must_spare_locked_objects_never_becomes_a_forced_one(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    server.old = true;
    lmc_client *client = lmc_client_open(server.url);
    assert_int_equal(lmc_client_clear(client, false, 0.2), LMC_TIMEOUT);
    assert_int_equal(server.requests, 1);
    lmc_client_close(client);
    stop_server(&server);
}

static void a_server_that_is_away_gets_no_older_form(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", true);
    lmc_client *client = lmc_client_open(server.url);
    assert_int_equal(lmc_client_clear(client, true, 0.4), LMC_TIMEOUT);
    lmc_client_close(client);
    assert_true(server.requests <= 2); /* the newest form, and whether anybody is there */
    stop_server(&server);
}

static void a_module_call_returns_the_payload(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    lmc_client *client = lmc_client_open(server.url);
    bool success = false;
    void *answer = NULL;
    size_t size = 0;
    lmc_status status = lmc_client_server_module_call(client, "fake.echo", lmc_text("hello"), 5,
                                                      &success, &answer, &size);
    assert_int_equal(status, LMC_OK);
    assert_true(success);
    assert_int_equal(size, 2);
    assert_memory_equal(answer, "hi", 2);
    free(answer);
    lmc_client_close(client);
    stop_server(&server);
}

static void an_unanswered_call_times_out_and_may_be_freed(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", true);
    lmc_client *client = lmc_client_open(server.url);
    lmc_noop_request request = {0};
    lmc_future *future = lmc_client_call(client, "noop", &request);
    assert_non_null(future);
    assert_int_equal(lmc_future_wait(future, 0.05, NULL), LMC_TIMEOUT);
    assert_non_null(strstr(lmc_client_error(), "noop"));
    lmc_future_free(future);
    lmc_client_close(client);
    stop_server(&server);
}

static void a_wait_may_have_no_end_or_no_length(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    lmc_client *client = lmc_client_open(server.url);
    lmc_noop_request request = {0};
    static const double endless[] = {INFINITY, 1e300}, none[] = {NAN, -INFINITY, -1, 0};
    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        lmc_future *future = lmc_client_call(client, "noop", &request);
        assert_int_equal(lmc_future_wait(future, endless[i], NULL), LMC_OK);
        lmc_future_free(future);
    }
    server.silent = true;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        lmc_future *future = lmc_client_call(client, "noop", &request);
        assert_int_equal(lmc_future_wait(future, none[i], NULL), LMC_TIMEOUT);
        lmc_future_free(future);
    }
    lmc_client_close(client);
    stop_server(&server);
}

static void closing_the_client_ends_open_futures(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", true);
    lmc_client *client = lmc_client_open(server.url);
    lmc_noop_request request = {0};
    lmc_future *future = lmc_client_call(client, "noop", &request);
    lmc_client_close(client);
    assert_int_equal(lmc_future_wait(future, 5, NULL), LMC_CLOSED);
    lmc_future_free(future);
    stop_server(&server);
}

/* Looking for each of them from the start would take minutes; the alarm only ends that. */
static void a_crowd_of_open_futures_ends_with_the_client(void **state) {
    (void)state;
    enum { CROWD = 200000 };
    lmc_noop_request request = {0};
    lmc_future **futures = calloc(CROWD, sizeof(*futures));
    assert_non_null(futures);
    lmc_client *client = lmc_client_open("tcp://127.0.0.1:1");
    for (size_t i = 0; i < CROWD; i++)
        futures[i] = lmc_client_call(client, "noop", &request);
    (void)alarm(60);
    lmc_client_close(client);
    (void)alarm(0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(lmc_future_wait(futures[i], 0, NULL), LMC_CLOSED);
        lmc_future_free(futures[i]);
    }
    free(futures);
}

static void requests_made_before_the_server_is_there_are_answered(void **state) {
    (void)state;
    fake_server probe;
    start_server(&probe, "tcp://127.0.0.1:*", false);
    char url[64];
    snprintf(url, sizeof(url), "%s", probe.url);
    stop_server(&probe);
    lmc_client *client = lmc_client_open(url);
    lmc_noop_request request = {0};
    lmc_future *future = lmc_client_call(client, "noop", &request);
    fake_server server;
    start_server(&server, url, false);
    const void *reply = NULL;
    assert_int_equal(lmc_future_wait(future, 20, &reply), LMC_OK);
    assert_true(lmc_slice_is(((const lmc_noop_reply *)reply)->message, "OK"));
    lmc_future_free(future);
    lmc_client_close(client);
    stop_server(&server);
}

static void an_unknown_operation_is_named(void **state) {
    (void)state;
    lmc_client *client = lmc_client_open("127.0.0.1:1");
    assert_non_null(client);
    assert_null(lmc_client_call(client, "no_such_operation", NULL));
    assert_non_null(strstr(lmc_client_error(), "no_such_operation"));
    lmc_client_close(client);
}

static void a_bad_url_is_refused_with_a_text(void **state) {
    (void)state;
    static const char *const urls[] = {"nonsense://x", "http://localhost:8080", "localhost",
                                       ""};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_null(lmc_client_open(urls[i]));
        assert_non_null(strstr(lmc_client_error(), urls[i]));
        assert_non_null(strstr(lmc_client_error(), "expected is tcp://HOST:PORT"));
    }
}

typedef struct caller {
    lmc_client *client;
    int good;
} caller;

static void *call_many(void *arg) {
    caller *self = arg;
    lmc_noop_request request = {0};
    for (int round = 0; round < 20; round++) {
        lmc_future *futures[16];
        for (int i = 0; i < 16; i++)
            futures[i] = lmc_client_call(self->client, "noop", &request);
        for (int i = 15; i >= 0; i--) {
            self->good += lmc_future_wait(futures[i], 20, NULL) == LMC_OK;
            lmc_future_free(futures[i]);
        }
    }
    return NULL;
}

static void many_threads_share_one_client(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    lmc_client *client = lmc_client_open(server.url);
    caller callers[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        callers[i] = (caller){.client = client};
        pthread_create(&threads[i], NULL, call_many, &callers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].good, 320);
    }
    lmc_client_close(client);
    stop_server(&server);
}

static void out_of_memory_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    fake_server server;
    start_server(&server, "tcp://127.0.0.1:*", false);
    lmc_client *client = lmc_client_open(server.url);
    lmc_noop_request request = {0};
    for (uint64_t nth = 1; nth < 8; nth++) {
        lmc_fault_arm(nth, false);
        lmc_future *future = lmc_client_call(client, "noop", &request);
        lmc_fault_disarm();
        if (future == NULL)
            assert_true(strlen(lmc_client_error()) > 0);
        lmc_future_free(future);
    }
    lmc_client_close(client);
    stop_server(&server);
}

static void a_pool_that_does_not_exist_is_not_found(void **state) {
    (void)state;
    lmc_pool pool;
    assert_int_equal(lmc_pool_map(lmc_text("lmcache_l1_pool_none_such"), 4096, &pool),
                     LMC_NOT_FOUND);
    assert_int_equal(lmc_pool_map(lmc_text(""), 0, &pool), LMC_NOT_FOUND);
}

/* {"slots": [{"offset": 4096, "length": 256, "shape": [2], "dtype": "u"}], "chunk_indices":
 * [3]} */
static const char ONE_SLOT[] =
    "\x82\xa5slots\x91\x84\xa6offset\xcd\x10\x00\xa6length\xcd\x01\x00"
    "\xa5shape\x91\x02\xa5"
    "dtype\xa1u\xad"
    "chunk_indices\x91\x03";

static void slots_of_a_store_are_read(void **state) {
    (void)state;
    lmc_client_slot slots[1];
    size_t count;
    lmc_slice context = {ONE_SLOT, sizeof(ONE_SLOT) - 1};
    assert_int_equal(lmc_client_slots(context, 8192, slots, 1, &count), LMC_OK);
    assert_int_equal(count, 1);
    assert_int_equal(slots[0].offset, 4096);
    assert_int_equal(slots[0].length, 256);
    assert_int_equal(slots[0].chunk_index, 3);
}

static void a_slot_outside_of_the_pool_is_refused(void **state) {
    (void)state;
    lmc_client_slot slots[1];
    size_t count;
    lmc_slice context = {ONE_SLOT, sizeof(ONE_SLOT) - 1};
    assert_int_equal(lmc_client_slots(context, 4351, slots, 1, &count), LMC_MALFORMED);
    for (size_t size = 0; size < context.size; size++)
        assert_int_equal(lmc_client_slots((lmc_slice){ONE_SLOT, size}, 8192, slots, 1, &count),
                         LMC_MALFORMED);
}

static void a_context_without_slots_means_byte_copy(void **state) {
    (void)state;
    size_t count;
    assert_int_equal(lmc_client_slots((lmc_slice){"\x80", 1}, 8192, NULL, 0, &count),
                     LMC_DECLINED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_common_calls_give_their_values),
        cmocka_unit_test(an_older_form_is_tried_when_a_live_server_ignores_the_newest),
        cmocka_unit_test(a_clear_that_must_spare_locked_objects_never_becomes_a_forced_one),
        cmocka_unit_test(a_server_that_is_away_gets_no_older_form),
        cmocka_unit_test(a_module_call_returns_the_payload),
        cmocka_unit_test(an_unanswered_call_times_out_and_may_be_freed),
        cmocka_unit_test(a_wait_may_have_no_end_or_no_length),
        cmocka_unit_test(closing_the_client_ends_open_futures),
        cmocka_unit_test(a_crowd_of_open_futures_ends_with_the_client),
        cmocka_unit_test(requests_made_before_the_server_is_there_are_answered),
        cmocka_unit_test(an_unknown_operation_is_named),
        cmocka_unit_test(a_bad_url_is_refused_with_a_text),
        cmocka_unit_test(many_threads_share_one_client),
        cmocka_unit_test(out_of_memory_is_an_error_and_leaks_nothing),
        cmocka_unit_test(a_pool_that_does_not_exist_is_not_found),
        cmocka_unit_test(slots_of_a_store_are_read),
        cmocka_unit_test(a_slot_outside_of_the_pool_is_refused),
        cmocka_unit_test(a_context_without_slots_means_byte_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
