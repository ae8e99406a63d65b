/*
 * l1_internal.h: what the l1*.c files share.
 *
 * l1.c builds and reports, l1_read.c holds and lets go, l1_write.c reserves and commits,
 * l1_evict.c evicts and clears. Everything in lmc_l1 below `lock` is used under it.
 */
#ifndef LMC_CACHE_L1_INTERNAL_H
#define LMC_CACHE_L1_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "cache/extents.h"
#include "cache/key_space.h"
#include "cache/l1.h"
#include "cache/object_table.h"
#include "cache/page_supply.h"
#include "cache/pool.h"

struct lmc_l1 {
    lmc_l1_observer observer;
    double watermark, eviction_ratio;
    uint64_t unit; /* bytes of a heap unit: the alignment, or a multiple for huge heaps */
    uint64_t capacity;
    lmc_pool pool;
    _Atomic uint32_t waiting; /* threads that found the lock taken */
    lmc_lock lock;
    lmc_extents extents;
    lmc_key_spaces spaces;
    lmc_object_table table;
    lmc_page_supply supply;
};

/* Create with pages from somewhere else; tests only. */
lmc_status lmc_l1_create_from(const lmc_l1_config *config, const lmc_page_source *source,
                              const lmc_clock *clock, const lmc_l1_observer *observer,
                              lmc_l1 **l1, lmc_error *error);

/*
 * The lock, fairly: who works through many batches calls lmc_l1_pause() between them, so that a
 * thread that waited gets its turn. Who is in no hurry rests instead: a thread that sleeps
 * between holds is seldom at the end of its time slice, where it would be preempted with the
 * lock.
 */
void lmc_l1_enter(lmc_l1 *l1);
void lmc_l1_leave(lmc_l1 *l1);
void lmc_l1_pause(lmc_l1 *l1);
void lmc_l1_rest(void);

/* References as callers keep them. The way back aborts on a stale one in debug builds. */
lmc_object_ref lmc_l1_ref(const lmc_l1 *l1, uint32_t object);
uint32_t lmc_l1_object(const lmc_l1 *l1, lmc_object_ref ref);

/*
 * Counts per key space, gathered under the lock and reported to an observer after it. At most
 * one row per object of a batch. Holds its spaces. When somebody wants to know, also the
 * objects themselves, in memory of their own until they are reported.
 */
typedef struct lmc_tally {
    size_t used;
    uint32_t wanted; /* those of `what` that somebody wants to know */
    struct {
        lmc_l1_sight *items;
        size_t count, room;
    } sights;
    struct {
        lmc_key_space *space;
        size_t count;
    } rows[LMC_L1_BATCH];
} lmc_tally;

typedef void (*lmc_tally_call)(void *arg, lmc_slice text, size_t count);

static inline bool lmc_l1_wants(const lmc_l1 *l1, uint32_t what) {
    return l1->observer.interest != NULL &&
           (atomic_load_explicit(l1->observer.interest, memory_order_relaxed) & what) != 0;
}
/* `what` may be several, which are told one after the other. */
void lmc_tally_init(lmc_tally *tally, const lmc_l1 *l1, uint32_t what);
void lmc_tally_add(lmc_tally *tally, lmc_key_space *space, size_t count);
/* Under the lock: an object, or all resident ones of a chunk (and if `idle`, those that nobody
 * holds), before they go. Does nothing when nobody wants to know. */
void lmc_tally_see(lmc_tally *tally, lmc_l1 *l1, uint32_t object);
void lmc_tally_see_chunk(lmc_tally *tally, lmc_l1 *l1, uint32_t chunk, bool idle);
lmc_key_space *lmc_l1_space_of(const lmc_l1 *l1, uint32_t object);
/* Without the lock. Passes the salt, or the model; empties the tally. */
void lmc_tally_report_salt(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call);
void lmc_tally_report_model(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call);

/*
 * Under the lock: evicts the oldest chunk that can go. Costs one of the budget per chunk looked
 * at and per object evicted. Returns the objects evicted; 0 = none can go, or the budget ran
 * out.
 */
uint32_t lmc_l1_evict_oldest(lmc_l1 *l1, uint32_t *budget, lmc_tally *evicted);

/* Under the lock: bytes that objects occupy. */
uint64_t lmc_l1_used(const lmc_l1 *l1);

#endif
