#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/zmq/door_fixture.h"

#define CALL_FRAME "b27365727665725f6d6f64756c655f63616c6c" /* "server_module_call" */

static void every_encoding_of_uid_and_operation_comes_back_as_it_was(void **state) {
    door *d = *state;
    void *client = client_open(d);
    ask(client, "00|18", "00|18|a24f4b");
    ask(client, "cc80|18", "cc80|18|a24f4b");
    ask(client, "ce00010000|18", "ce00010000|18|a24f4b");
    ask(client, "cf0000000000000001|18", "cf0000000000000001|18|a24f4b");
    ask(client, "d3ffffffffffffffff|18", "d3ffffffffffffffff|18|a24f4b");
    ask(client, "00|cc18", "00|cc18|a24f4b");
    ask(client, "00|d200000018", "00|d200000018|a24f4b");
    ask(client, "00|a46e6f6f70", "00|a46e6f6f70|a24f4b");
    ask(client, "00|d9046e6f6f70", "00|d9046e6f6f70|a24f4b");
    ask(client, "a3616263|18", "a3616263|18|a24f4b"); /* a uid is whatever the client likes */
    ask(client, "|18", "|18|a24f4b");
    client_close(d, client);
}

static void a_void_reply_has_two_frames_and_a_pending_one_too(void **state) {
    door *d = *state;
    void *client = client_open(d);
    ask(client, "00|14|c3", "00|14");
    ask(client, "01|09|a170", "01|09");
    ask(client, "02|09|a161", "02|09|02");
    client_close(d, client);
}

static void a_failed_request_is_answered_with_its_negative(void **state) {
    door *d = *state;
    void *client = client_open(d);
    ask(client, "02|09|a166", "02|09|00");
    assert_int_equal(lmc_dispatch_counted(d->dispatcher, LMC_COUNT_NEGATIVE), 1);
    client_close(d, client);
}

static void unknown_operations_are_met_with_silence(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|7e");                 /* no such id */
    client_send(client, "01|00");                 /* nor this */
    client_send(client, "02|ff");                 /* nor a negative one */
    client_send(client, "03|a3666f6f");           /* no such name */
    client_send(client, "04|c0");                 /* nil */
    client_send(client, "05|ca41c00000");         /* a float */
    client_send(client, "06|");                   /* nothing */
    client_send(client, "07|1818");               /* two values */
    client_send(client, "08|cf0000000100000018"); /* 24 modulo 2^32 */
    expect_silence(client);
    assert_int_equal(door_stats(d).unknown_operation, 9);
    client_close(d, client);
}

static void a_known_operation_that_nobody_handles_is_met_with_silence(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|08|c0|01"); /* lookup */
    client_send(client, "00|15");       /* get_chunk_size */
    expect_silence(client);
    assert_int_equal(door_stats(d).no_handler, 2);
    client_close(d, client);
}

static void too_few_frames_and_heads_too_long_are_met_with_silence(void **state) {
    door *d = *state;
    void *client = client_open(d);
    char uid[600];
    memset(uid, '0', sizeof uid);
    memcpy(uid + 514, "|18", 4); /* 257 bytes */
    client_send(client, "00");
    client_send(client, "");
    client_send(client, uid);
    expect_silence(client);
    assert_int_equal(door_stats(d).short_messages, 3);
    memcpy(uid + 512, "|18", 4); /* 256 bytes */
    client_send(client, uid);
    assert_memory_equal(client_read(client), uid, 515);
    client_close(d, client);
}

static void a_wrong_number_of_payloads_is_met_with_silence(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|18|c0");    /* noop has none */
    client_send(client, "01|16|c0|c0"); /* ping has at most one */
    client_send(client, "02|09");       /* query_prefetch_status needs one */
    client_send(client, "03|18|0|0|0|0|0|0|0|0|0|0|0|0|0");
    while (lmc_dispatch_counted(d->dispatcher, LMC_COUNT_MALFORMED) < 3)
        sched_yield();
    expect_silence(client);
    assert_int_equal(door_stats(d).too_many_frames, 1);
    ask(client, "04|16", "04|16|c3"); /* a ping may have none */
    client_close(d, client);
}

static void a_payload_that_does_not_decode_is_met_with_silence(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|09|c0");     /* nil is no text */
    client_send(client, "01|09|c40161"); /* nor are bytes */
    client_send(client, "02|09|a16100"); /* one value and something */
    client_send(client, "03|09|");       /* no value */
    while (lmc_dispatch_counted(d->dispatcher, LMC_COUNT_MALFORMED) < 4)
        sched_yield();
    expect_silence(client);
    client_close(d, client);
}

