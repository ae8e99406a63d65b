/*
 * lane.h: a queue of exchanges and the threads that serve it; the pools are made of these.
 *
 * Anyone pushes, without a lock unless a thread must be woken. The threads take in order; on an
 * affinity lane (one thread) requests of one connection run one at a time, and what has to wait
 * for its connection's turn steps aside. For the files of this room.
 */
#ifndef LMC_DISPATCH_LANE_H
#define LMC_DISPATCH_LANE_H

#include "base/lock.h"
#include "base/thread.h"
#include "dispatch/pools.h"

typedef struct lmc_lane lmc_lane;

typedef struct lmc_worker {
    lmc_lane *lane;
    lmc_thread thread;
    /* For reports; the exchange itself may be gone by the time somebody looks. */
    _Atomic(const lmc_operation_def *) running;
    _Atomic int64_t since_ns;
    lmc_busy busy;
    int64_t told_ns; /* the watch: how long the handler ran that it told of; doubles */
    int64_t told_of; /* since_ns of that handler */
    /* the thread itself */
    lmc_news news;
    int64_t oldest_ns; /* start of the first request that they are of */
    int64_t before_ns; /* start of the request before, 0: slept since */
    uint32_t wary;     /* requests until news are kept again */
} lmc_worker;

typedef struct lmc_list {
    lmc_exchange *first, *last;
    size_t count;
} lmc_list;

struct lmc_lane {
    const char *pool; /* name */
    lmc_mpsc arrived;
    _Atomic uint32_t idle; /* threads that wait; changes under the lock */
    _Atomic bool stopping;
    uint32_t count;
    lmc_worker *workers;
    bool affinity;   /* requests of one connection take turns */
    bool keeps_news; /* of quick requests, until several can be told */
    /* under the lock */
    lmc_lock lock;
    lmc_cond work, gone;
    lmc_list queue; /* moved here from `arrived` */
    lmc_list held;  /* affinity: wait for an earlier one of their connection */
    uint32_t alive;
    uint64_t started;
    /* the dispatching thread */
    uint32_t owed; /* pushed since a thread was last woken */
    lmc_lane *next_owed;
};

typedef struct lmc_lane_options {
    const char *pool; /* name */
    uint32_t threads;
    bool affinity, keeps_news; /* as in the lane */
} lmc_lane_options;

/* `first` numbers the threads' names. On failure fini is due as well. */
lmc_status lmc_lane_init(lmc_lane *lane, const lmc_lane_options *options, uint32_t first,
                         lmc_error *error);
void lmc_lane_fini(lmc_lane *lane); /* after its threads have ended */

/* True: a thread sleeps, and lmc_lane_wake() is due. */
bool lmc_lane_push(lmc_lane *lane, lmc_exchange *x);
void lmc_lane_wake(lmc_lane *lane, uint32_t threads);
void lmc_lane_end_turn(lmc_lane *lane, lmc_exchange *x);
/* Refuses everything that waits. */
void lmc_lane_refuse(lmc_lane *lane);
void lmc_lane_tell_to_stop(lmc_lane *lane);
/* Joins the threads; false: some did not end by the deadline. */
bool lmc_lane_await(lmc_lane *lane, int64_t deadline_ns);
void lmc_lane_watch(lmc_lane *lane, int64_t now_ns, const lmc_pools_watch_options *options);
void lmc_lane_report(lmc_lane *lane, int64_t now_ns, lmc_pool_report *report);

#endif
