/*
 * wake.h: how other threads give the request loop something to do.
 *
 * They push an errand on a lock-free list and wake the loop only if it sleeps. The loop sleeps
 * in one of two ways: receiving on its ROUTER, where an empty message from an inproc DEALER
 * wakes it, or, while it does not want to read, on a condition variable. Errands are borrowed
 * from push until the loop takes them.
 *
 * push, add, tell: any thread. The rest: the loop, after init and before fini on the thread
 * that stops it.
 */
#ifndef LMC_TRANSPORT_ZMQ_WAKE_H
#define LMC_TRANSPORT_ZMQ_WAKE_H

#include <lmcached/types.h>
#include <zmq.h>

#include "base/lock.h"
#include "base/work_queue.h"

typedef enum lmc_zmq_errand_kind {
    LMC_ZMQ_ERRAND_FINISHED, /* a request has been completed: send, recycle */
    LMC_ZMQ_ERRAND_RUN,      /* a request goes on to a handler of the loop */
    LMC_ZMQ_ERRAND_CLOSED,   /* the connection of a peer has closed */
    LMC_ZMQ_ERRAND_STOP,
} lmc_zmq_errand_kind;

typedef struct lmc_zmq_errand {
    lmc_mpsc_node node; /* first */
    lmc_zmq_errand_kind kind;
} lmc_zmq_errand;

#define LMC_ZMQ_WAKE_ID_SIZE 17

typedef struct lmc_zmq_wake {
    lmc_mpsc errands;
    _Atomic int asleep; /* lmc_zmq_sleep */
    lmc_lock lock;      /* guards the dealer and the pause */
    lmc_cond cond;
    void *dealer;
    uint8_t id[LMC_ZMQ_WAKE_ID_SIZE]; /* the dealer's identity; not to be guessed by a peer */
    _Atomic uint64_t sent;
} lmc_zmq_wake;

/* Binds the router to an inproc endpoint and connects the dealer to it. */
lmc_status lmc_zmq_wake_init(lmc_zmq_wake *wake, void *context, void *router, lmc_error *error);
void lmc_zmq_wake_fini(lmc_zmq_wake *wake);

void lmc_zmq_wake_push(lmc_zmq_wake *wake, lmc_zmq_errand *errand, lmc_zmq_errand_kind kind);
/* The two halves of push, for a thread that adds several and tells the loop once, after them.
 */
void lmc_zmq_wake_add(lmc_zmq_wake *wake, lmc_zmq_errand *errand, lmc_zmq_errand_kind kind);
void lmc_zmq_wake_tell(lmc_zmq_wake *wake);
/* Everything pushed so far, oldest first; NULL: nothing. */
lmc_zmq_errand *lmc_zmq_wake_take(lmc_zmq_wake *wake);
static inline lmc_zmq_errand *lmc_zmq_errand_next(const lmc_zmq_errand *errand) {
    return (lmc_zmq_errand *)errand->node.next;
}

/* Before a blocking receive. False: there are errands, do not sleep. */
bool lmc_zmq_wake_sleep(lmc_zmq_wake *wake);
/* After it. */
void lmc_zmq_wake_up(lmc_zmq_wake *wake);
/* Sleeps without receiving until there are errands or the monotonic deadline. */
void lmc_zmq_wake_pause(lmc_zmq_wake *wake, int64_t deadline_ns);
/* True while the loop sleeps in its receive. Any thread. */
bool lmc_zmq_wake_is_asleep(lmc_zmq_wake *wake);
/* True for the identity of the dealer's messages. */
bool lmc_zmq_wake_is_mine(const lmc_zmq_wake *wake, const void *id, size_t size);

#endif
