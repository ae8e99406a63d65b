#include "cache/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define SESSION_OVERHEAD 160 /* map entry and allocator, roughly */
#define TICK_BATCH 64        /* items handled per taking of the lock */

static lmc_session *session_of(lmc_link *used) { return LMC_OWNER(used, lmc_session, used); }

lmc_status lmc_sessions_init(lmc_sessions *sessions, const lmc_sessions_config *config,
                             const lmc_clock *clock, lmc_l1 *l1) {
    *sessions = (lmc_sessions){.config = *config, .clock = clock, .l1 = l1};
    lmc_link_init(&sessions->used);
    lmc_link_init(&sessions->expiring);
    lmc_link_init(&sessions->leased);
    lmc_link_init(&sessions->waiters);
    sessions->by_id = lmc_hashmap_create();
    if (sessions->by_id == NULL)
        return LMC_NO_MEMORY;
    lmc_status status =
        lmc_connections_init(&sessions->connections, config->disconnect_lease_ns);
    if (status != LMC_OK) {
        lmc_hashmap_destroy(sessions->by_id);
        sessions->by_id = NULL;
        return status;
    }
    lmc_lock_init(&sessions->lock, LMC_RANK_SESSIONS, "sessions");
    return LMC_OK;
}

/* ---- leftovers ---- */

static void destroy_session(lmc_sessions *sessions, lmc_session *session) {
    lmc_chain_drop(session->chain);
    lmc_key_space_drop(sessions->l1, session->target.space);
    lmc_key_space_drop(sessions->l1, session->job.space);
    free(session->claims);
    free(session);
}

void lmc_leftovers_finish(lmc_sessions *sessions, lmc_leftovers *left) {
    lmc_lock_assert_none();
    for (lmc_hold *hold = left->holds, *next; hold != NULL; hold = next) {
        next = hold->next;
        lmc_hold_destroy(sessions->l1, hold);
    }
    for (lmc_waiter *waiter = left->waiters, *next; waiter != NULL; waiter = next) {
        next = waiter->next;
        waiter->done(waiter->arg, waiter->status, waiter->chunks);
        free(waiter);
    }
    for (lmc_session *session = left->sessions, *next; session != NULL; session = next) {
        next = session->next;
        destroy_session(sessions, session);
    }
    if (left->consumed.job.early_exit != NULL && sessions->consumed != NULL)
        sessions->consumed(sessions->consumed_arg, &left->consumed);
    free(left->consumed.request_id);
    lmc_key_space_drop(sessions->l1, left->consumed.job.space);
    lmc_chain_drop(left->chain);
    lmc_key_space_drop(sessions->l1, left->job_space);
    lmc_key_space_drop(sessions->l1, left->target_space);
    *left = (lmc_leftovers){0};
}

void lmc_waiter_end(lmc_waiter *waiter, lmc_status status, int64_t chunks,
                    lmc_leftovers *left) {
    lmc_link_remove(&waiter->of_session);
    lmc_link_remove(&waiter->of_all);
    waiter->status = status;
    waiter->chunks = chunks;
    waiter->next = left->waiters;
    left->waiters = waiter;
}

void lmc_session_wake(lmc_session *session, int64_t chunks, lmc_leftovers *left) {
    lmc_link *first;
    while ((first = lmc_link_first(&session->waiters)) != NULL) {
        lmc_waiter_end(LMC_OWNER(first, lmc_waiter, of_session), LMC_OK, chunks, left);
        chunks = 0;
    }
}

size_t lmc_waiters_expire(lmc_sessions *sessions, int64_t now, size_t limit,
                          lmc_leftovers *left) {
    size_t ended = 0;
    for (lmc_link *at = sessions->waiters.next, *next; at != &sessions->waiters; at = next) {
        next = at->next;
        lmc_waiter *waiter = LMC_OWNER(at, lmc_waiter, of_all);
        if (waiter->deadline_ns > now)
            continue;
        lmc_waiter_end(waiter, LMC_AGAIN, 0, left);
        if (++ended == limit)
            break;
    }
    return ended;
}

