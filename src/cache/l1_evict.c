#include "cache/l1_internal.h"

#define ROUND_BATCH 32     /* objects per hold: lookups that wait for it notice little */
#define SWEEP_RECORDS 1024 /* chunk records looked at per hold of the lock */

uint32_t lmc_l1_evict_oldest(lmc_l1 *l1, uint32_t *budget, lmc_tally *evicted) {
    uint32_t chunk = lmc_object_table_victim(&l1->table, budget);
    if (chunk == 0)
        return 0;
    lmc_key_space *space =
        lmc_key_spaces_at(&l1->spaces, lmc_chunk_at(&l1->table, chunk)->space);
    lmc_tally_add(evicted, space, lmc_chunk_at(&l1->table, chunk)->objects);
    lmc_tally_see_chunk(evicted, l1, chunk, false);
    uint32_t count = lmc_chunk_sweep(&l1->table, chunk);
    *budget -= count < *budget ? count : *budget;
    return count;
}

static bool is_at_watermark(const lmc_l1 *l1) {
    return (double)lmc_l1_used(l1) >= l1->watermark * (double)l1->capacity;
}

/* A share of the number of keys, at least one (storage.md 5.1). */
static uint64_t round_target(const lmc_l1 *l1) {
    uint64_t tracked = l1->table.aged ? l1->table.resident + l1->table.staging : 0;
    if (tracked == 0 || !(l1->eviction_ratio > 0))
        return 0;
    double share = (double)tracked * l1->eviction_ratio;
    return share < 1 ? 1 : (uint64_t)share;
}

/* One hold of the lock. False: nothing more can go. */
static bool evict_some(lmc_l1 *l1, uint64_t *target, lmc_tally *evicted) {
    uint32_t budget = ROUND_BATCH;
    while (*target != 0 && budget != 0) {
        uint32_t count = lmc_l1_evict_oldest(l1, &budget, evicted);
        if (count == 0)
            return budget == 0;
        *target -= count < *target ? count : *target;
    }
    return true;
}

void lmc_l1_evict_round(lmc_l1 *l1) {
    lmc_tally evicted;
    lmc_tally_init(&evicted, l1, LMC_L1_EVICTED);
    lmc_l1_enter(l1);
    bool triggered = is_at_watermark(l1);
    uint64_t target = triggered ? round_target(l1) : 0;
    lmc_l1_leave(l1);
    for (bool more = true; more && target != 0;) {
        lmc_l1_enter(l1);
        more = evict_some(l1, &target, &evicted);
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &evicted, l1->observer.evicted);
        if (more && target != 0)
            lmc_l1_rest();
    }
    if (l1->observer.eviction_tick != NULL)
        l1->observer.eviction_tick(l1->observer.arg, triggered);
}

/* One hold of the lock over chunk records from `at`; returns where to go on. */
static uint32_t sweep_some(lmc_l1 *l1, uint32_t at, uint32_t top, bool force,
                           lmc_tally *evicted) {
    lmc_object_table *table = &l1->table;
    uint32_t end = top - at > SWEEP_RECORDS ? at + SWEEP_RECORDS : top;
    for (uint32_t budget = LMC_L1_BATCH; at < end && budget != 0; at++) {
        const lmc_chunk *chunk = lmc_chunk_at(table, at);
        if (chunk->objects == 0 || (chunk->mark & LMC_CHUNK_DETACHED) != 0)
            continue;
        if (force && lmc_chunk_is_current(table, chunk))
            continue;
        lmc_key_space *space = lmc_key_spaces_at(&l1->spaces, chunk->space);
        uint32_t objects = chunk->objects;
        lmc_tally_add(evicted, space, 0); /* holds the space while its chunk may go */
        lmc_tally_see_chunk(evicted, l1, at, lmc_chunk_is_current(table, chunk));
        lmc_tally_add(evicted, space, lmc_chunk_sweep(table, at));
        budget -= objects < budget ? objects : budget;
    }
    return at;
}

void lmc_l1_clear(lmc_l1 *l1, bool force) {
    lmc_tally evicted;
    lmc_tally_init(&evicted, l1, LMC_L1_EVICTED);
    lmc_l1_enter(l1);
    if (force)
        lmc_object_table_advance(&l1->table);
    uint32_t top = l1->table.chunks.top;
    lmc_l1_leave(l1);
    for (uint32_t at = 1; at < top;) {
        lmc_l1_enter(l1);
        at = sweep_some(l1, at, top, force, &evicted);
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &evicted, l1->observer.evicted);
        lmc_l1_pause(l1);
    }
}
