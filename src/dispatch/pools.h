/*
 * pools.h: the threads that run handlers.
 *
 * A lane is a queue and the threads that serve it. The normal pool is one lane with n threads;
 * the affinity pool is n lanes of one thread, and a connection keeps to the lane it was first
 * given, round robin. Handlers from outside the tree have a lane of their own, their SYNC
 * handlers another one of a single thread; both exist only if the registry needs them. A module
 * may have made pools of its own for some operations (registry.h); there a connection also
 * keeps to a lane if the module wanted that, but a call that is kept holds nobody up.
 *
 * Requests of one connection on an affinity lane run one at a time in arrival order, also when
 * a handler keeps its call and completes it later: the next one waits for that, others overtake
 * it.
 *
 * create and stop on the main thread; submit from any thread.
 */
#ifndef LMC_DISPATCH_POOLS_H
#define LMC_DISPATCH_POOLS_H

#include "dispatch/exchange.h"

typedef struct lmc_pools lmc_pools;

typedef struct lmc_pools_options {
    uint32_t normal_threads;   /* --max-cpu-workers; 0 means 1 */
    uint32_t affinity_threads; /* --max-gpu-workers; 0 means 1 */
} lmc_pools_options;

/* The registry must be frozen; it is borrowed. */
lmc_status lmc_pools_create(const lmc_pools_options *options, const lmc_registry *registry,
                            lmc_pools **pools, lmc_error *error);
/* Queues x at x->handler->place, which is not INLINE. After stop it is refused at once. */
void lmc_pools_submit(lmc_pools *pools, lmc_exchange *x);
/* As submit, but threads may sleep until flush: several requests in a row cost one wake-up.
 * Both belong to the dispatching thread. */
void lmc_pools_submit_later(lmc_pools *pools, lmc_exchange *x);
void lmc_pools_flush(lmc_pools *pools);
/* The turn of x's connection on its affinity lane is over (x->in_affinity). */
void lmc_pools_end_turn(lmc_pools *pools, lmc_exchange *x);
/* Refuses what waits in the queues (LMC_CLOSED), on the calling thread; running ones go on. */
void lmc_pools_refuse_queued(lmc_pools *pools);
/*
 * Ends the threads: what is queued is refused, what runs is awaited until the monotonic
 * deadline. LMC_TIMEOUT: some handler has not returned; an ERROR line named it and its thread
 * is left behind, and neither the pools nor the modules may be destroyed. May be called again.
 */
lmc_status lmc_pools_stop(lmc_pools *pools, int64_t deadline_ns); /* accepts NULL */
void lmc_pools_destroy(lmc_pools *pools); /* after a stop that returned LMC_OK; accepts NULL */

/* A handler that has been running for long. */
typedef struct lmc_slow_handler {
    const char *pool;
    const lmc_account *account; /* whose it is */
    const char *what;           /* operation or method */
    int64_t running_ns;
} lmc_slow_handler;

typedef struct lmc_pools_watch_options {
    int64_t limit_ns; /* > 0 */
    void (*visit)(void *arg, const lmc_slow_handler *slow);
    void *arg;
} lmc_pools_watch_options;
/* Visits each handler that has run for longer than the limit, once, and again each time its
 * running time has doubled. One thread; no lock is held. */
void lmc_pools_watch(lmc_pools *pools, const lmc_pools_watch_options *options);

typedef struct lmc_pool_report {
    const char *name; /* "normal", "affinity", "outside", "serial", "own-0", ... */
    uint32_t threads;
    uint32_t busy;       /* threads inside a handler */
    size_t queued;       /* waiting for a thread, or for their connection's turn */
    int64_t oldest_ns;   /* how long the head of the longest waiting queue waits; 0: empty */
    int64_t longest_ns;  /* how long the longest running handler runs; 0: none */
    const char *longest; /* its operation, NULL: none */
    uint64_t started;    /* requests handed to a handler so far */
} lmc_pool_report;
/* Calls visit once per pool that exists, without a lock held. Any thread. */
void lmc_pools_each(lmc_pools *pools, void (*visit)(void *arg, const lmc_pool_report *report),
                    void *arg);

#endif
