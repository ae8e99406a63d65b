/*
 * thread.h: named threads and one-shot or periodic timers.
 *
 * Threads started here block all signals but the synchronous ones, so that stop signals reach
 * the main thread. A name is at most 15 bytes and shows in `ps -L` and `GET /threads`.
 */
#ifndef LMC_BASE_THREAD_H
#define LMC_BASE_THREAD_H

#include <lmcached/types.h>
#include <pthread.h>

#include "base/clock.h"

typedef struct lmc_thread {
    pthread_t handle;
    bool started;
} lmc_thread;

lmc_status lmc_thread_start(lmc_thread *thread, const char *name, void (*run)(void *arg),
                            void *arg, lmc_error *error);
void lmc_thread_join(lmc_thread *thread); /* no-op when not started */
void lmc_thread_lowest_priority(void);    /* SCHED_IDLE (else nice 19) for the calling thread */

/*
 * Asks for short time slices (0.1 ms) for the calling thread and those it starts, so that it
 * runs soon after it was woken although others compute; `false` takes that back. Needs no
 * privilege and gives no larger share. Without effect before Linux 6.12, and for a thread that
 * has a scheduling policy of its own.
 */
void lmc_thread_short_slices(bool on);

/*
 * A timer service: one thread, a heap of deadlines. Callbacks run on that thread, without any
 * lock held, and must be short; what may take longer hands itself to a pool. Create and destroy
 * on one thread; arm and cancel from any.
 */
typedef struct lmc_timers lmc_timers;
typedef struct lmc_timer lmc_timer;

lmc_status lmc_timers_create(const lmc_clock *clock, lmc_timers **timers, lmc_error *error);
void lmc_timers_destroy(
    lmc_timers *timers); /* pending callbacks are dropped, a running one awaited */

/*
 * Arms a timer `delay_ns` from now; period_ns > 0 repeats. The service owns the timer. A handle
 * given out through `timer` stays valid, also after a one-shot timer fired, until
 * lmc_timer_cancel(), which must be called once. With timer == NULL a one-shot timer frees
 * itself after it fired. The name is copied (31 bytes).
 */
lmc_status lmc_timer_start(lmc_timers *timers, int64_t delay_ns, int64_t period_ns,
                           const char *name, void (*fire)(void *arg), void *arg,
                           lmc_timer **timer, lmc_error *error);
/*
 * Releases the handle. After return the callback is not running and never runs again (unless
 * called from itself). NULL is allowed. Never call it while holding a lock that the callback
 * takes.
 */
void lmc_timer_cancel(lmc_timer *timer);
/* Looks at the deadlines again: for a clock that was moved by hand (tests). */
void lmc_timers_poke(lmc_timers *timers);

/* One row per periodic timer, for /periodic-threads. */
typedef struct lmc_timer_report {
    const char *name;
    int64_t period_ns;
    int64_t last_run_ago_ns; /* -1: never ran */
    uint64_t runs;
} lmc_timer_report;
/* No lock is held during visit; rows and names are valid only meanwhile. */
void lmc_timers_each(lmc_timers *timers, void (*visit)(void *arg, const lmc_timer_report *row),
                     void *arg);

#endif
