#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/zmq/door_fixture.h"

static uint64_t connection_of(door *d, void *client) {
    ask(client, "00|16|c0", "00|16|c3");
    return atomic_load(&d->latest_connection);
}

static void a_connection_has_a_number_of_its_own(void **state) {
    door *d = *state;
    void *one = client_open(d);
    void *other = client_open(d);
    uint64_t first = connection_of(d, one);
    uint64_t second = connection_of(d, other);
    assert_true(first != 0 && second != 0 && first != second);
    assert_int_equal(connection_of(d, one), first);
    assert_int_equal(connection_of(d, other), second);
    client_close(d, one);
    client_close(d, other);
}

static void a_closed_connection_is_reported_once_by_its_number(void **state) {
    door *d = *state;
    void *one = client_open(d);
    void *other = client_open(d);
    uint64_t first = connection_of(d, one);
    uint64_t second = connection_of(d, other);
    client_close(d, one);
    AWAIT_COUNT(&d->closed_count, 1);
    assert_int_equal(d->closed[0], first);
    assert_int_equal(connection_of(d, other), second);
    client_close(d, other);
    AWAIT_COUNT(&d->closed_count, 2);
    assert_int_equal(d->closed[1], second);
}

static void connections_that_come_and_go_quickly_are_all_reported(void **state) {
    door *d = *state;
    enum { ROUNDS = 150 };
    uint64_t seen[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        void *silent =
            i % 3 == 0 ? client_open(d) : NULL; /* takes a descriptor, says nothing */
        void *client = client_open_named(d, i % 2 == 0 ? "the-same-name-again" : NULL);
        seen[i] = connection_of(d, client);
        if (silent != NULL)
            client_close(d, silent);
        client_close(d, client);
        if (i % 2 == 0)
            AWAIT_COUNT(&d->closed_count, (uint32_t)i + 1); /* its name must be free again */
    }
    AWAIT_COUNT(&d->closed_count, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        int times = 0;
        for (int k = 0; k < ROUNDS; k++)
            times += d->closed[k] == seen[i];
        assert_int_equal(times, 1);
    }
    assert_int_equal(door_stats(d).connections_open, 0);
}

static void requests_read_after_the_client_has_left_do_not_keep_it(void **state) {
    door *d = *state;
    for (uint32_t i = 0; i < 20; i++) {
        void *client = client_open(d);
        int linger = 10000;
        zmq_setsockopt(client, ZMQ_LINGER, &linger, sizeof linger);
        for (int k = 0; k < 50; k++)
            client_send(client, "00|14|c3");
        client_close(d, client);
    }
    while (atomic_load(&d->handled) < 1000)
        sched_yield();
    while (door_stats(d).connections_open > 0)
        sched_yield();
    AWAIT_COUNT(&d->closed_count, (uint32_t)door_stats(d).connections);
    door_await_idle(d);
}

static void connections_at_the_stop_are_not_reported_as_closed(void **state) {
    (void)state;
    door *d = door_make();
    door_serve(d);
    void *client = client_open(d);
    connection_of(d, client);
    lmc_zmq_transport_stop(d->transport, 0);
    assert_int_equal(d->closed_count, 0);
    door_close(d);
}

/* ---- binding ---- */

static lmc_status bind_second(door *d, const char *host, uint16_t port, lmc_error *error) {
    lmc_zmq_options options = {.host = host, .port = port};
    lmc_zmq_transport *second = NULL;
    lmc_status status = lmc_zmq_transport_create(&options, d->dispatcher, &second, error);
    lmc_zmq_transport_destroy(second);
    return status;
}

static void two_servers_do_not_share_a_port(void **state) {
    door *d = *state;
    const char *endpoint = lmc_zmq_transport_endpoint(d->transport);
    uint16_t port = (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    const char *hosts[] = {"127.0.0.1", "localhost", "0.0.0.0", "*"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        lmc_error error = LMC_ERROR_INIT;
        assert_int_equal(bind_second(d, hosts[i], port, &error), LMC_BUSY);
        assert_non_null(strstr(error.text, hosts[i]));
        assert_non_null(strstr(error.text, "address already in use; --port chooses another"));
    }
}

static void a_host_is_bound_by_name_or_number(void **state) {
    door *d = *state;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(bind_second(d, "localhost", 0, &error), LMC_OK);
    assert_int_equal(bind_second(d, "*", 0, &error), LMC_OK);
    assert_int_equal(bind_second(d, "0.0.0.0", 0, &error), LMC_OK);
    assert_true(bind_second(d, "no-such-host.invalid", 0, &error) < 0);
    assert_non_null(strstr(error.text, "tcp://no-such-host.invalid:0"));
    assert_non_null(strstr(error.text, "--host"));
}

static void an_ipv6_address_is_bound_in_brackets(void **state) {
    door *d = *state;
    const char *forms[] = {"::1", "[::1]"};
    for (size_t i = 0; i < 2; i++) {
        lmc_error error = LMC_ERROR_INIT;
        lmc_zmq_options options = {.host = forms[i]};
        lmc_zmq_transport *second = NULL;
        lmc_status status = lmc_zmq_transport_create(&options, d->dispatcher, &second, &error);
        if (status == LMC_OK)
            assert_memory_equal(lmc_zmq_transport_endpoint(second), "tcp://[::1]:", 12);
        else
            assert_non_null(strstr(error.text, "tcp://[::1]:0")); /* no IPv6 here */
        lmc_zmq_transport_destroy(second);
    }
}

static void an_interface_is_bound_by_its_name(void **state) {
    door *d = *state;
    lmc_zmq_options options = {.host = "lo"};
    lmc_zmq_transport *second;
    assert_int_equal(lmc_zmq_transport_create(&options, d->dispatcher, &second, NULL), LMC_OK);
    assert_memory_equal(lmc_zmq_transport_endpoint(second), "tcp://127.0.0.1:", 16);
    lmc_zmq_transport_destroy(second);
}

static void localhost_means_ipv4(void **state) {
    door *d = *state;
    lmc_zmq_options options = {.host = "localhost"};
    lmc_zmq_transport *second;
    assert_int_equal(lmc_zmq_transport_create(&options, d->dispatcher, &second, NULL), LMC_OK);
    assert_memory_equal(lmc_zmq_transport_endpoint(second), "tcp://127.0.0.1:", 16);
    lmc_zmq_transport_destroy(second);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, door_setup, door_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_connection_has_a_number_of_its_own),
        TEST(a_closed_connection_is_reported_once_by_its_number),
        TEST(connections_that_come_and_go_quickly_are_all_reported),
        TEST(requests_read_after_the_client_has_left_do_not_keep_it),
        cmocka_unit_test(connections_at_the_stop_are_not_reported_as_closed),
        TEST(two_servers_do_not_share_a_port),
        TEST(a_host_is_bound_by_name_or_number),
        TEST(an_ipv6_address_is_bound_in_brackets),
        TEST(an_interface_is_bound_by_its_name),
        TEST(localhost_means_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
