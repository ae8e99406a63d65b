/*
 * dispatcher.h: from a request that a transport has read to the thread that answers it.
 *
 * Owns the pools; borrows the frozen registry. dispatch() and ended() belong to one thread, the
 * request loop; create and stop to the main thread; the counters to any.
 */
#ifndef LMC_DISPATCH_DISPATCHER_H
#define LMC_DISPATCH_DISPATCHER_H

#include "dispatch/pools.h"

/* Each counts since start. */
typedef enum lmc_dispatch_counter {
    LMC_COUNT_DISPATCHED, /* requests given to a handler or its queue */
    LMC_COUNT_MALFORMED,  /* payload did not decode: no answer */
    LMC_COUNT_NEGATIVE,   /* failed, answered with the negative */
    LMC_COUNT_UNANSWERED, /* failed, and the operation has no negative */
    LMC_COUNT_TWICE,      /* a handler completed a call a second time */
    LMC_COUNT_DISPATCH_MAX
} lmc_dispatch_counter;

struct lmc_dispatcher {
    const lmc_registry *registry;
    lmc_pools *pools;
    bool barrier;                         /* request loop: a registration from outside runs */
    lmc_exchange *held_first, *held_last; /* request loop: waiting for it */
    _Atomic uint64_t counters[LMC_COUNT_DISPATCH_MAX];
};

/*
 * In two steps, for modules that add handlers once the door is there: the first makes a
 * dispatcher without pools; the second takes the registry, then frozen, as it is.
 */
lmc_status lmc_dispatcher_prepare(const lmc_registry *registry, lmc_dispatcher **dispatcher,
                                  lmc_error *error);
lmc_status lmc_dispatcher_start(lmc_dispatcher *dispatcher, const lmc_pools_options *options,
                                lmc_error *error);
lmc_status lmc_dispatcher_create(const lmc_pools_options *options, const lmc_registry *registry,
                                 lmc_dispatcher **dispatcher, lmc_error *error);
void lmc_dispatcher_destroy(
    lmc_dispatcher *dispatcher); /* after a stopped pools; accepts NULL */

/* Runs or queues a begun exchange. Inline handlers have returned when this returns; what was
 * queued may wait for lmc_dispatch_flush(). */
void lmc_dispatch(lmc_exchange *x);
/* Before the dispatching thread waits for something: what it has queued is started now. */
static inline void lmc_dispatch_flush(lmc_dispatcher *dispatcher) {
    lmc_pools_flush(dispatcher->pools);
}
/* An exchange that was dispatched has been finished; releases what waited for it. */
void lmc_dispatch_ended(lmc_dispatcher *dispatcher, lmc_exchange *x);
/* Refuses everything that no handler has yet. */
void lmc_dispatch_refuse_queued(lmc_dispatcher *dispatcher);

static inline void lmc_dispatch_count(lmc_dispatcher *dispatcher, lmc_dispatch_counter what) {
    atomic_fetch_add_explicit(&dispatcher->counters[what], 1, memory_order_relaxed);
}
static inline uint64_t lmc_dispatch_counted(lmc_dispatcher *dispatcher,
                                            lmc_dispatch_counter what) {
    return atomic_load_explicit(&dispatcher->counters[what], memory_order_relaxed);
}

#endif
