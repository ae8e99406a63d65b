#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/zmq/loop.h"

#define LMC_LOGGER "lmcache.zmq"
#define SPARE_MAX 4096u                /* records kept for reuse */
#define WARM_MAX 32u                   /* of these, how many keep a large arena */
#define WARM_ARENA ((size_t)256 << 10) /* room for the tokens of a long prompt */
#define COOL_ARENA ((size_t)4096)
#define RECORD_COST (sizeof(lmc_zmq_request) + COOL_ARENA)
#define INLINE_MAX ((size_t)32)       /* frames up to this lie in the message itself */
#define MARK_EVERY ((size_t)64 << 10) /* bytes of replies to a peer per counted frame */
#define REPLY_COST ((size_t)320)      /* what libzmq keeps for one beside its bytes */
#define BURST ((uint64_t)8 << 20)     /* of requests: leaves much in the allocator */

/* ---- what dispatch asks of this door ---- */

static lmc_zmq_request *request_of(const lmc_exchange *x) { return (lmc_zmq_request *)x; }

/* A module from outside gets the token ids also where the server's own handler counts them. */
static lmc_operation_def as_handled(const lmc_exchange *x) {
    lmc_operation_def operation = *x->operation;
    if (x->handler != NULL && x->handler->outside)
        operation.counts_tokens = false;
    return operation;
}

static lmc_status decode(lmc_exchange *x, lmc_error *error) {
    lmc_zmq_request *request = request_of(x);
    lmc_operation_def operation = as_handled(x);
    lmc_slice frames[LMC_FRAMES_MAX];
    for (uint32_t i = 0; i < request->frame_count; i++)
        frames[i] =
            lmc_slice_of(zmq_msg_data(&request->frames[i]), zmq_msg_size(&request->frames[i]));
    return lmc_zmq_decode_request(&operation, frames, request->frame_count, &x->arena,
                                  x->request, error);
}

static lmc_status encode(lmc_exchange *x, const void *reply, lmc_status status) {
    lmc_zmq_request *request = request_of(x);
    lmc_zmq_transport *transport = request->transport;
    size_t size;
    void *data;
    lmc_status rc =
        lmc_zmq_reply_size(x->operation, reply, status, &request->has_result, &size);
    if (rc != LMC_OK || !request->has_result)
        return rc;
    rc = lmc_zmq_replies_frame(&transport->replies, request->peer, size, &request->result,
                               &data);
    if (size >= LMC_ZMQ_LARGE)
        lmc_zmq_note_large(transport);
    if (rc == LMC_OK) {
        lmc_zmq_write_reply(x->operation, reply, data, size);
    } else if (rc == LMC_BUSY) {
        static lmc_log_limit limit;
        atomic_fetch_add_explicit(&transport->counters[LMC_ZMQ_OVER_UNREAD], 1,
                                  memory_order_relaxed);
        if (lmc_log_allow(&limit, NULL))
            LMC_WARNING("a client does not read its replies: %zu bytes of %s not sent", size,
                        x->operation->name);
    }
    return rc;
}

static void close_frames(lmc_zmq_request *request) {
    for (uint32_t i = 0; i < request->frame_count; i++) {
        zmq_msg_close(&request->frames[i]);
        zmq_msg_init(&request->frames[i]);
    }
    request->frame_count = 0;
}

static void tell(void *wake) { lmc_zmq_wake_tell(wake); }

static void finish(lmc_exchange *x, bool answered) {
    lmc_zmq_request *request = request_of(x);
    request->answered = answered;
    close_frames(request); /* here, because giving back a large one takes time */
    if (lmc_zmq_loop_is_here(request->transport)) {
        lmc_zmq_request_settle(request);
        return;
    }
    lmc_zmq_wake *wake = &request->transport->wake;
    lmc_zmq_wake_add(wake, &request->errand, LMC_ZMQ_ERRAND_FINISHED);
    if (!lmc_news_keep(tell, wake))
        lmc_zmq_wake_tell(wake);
}

static void post(lmc_exchange *x) {
    lmc_zmq_request *request = request_of(x);
    lmc_zmq_wake_push(&request->transport->wake, &request->errand, LMC_ZMQ_ERRAND_RUN);
}