/* ---- one session, with the lock held ---- */

void lmc_session_end_hold(lmc_sessions *sessions, lmc_hold *hold, lmc_leftovers *left) {
    lmc_link_remove(&hold->expiring);
    lmc_link_remove(&hold->leased);
    if (hold->owner != NULL) {
        hold->owner->hold = NULL;
        hold->owner->bytes -= lmc_hold_bytes(hold);
        sessions->bytes -= lmc_hold_bytes(hold);
        hold->owner = NULL;
    }
    hold->next = left->holds;
    left->holds = hold;
}

void lmc_session_lease_hold(lmc_sessions *sessions, lmc_session *session) {
    lmc_hold *hold = session->hold;
    if (hold == NULL)
        return;
    session->hold = NULL;
    session->bytes -= lmc_hold_bytes(hold);
    sessions->bytes -= lmc_hold_bytes(hold);
    hold->owner = NULL;
    hold->lease_ns = lmc_now(sessions->clock) + sessions->config.session_lease_ns;
    lmc_link_append(&sessions->leased, &hold->leased);
}

void lmc_session_set_hold(lmc_sessions *sessions, lmc_session *session, lmc_hold *hold) {
    session->hold = hold;
    session->bytes += lmc_hold_bytes(hold);
    sessions->bytes += lmc_hold_bytes(hold);
    hold->owner = session;
    hold->expiry_ns = lmc_now(sessions->clock) + sessions->config.read_ttl_ns;
    lmc_link_append(&sessions->expiring, &hold->expiring);
}

void lmc_session_set_job(lmc_sessions *sessions, lmc_session *session, lmc_job_state state,
                         const lmc_job_result *job, lmc_leftovers *left) {
    sessions->active_jobs += (state != LMC_JOB_NONE) - (session->job_state != LMC_JOB_NONE);
    session->job_state = state;
    left->job_space = session->job.space;
    session->job = job != NULL ? *job : (lmc_job_result){0};
}

void lmc_session_consume(lmc_sessions *sessions, lmc_session *session, lmc_leftovers *left) {
    left->consumed.job = session->job;
    if (sessions->interest != NULL &&
        (atomic_load_explicit(sessions->interest, memory_order_relaxed) &
         LMC_CACHE_LOOKUP_DONE) != 0) {
        left->consumed.request_id = malloc(session->id_size + 1);
        left->consumed.request_id_size = session->id_size;
        if (left->consumed.request_id != NULL)
            memcpy(left->consumed.request_id, session->id, session->id_size);
    }
    session->job.space = NULL;
    session->consumed = true;
    lmc_session_set_job(sessions, session, LMC_JOB_NONE, NULL, left);
}

static void leave_connection(lmc_sessions *sessions, lmc_session *session) {
    if (session->connection != NULL)
        lmc_connection_leave(&sessions->connections, session->connection,
                             &session->of_connection);
    session->connection = NULL;
}

void lmc_session_set_connection(lmc_sessions *sessions, lmc_session *session,
                                uint64_t connection) {
    if (session->connection != NULL && session->connection->id == connection &&
        session->connection->due_ns == 0)
        return;
    leave_connection(sessions, session);
    session->connection = lmc_connection_join(
        &sessions->connections, connection, &session->of_connection, lmc_now(sessions->clock));
}

/* Takes the session out of everything; what it still holds goes on its lease. */
static void remove_session(lmc_sessions *sessions, lmc_session *session, lmc_leftovers *left) {
    lmc_hashmap_remove(sessions->by_id, lmc_slice_of(session->id, session->id_size));
    lmc_link_remove(&session->used);
    leave_connection(sessions, session);
    lmc_session_wake(session, 0, left);
    sessions->active_jobs -= session->job_state != LMC_JOB_NONE;
    lmc_session_lease_hold(sessions, session);
    sessions->bytes -= session->bytes;
    session->next = left->sessions;
    left->sessions = session;
}

