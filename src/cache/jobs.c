#include "cache/jobs.h"

#include <stdlib.h>

lmc_status lmc_job_begin(lmc_sessions *sessions, lmc_slice request_id, uint64_t connection,
                         lmc_chain *chain, const lmc_touch_target *target, lmc_ticket *ticket) {
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_open(sessions, request_id, &left);
    if (session != NULL) {
        lmc_session_lease_hold(sessions, session);
        lmc_session_set_job(sessions, session, LMC_JOB_PENDING, NULL, &left);
        session->consumed = false;
        session->claim_count = 0;
        session->generation = ++sessions->last_generation;
        lmc_session_set_connection(sessions, session, connection);
        lmc_session_set_chain(sessions, session, chain, &left);
        if (target != NULL)
            lmc_session_set_target(session, target, &left);
        *ticket = (lmc_ticket){request_id, session->generation};
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
    return session != NULL ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_job_finish(lmc_sessions *sessions, const lmc_ticket *ticket,
                    const lmc_job_result *result, lmc_hold *hold) {
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, ticket->request_id);
    if (session != NULL && session->generation == ticket->generation &&
        session->job_state == LMC_JOB_PENDING) {
        lmc_session_set_job(sessions, session, LMC_JOB_DONE, result, &left);
        if (hold != NULL)
            lmc_session_set_hold(sessions, session, hold);
        if (!lmc_link_is_alone(&session->waiters)) {
            lmc_session_consume(sessions, session, &left);
            lmc_session_wake(session, result->chunks, &left);
        }
    } else {
        left.holds = hold;
        left.job_space = result->space;
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
}

void lmc_job_cancel(lmc_sessions *sessions, lmc_slice request_id) {
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, request_id);
    if (session != NULL) {
        lmc_session_lease_hold(sessions, session);
        lmc_session_set_job(sessions, session, LMC_JOB_NONE, NULL, &left);
        session->generation = ++sessions->last_generation;
        lmc_session_wake(session, 0, &left);
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
}

lmc_status lmc_job_query(lmc_sessions *sessions, lmc_slice request_id, bool consume,
                         int64_t *chunks) {
    lmc_status status = LMC_OK;
    *chunks = 0;
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, request_id);
    if (session != NULL && session->job_state == LMC_JOB_PENDING)
        status = LMC_AGAIN;
    if (session != NULL && session->job_state == LMC_JOB_DONE) {
        *chunks = session->job.chunks;
        if (consume)
            lmc_session_consume(sessions, session, &left);
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
    return status;
}

/* ---- waiting ---- */

static void sweep(void *arg) {
    lmc_sessions *sessions = arg;
    lmc_leftovers left = {0};
    lmc_timer *idle = NULL;
    lmc_lock_take(&sessions->lock);
    lmc_waiters_expire(sessions, lmc_now(sessions->clock), SIZE_MAX, &left);
    if (lmc_link_is_alone(&sessions->waiters)) {
        idle = sessions->sweep;
        sessions->sweep = NULL;
    }
    lmc_lock_drop(&sessions->lock);
    lmc_timer_cancel(idle);
    lmc_leftovers_finish(sessions, &left);
}

/* With the lock held: the timer service and its sweep run while somebody waits. */
static bool start_sweep(lmc_sessions *sessions) {
    if (sessions->sweep != NULL)
        return true;
    if (sessions->timers == NULL &&
        lmc_timers_create(sessions->clock, &sessions->timers, NULL) != LMC_OK)
        return false;
    return lmc_timer_start(sessions->timers, LMC_SWEEP_NS, LMC_SWEEP_NS, "lookup waits", sweep,
                           sessions, &sessions->sweep, NULL) == LMC_OK;
}

static lmc_status park(lmc_sessions *sessions, lmc_slice request_id, lmc_waiter *waiter) {
    lmc_session *session = lmc_session_find(sessions, request_id);
    if (session == NULL || session->job_state != LMC_JOB_PENDING)
        return LMC_DECLINED;
    if (sessions->waits_ended)
        return LMC_CLOSED;
    if (!start_sweep(sessions))
        return LMC_AGAIN;
    lmc_link_append(&session->waiters, &waiter->of_session);
    lmc_link_append(&sessions->waiters, &waiter->of_all);
    return LMC_OK;
}

static int64_t deadline(int64_t now, int64_t timeout_ns) {
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

lmc_status lmc_job_wait(lmc_sessions *sessions, lmc_slice request_id, int64_t timeout_ns,
                        void (*done)(void *arg, lmc_status status, int64_t chunks), void *arg) {
    lmc_waiter *waiter = calloc(1, sizeof(*waiter));
    if (waiter == NULL)
        return LMC_AGAIN;
    waiter->done = done;
    waiter->arg = arg;
    waiter->deadline_ns = deadline(lmc_now(sessions->clock), timeout_ns);
    lmc_link_init(&waiter->of_session);
    lmc_link_init(&waiter->of_all);
    lmc_lock_take(&sessions->lock);
    lmc_status status = park(sessions, request_id, waiter);
    lmc_lock_drop(&sessions->lock);
    if (status != LMC_OK)
        free(waiter);
    return status;
}

void lmc_job_end_waits(lmc_sessions *sessions) {
    lmc_leftovers left = {0};
    lmc_link *first;
    lmc_lock_take(&sessions->lock);
    sessions->waits_ended = true;
    while ((first = lmc_link_first(&sessions->waiters)) != NULL)
        lmc_waiter_end(LMC_OWNER(first, lmc_waiter, of_all), LMC_CLOSED, 0, &left);
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
}

size_t lmc_job_count(lmc_sessions *sessions) {
    lmc_lock_take(&sessions->lock);
    size_t count = sessions->active_jobs;
    lmc_lock_drop(&sessions->lock);
    return count;
}
