/*
 * loop.h: the parts of one ZMQ door, for the files of this room.
 *
 * The request loop owns the router, the peers, the records of requests and everything marked
 * so; the rest says who may touch it.
 */
#ifndef LMC_TRANSPORT_ZMQ_LOOP_H
#define LMC_TRANSPORT_ZMQ_LOOP_H

#include "base/thread.h"
#include "transport/zmq/monitor.h"
#include "transport/zmq/replies.h"
#include "transport/zmq/transport.h"

/* Bytes from which a request or reply counts as large: memory is given back after a pause in
 * such traffic, and such requests are refused first when too much is in flight. */
#define LMC_ZMQ_LARGE ((size_t)64 << 10)

/* One request: a message as it came, its exchange, and its reply. */
typedef struct lmc_zmq_request {
    lmc_exchange x; /* first */
    _Alignas(64) lmc_zmq_errand errand;
    lmc_zmq_transport *transport;
    lmc_zmq_peer *peer;
    struct lmc_zmq_request *previous, *following; /* in flight, or free (loop) */
    size_t weight;                                /* bytes of the payload frames (loop) */
    uint32_t frame_count;
    bool has_result, answered;
    bool abandoned;                       /* answered by the stop (loop) */
    zmq_msg_t id, uid, operation, result; /* the first three go back as they came */
    zmq_msg_t frames[LMC_FRAMES_MAX];
} lmc_zmq_request;

/* Counted by the loop alone, but for LMC_ZMQ_OVER_UNREAD. */
typedef enum lmc_zmq_counter {
    LMC_ZMQ_REQUESTS,
    LMC_ZMQ_REPLIES,
    LMC_ZMQ_SHORT_MESSAGES,
    LMC_ZMQ_UNKNOWN_OPERATION,
    LMC_ZMQ_NO_HANDLER,
    LMC_ZMQ_TOO_MANY_FRAMES,
    LMC_ZMQ_SHED,
    LMC_ZMQ_PAUSES,
    LMC_ZMQ_UNREACHABLE,
    LMC_ZMQ_DROPPED_FULL,
    LMC_ZMQ_OVER_UNREAD,
    LMC_ZMQ_CONNECTIONS,
    LMC_ZMQ_CONNECTIONS_OPEN,
    LMC_ZMQ_IN_FLIGHT,
    LMC_ZMQ_IN_FLIGHT_BYTES,
    LMC_ZMQ_COUNTERS
} lmc_zmq_counter;

struct lmc_zmq_transport {
    /* constant after create */
    lmc_zmq_options options;
    lmc_dispatcher *dispatcher;
    void *context;
    char endpoint[320];
    lmc_zmq_monitor *monitor;
    /* shared */
    lmc_zmq_wake wake;
    lmc_zmq_replies replies;
    _Atomic uint64_t counters[LMC_ZMQ_COUNTERS];
    _Atomic int64_t last_turn_ns;
    _Atomic bool large_traffic; /* since the monitor last tidied */
    /* main thread */
    lmc_thread thread;
    bool started, stopped;
    /* main thread before the loop starts */
    int64_t grace_ns;
    lmc_zmq_errand stop;
    /* the loop */
    void *router;
    lmc_zmq_peers peers;
    lmc_zmq_request *in_flight; /* latest first */
    lmc_zmq_request *spare;     /* free records, latest first */
    size_t spare_count;
    bool stopping;
    int64_t paused_until_ns; /* 0: reads */
    uint32_t since_flush;    /* messages */
    uint64_t passed;         /* bytes of requests that have ended since much was noted */
};

/* ---- request.c: records and replies ---- */

/* A record without a message; NULL: no memory. */
lmc_zmq_request *lmc_zmq_request_take(lmc_zmq_transport *transport);
/* A record that was not dispatched goes back, its frames closed. */
void lmc_zmq_request_put(lmc_zmq_request *request);
void lmc_zmq_requests_free(lmc_zmq_transport *transport); /* the spare ones */
/* Puts a message that names `operation` on its way: run, queued, or refused. */
void lmc_zmq_request_begin(lmc_zmq_request *request, const lmc_operation_def *operation,
                           const lmc_handler *handler);
void lmc_zmq_request_refuse(lmc_zmq_request *request, const lmc_operation_def *operation,
                            lmc_status status);
/* A completed request: sends its reply and takes the record back. */
void lmc_zmq_request_settle(lmc_zmq_request *request);
/* Answers with the negative what handlers still have; they keep the records. */
void lmc_zmq_requests_abandon(lmc_zmq_transport *transport);

/* ---- receive.c: from a message to a request ---- */

/* Reads one message, if there is one or flags say wait. False: none came. */
bool lmc_zmq_receive(lmc_zmq_transport *transport, int flags);

/* ---- loop.c ---- */

void lmc_zmq_loop_run(void *transport); /* the thread */
/* True on the loop's thread. */
bool lmc_zmq_loop_is_here(const lmc_zmq_transport *transport);
/* Does what was pushed. True: there was something. */
bool lmc_zmq_loop_do_errands(lmc_zmq_transport *transport);
/* The peer's connection is gone: it is reported once its requests have ended. */
void lmc_zmq_loop_close_peer(lmc_zmq_transport *transport, lmc_zmq_peer *peer);
void lmc_zmq_loop_release_peer(lmc_zmq_transport *transport, lmc_zmq_peer *peer);

/* Any thread. */
static inline void lmc_zmq_note_large(lmc_zmq_transport *transport) {
    if (!atomic_load_explicit(&transport->large_traffic, memory_order_relaxed))
        atomic_store_explicit(&transport->large_traffic, true, memory_order_relaxed);
    lmc_zmq_monitor_tidy(transport->monitor);
}

/* The loop's own counters need no locked instruction. */
static inline void lmc_zmq_add(lmc_zmq_transport *transport, lmc_zmq_counter what,
                               uint64_t amount) {
    uint64_t value = atomic_load_explicit(&transport->counters[what], memory_order_relaxed);
    atomic_store_explicit(&transport->counters[what], value + amount, memory_order_relaxed);
}
static inline uint64_t lmc_zmq_counted(const lmc_zmq_transport *transport,
                                       lmc_zmq_counter what) {
    return atomic_load_explicit(&transport->counters[what], memory_order_relaxed);
}

#endif
