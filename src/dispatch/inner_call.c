#include "dispatch/inner_call.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"

typedef struct inner_exchange {
    lmc_exchange x; /* first */
    const lmc_inner_call *call;
    lmc_peer peer;
    lmc_buffer *frame;
    bool has_frame, answered;
    _Atomic bool ended;
    lmc_error cause; /* why it did not decode or encode */
} inner_exchange;

/* Ends of calls that their handlers kept; all waiting callers share it. */
static struct {
    pthread_once_t once;
    lmc_lock lock;
    lmc_cond ended;
} waiting = {.once = PTHREAD_ONCE_INIT};

static void init_waiting(void) {
    lmc_lock_init(&waiting.lock, LMC_RANK_DISPATCH, "inner calls");
    lmc_cond_init(&waiting.ended);
}

/* ---- the door ---- */

static lmc_status decode_inner(lmc_exchange *x, lmc_error *error) {
    inner_exchange *inner = (inner_exchange *)x;
    lmc_status status =
        lmc_zmq_decode_request(x->operation, inner->call->frames, inner->call->frame_count,
                               &x->arena, x->request, &inner->cause);
    if (status != LMC_OK)
        lmc_error_set(error, status, "%s", inner->cause.text);
    return status;
}

static lmc_status encode_inner(lmc_exchange *x, const void *reply, lmc_status status) {
    inner_exchange *inner = (inner_exchange *)x;
    size_t size = 0;
    status = lmc_zmq_reply_size(x->operation, reply, status, &inner->has_frame, &size);
    if (status != LMC_OK || !inner->has_frame)
        return status;
    lmc_buffer_clear(inner->frame);
    if (!lmc_buffer_reserve(inner->frame, size))
        return LMC_NO_MEMORY;
    lmc_zmq_write_reply(x->operation, reply, inner->frame->data, size);
    inner->frame->size = size;
    return LMC_OK;
}

static void finish_inner(lmc_exchange *x, bool answered) {
    inner_exchange *inner = (inner_exchange *)x;
    inner->answered = answered;
    if (!answered && x->text != NULL)
        lmc_error_set(&inner->cause, LMC_FAILED, "%s", x->text);
    lmc_lock_take(&waiting.lock);
    atomic_store_explicit(&inner->ended, true, memory_order_release);
    lmc_cond_broadcast(&waiting.ended);
    lmc_lock_drop(&waiting.lock);
}

/* Only a handler behind a forwarding one is posted, and that was already here. */
static void post_inner(lmc_exchange *x) { lmc_exchange_run(x); }
static bool is_home_inner(const lmc_exchange *x) {
    (void)x;
    return true;
}

/* ---- the call ---- */

static void await(inner_exchange *inner) {
    lmc_lock_take(&waiting.lock);
    while (!atomic_load_explicit(&inner->ended, memory_order_acquire))
        lmc_cond_wait(&waiting.ended, &waiting.lock);
    lmc_lock_drop(&waiting.lock);
}

static lmc_status outcome(const inner_exchange *inner, lmc_error *error) {
    if (inner->answered)
        return LMC_OK;
    const char *name = inner->call->handler->operation->name;
    return lmc_error_set(error, inner->cause.status < 0 ? inner->cause.status : LMC_FAILED,
                         "%s: %s", name,
                         inner->cause.text[0] != '\0' ? inner->cause.text : "failed");
}

lmc_status lmc_inner_call_run(const lmc_inner_call *call, lmc_buffer *frame, bool *has_frame,
                              lmc_error *error) {
    static const lmc_door door = {decode_inner, encode_inner, finish_inner, post_inner,
                                  is_home_inner};
    static lmc_dispatcher nobody; /* counts what happens before there is a dispatcher */
    size_t size = (sizeof(inner_exchange) + LMC_EXCHANGE_ALIGN - 1) / LMC_EXCHANGE_ALIGN *
                  LMC_EXCHANGE_ALIGN;
    inner_exchange *inner = aligned_alloc(LMC_EXCHANGE_ALIGN, size);
    *has_frame = false;
    if (inner == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory for a call",
                             call->handler->operation->name);
    pthread_once(&waiting.once, init_waiting);
    *inner = (inner_exchange){.call = call, .frame = frame, .cause = LMC_ERROR_INIT};
    lmc_peer_init(&inner->peer);
    inner->peer.id = call->connection;
    lmc_exchange_init(&inner->x, &door, call->dispatcher != NULL ? call->dispatcher : &nobody);
    lmc_exchange_begin(&inner->x, call->handler->operation, call->handler, &inner->peer);
    lmc_exchange_run(&inner->x);
    await(inner);
    lmc_status status = outcome(inner, error);
    *has_frame = status == LMC_OK && inner->has_frame;
    lmc_exchange_end(&inner->x, 0);
    lmc_exchange_fini(&inner->x);
    free(inner);
    return status;
}
