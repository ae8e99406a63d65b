/*
 * exchange.h: one request from arrival to reply, as transports and pools see it.
 *
 * What a handler holds as an opaque lmc_call is an lmc_exchange. A transport embeds it as the
 * first member of its own record, allocates that with LMC_EXCHANGE_ALIGN, and keeps ended
 * records for reuse instead of freeing them: the handle that handlers get carries the low bits
 * of a generation, so that a late second completion is recognised.
 *
 * Life: begin (transport) -> dispatch -> run (thread of the handler's place: decode, handle) ->
 * complete (any thread, once: encode, done callbacks, finish) -> end (transport). Between these
 * steps exactly one thread owns the exchange; the hand-over is by queue.
 */
#ifndef LMC_DISPATCH_EXCHANGE_H
#define LMC_DISPATCH_EXCHANGE_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/work_queue.h"
#include "dispatch/registry.h"

#define LMC_EXCHANGE_ALIGN 256u
#define LMC_EXCHANGE_DONE_MAX 4
#define LMC_EXCHANGE_AFTER_MAX 4
/* Bytes, zeroed, behind every request and reply of a module from outside: members that its
 * header knows and this server does not. */
#define LMC_MESSAGE_ROOM ((size_t)256)

typedef struct lmc_exchange lmc_exchange;
typedef struct lmc_dispatcher lmc_dispatcher;

/* What a transport does for its exchanges. */
typedef struct lmc_door {
    /* The thread that runs the handler: fills x->request. LMC_MALFORMED: stays unanswered. */
    lmc_status (*decode)(lmc_exchange *x, lmc_error *error);
    /*
     * The completing thread: encodes x->reply (LMC_OK) or "still pending" (LMC_AGAIN).
     * Afterwards neither the request's bytes nor the reply struct are read any more.
     */
    lmc_status (*encode)(lmc_exchange *x, const void *reply, lmc_status status);
    /* The completing thread, last: sends what was encoded, or nothing, and takes x back. */
    void (*finish)(lmc_exchange *x, bool answered);
    /* Any thread: the transport runs lmc_exchange_run(x) on its own loop soon. */
    void (*post)(lmc_exchange *x);
    /* True on the thread of that loop. */
    bool (*is_home)(const lmc_exchange *x);
} lmc_door;

/*
 * One connection as pools see it; part of the transport's record of the peer, which outlives
 * its exchanges. `slot` belongs to the dispatching thread, the rest to the affinity lane's
 * lock.
 */
typedef struct lmc_peer {
    uint64_t id;          /* unique in the process, never 0 */
    _Atomic int32_t slot; /* lane of its affinity requests; -1: none yet */
    bool busy;            /* one of its affinity requests is running or kept */
} lmc_peer;

void lmc_peer_init(lmc_peer *peer); /* with a fresh id */

typedef struct lmc_done {
    void (*call)(void *arg);
    void *arg;
} lmc_done;

/* A handler that wants the call back when the one behind it has completed it. */
typedef struct lmc_after {
    void (*call)(void *arg, lmc_call *call, lmc_status status);
    void *arg;
    const lmc_handler *handler; /* whose it is then */
    lmc_account *account;
} lmc_after;

struct lmc_exchange {
    /* set once by the transport */
    const lmc_door *door;
    lmc_dispatcher *dispatcher;
    lmc_arena arena;
    /* set per request; what every request needs lies together, as it goes from core to core */
    const lmc_operation_def *operation;
    const lmc_handler *handler;
    lmc_peer *peer;
    void *request, *reply; /* NULL until decoded */
    union {                /* in a queue of dispatch; else free for the transport */
        lmc_exchange *next;
        lmc_mpsc_node node;
    };
    int64_t queued_ns;
    int64_t started_ns;    /* of the handler, on a pool; 0: not measured */
    lmc_account *account;  /* that the call is charged to; NULL: none */
    _Atomic uint32_t word; /* generation << 8 | state */
    uint8_t done_count, after_count;
    bool comes_back;                                   /* queued for the latest of after[] */
    bool in_affinity;                                  /* holds the peer's turn on its lane */
    bool is_barrier;                                   /* later requests wait for its end */
    _Atomic(const lmc_operation_def *) latest, before; /* for the report of a second end */
    /* what few need */
    const char *text;     /* of lmc_fail(), NULL: none; lives in the arena */
    lmc_status came_with; /* how the handler behind completed what comes back */
    lmc_done done[LMC_EXCHANGE_DONE_MAX];
    lmc_after after[LMC_EXCHANGE_AFTER_MAX]; /* the latest last */
};

/* Once per record. */
void lmc_exchange_init(lmc_exchange *x, const lmc_door *door, lmc_dispatcher *dispatcher);
void lmc_exchange_fini(lmc_exchange *x);

/* Starts a request on an idle record. */
void lmc_exchange_begin(lmc_exchange *x, const lmc_operation_def *operation,
                        const lmc_handler *handler, lmc_peer *peer);
/* Decodes and calls the handler. The thread of x->handler->place. */
void lmc_exchange_run(lmc_exchange *x);
/* On the request loop, instead of queueing: true when x was answered or dropped, because it
 * does not decode or its handler answers at once. False: it is decoded, and has to be queued.
 */
bool lmc_exchange_run_at_once(lmc_exchange *x);
/* Instead of run: decodes, and completes with `status` without calling the handler. */
void lmc_exchange_refuse(lmc_exchange *x, lmc_status status);
/*
 * Answers with the negative a request that its handler still has (the end of a stop). True when
 * an answer was encoded; the transport then sends it, but must not reuse the record before the
 * handler completes it, which calls finish(x, false). False: it is being completed, or has no
 * negative.
 */
bool lmc_exchange_abandon(lmc_exchange *x);
/* Makes the record idle again. Keeps at most `keep` bytes of arena. */
void lmc_exchange_end(lmc_exchange *x, size_t keep);

/* The handler's handle, and back. */
lmc_call *lmc_exchange_call(lmc_exchange *x);

/* Charges the call, which was charged to nobody, from its handler, which hands over to `what`.
 */
void lmc_call_charge(lmc_call *call, lmc_account *account, const char *what);

/*
 * What the calling thread is busy with, for reports: set by threads that are watched, updated
 * as calls are charged. NULL: the thread is not watched.
 */
typedef struct lmc_busy {
    _Atomic(lmc_account *) account;
    _Atomic(const char *) what; /* operation or method, constant */
} lmc_busy;
extern _Thread_local lmc_busy *lmc_busy_here;

/*
 * That requests have been finished, which a door tells its loop. A thread that goes on with the
 * next request at once keeps the news of several quick ones and tells them together, before it
 * sleeps; each telling can cost a wake-up of the loop. NULL: news are told at once.
 */
typedef struct lmc_news {
    void (*tell)(void *arg); /* NULL: none */
    void *arg;
} lmc_news;
extern _Thread_local lmc_news *lmc_news_here;

/* False: tell it yourself, now. */
static inline bool lmc_news_keep(void (*tell)(void *arg), void *arg) {
    lmc_news *news = lmc_news_here;
    if (news == NULL || (news->tell != NULL && (news->tell != tell || news->arg != arg)))
        return false;
    *news = (lmc_news){tell, arg};
    return true;
}

#endif
