/*
 * call_harness.h: runs handlers in tests as a transport would, without one. For *_test.c only.
 *
 * Requests are structs instead of bytes; the reply is kept for the test. Handlers run on the
 * calling thread.
 */
#ifndef LMC_MODULES_CALL_HARNESS_H
#define LMC_MODULES_CALL_HARNESS_H

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "dispatch/dispatcher.h"

typedef struct harness_call {
    _Alignas(LMC_EXCHANGE_ALIGN) lmc_exchange x;
    const void *request;
    lmc_status status; /* of encode: LMC_OK or LMC_AGAIN */
    bool ended, answered;
    _Alignas(16) unsigned char reply[512];
    lmc_buffer bytes; /* of a pieces member, joined when the reply was encoded */
    size_t pieces_at; /* where that member is in the reply; 0: none */
    lmc_handler handler;
    lmc_peer peer;
} harness_call;

static lmc_status harness_decode(lmc_exchange *x, lmc_error *error) {
    harness_call *call = (harness_call *)x;
    (void)error;
    if (call->request != NULL)
        memcpy(x->request, call->request, x->operation->request_size);
    return LMC_OK;
}

static lmc_status harness_encode(lmc_exchange *x, const void *reply, lmc_status status) {
    harness_call *call = (harness_call *)x;
    call->status = status;
    if (x->operation->reply_size <= sizeof call->reply)
        memcpy(call->reply, reply, x->operation->reply_size);
    if (call->pieces_at == 0)
        return LMC_OK;
    const lmc_pieces *pieces = (const void *)((const char *)reply + call->pieces_at);
    for (size_t i = 0; i < pieces->count; i++)
        lmc_buffer_append(&call->bytes, pieces->items[i].data, pieces->items[i].size);
    return LMC_OK;
}

static void harness_finish(lmc_exchange *x, bool answered) {
    harness_call *call = (harness_call *)x;
    call->ended = true;
    call->answered = answered;
}

static void harness_post(lmc_exchange *x) { (void)x; }
static bool harness_is_home(const lmc_exchange *x) {
    (void)x;
    return true;
}

static const lmc_operation *harness_find(const lmc_module_class *class, const char *name) {
    for (const lmc_operation *entry = class->operations; entry->name != NULL; entry++)
        if (strcmp(entry->name, name) == 0)
            return entry;
    abort();
}

/* Runs one request on a module; the reply is in call->reply until harness_end(). */
static void harness_run(harness_call *call, const lmc_module_class *class, void *self,
                        const char *operation, const void *request, uint64_t connection) {
    static const lmc_door door = {harness_decode, harness_encode, harness_finish, harness_post,
                                  harness_is_home};
    static lmc_dispatcher dispatcher;
    size_t pieces_at = call->pieces_at;
    *call = (harness_call){.request = request, .pieces_at = pieces_at};
    lmc_peer_init(&call->peer);
    call->peer.id = connection;
    lmc_exchange_init(&call->x, &door, &dispatcher);
    call->handler = (lmc_handler){.operation = lmc_operation_by_name(lmc_text(operation)),
                                  .entry = harness_find(class, operation),
                                  .self = self,
                                  .owner = class->name};
    lmc_exchange_begin(&call->x, call->handler.operation, &call->handler, &call->peer);
    lmc_exchange_run(&call->x);
}

static void harness_end(harness_call *call) {
    lmc_exchange_end(&call->x, 0);
    lmc_exchange_fini(&call->x);
    lmc_buffer_fini(&call->bytes);
}

#endif
