#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/zmq/door_fixture.h"

#define MIB ((size_t)1 << 20)

static const char call_name[] = "\xb2server_module_call";

/* server_module_call(method, payload of `size` bytes) */
static void send_call(void *client, const char *method, size_t size) {
    uint8_t *frame = malloc(size + 64);
    assert_non_null(frame);
    size_t used = 0;
    memcpy(frame, "\x82\xa6method", 8);
    used = 8;
    frame[used++] = (uint8_t)(0xa0 | strlen(method));
    memcpy(frame + used, method, strlen(method));
    used += strlen(method);
    memcpy(frame + used, "\xa7payload\xc6", 9);
    used += 9;
    for (int i = 3; i >= 0; i--)
        frame[used++] = (uint8_t)(size >> (8 * i));
    memset(frame + used, 0x5a, size);
    used += size;
    zmq_send(client, "\x01", 1, ZMQ_SNDMORE);
    zmq_send(client, call_name, sizeof call_name - 1, ZMQ_SNDMORE);
    assert_int_equal(zmq_send(client, frame, used, 0), used);
    free(frame);
}

/* Size of the result of the next reply, which must be to server_module_call. */
static size_t read_result(void *client, uint8_t *last) {
    char head[64];
    assert_int_equal(zmq_recv(client, head, sizeof head, 0), 1);
    assert_int_equal(zmq_recv(client, head, sizeof head, 0), sizeof call_name - 1);
    zmq_msg_t result;
    zmq_msg_init(&result);
    assert_true(zmq_msg_recv(&result, client, 0) > 0);
    assert_false(zmq_msg_more(&result));
    size_t size = zmq_msg_size(&result);
    if (last != NULL)
        *last = ((uint8_t *)zmq_msg_data(&result))[9]; /* the value of "success" */
    zmq_msg_close(&result);
    return size;
}

static void frames_of_every_size_make_the_round_trip(void **state) {
    door *d = *state;
    void *client = client_open(d);
    const size_t sizes[] = {0, 1, 20, 200, 480, 481, 500, 8000, 9000, 100000, 131072, 3 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        send_call(client, "fake.echo", sizes[i]);
        assert_true(read_result(client, NULL) > sizes[i]);
    }
    while (door_stats(d).unread_bytes > 0)
        sched_yield(); /* libzmq has let go of everything */
    door_await_idle(d);
    client_close(d, client);
}

static void large_reply_buffers_are_kept_for_reuse_within_the_bound(void **state) {
    (void)state;
    door *d = door_make();
    d->options.reuse_bytes = 20 * MIB;
    door_serve(d);
    void *client = client_open(d);
    size_t most_kept = 0; /* those that nobody uses for seconds are freed */
    for (int i = 0; i < 6 || most_kept == 0; i++) {
        for (int k = 0; k < 4; k++)
            send_call(client, "zeros", 1);
        for (int k = 0; k < 4; k++) {
            assert_true(read_result(client, NULL) > 8 * MIB);
            size_t kept = door_stats(d).reuse_bytes;
            most_kept = kept > most_kept ? kept : most_kept;
        }
    }
    assert_true(most_kept <= 20 * MIB);
    door_close(d);
}

static void a_peer_that_never_reads_costs_only_so_much(void **state) {
    (void)state;
    door *d = door_make();
    d->options.unread_peer_bytes = 64 * MIB;
    door_serve(d);
    void *deaf = client_open(d);
    void *other = client_open(d);
    int one = 1;
    zmq_setsockopt(deaf, ZMQ_RCVHWM, &one, sizeof one);
    for (int i = 0; i < 60; i++)
        send_call(deaf, "zeros", 1); /* 480 MiB if all were kept */
    AWAIT_COUNT(&d->handled, 60);
    AWAIT_STAT(d, over_unread, 1);
    assert_true(door_stats(d).unread_bytes <= 64 * MIB + 9 * MIB);
    send_call(other, "zeros", 1); /* nobody else is hurt */
    assert_true(read_result(other, NULL) > 8 * MIB);
    ask(other, "00|18", "00|18|a24f4b");
    client_close(d, deaf);
    while (door_stats(d).unread_bytes > 0)
        sched_yield();
    door_close(d);
}