static void refresh(lmc_sessions *sessions, lmc_session *session) {
    session->last_used_ns = lmc_now(sessions->clock);
    lmc_link_append(&sessions->used, &session->used);
    if (session->connection != NULL && session->connection->due_ns != 0)
        leave_connection(sessions, session); /* named again in time */
}

lmc_session *lmc_session_find(lmc_sessions *sessions, lmc_slice id) {
    lmc_session *session = lmc_hashmap_get(sessions->by_id, id);
    if (session != NULL)
        refresh(sessions, session);
    return session;
}

static lmc_session *create_session(lmc_sessions *sessions, lmc_slice id) {
    lmc_session *session = calloc(1, sizeof(*session) + id.size);
    if (session == NULL)
        return NULL;
    session->id_size = id.size;
    if (id.size > 0)
        memcpy(session->id, id.data, id.size);
    if (lmc_hashmap_put(sessions->by_id, id, session, NULL) != LMC_OK) {
        free(session);
        return NULL;
    }
    lmc_link_init(&session->used);
    lmc_link_init(&session->of_connection);
    lmc_link_init(&session->waiters);
    session->bytes = sizeof(*session) + 2 * id.size + SESSION_OVERHEAD;
    sessions->bytes += session->bytes;
    return session;
}

/* Old sessions make room for new ones, two at a time, so that it catches up. */
static void shrink(lmc_sessions *sessions, const lmc_session *spare, lmc_leftovers *left) {
    for (int i = 0; i < 2 && sessions->bytes > sessions->config.bytes_max; i++) {
        lmc_link *oldest = lmc_link_first(&sessions->used);
        if (oldest == NULL || session_of(oldest) == spare)
            return;
        remove_session(sessions, session_of(oldest), left);
    }
}

lmc_session *lmc_session_open(lmc_sessions *sessions, lmc_slice id, lmc_leftovers *left) {
    lmc_session *session = lmc_session_find(sessions, id);
    if (session != NULL || sessions->closed)
        return session;
    session = create_session(sessions, id);
    if (session == NULL)
        return NULL;
    refresh(sessions, session);
    shrink(sessions, session, left);
    return session;
}

/* Keeps the longer of two chains of the same tokens, else the newer. */
void lmc_session_set_chain(lmc_sessions *sessions, lmc_session *session, lmc_chain *chain,
                           lmc_leftovers *left) {
    lmc_chain *old = session->chain;
    if (chain == NULL || chain == old || (old != NULL && chain->count == 0))
        return;
    if (old != NULL &&
        lmc_chain_reaches(old, chain->count, lmc_chain_hash(chain, chain->count - 1)))
        return;
    session->chain = lmc_chain_keep(chain);
    left->chain = old;
    session->bytes += lmc_chain_bytes(chain) - lmc_chain_bytes(old);
    sessions->bytes += lmc_chain_bytes(chain) - lmc_chain_bytes(old);
}

void lmc_session_set_target(lmc_session *session, const lmc_touch_target *target,
                            lmc_leftovers *left) {
    left->target_space = session->target.space;
    session->target = *target;
    lmc_key_space_keep(target->space);
}

/* ---- all sessions ---- */

lmc_chain *lmc_sessions_chain(lmc_sessions *sessions, lmc_slice id) {
    lmc_lock_take(&sessions->lock);
    const lmc_session *session = lmc_session_find(sessions, id);
    lmc_chain *chain = session != NULL ? lmc_chain_keep(session->chain) : NULL;
    lmc_lock_drop(&sessions->lock);
    return chain;
}

lmc_chain *lmc_sessions_peek(lmc_sessions *sessions, lmc_slice id) {
    lmc_lock_take(&sessions->lock);
    const lmc_session *session = lmc_hashmap_get(sessions->by_id, id);
    lmc_chain *chain = session != NULL ? lmc_chain_keep(session->chain) : NULL;
    lmc_lock_drop(&sessions->lock);
    return chain;
}

