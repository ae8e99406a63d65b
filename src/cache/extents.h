/*
 * extents.h: who has which part of the arena, kept outside the arena.
 *
 * A two-level segregated fit over units of the arena's alignment. Every extent has a record of
 * 24 bytes with its neighbours, so taking, giving back and merging take constant time and
 * nothing is ever written into the arena, whose pages belong to clients. The heap grows at its
 * end as pages are supplied; what is not supplied yet is either beyond the end or in an extent
 * that the supplier holds.
 *
 * Owned by L1, used under its lock; start and size of an extent may be read without it by
 * whoever holds the extent.
 */
#ifndef LMC_CACHE_EXTENTS_H
#define LMC_CACHE_EXTENTS_H

#include "cache/slab.h"

#define LMC_EXTENT_UNITS_MAX (UINT32_C(1) << 30)

typedef struct lmc_extent {
    uint32_t start;         /* first unit */
    uint32_t units;         /* size; the top bit says that the extent is free */
    uint32_t before, after; /* neighbours, 0 = end of the heap */
    union {
        struct {
            uint32_t prev, next; /* in the free list of its class */
        } list;
        uint64_t size; /* the holder's: logical bytes */
    };
} lmc_extent;

#define LMC_EXTENT_FREE UINT32_C(0x80000000)
#define LMC_EXTENT_FINE_BITS 5 /* classes per power of two: 32, so a class spans about 3 % */
#define LMC_EXTENT_COARSE (32 - LMC_EXTENT_FINE_BITS)

typedef struct lmc_extents {
    lmc_slab slab;
    uint32_t last;       /* extent at the end of the heap */
    uint32_t heap_units; /* the heap is [0, heap_units) */
    uint32_t free_units, taken_units;
    uint32_t max_units;
    uint64_t changes; /* mutations so far */
    uint32_t coarse_map;
    uint32_t fine_map[LMC_EXTENT_COARSE];
    uint32_t heads[LMC_EXTENT_COARSE][1 << LMC_EXTENT_FINE_BITS];
} lmc_extents;

lmc_status lmc_extents_init(lmc_extents *extents, uint32_t max_units);
void lmc_extents_fini(lmc_extents *extents);

static inline lmc_extent *lmc_extent_at(const lmc_extents *extents, uint32_t index) {
    return lmc_slab_at(&extents->slab, index);
}
static inline uint32_t lmc_extent_units(const lmc_extent *extent) {
    return extent->units & ~LMC_EXTENT_FREE;
}

/* Makes the heap longer by an extent that the caller holds; 0 = out of memory. */
uint32_t lmc_extents_grow(lmc_extents *extents, uint32_t units);
/* An extent of exactly `units`; 0 = nothing fits, or out of memory for the record of the rest.
 */
uint32_t lmc_extents_take(lmc_extents *extents, uint32_t units);
void lmc_extents_give(lmc_extents *extents, uint32_t index);

/* Constant time: the counters add up. */
bool lmc_extents_balance(const lmc_extents *extents);

/*
 * The full check, in steps so that nobody needs to hold the lock for long. Start with a zeroed
 * walk; call until `done`. When the heap changed between two steps the walk ends there, and
 * only the counters have been compared.
 */
typedef struct lmc_extents_walk {
    uint32_t at; /* slab index */
    uint64_t changes;
    uint64_t free_units, taken_units;
    bool done;
} lmc_extents_walk;
bool lmc_extents_check(const lmc_extents *extents, lmc_extents_walk *walk, uint32_t steps);

size_t lmc_extents_bytes(const lmc_extents *extents);

#endif
