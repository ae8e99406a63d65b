/*
 * fake_door.h: a transport without a wire, for the tests of this room.
 *
 * An exchange is decoded by doing nothing and "sent" by noting what was encoded. Each test file
 * includes this once; the exchange belongs to the test.
 */
#ifndef LMC_DISPATCH_FAKE_DOOR_H
#define LMC_DISPATCH_FAKE_DOOR_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dispatch/dispatcher.h"

typedef struct fake_exchange {
    lmc_exchange x; /* first */
    lmc_status decode_status;
    lmc_status encoded; /* of the latest encode */
    uint32_t encodes;
    bool answered;
    _Atomic uint32_t finished, posted;
    uint32_t number;
} fake_exchange;

static lmc_status fake_decode(lmc_exchange *x, lmc_error *error) {
    (void)error;
    return ((fake_exchange *)x)->decode_status;
}

static lmc_status fake_encode(lmc_exchange *x, const void *reply, lmc_status status) {
    fake_exchange *fake = (fake_exchange *)x;
    assert_non_null(reply);
    fake->encoded = status;
    fake->encodes++;
    return LMC_OK;
}

static void fake_finish(lmc_exchange *x, bool answered) {
    fake_exchange *fake = (fake_exchange *)x;
    fake->answered = answered;
    atomic_fetch_add(&fake->finished, 1);
}

static void fake_post(lmc_exchange *x) { atomic_fetch_add(&((fake_exchange *)x)->posted, 1); }

static bool fake_is_home(const lmc_exchange *x) {
    (void)x;
    return false;
}

static const lmc_door fake_door = {fake_decode, fake_encode, fake_finish, fake_post,
                                   fake_is_home};

static fake_exchange *fake_make(lmc_dispatcher *dispatcher) {
    size_t size = (sizeof(fake_exchange) + LMC_EXCHANGE_ALIGN - 1) / LMC_EXCHANGE_ALIGN *
                  LMC_EXCHANGE_ALIGN;
    fake_exchange *fake = aligned_alloc(LMC_EXCHANGE_ALIGN, size);
    assert_non_null(fake);
    memset(fake, 0, sizeof *fake);
    lmc_exchange_init(&fake->x, &fake_door, dispatcher);
    return fake;
}

static void fake_free(fake_exchange *fake) {
    lmc_exchange_fini(&fake->x);
    free(fake);
}

static void fake_begin(fake_exchange *fake, const char *operation, lmc_peer *peer) {
    const lmc_operation_def *def = lmc_operation_by_name(lmc_text(operation));
    assert_non_null(def);
    lmc_exchange_begin(&fake->x, def, lmc_registry_find(fake->x.dispatcher->registry, def),
                       peer);
}

static inline void fake_await(fake_exchange *fake, uint32_t times) {
    while (atomic_load(&fake->finished) < times)
        sched_yield();
}

/* A dispatcher over these handlers, all of one owner; outside as told. */
typedef struct fake_server {
    lmc_registry *registry;
    lmc_dispatcher *dispatcher;
} fake_server;

static void fake_open(fake_server *server) {
    assert_int_equal(lmc_registry_create(&server->registry, NULL), LMC_OK);
}

static inline void fake_add(fake_server *server, const lmc_operation *operations, void *self,
                            bool outside) {
    assert_int_equal(lmc_registry_add(server->registry, operations, self,
                                      outside ? "OutsideModule" : "BuiltInModule", outside,
                                      NULL),
                     LMC_OK);
}

static void fake_run(fake_server *server, uint32_t normal, uint32_t affinity) {
    lmc_pools_options options = {.normal_threads = normal, .affinity_threads = affinity};
    lmc_registry_freeze(server->registry);
    assert_int_equal(
        lmc_dispatcher_create(&options, server->registry, &server->dispatcher, NULL), LMC_OK);
}

static void fake_close(fake_server *server) {
    if (server->dispatcher != NULL) {
        assert_int_equal(lmc_pools_stop(server->dispatcher->pools, INT64_MAX), LMC_OK);
        lmc_dispatcher_destroy(server->dispatcher);
    }
    lmc_registry_destroy(server->registry);
}

#endif