static lmc_status remember(lmc_sessions *sessions, lmc_slice id, lmc_chain *chain,
                           const lmc_touch_target *target) {
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_open(sessions, id, &left);
    if (session != NULL) {
        lmc_session_set_chain(sessions, session, chain, &left);
        if (session->target.space == NULL && target->space != NULL)
            lmc_session_set_target(session, target, &left);
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
    return session != NULL ? LMC_OK : LMC_NO_MEMORY;
}

lmc_status lmc_sessions_resolve(lmc_sessions *sessions, const lmc_hasher *hasher,
                                const lmc_cache_key *key, size_t chunks,
                                const lmc_touch_target *target, lmc_chain **chain,
                                uint64_t *state) {
    lmc_chain *old = lmc_sessions_chain(sessions, key->request_id);
    lmc_status status = lmc_chain_resolve(hasher, old, &key->token_ids, chunks, chain, state);
    lmc_chain_drop(old);
    if (status != LMC_OK)
        return status;
    status = remember(sessions, key->request_id, *chain, target);
    if (status != LMC_OK) {
        lmc_chain_drop(*chain);
        *chain = NULL;
    }
    return status;
}

/* The chunks from the last to the first, so that the last become the oldest. */
void lmc_touch_chunks(lmc_l1 *l1, const lmc_touch_target *target, const lmc_chain *chain,
                      size_t chunks) {
    lmc_l1_key keys[LMC_L1_BATCH];
    uint64_t per_chunk = (uint64_t)target->rank_count * target->group_count;
    if (target->space == NULL || per_chunk == 0 || chunks > LMC_CELLS_MAX / per_chunk)
        return;
    for (uint64_t left = chunks * per_chunk; left > 0;) {
        size_t count = left < LMC_L1_BATCH ? (size_t)left : LMC_L1_BATCH;
        left -= count;
        for (size_t i = 0; i < count; i++) {
            uint64_t cell = (left + i) % per_chunk;
            keys[i] = lmc_object_key_of(
                lmc_chain_hash(chain, (size_t)((left + i) / per_chunk)), target->space,
                target->world_size, target->first_rank + (uint32_t)(cell % target->rank_count),
                (uint32_t)(cell / target->rank_count));
        }
        lmc_l1_touch(l1, keys, count);
    }
}

bool lmc_sessions_end(lmc_sessions *sessions, lmc_slice id) {
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_hashmap_get(sessions->by_id, id);
    if (session != NULL)
        remove_session(sessions, session, &left);
    lmc_lock_drop(&sessions->lock);
    if (session != NULL && session->chain != NULL)
        lmc_touch_chunks(sessions->l1, &session->target, session->chain, session->chain->count);
    bool found = session != NULL;
    lmc_leftovers_finish(sessions, &left);
    return found;
}

void lmc_sessions_drop_holds(lmc_sessions *sessions) {
    for (bool more = true; more;) {
        lmc_leftovers left = {0};
        lmc_lock_take(&sessions->lock);
        lmc_link *first;
        size_t n = 0;
        while (n < TICK_BATCH && (first = lmc_link_first(&sessions->expiring)) != NULL) {
            lmc_session_end_hold(sessions, LMC_OWNER(first, lmc_hold, expiring), &left);
            n++;
        }
        more = lmc_link_first(&sessions->expiring) != NULL;
        lmc_lock_drop(&sessions->lock);
        lmc_leftovers_finish(sessions, &left);
    }
}

void lmc_sessions_connection_closed(lmc_sessions *sessions, uint64_t connection) {
    lmc_lock_take(&sessions->lock);
    lmc_connection_close(&sessions->connections, connection, lmc_now(sessions->clock));
    lmc_lock_drop(&sessions->lock);
}

size_t lmc_sessions_count(lmc_sessions *sessions) {
    lmc_lock_take(&sessions->lock);
    size_t count = lmc_hashmap_count(sessions->by_id);
    lmc_lock_drop(&sessions->lock);
    return count;
}

/* ---- the clock ---- */

/* The next hold whose expiry or lease has passed. */
static lmc_hold *overdue_hold(lmc_sessions *sessions, int64_t now) {
    lmc_link *first = lmc_link_first(&sessions->expiring);
    if (first != NULL && LMC_OWNER(first, lmc_hold, expiring)->expiry_ns <= now)
        return LMC_OWNER(first, lmc_hold, expiring);
    first = lmc_link_first(&sessions->leased);
    if (first != NULL && LMC_OWNER(first, lmc_hold, leased)->lease_ns <= now)
        return LMC_OWNER(first, lmc_hold, leased);
    return NULL;
}

static lmc_session *overdue_session(lmc_sessions *sessions, int64_t now) {
    lmc_link *first = lmc_link_first(&sessions->used);
    if (first == NULL)
        return NULL;
    lmc_session *session = session_of(first);
    return session->last_used_ns + sessions->config.session_ttl_ns <= now ? session : NULL;
}

/* Takes from one session what its closed connection held, and the answer that nobody asked for;
 * false: nothing is due. */
static bool give_up_member(lmc_sessions *sessions, int64_t now, lmc_leftovers *left) {
    lmc_connection *due = lmc_connection_due(&sessions->connections, now);
    if (due == NULL)
        return false;
    lmc_session *session = LMC_OWNER(lmc_link_first(&due->members), lmc_session, of_connection);
    leave_connection(sessions, session);
    if (session->hold != NULL)
        lmc_session_end_hold(sessions, session->hold, left);
    if (session->job_state == LMC_JOB_DONE)
        lmc_session_set_job(sessions, session, LMC_JOB_NONE, NULL, left);
    return true;
}

/* One item of work; false: nothing left to do. */
static bool tick_once(lmc_sessions *sessions, int64_t now, lmc_leftovers *left) {
    lmc_hold *hold = overdue_hold(sessions, now);
    if (hold != NULL) {
        lmc_session_end_hold(sessions, hold, left);
        return true;
    }
    lmc_session *session = overdue_session(sessions, now);
    if (session != NULL) {
        remove_session(sessions, session, left);
        return true;
    }
    return give_up_member(sessions, now, left) ||
           lmc_waiters_expire(sessions, now, TICK_BATCH, left) > 0;
}

void lmc_sessions_tick(lmc_sessions *sessions) {
    int64_t now = lmc_now(sessions->clock);
    for (bool more = true; more;) {
        lmc_leftovers left = {0};
        lmc_lock_take(&sessions->lock);
        /* There is room for one job's space among what is left. */
        for (int i = 0; i < TICK_BATCH && more && left.job_space == NULL; i++)
            more = tick_once(sessions, now, &left);
        lmc_lock_drop(&sessions->lock);
        lmc_leftovers_finish(sessions, &left);
    }
}

static void close_all(lmc_sessions *sessions, lmc_leftovers *left) {
    lmc_link *first;
    while ((first = lmc_link_first(&sessions->waiters)) != NULL)
        lmc_waiter_end(LMC_OWNER(first, lmc_waiter, of_all), LMC_CLOSED, 0, left);
    while ((first = lmc_link_first(&sessions->used)) != NULL)
        remove_session(sessions, session_of(first), left);
    while ((first = lmc_link_first(&sessions->expiring)) != NULL)
        lmc_session_end_hold(sessions, LMC_OWNER(first, lmc_hold, expiring), left);
}

void lmc_sessions_fini(lmc_sessions *sessions) {
    if (sessions->by_id == NULL)
        return;
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    sessions->closed = sessions->waits_ended = true;
    lmc_lock_drop(&sessions->lock);
    lmc_timers_destroy(sessions->timers);
    lmc_lock_take(&sessions->lock);
    close_all(sessions, &left);
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
    lmc_connections_fini(&sessions->connections);
    lmc_hashmap_destroy(sessions->by_id);
    sessions->by_id = NULL;
    lmc_lock_fini(&sessions->lock);
}
