#include "server/rehearsal_door.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/rpc.h"

static lmc_rehearsed_exchange *exchange_of(const lmc_exchange *x) {
    return (lmc_rehearsed_exchange *)(uintptr_t)x;
}

static lmc_status decode(lmc_exchange *x, lmc_error *error) {
    (void)error;
    memcpy(x->request, exchange_of(x)->request, x->operation->request_size);
    return LMC_OK;
}

/* As the ZMQ door would, into nothing. */
static lmc_status encode(lmc_exchange *x, const void *reply, lmc_status status) {
    lmc_rehearsed_exchange *exchange = exchange_of(x);
    bool has_frame;
    size_t size = 0;
    lmc_status encoded = lmc_zmq_reply_size(x->operation, reply, status, &has_frame, &size);
    exchange->negative = reply != x->reply || encoded != LMC_OK;
    exchange->bytes = has_frame ? size : 0;
    if (encoded == LMC_OK && x->operation->index == LMC_OP_server_module_call) {
        const lmc_server_module_call_reply *answer = reply;
        exchange->negative = !answer->success;
        lmc_buffer_clear(&exchange->text);
        lmc_buffer_append(&exchange->text, answer->error.data, answer->error.size);
    }
    exchange->encoded = encoded;
    return encoded;
}

static void finish(lmc_exchange *x, bool answered) {
    lmc_rehearsed_exchange *exchange = exchange_of(x);
    exchange->negative |= !answered;
    atomic_store(&exchange->finished, true);
}

static void post(lmc_exchange *x) { atomic_store(&exchange_of(x)->posted, true); }

static _Thread_local bool here;

static bool is_home(const lmc_exchange *x) {
    (void)x;
    return here;
}

static const lmc_door door = {
    .decode = decode, .encode = encode, .finish = finish, .post = post, .is_home = is_home};

lmc_rehearsed_exchange *lmc_rehearsed_exchange_create(lmc_dispatcher *dispatcher,
                                                      const void *request) {
    size_t size = sizeof(lmc_rehearsed_exchange) + LMC_EXCHANGE_ALIGN - 1;
    lmc_rehearsed_exchange *exchange =
        aligned_alloc(LMC_EXCHANGE_ALIGN, size - size % LMC_EXCHANGE_ALIGN);
    if (exchange == NULL)
        return NULL;
    here = true;
    memset(exchange, 0, sizeof *exchange);
    lmc_exchange_init(&exchange->x, &door, dispatcher);
    lmc_peer_init(&exchange->peer);
    exchange->request = request;
    exchange->encoded = LMC_TIMEOUT;
    return exchange;
}

void lmc_rehearsed_exchange_destroy(lmc_rehearsed_exchange *exchange) {
    lmc_exchange_fini(&exchange->x);
    lmc_buffer_fini(&exchange->text);
    free(exchange);
}

bool lmc_rehearsed_exchange_turn(lmc_rehearsed_exchange *exchange) {
    if (!atomic_exchange(&exchange->posted, false))
        return false;
    lmc_exchange_run(&exchange->x);
    return true;
}

void lmc_rehearsed_exchange_result(lmc_rehearsed_exchange *exchange,
                                   lmc_rehearsed_call *result) {
    *result = (lmc_rehearsed_call){.status = LMC_TIMEOUT, .negative = true};
    if (!atomic_load(&exchange->finished))
        return;
    result->status = exchange->encoded;
    result->negative = exchange->negative;
    result->reply_bytes = exchange->bytes;
    lmc_buffer_append(&result->text, exchange->text.data, exchange->text.size);
}
