/*
 * ledger.h: the operations that take shares out of a session's hold (D5, storage.md 4.6-4.9).
 *
 * Each names a session and touches the hold of that session only, for what it still has. Works
 * in batches: the lock of sessions.h is held for one batch of cells, L1 is called in between.
 */
#ifndef LMC_CACHE_LEDGER_H
#define LMC_CACHE_LEDGER_H

#include "cache/sessions.h"

/*
 * FREE_LOOKUP_LOCKS: gives back up to `shares` of each cell in the range; groups with a window
 * only once the result was consumed.
 */
void lmc_ledger_free(lmc_sessions *sessions, const lmc_cache_key *key,
                     const lmc_chunk_range *range, uint32_t shares);

/*
 * A failed retrieve gives back one share per cell of its range, once per (lookup, instance,
 * range): a retry releases nothing. Only when the hold is about the tokens of `key`.
 */
void lmc_ledger_fail(lmc_sessions *sessions, const lmc_hasher *hasher, const lmc_cache_key *key,
                     const lmc_chunk_range *range, int64_t instance_id);

/* Where an object of a transfer belongs: its group, and its chunk counted from the range's
 * start. */
typedef struct lmc_place {
    uint32_t group, chunk;
} lmc_place;

/*
 * The caller holds a share of each of these objects for its own transfer: in exchange one share
 * of the same object, where the session has one, goes back.
 */
void lmc_ledger_exchange(lmc_sessions *sessions, const lmc_cache_key *key,
                         const lmc_chunk_range *range, const lmc_object_ref *refs,
                         const lmc_place *places, size_t count);

#endif
