/*
 * liveness.h: which engine instances still live, asked of every module that keeps state for
 * them.
 *
 * A set holds the modules that take part, in construction order. It is live: a module built
 * after the reaper was started takes part from then on. Members are never removed; the
 * composition stops the set before it closes the first module and destroys it after the last.
 *
 * The reaper is one thread. A scan asks every member for the instances it reaped, then tells
 * every member to drop each of them. Drops, and the touches of members from outside, run on a
 * thread of the member they go to, so that a slow one delays nobody else. No lock is held
 * during any of these calls. Unless stated otherwise, functions may be called from any thread
 * and do not wait.
 */
#ifndef LMC_MODULE_LIVENESS_H
#define LMC_MODULE_LIVENESS_H

#include <lmcached/module.h>

#define LMC_LIVENESS_QUEUE_MAX 65536 /* touches waiting for one member; more are dropped */

typedef struct lmc_liveness_set lmc_liveness_set;

lmc_liveness_set *lmc_liveness_create(void); /* NULL: out of memory */
/* Accepts NULL. A set of which a thread is still in a module is left as it is. */
void lmc_liveness_destroy(lmc_liveness_set *set);

/* Adds a member. `name`, `table` and `self` are borrowed until destroy. */
lmc_status lmc_liveness_add(lmc_liveness_set *set, const char *name, const lmc_liveness *table,
                            void *self, bool outside, lmc_error *error);

size_t lmc_liveness_members(const lmc_liveness_set *set);
bool lmc_liveness_has_outside(const lmc_liveness_set *set); /* a member is not built in */
int64_t lmc_liveness_tracked(lmc_liveness_set *set); /* sum over members; may take their time */

/*
 * A ping with this id was answered. Members that are built in learn it from the cache core;
 * those from outside are told on their own thread.
 */
void lmc_liveness_touch(lmc_liveness_set *set, int64_t instance_id);

/* Starts the reaper, period timeout / 4. timeout_ns > 0. Main thread, once. */
lmc_status lmc_liveness_start(lmc_liveness_set *set, int64_t timeout_ns, int64_t grace_ns,
                              lmc_error *error);
/* Ends reaper and member threads; waits for a running scan and for queued drops, but no longer
 * than wait_ns. True: nothing of this set runs any more; false: try again. Main thread. */
bool lmc_liveness_stop(lmc_liveness_set *set, int64_t wait_ns);

/* How the reaper is getting on. */
typedef struct lmc_liveness_report {
    bool running;
    int64_t period_ns;
    int64_t last_run_ns; /* when a scan last ended, monotonic; 0: never */
    uint64_t runs;
} lmc_liveness_report;
void lmc_liveness_report_get(lmc_liveness_set *set, lmc_liveness_report *report);

/* One scan, on the calling thread: what the reaper does each period. */
void lmc_liveness_scan(lmc_liveness_set *set, int64_t timeout_ns, int64_t grace_ns);

#endif
