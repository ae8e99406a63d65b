/*
 * jobs.h: the job of a lookup: begun under a request id, finished now or later, consumed once
 * (storage.md 4.5). Waiters park no thread: they are called when the job finishes, when their
 * time is over, when the session ends (with 0) or at destroy.
 *
 * A job is part of its session and guarded by the lock of sessions.h. Any thread.
 */
#ifndef LMC_CACHE_JOBS_H
#define LMC_CACHE_JOBS_H

#include "cache/sessions.h"

#define LMC_SWEEP_NS (10 * LMC_NS_PER_MS) /* how exactly waits end */

/* Names a job that was begun. The text is borrowed until the job is finished. */
typedef struct lmc_ticket {
    lmc_slice request_id;
    uint64_t generation;
} lmc_ticket;

/*
 * Begins a lookup: the session is created or starts over, an older job is gone, what the older
 * lookup held goes on its lease. `chain` and `target` may be NULL.
 */
lmc_status lmc_job_begin(lmc_sessions *sessions, lmc_slice request_id, uint64_t connection,
                         lmc_chain *chain, const lmc_touch_target *target, lmc_ticket *ticket);
/*
 * Ends it with a result and a hold (may be NULL), both taken over. When the job was replaced or
 * its session ended meanwhile, both are dropped and what is held is released.
 */
void lmc_job_finish(lmc_sessions *sessions, const lmc_ticket *ticket,
                    const lmc_job_result *result, lmc_hold *hold);
/* Drops an unconsumed job without a new one; creates no session. */
void lmc_job_cancel(lmc_sessions *sessions, lmc_slice request_id);

/* LMC_OK: *chunks is the answer (0 for an unknown id), LMC_AGAIN: pending. `consume`: once. */
lmc_status lmc_job_query(lmc_sessions *sessions, lmc_slice request_id, bool consume,
                         int64_t *chunks);
/*
 * Parks a waiter for a pending job. LMC_OK: done will be called. LMC_DECLINED: nothing to wait
 * for, query again. LMC_AGAIN: no waiter could be parked. LMC_CLOSED: waits have been ended.
 */
lmc_status lmc_job_wait(lmc_sessions *sessions, lmc_slice request_id, int64_t timeout_ns,
                        void (*done)(void *arg, lmc_status status, int64_t chunks), void *arg);
void lmc_job_end_waits(lmc_sessions *sessions);
size_t lmc_job_count(lmc_sessions *sessions);

#endif