static bool is_home(const lmc_exchange *x) {
    return lmc_zmq_loop_is_here(request_of(x)->transport);
}

static const lmc_door door = {
    .decode = decode, .encode = encode, .finish = finish, .post = post, .is_home = is_home};

/* ---- records ---- */

static void init_frames(lmc_zmq_request *request) {
    zmq_msg_init(&request->id);
    zmq_msg_init(&request->uid);
    zmq_msg_init(&request->operation);
    zmq_msg_init(&request->result);
    for (size_t i = 0; i < LMC_FRAMES_MAX; i++)
        zmq_msg_init(&request->frames[i]);
}

static lmc_zmq_request *make(lmc_zmq_transport *transport) {
    size_t size = sizeof(lmc_zmq_request) + LMC_EXCHANGE_ALIGN - 1;
    lmc_zmq_request *request =
        aligned_alloc(LMC_EXCHANGE_ALIGN, size - size % LMC_EXCHANGE_ALIGN);
    if (request == NULL)
        return NULL;
    memset(request, 0, sizeof *request);
    request->transport = transport;
    lmc_exchange_init(&request->x, &door, transport->dispatcher);
    init_frames(request);
    return request;
}

static void destroy(lmc_zmq_request *request) {
    lmc_exchange_fini(&request->x);
    free(request);
}

lmc_zmq_request *lmc_zmq_request_take(lmc_zmq_transport *transport) {
    lmc_zmq_request *request = transport->spare;
    if (request == NULL)
        return make(transport);
    transport->spare = request->following;
    transport->spare_count--;
    return request;
}

static void reset(zmq_msg_t *frame) {
    zmq_msg_close(frame);
    zmq_msg_init(frame);
}

void lmc_zmq_request_put(lmc_zmq_request *request) {
    lmc_zmq_transport *transport = request->transport;
    reset(&request->id);
    reset(&request->uid);
    reset(&request->operation);
    reset(&request->result);
    close_frames(request);
    transport->passed += request->weight;
    if (transport->passed >= BURST) {
        transport->passed = 0;
        lmc_zmq_note_large(transport);
    }
    request->peer = NULL;
    request->has_result = false;
    request->answered = false;
    request->abandoned = false;
    request->weight = 0;
    lmc_exchange_end(&request->x, transport->spare_count < WARM_MAX ? WARM_ARENA : COOL_ARENA);
    if (transport->spare_count >= SPARE_MAX) {
        destroy(request);
        return;
    }
    request->following = transport->spare;
    transport->spare = request;
    transport->spare_count++;
}

void lmc_zmq_requests_free(lmc_zmq_transport *transport) {
    lmc_zmq_request *request;
    while ((request = transport->spare) != NULL) {
        transport->spare = request->following;
        destroy(request);
    }
    transport->spare_count = 0;
}

static void link_in_flight(lmc_zmq_request *request) {
    lmc_zmq_transport *transport = request->transport;
    request->previous = NULL;
    request->following = transport->in_flight;
    if (request->following != NULL)
        request->following->previous = request;
    transport->in_flight = request;
    request->peer->calls++;
    lmc_zmq_add(transport, LMC_ZMQ_IN_FLIGHT, 1);
    lmc_zmq_add(transport, LMC_ZMQ_IN_FLIGHT_BYTES, RECORD_COST + request->weight);
    if (lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT_BYTES) >= BURST)
        lmc_zmq_note_large(transport);
}

static void unlink_in_flight(lmc_zmq_request *request) {
    lmc_zmq_transport *transport = request->transport;
    if (request->previous != NULL)
        request->previous->following = request->following;
    else
        transport->in_flight = request->following;
    if (request->following != NULL)
        request->following->previous = request->previous;
    lmc_zmq_add(transport, LMC_ZMQ_IN_FLIGHT, (uint64_t)-1);
    lmc_zmq_add(transport, LMC_ZMQ_IN_FLIGHT_BYTES,
                (uint64_t)0 - (RECORD_COST + request->weight));
    lmc_zmq_loop_release_peer(transport, request->peer);
}

