/*
 * sessions.h: what is remembered per request_id: chunk hashes, what to touch at the end, the
 * job and the hold of its last lookup (storage.md 2, D5, D46).
 *
 * A session is created by operations that carry tokens and lives until END_SESSION, until it
 * was not used for its TTL, or until newer ones need its memory (bytes_max). It keeps hashes,
 * not tokens. One lock (LMC_RANK_SESSIONS) guards sessions, holds and jobs; it is held for a
 * few list and map steps and never while hashing, calling L1 or calling out: whatever is to be
 * done afterwards is gathered in lmc_leftovers. No pointer to a session leaves the lock.
 *
 * This header is shared by sessions.c, jobs.c and ledger.c; others use its functions only. Any
 * thread.
 */
#ifndef LMC_CACHE_SESSIONS_H
#define LMC_CACHE_SESSIONS_H

#include "base/clock.h"
#include "base/hashmap.h"
#include "base/lock.h"
#include "base/thread.h"
#include "cache/chains.h"
#include "cache/connections.h"
#include "cache/holds.h"
#include "cache/list.h"

#define LMC_CLAIMS_MAX 64 /* failed retrieves of one lookup that released their shares */

typedef struct lmc_sessions_config {
    int64_t read_ttl_ns, session_ttl_ns, session_lease_ns, disconnect_lease_ns;
    size_t bytes_max; /* all sessions together; beyond it the least recently used go */
} lmc_sessions_config;

/* The objects that a session is about: touched at its end. */
typedef struct lmc_touch_target {
    lmc_key_space *space; /* NULL: none */
    int64_t world_size;
    uint32_t first_rank, rank_count, group_count;
} lmc_touch_target;

typedef enum lmc_job_state { LMC_JOB_NONE, LMC_JOB_PENDING, LMC_JOB_DONE } lmc_job_state;

/* The answer to a lookup and what metrics want to know about it. */
typedef struct lmc_job_result {
    int64_t chunks;
    uint64_t requested_chunks, hit_keys;
    const char *early_exit; /* "" = none */
    lmc_key_space *space;   /* owned by the job; NULL: counts in no metric */
} lmc_job_result;

/* A delivered answer. */
typedef struct lmc_job_delivery {
    lmc_job_result job; /* early_exit NULL: none */
    char *request_id;   /* of its own; NULL: nobody wants to know, or no memory */
    size_t request_id_size;
} lmc_job_delivery;

typedef struct lmc_waiter {
    lmc_link of_session, of_all;
    struct lmc_waiter *next;
    int64_t deadline_ns;
    void (*done)(void *arg, lmc_status status, int64_t chunks);
    void *arg;
    lmc_status status; /* what to call done with */
    int64_t chunks;
} lmc_waiter;

typedef struct lmc_session {
    lmc_link used;          /* in the order of last use */
    lmc_link of_connection; /* the one that looked up */
    lmc_connection *connection;
    struct lmc_session *next;
    int64_t last_used_ns;
    size_t bytes;
    lmc_chain *chain;
    lmc_touch_target target;
    lmc_job_state job_state;
    bool consumed; /* the job's answer was delivered */
    uint64_t generation;
    lmc_job_result job;
    lmc_hold *hold;
    lmc_link waiters;
    uint64_t *claims; /* LMC_CLAIMS_MAX, allocated with the first */
    size_t claim_count;
    size_t id_size;
    char id[];
} lmc_session;

typedef struct lmc_sessions {
    lmc_lock lock;
    lmc_sessions_config config;
    const lmc_clock *clock;
    lmc_l1 *l1;
    lmc_hashmap *by_id;
    lmc_connections connections;
    lmc_link used;     /* sessions, least recently used first */
    lmc_link expiring; /* holds */
    lmc_link leased;   /* holds */
    lmc_link waiters;  /* of all sessions */
    size_t bytes, active_jobs;
    uint64_t last_generation;
    lmc_timers *timers; /* created with the first parked waiter */
    lmc_timer *sweep;   /* runs while there are waiters */
    bool closed, waits_ended;
    /* Called without locks for every job whose answer is delivered; may be NULL. */
    void (*consumed)(void *arg, const lmc_job_delivery *delivery);
    const _Atomic uint32_t *interest; /* of the cache's observer; may be NULL */
    void *consumed_arg;
} lmc_sessions;