static void an_envelope_is_answered_whatever_it_holds(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|" CALL_FRAME "|c1");
    const char *reply = client_read(client);
    assert_memory_equal(reply, "00|" CALL_FRAME "|83a773756363657373c2", 60);
    assert_int_equal(d->handled, 0);
    ask(client,
        "01|" CALL_FRAME "|82a66d6574686f64a9666b652e6563686f2ea77061796c6f6164c40568656c6c6f",
        "01|" CALL_FRAME "|83a773756363657373c3a77061796c6f6164c40568656c6c6fa56572726f72a0");
    client_close(d, client);
}

static void a_client_may_choose_its_identity(void **state) {
    door *d = *state;
    void *client = client_open_named(d, "scheduler-0");
    ask(client, "00|18", "00|18|a24f4b");
    ask(client, "01|14|c3", "01|14");
    client_close(d, client);
}

static void many_clients_get_their_own_replies(void **state) {
    door *d = *state;
    void *clients[20];
    char text[64];
    for (int i = 0; i < 20; i++)
        clients[i] = client_open(d);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "%02x|%s", i, (i + round) % 2 ? "18" : "14|c3");
            client_send(clients[i], text);
        }
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "%02x|%s", i, (i + round) % 2 ? "18|a24f4b" : "14");
            expect(clients[i], text);
        }
    }
    assert_int_equal(door_stats(d).connections, 20);
    for (int i = 0; i < 20; i++)
        client_close(d, clients[i]);
}

/* A plain connection that has said this. */
static int stranger_open(door *d, const void *words, size_t size) {
    const char *port = strrchr(lmc_zmq_transport_endpoint(d->transport), ':') + 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(fd, words, size), size);
    return fd;
}

static void strangers_are_shown_out(void **state) {
    door *d = *state;
    const char *words[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ""};
    for (int i = 0; i < 2; i++) {
        char greeting[256];
        int stranger = stranger_open(d, words[i], strlen(words[i]));
        while (read(stranger, greeting, sizeof greeting) > 0) {
        } /* closed; the test's time limit ends a wait in vain */
        close(stranger);
    }
    void *client = client_open(d);
    ask(client, "00|18", "00|18|a24f4b");
    assert_int_equal(door_stats(d).connections, 1);
    client_close(d, client);
}

static void a_client_that_asks_nothing_is_no_stranger(void **state) {
    door *d = *state;
    uint8_t hello[64 + 30] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    memcpy(hello + 64,
           "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
           "DEALER",
           30);
    int quiet = stranger_open(d, hello, sizeof hello);
    char text[256];
    int other = stranger_open(d, "", 0); /* came later, and has to go */
    while (read(other, text, sizeof text) > 0) {
    }
    close(other);
    assert_true(recv(quiet, text, sizeof text, MSG_DONTWAIT) > 64);
    assert_int_equal(recv(quiet, text, sizeof text, MSG_DONTWAIT), -1); /* open, and no more */
    assert_int_equal(write(quiet, "\x01\x01\x07\x00\x01\x18", 6), 6);
    assert_int_equal(recv(quiet, text, 10, MSG_WAITALL), 10);
    assert_memory_equal(text, "\x01\x01\x07\x01\x01\x18\x00\x03\xa2O", 10);
    close(quiet);
}

static void the_loop_is_fresh_while_idle_and_after_work(void **state) {
    door *d = *state;
    void *client = client_open(d);
    ask(client, "00|18", "00|18|a24f4b");
    int64_t before = lmc_now(&lmc_system_clock);
    while (lmc_zmq_transport_last_turn_ns(d->transport) < before)
        sched_yield(); /* asleep again soon */
    client_close(d, client);
}

static void a_loop_that_is_held_up_does_not_look_fresh(void **state) {
    door *d = *state;
    void *client = client_open(d);
    client_send(client, "00|20"); /* get_experimental sticks */
    while (!atomic_load(&d->stuck))
        sched_yield();
    int64_t inside = lmc_now(&lmc_system_clock);
    usleep(20000);
    assert_true(lmc_zmq_transport_last_turn_ns(d->transport) <= inside);
    atomic_store(&d->unstick, true);
    expect(client, "00|20|90");
    client_close(d, client);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, door_setup, door_teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_encoding_of_uid_and_operation_comes_back_as_it_was),
        TEST(a_void_reply_has_two_frames_and_a_pending_one_too),
        TEST(a_failed_request_is_answered_with_its_negative),
        TEST(unknown_operations_are_met_with_silence),
        TEST(a_known_operation_that_nobody_handles_is_met_with_silence),
        TEST(too_few_frames_and_heads_too_long_are_met_with_silence),
        TEST(a_wrong_number_of_payloads_is_met_with_silence),
        TEST(a_payload_that_does_not_decode_is_met_with_silence),
        TEST(an_envelope_is_answered_whatever_it_holds),
        TEST(a_client_may_choose_its_identity),
        TEST(many_clients_get_their_own_replies),
        TEST(strangers_are_shown_out),
        TEST(a_client_that_asks_nothing_is_no_stranger),
        TEST(the_loop_is_fresh_while_idle_and_after_work),
        TEST(a_loop_that_is_held_up_does_not_look_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
