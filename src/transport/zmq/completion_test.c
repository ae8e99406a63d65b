#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/zmq/door_fixture.h"

#define WAIT "|0a|a161|cb3ff0000000000000" /* wait_prefetch_status("a", 1.0) */

static void a_kept_call_parks_no_thread(void **state) {
    door *d = *state;
    void *client = client_open(d);
    char text[64];
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%02x" WAIT, i);
        client_send(client, text);
    }
    AWAIT_COUNT(&d->kept_count, 50);
    ask(client, "70|14|c3", "70|14"); /* the pool has two threads only */
    for (int i = 0; i < 50; i++)
        lmc_complete(d->kept[i], LMC_OK);
    for (int i = 0; i < 50; i++)
        assert_string_equal(client_read(client) + 2, "|0a|03");
    client_close(d, client);
}

static void *complete_all(void *arg) {
    door *d = arg;
    for (uint32_t i = 0; i < 3; i++)
        lmc_complete(d->kept[i], i == 1 ? LMC_AGAIN : LMC_OK);
    return NULL;
}

static void a_call_may_be_completed_by_any_thread(void **state) {
    door *d = *state;
    void *client = client_open(d);
    for (uint32_t i = 0; i < 3; i++) {
        client_send(client, "05" WAIT);
        AWAIT_COUNT(&d->kept_count, i + 1);
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, complete_all, d), 0);
    expect(client, "05|0a|03");
    expect(client, "05|0a");
    expect(client, "05|0a|03");
    pthread_join(thread, NULL);
    client_close(d, client);
}

static void a_call_may_end_after_its_client_has_left(void **state) {
    door *d = *state;
    void *client = client_open(d);
    void *other = client_open(d);
    client_send(client, "00" WAIT);
    AWAIT_COUNT(&d->kept_count, 1);
    client_close(d, client);
    AWAIT_STAT(d, connections, 1);
    while (door_stats(d).connections_open > 0) /* `other` has sent nothing yet */
        sched_yield();
    assert_int_equal(d->closed_count, 0); /* not before its call has ended */
    lmc_complete(d->kept[0], LMC_OK);
    AWAIT_COUNT(&d->closed_count, 1);
    ask(other, "00|18", "00|18|a24f4b");
    door_await_idle(d);
    client_close(d, other);
}

/* ---- wake-ups ---- */

#define COMPLETIONS 100000
#define WINDOW 16

typedef struct completer {
    door *door;
    _Atomic bool stop;
} completer;

/* Completes kept calls one by one, at moments that are sometimes hurried, sometimes not. */
static void *complete_as_they_come(void *arg) {
    completer *c = arg;
    uint32_t random = 1;
    while (!atomic_load(&c->stop)) {
        lmc_call *call = NULL;
        pthread_mutex_lock(&c->door->mutex);
        uint32_t count = atomic_load(&c->door->kept_count);
        if (count > 0) {
            call = c->door->kept[count - 1];
            atomic_store(&c->door->kept_count, count - 1);
        }
        pthread_mutex_unlock(&c->door->mutex);
        random = random * 1664525 + 1013904223;
        for (uint32_t i = 0; i < random >> 24; i++)
            atomic_signal_fence(memory_order_seq_cst);
        if (call != NULL)
            lmc_complete(call, LMC_OK);
        else
            sched_yield();
    }
    return NULL;
}

static void no_completion_is_slept_through(void **state) {
    door *d = *state;
    void *client = client_open(d);
    completer c = {.door = d};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, complete_as_they_come, &c), 0);
    /* Windows of varying size, so that the loop falls asleep again and again. */
    int done = 0;
    for (uint32_t window = 1; done < COMPLETIONS; window = window % WINDOW + 1) {
        for (uint32_t i = 0; i < window; i++)
            client_send(client, "05" WAIT);
        for (uint32_t i = 0; i < window; i++)
            expect(client, "05|0a|03"); /* 20 s without one fail the test */
        done += (int)window;
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    door_await_idle(d);
    client_close(d, client);
}

/* ---- fairness ---- */

typedef struct flood {
    void *client;
    _Atomic bool *stop;
} flood;

static void *ask_without_end(void *arg) {
    flood *f = arg;
    char frame[16];
    while (!atomic_load(f->stop)) {
        for (int i = 0; i < 200; i++)
            client_send(f->client, "01|18");
        while (zmq_recv(f->client, frame, sizeof frame, ZMQ_DONTWAIT) > 0) {
        }
    }
    return NULL;
}