lmc_status lmc_sessions_init(lmc_sessions *sessions, const lmc_sessions_config *config,
                             const lmc_clock *clock, lmc_l1 *l1);
void lmc_sessions_fini(lmc_sessions *sessions); /* waiters are told LMC_CLOSED */

/* The session's chain, kept; NULL: no session or no hashes yet. */
lmc_chain *lmc_sessions_chain(lmc_sessions *sessions, lmc_slice id);
/* The same without counting as a use of the session. */
lmc_chain *lmc_sessions_peek(lmc_sessions *sessions, lmc_slice id);
/*
 * Hashes the first `chunks` chunks of the key's tokens as far as the session does not know
 * them, and remembers them in the session, which is created when there is none. *chain is kept
 * for the caller and covers them. `target` becomes what to touch unless there is one already.
 */
lmc_status lmc_sessions_resolve(lmc_sessions *sessions, const lmc_hasher *hasher,
                                const lmc_cache_key *key, size_t chunks,
                                const lmc_touch_target *target, lmc_chain **chain,
                                uint64_t *state);
/* False: no such session. */
bool lmc_sessions_end(lmc_sessions *sessions, lmc_slice id);
/* Every hold is released: their objects were cleared. */
void lmc_sessions_drop_holds(lmc_sessions *sessions);
void lmc_sessions_connection_closed(lmc_sessions *sessions, uint64_t connection);
/* Expired holds, leases, sessions and connections, overdue waiters. */
void lmc_sessions_tick(lmc_sessions *sessions);
size_t lmc_sessions_count(lmc_sessions *sessions);

/* Marks the target's objects of the chain's chunks as recently used. */
void lmc_touch_chunks(lmc_l1 *l1, const lmc_touch_target *target, const lmc_chain *chain,
                      size_t chunks);

/* ---- for jobs.c and ledger.c ---- */

/* What is left to do once the lock is dropped: shares to release, memory to free, calls. */
typedef struct lmc_leftovers {
    lmc_hold *holds;
    lmc_session *sessions;
    lmc_waiter *waiters;
    lmc_chain *chain;
    lmc_key_space *job_space, *target_space;
    lmc_job_delivery consumed;
} lmc_leftovers;
void lmc_leftovers_finish(lmc_sessions *sessions, lmc_leftovers *left);

/* With the lock held. find refreshes the last use; open creates when there is none. */
lmc_session *lmc_session_find(lmc_sessions *sessions, lmc_slice id);
lmc_session *lmc_session_open(lmc_sessions *sessions, lmc_slice id, lmc_leftovers *left);
void lmc_session_set_chain(lmc_sessions *sessions, lmc_session *session, lmc_chain *chain,
                           lmc_leftovers *left);
void lmc_session_set_target(lmc_session *session, const lmc_touch_target *target,
                            lmc_leftovers *left);
void lmc_session_set_hold(lmc_sessions *sessions, lmc_session *session, lmc_hold *hold);
/* Leaves the hold to its lease. */
void lmc_session_lease_hold(lmc_sessions *sessions, lmc_session *session);
/* Takes a hold out of all lists, to be released. */
void lmc_session_end_hold(lmc_sessions *sessions, lmc_hold *hold, lmc_leftovers *left);
void lmc_session_set_connection(lmc_sessions *sessions, lmc_session *session,
                                uint64_t connection);
/* Moves a waiter to the leftovers, to be called with this outcome. */
void lmc_waiter_end(lmc_waiter *waiter, lmc_status status, int64_t chunks, lmc_leftovers *left);
/* Ends all waiters of a session: the first with `chunks`, the others with 0. */
void lmc_session_wake(lmc_session *session, int64_t chunks, lmc_leftovers *left);
/* Ends overdue waiters, at most `limit`. Returns how many. */
size_t lmc_waiters_expire(lmc_sessions *sessions, int64_t now, size_t limit,
                          lmc_leftovers *left);
/* The answer of a finished job is delivered: the job ends and its result goes to metrics. */
void lmc_session_consume(lmc_sessions *sessions, lmc_session *session, lmc_leftovers *left);
/* Overwrites what the job knew; its space goes to the leftovers. */
void lmc_session_set_job(lmc_sessions *sessions, lmc_session *session, lmc_job_state state,
                         const lmc_job_result *job, lmc_leftovers *left);

#endif
