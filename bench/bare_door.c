/*
 * bare_door: the ZMQ door and its dispatch without the house behind it.
 *
 * Serves noop (SYNC) and ping (never waits) on the request loop, clear on a normal pool of one
 * thread, and end_session on an affinity pool of one thread, with handlers that do nothing.
 * What the transport itself costs shows beside echo_floor. Prints its endpoint; ends with its
 * input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "transport/zmq/transport.h"

static void answer_noop(void *self, lmc_call *call) {
    (void)self;
    lmc_noop_reply *reply = lmc_call_reply(call);
    reply->message = lmc_text("OK");
    lmc_complete(call, LMC_OK);
}

static void answer_ping(void *self, lmc_call *call) {
    (void)self;
    lmc_ping_reply *reply = lmc_call_reply(call);
    reply->ok = true;
    lmc_complete(call, LMC_OK);
}

static void answer_nothing(void *self, lmc_call *call) {
    (void)self;
    lmc_complete(call, LMC_OK);
}

/* Takes any payload; the method "fill" answers with 32 MiB, which the transport copies once. */
static void answer_module_call(void *self, lmc_call *call) {
    (void)self;
    static uint8_t bytes[32 << 20];
    static const lmc_slice all = {bytes, sizeof bytes};
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    reply->success = true;
    if (lmc_slice_is(request->method, "fill"))
        reply->payload = (lmc_pieces){&all, 1, all.size};
    lmc_complete(call, LMC_OK);
}

static const lmc_operation operations[] = {
    {.name = "noop", .scheduling = LMC_SYNC, .handle = answer_noop},
    {.name = "ping", .scheduling = LMC_NORMAL, .flags = LMC_NEVER_WAITS, .handle = answer_ping},
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = answer_nothing},
    {.name = "end_session", .scheduling = LMC_AFFINITY, .handle = answer_nothing},
    {.name = "server_module_call", .scheduling = LMC_AFFINITY, .handle = answer_module_call},
    {.name = NULL}};

static lmc_status serve(lmc_dispatcher *dispatcher, lmc_error *error) {
    lmc_zmq_transport *transport;
    lmc_zmq_options options = {.host = "127.0.0.1"};
    lmc_status status = lmc_zmq_transport_create(&options, dispatcher, &transport, error);
    if (status == LMC_OK)
        status = lmc_zmq_transport_start(transport, error);
    if (status == LMC_OK) {
        char byte;
        printf("%s\n", lmc_zmq_transport_endpoint(transport));
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        lmc_zmq_transport_stop(transport, LMC_NS_PER_S);
    }
    lmc_pools_stop(dispatcher->pools, INT64_MAX);
    lmc_zmq_transport_destroy(transport);
    return status;
}

int main(void) {
    lmc_heap_keep_large();
    lmc_error error = LMC_ERROR_INIT;
    lmc_registry *registry = NULL;
    lmc_dispatcher *dispatcher = NULL;
    lmc_pools_options pools = {1, 1};
    lmc_status status = lmc_registry_create(&registry, &error);
    if (status == LMC_OK)
        status = lmc_registry_add(registry, operations, NULL, "BareModule", false, &error);
    if (status == LMC_OK) {
        lmc_registry_freeze(registry);
        status = lmc_dispatcher_create(&pools, registry, &dispatcher, &error);
    }
    if (status == LMC_OK)
        status = serve(dispatcher, &error);
    lmc_dispatcher_destroy(dispatcher);
    lmc_registry_destroy(registry);
    if (status != LMC_OK)
        fprintf(stderr, "bare_door: %s\n", error.text);
    return status == LMC_OK ? 0 : 1;
}
