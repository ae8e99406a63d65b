#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "support/alloc_fault.h"
#include "transport/zmq/door_fixture.h"

#define ENVELOPE                                                                             \
    "|b27365727665725f6d6f64756c655f63616c6c|82a66d6574686f64a9666b652e6563686f2ea77061796c" \
    "6f6164c40568656c6c6f"

/* Creates and starts everything; false: an allocation failed and nothing is left. */
static bool open_all(door *d) {
    lmc_pools_options pools = {.normal_threads = 2, .affinity_threads = 2};
    lmc_status status = lmc_registry_create(&d->registry, NULL);
    if (status == LMC_OK)
        status = lmc_registry_add(d->registry, door_operations, d, "TestModule", false, NULL);
    if (status == LMC_OK) {
        lmc_registry_freeze(d->registry);
        status = lmc_dispatcher_create(&pools, d->registry, &d->dispatcher, NULL);
    }
    if (status == LMC_OK)
        status = lmc_zmq_transport_create(&d->options, d->dispatcher, &d->transport, NULL);
    if (status == LMC_OK)
        status = lmc_zmq_transport_start(d->transport, NULL);
    return status == LMC_OK;
}

static void close_all(door *d) {
    lmc_zmq_transport_stop(d->transport, 0);
    if (d->dispatcher != NULL)
        assert_int_equal(lmc_pools_stop(d->dispatcher->pools, INT64_MAX), LMC_OK);
    lmc_zmq_transport_destroy(d->transport);
    lmc_dispatcher_destroy(d->dispatcher);
    lmc_registry_destroy(d->registry);
}

static void a_start_survives_the_failure_of_any_allocation(void **state) {
    (void)state;
    bool complete = false;
    uint64_t nth = 0;
    while (!complete) {
        door *d = door_make();
        lmc_fault_arm(++nth, false);
        bool served = open_all(d);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        assert_true(served || hit); /* both: it was the loop that went without */
        complete = served && !hit;
        close_all(d);
        pthread_mutex_destroy(&d->mutex);
        free(d);
        assert_true(nth < 1000);
    }
    assert_true(nth > 10);
}

static void a_request_survives_the_failure_of_any_allocation(void **state) {
    door *d = *state;
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    for (uint64_t nth = 1; nth <= 12; nth++) {
        void *client = client_open(d);
        lmc_fault_arm(nth, nth % 2 == 0);
        uint64_t before = door_stats(d).requests;
        client_send(client, "00|18");
        client_send(client, "01|14|c3");
        client_send(client, "02|09|a161");
        client_send(client, "03" ENVELOPE);
        if (nth % 2 == 1) {
            AWAIT_STAT(d, requests, before + 4);
        } else {
            usleep(20000); /* with no memory at all it may read nothing */
        }
        lmc_fault_disarm();
        client_close(d, client);
        client = client_open(d);
        ask(client, "04|18", "04|18|a24f4b");
        client_close(d, client);
    }
    door_await_idle(d);
    lmc_log_set_level("lmcache", LMC_LOG_INFO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_survives_the_failure_of_any_allocation),
        cmocka_unit_test_setup_teardown(a_request_survives_the_failure_of_any_allocation,
                                        door_setup, door_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