static void a_flood_of_requests_that_run_at_once_does_not_starve_the_pools(void **state) {
    door *d = *state;
    _Atomic bool stop = false;
    pthread_t threads[3];
    flood floods[3];
    void *client = client_open(d);
    for (int i = 0; i < 3; i++) {
        floods[i] = (flood){client_open(d), &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_without_end, &floods[i]), 0);
    }
    for (int i = 0; i < 200; i++)
        ask(client, "02|14|c3", "02|14"); /* 20 s without a reply fail the test */
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        client_close(d, floods[i].client);
    client_close(d, client);
}

/* ---- stop ---- */

static void the_stop_answers_what_has_not_ended_with_its_negative(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    void *client = client_open(d);
    client_send(client, "00" WAIT);
    client_send(client, "01" WAIT);
    AWAIT_COUNT(&d->kept_count, 2);
    lmc_zmq_transport_stop(d->transport, 0);
    const char *first = client_read(client);
    assert_string_equal(first + 2, "|0a|00");
    assert_string_equal(client_read(client) + 2, "|0a|00");
    lmc_complete(d->kept[0], LMC_OK); /* too late, but no mistake */
    lmc_complete(d->kept[1], LMC_OK);
    assert_int_equal(lmc_dispatch_counted(d->dispatcher, LMC_COUNT_TWICE), 0);
    door_close(d);
}

static void *complete_soon(void *arg) {
    usleep(20000);
    lmc_complete(((door *)arg)->kept[0], LMC_OK);
    return NULL;
}

static void the_stop_waits_for_calls_that_end_in_time(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    void *client = client_open(d);
    client_send(client, "00" WAIT);
    AWAIT_COUNT(&d->kept_count, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, complete_soon, d), 0);
    lmc_zmq_transport_stop(d->transport, 20 * LMC_NS_PER_S);
    expect(client, "00|0a|03");
    pthread_join(thread, NULL);
    door_close(d);
}

static void *stop_with_time(void *arg) {
    lmc_zmq_transport_stop(((door *)arg)->transport, 20 * LMC_NS_PER_S);
    return NULL;
}

static void what_comes_during_the_stop_is_answered(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    void *client = client_open(d);
    client_send(client, "00" WAIT);
    AWAIT_COUNT(&d->kept_count, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_with_time, d), 0);
    do
        client_send(client, "02|09|a161");
    while (strcmp(client_read(client), "02|09|00") != 0); /* it has begun */
    for (int i = 0; i < 200; i++) {
        client_send(client, "01|18");
        client_send(client, "02|09|a161");
    }
    for (int i = 0; i < 200; i++) {
        expect(client, "01|18|a24f4b"); /* it has no negative, and costs nothing */
        expect(client, "02|09|00");
    }
    lmc_complete(d->kept[0], LMC_OK);
    expect(client, "00|0a|03");
    pthread_join(thread, NULL);
    door_close(d);
}

static void *go_on(void *arg) {
    void *client = arg;
    char frame[16];
    int soon = 200;
    zmq_setsockopt(client, ZMQ_RCVTIMEO, &soon, sizeof soon);
    do {
        for (int i = 0; i < 50; i++)
            client_send(client, "01|16|c0");
        while (zmq_recv(client, frame, sizeof frame, ZMQ_DONTWAIT) > 0) {
        }
    } while (zmq_recv(client, frame, sizeof frame, 0) > 0);
    return NULL;
}

static void a_stop_is_not_held_up_by_a_client_that_goes_on(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    void *client = client_open(d);
    ask(client, "01|16|c0", "01|16|c3");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, go_on, client), 0);
    lmc_zmq_transport_stop(d->transport, 50 * LMC_NS_PER_MS);
    pthread_join(thread, NULL);
    door_close(d);
}

static void a_door_that_never_served_closes(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    lmc_zmq_transport *second;
    assert_int_equal(lmc_zmq_transport_create(&d->options, d->dispatcher, &second, NULL),
                     LMC_OK);
    assert_int_equal(lmc_zmq_transport_last_turn_ns(second), 0);
    lmc_zmq_transport_destroy(second);
    lmc_zmq_transport_destroy(NULL);
    door_close(d);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, door_setup, door_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_kept_call_parks_no_thread),
        TEST(a_call_may_be_completed_by_any_thread),
        TEST(a_call_may_end_after_its_client_has_left),
        TEST(no_completion_is_slept_through),
        TEST(a_flood_of_requests_that_run_at_once_does_not_starve_the_pools),
        cmocka_unit_test(the_stop_answers_what_has_not_ended_with_its_negative),
        cmocka_unit_test(the_stop_waits_for_calls_that_end_in_time),
        cmocka_unit_test(what_comes_during_the_stop_is_answered),
        cmocka_unit_test(a_stop_is_not_held_up_by_a_client_that_goes_on),
        cmocka_unit_test(a_door_that_never_served_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
