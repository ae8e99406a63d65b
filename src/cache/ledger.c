#include "cache/ledger.h"

#include <stdlib.h>
#include <string.h>

/* The session's hold when it is what the key is about; with the lock held. */
static lmc_hold *hold_for(lmc_session *session, const lmc_cache_key *key) {
    lmc_hold *hold = session != NULL ? session->hold : NULL;
    return hold != NULL && lmc_hold_is_for(hold, key) ? hold : NULL;
}

static void end_if_empty(lmc_sessions *sessions, lmc_hold *hold, lmc_leftovers *left) {
    if (hold->shares == 0)
        lmc_session_end_hold(sessions, hold, left);
}

/* Takes a range batch by batch, as long as the session has the hold it had at first. */
typedef struct range_job {
    const lmc_cache_key *key;
    const lmc_chunk_range *range;
    uint32_t shares;
    bool skip_windowed;
    uint64_t generation; /* 0: not known yet */
    lmc_hold_walk walk;
} range_job;

static bool take_batch(lmc_sessions *sessions, range_job *job, lmc_share_list *list) {
    lmc_leftovers left = {0};
    bool more = false;
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, job->key->request_id);
    lmc_hold *hold = hold_for(session, job->key);
    if (hold != NULL && (job->generation == 0 || job->generation == session->generation)) {
        job->generation = session->generation;
        more = lmc_hold_take_range(hold, job->range, job->shares, job->skip_windowed,
                                   &job->walk, list);
        end_if_empty(sessions, hold, &left);
    }
    lmc_lock_drop(&sessions->lock);
    lmc_leftovers_finish(sessions, &left);
    return more;
}

static void take_all(lmc_sessions *sessions, range_job *job) {
    lmc_share_list list;
    list.count = 0;
    for (bool more = true; more;) {
        more = take_batch(sessions, job, &list);
        lmc_share_list_release(sessions->l1, &list);
    }
}

void lmc_ledger_free(lmc_sessions *sessions, const lmc_cache_key *key,
                     const lmc_chunk_range *range, uint32_t shares) {
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, key->request_id);
    bool consumed = session != NULL && session->consumed;
    lmc_lock_drop(&sessions->lock);
    range_job job = {.key = key, .range = range, .shares = shares, .skip_windowed = !consumed};
    if (range->first < range->end)
        take_all(sessions, &job);
}

/* ---- failed retrieves ---- */

static uint64_t claim_of(const lmc_chunk_range *range, int64_t instance_id) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t claim = (uint64_t)instance_id * odd;
    claim = (claim ^ claim >> 29 ^ range->first_rank) * odd;
    claim = (claim ^ claim >> 31 ^ range->first) * odd;
    return (claim ^ claim >> 30 ^ range->end) * odd;
}

/* True when nobody claimed this yet for the session's lookup; with the lock held. */
static bool claim(lmc_session *session, uint64_t claim) {
    for (size_t i = 0; i < session->claim_count; i++) {
        if (session->claims[i] == claim)
            return false;
    }
    if (session->claims == NULL)
        session->claims = malloc(LMC_CLAIMS_MAX * sizeof(*session->claims));
    if (session->claims == NULL || session->claim_count == LMC_CLAIMS_MAX)
        return false; /* the lease releases it */
    session->claims[session->claim_count++] = claim;
    return true;
}

void lmc_ledger_fail(lmc_sessions *sessions, const lmc_hasher *hasher, const lmc_cache_key *key,
                     const lmc_chunk_range *range, int64_t instance_id) {
    lmc_chain *chain = lmc_sessions_chain(sessions, key->request_id);
    bool about = chain != NULL && range->first < range->end &&
                 lmc_chain_matches(hasher, chain, &key->token_ids, range->end);
    range_job job = {.key = key, .range = range, .shares = 1};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, key->request_id);
    const lmc_hold *hold = hold_for(session, key);
    if (about && hold != NULL && lmc_chain_reaches(chain, hold->hit, hold->last_hash) &&
        claim(session, claim_of(range, instance_id)))
        job.generation = session->generation;
    lmc_lock_drop(&sessions->lock);
    lmc_chain_drop(chain);
    if (job.generation != 0)
        take_all(sessions, &job);
}

/* ---- retrieves that succeed ---- */

static void exchange_batch(lmc_sessions *sessions, const lmc_cache_key *key,
                           const lmc_chunk_range *range, const lmc_object_ref *refs,
                           const lmc_place *places, size_t count) {
    lmc_share_list list;
    list.count = 0;
    lmc_leftovers left = {0};
    lmc_lock_take(&sessions->lock);
    lmc_session *session = lmc_session_find(sessions, key->request_id);
    lmc_hold *hold = hold_for(session, key);
    for (size_t i = 0; hold != NULL && i < count; i++) {
        size_t cell = lmc_hold_find(hold, places[i].group, range->first_rank,
                                    range->first + places[i].chunk);
        if (cell != SIZE_MAX && hold->refs[cell] == refs[i])
            lmc_hold_take(hold, cell, 1, &list);
    }
    if (hold != NULL)
        end_if_empty(sessions, hold, &left);
    lmc_lock_drop(&sessions->lock);
    lmc_share_list_release(sessions->l1, &list);
    lmc_leftovers_finish(sessions, &left);
}

void lmc_ledger_exchange(lmc_sessions *sessions, const lmc_cache_key *key,
                         const lmc_chunk_range *range, const lmc_object_ref *refs,
                         const lmc_place *places, size_t count) {
    for (size_t done = 0; done < count; done += LMC_L1_BATCH) {
        size_t batch = count - done < LMC_L1_BATCH ? count - done : LMC_L1_BATCH;
        exchange_batch(sessions, key, range, refs + done, places + done, batch);
    }
}