/* ---- on the way ---- */

void lmc_zmq_request_begin(lmc_zmq_request *request, const lmc_operation_def *operation,
                           const lmc_handler *handler) {
    link_in_flight(request);
    lmc_exchange_begin(&request->x, operation, handler, &request->peer->peer);
    lmc_dispatch(&request->x);
}

void lmc_zmq_request_refuse(lmc_zmq_request *request, const lmc_operation_def *operation,
                            lmc_status status) {
    link_in_flight(request);
    lmc_exchange_begin(&request->x, operation, NULL, &request->peer->peer);
    lmc_exchange_refuse(&request->x, status);
}

/* ---- replies ---- */

static void count_unsent(lmc_zmq_transport *transport, int error) {
    static lmc_log_limit limit;
    if (error == EAGAIN) {
        lmc_zmq_add(transport, LMC_ZMQ_DROPPED_FULL, 1);
        if (lmc_log_allow(&limit, NULL))
            LMC_WARNING("a client does not read its replies: one was dropped");
    } else {
        lmc_zmq_add(transport, LMC_ZMQ_UNREACHABLE, 1);
    }
}

/* A longer frame lies in libzmq's receive buffer: sent back as it is it would keep all of it.
 */
static void detach(zmq_msg_t *frame) {
    zmq_msg_t copy;
    size_t size = zmq_msg_size(frame);
    if (size <= INLINE_MAX || zmq_msg_init_size(&copy, size) != 0)
        return;
    memcpy(zmq_msg_data(&copy), zmq_msg_data(frame), size);
    (void)zmq_msg_move(frame, &copy);
    (void)zmq_msg_close(&copy);
}

/*
 * Small replies have no frame that tells when it is gone; so now and then the uid becomes one,
 * which counts for all since the one before. False: the peer, or all together, have too much
 * unread.
 */
static bool may_send(lmc_zmq_request *request) {
    static lmc_log_limit limit;
    lmc_zmq_peer *peer = request->peer;
    peer->unmarked += REPLY_COST + zmq_msg_size(&request->uid) +
                      zmq_msg_size(&request->operation) + zmq_msg_size(&request->id);
    if (peer->unmarked < MARK_EVERY)
        return true;
    lmc_status status =
        lmc_zmq_replies_mark(&request->transport->replies, peer, peer->unmarked, &request->uid);
    peer->unmarked = status == LMC_OK ? 0 : MARK_EVERY;
    if (status != LMC_BUSY)
        return true;
    atomic_fetch_add_explicit(&request->transport->counters[LMC_ZMQ_OVER_UNREAD], 1,
                              memory_order_relaxed);
    if (lmc_log_allow(&limit, NULL))
        LMC_WARNING("a client does not read its replies: one was dropped");
    return false;
}

/* Echoes uid and operation byte for byte. Never waits. */
static void send_reply(lmc_zmq_request *request) {
    lmc_zmq_transport *transport = request->transport;
    zmq_msg_t *parts[] = {&request->id, &request->uid, &request->operation, &request->result};
    size_t count = request->has_result ? 4 : 3;
    detach(&request->uid);
    detach(&request->operation);
    if (!may_send(request))
        return;
    lmc_zmq_replies_give();
    for (size_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);
        if (zmq_msg_send(parts[i], transport->router, flags) < 0) {
            count_unsent(transport, zmq_errno());
            return;
        }
    }
    lmc_zmq_add(transport, LMC_ZMQ_REPLIES, 1);
}

void lmc_zmq_request_settle(lmc_zmq_request *request) {
    lmc_zmq_transport *transport = request->transport;
    if (request->answered && !request->abandoned && transport->router != NULL)
        send_reply(request);
    unlink_in_flight(request);
    lmc_dispatch_ended(transport->dispatcher, &request->x);
    lmc_zmq_request_put(request);
}

void lmc_zmq_requests_abandon(lmc_zmq_transport *transport) {
    for (lmc_zmq_request *r = transport->in_flight; r != NULL; r = r->following) {
        if (r->abandoned || !lmc_exchange_abandon(&r->x))
            continue;
        r->abandoned = true;
        send_reply(r);
    }
}