static void small_replies_that_nobody_reads_are_counted_too(void **state) {
    (void)state;
    door *d = door_make();
    d->options.unread_peer_bytes = MIB;
    door_serve(d);
    void *deaf = client_open(d);
    void *other = client_open(d);
    int one = 1, none = 0;
    zmq_setsockopt(deaf, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt(deaf, ZMQ_SNDHWM, &none, sizeof none);
    char uid[200];
    memset(uid, 'u', sizeof uid);
    for (int i = 0; i < 60000; i++) { /* 30 MiB if all were kept */
        zmq_send(deaf, uid, sizeof uid, ZMQ_SNDMORE);
        zmq_send(deaf, "\x18", 1, 0);
    }
    AWAIT_STAT(d, requests, 60000);
    AWAIT_STAT(d, over_unread, 1);
    assert_true(door_stats(d).unread_bytes <= MIB);
    ask(other, "00|18", "00|18|a24f4b");
    client_close(d, deaf);
    while (door_stats(d).unread_bytes > 0)
        sched_yield();
    door_close(d);
}

static void a_long_uid_comes_back_as_it_was(void **state) {
    door *d = *state;
    void *client = client_open(d);
    char uid[256], got[300];
    for (int round = 0; round < 1000; round++) { /* some of them become counted frames */
        memset(uid, 'a' + round % 26, sizeof uid);
        size_t size = (size_t)(round % 256) + 1;
        zmq_send(client, uid, size, ZMQ_SNDMORE);
        zmq_send(client, "\x18", 1, 0);
        assert_int_equal(zmq_recv(client, got, sizeof got, 0), size);
        assert_memory_equal(got, uid, size);
        assert_int_equal(zmq_recv(client, got, sizeof got, 0), 1);
        assert_int_equal(zmq_recv(client, got, sizeof got, 0), 3);
    }
    client_close(d, client);
}

static void what_was_too_much_is_answered_with_the_negative(void **state) {
    (void)state;
    door *d = door_make();
    d->options.unread_peer_bytes = 10 * MIB;
    door_serve(d);
    void *client = client_open(d);
    for (int i = 0; i < 40; i++)
        send_call(client, "zeros", 1);
    AWAIT_STAT(d, over_unread, 1);
    int served = 0, refused = 0;
    for (int i = 0; i < 40; i++) {
        uint8_t success;
        size_t size = read_result(client, &success);
        served += size > 8 * MIB && success == 0xc3;
        refused += size < 100 && success == 0xc2;
    }
    assert_int_equal(served + refused, 40);
    assert_true(served >= 1 && refused >= 1);
    door_close(d);
}

static void too_much_in_flight_stops_the_reading_and_then_sheds(void **state) {
    (void)state;
    door *d = door_make();
    d->options.in_flight_bytes = 4 * MIB;
    door_serve(d);
    void *client = client_open(d);
    void *other = client_open(d);
    /* A kept call of 5 MiB: wait_prefetch_status of a long name. */
    size_t size = 5 * MIB;
    uint8_t *name = malloc(size + 5);
    assert_non_null(name);
    memset(name, 'x', size + 5);
    memcpy(name, "\xdb\x00\x50\x00\x00", 5);
    zmq_send(client, "\x00", 1, ZMQ_SNDMORE);
    zmq_send(client, "\x0a", 1, ZMQ_SNDMORE);
    zmq_send(client, name, size + 5, ZMQ_SNDMORE);
    zmq_send(client, "\xcb\x3f\xf0\0\0\0\0\0\0", 9, 0);
    free(name);
    AWAIT_COUNT(&d->kept_count, 1);
    AWAIT_STAT(d, pauses, 1);
    ask(other, "00|18", "00|18|a24f4b"); /* small ones are served after the pause */
    send_call(other, "fake.echo", MIB);
    uint8_t success;
    assert_true(read_result(other, &success) < 100);
    assert_int_equal(success, 0xc2);
    assert_int_equal(door_stats(d).shed, 1);
    assert_int_equal(d->handled, 0);
    lmc_complete(d->kept[0], LMC_OK);
    expect(client, "00|0a|03");
    send_call(other, "fake.echo", MIB); /* there is room again */
    assert_true(read_result(other, NULL) > MIB);
    door_await_idle(d);
    door_close(d);
}

static void small_requests_in_flight_are_bounded_too(void **state) {
    (void)state;
    door *d = door_make();
    d->options.in_flight_bytes = MIB;
    door_serve(d);
    void *client = client_open(d);
    enum { COUNT = KEPT_MAX - 1 }; /* more than a mebibyte of records */
    for (int i = 0; i < COUNT; i++) {
        zmq_send(client, "\x00", 1, ZMQ_SNDMORE);
        zmq_send(client, "\x0a", 1, ZMQ_SNDMORE);
        zmq_send(client, "\xa1x", 2, ZMQ_SNDMORE);
        zmq_send(client, "\xcb\x3f\xf0\0\0\0\0\0\0", 9, 0);
    }
    expect(client, "00|0a|00"); /* the first one that was refused */
    ask(client_open(d), "00|18", "00|18|a24f4b");
    assert_true(door_stats(d).shed > 0);
    AWAIT_COUNT(&d->kept_count, 1);
    /* Some may only now come to their handler. */
    for (uint32_t i = 0; door_stats(d).in_flight > 0; sched_yield()) {
        while (i < atomic_load(&d->kept_count))
            lmc_complete(d->kept[i++], LMC_OK);
    }
    assert_true(atomic_load(&d->kept_count) < COUNT);
    door_await_idle(d);
    door_close(d);
}

static void a_frame_over_the_limit_closes_its_connection_only(void **state) {
    (void)state;
    door *d = door_make();
    d->options.max_message_bytes = MIB;
    door_serve(d);
    void *client = client_open(d);
    void *other = client_open(d);
    ask(other, "00|18", "00|18|a24f4b");
    ask(client, "00|16|c0", "00|16|c3");
    uint64_t connection = atomic_load(&d->latest_connection);
    send_call(client, "fake.echo", 2 * MIB);
    AWAIT_COUNT(&d->closed_count, 1);
    assert_int_equal(d->closed[0], connection);
    ask(other, "01|18", "01|18|a24f4b");
    assert_int_equal(d->handled, 0);
    door_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_of_every_size_make_the_round_trip, door_setup,
                                        door_teardown),
        cmocka_unit_test(large_reply_buffers_are_kept_for_reuse_within_the_bound),
        cmocka_unit_test(a_peer_that_never_reads_costs_only_so_much),
        cmocka_unit_test(small_replies_that_nobody_reads_are_counted_too),
        cmocka_unit_test_setup_teardown(a_long_uid_comes_back_as_it_was, door_setup,
                                        door_teardown),
        cmocka_unit_test(what_was_too_much_is_answered_with_the_negative),
        cmocka_unit_test(too_much_in_flight_stops_the_reading_and_then_sheds),
        cmocka_unit_test(small_requests_in_flight_are_bounded_too),
        cmocka_unit_test(a_frame_over_the_limit_closes_its_connection_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
