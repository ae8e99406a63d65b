/*
 * page_supply.h: gives pages to the heap before L1 hands them out.
 *
 * The heap (extents.h) grows only by ranges that have their pages, so no access to an object
 * can fail. One thread of lowest priority supplies: everything when eager, the initial size and
 * then ahead of demand when lazy. It sleeps when there is nothing to do and never wakes by
 * itself. An allocation that finds no room supplies its own range on its own thread. A range
 * that gets no pages, or would eat what the machine needs, ends supply for a while; the next
 * shortage after that tries again.
 *
 * Owned by L1. Functions marked (locked) are called under its lock, the others without.
 */
#ifndef LMC_CACHE_PAGE_SUPPLY_H
#define LMC_CACHE_PAGE_SUPPLY_H

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "cache/extents.h"
#include "cache/pool.h"

/* Where pages come from and how much memory is left; replaced by tests. */
typedef struct lmc_page_source {
    lmc_status (*supply)(void *arg, uint64_t offset, uint64_t length);
    uint64_t (*left)(void *arg); /* UINT64_MAX = not known */
    void *arg;
} lmc_page_source;

typedef struct lmc_page_supply_config {
    uint64_t unit;     /* bytes of a heap unit */
    uint64_t capacity; /* bytes */
    uint64_t page_size;
    uint64_t init_size; /* bytes to supply at once; the whole capacity when eager */
    uint64_t keep_left; /* bytes of the machine's memory that are not touched */
} lmc_page_supply_config;

typedef struct lmc_page_supply {
    lmc_page_supply_config config;
    lmc_page_source source;
    const lmc_clock *clock;
    lmc_lock *lock; /* L1's */
    lmc_extents *extents;
    lmc_cond wake, progress;
    lmc_thread thread;
    bool stopping, sleeping, warned;
    uint64_t wakeups;
    uint32_t total_units;
    uint32_t claim_units;   /* size of a claim of the thread */
    uint32_t ahead_units;   /* free memory that the thread keeps ready */
    uint32_t pending_units; /* claimed, being supplied */
    uint32_t hole_units;    /* claimed, without pages */
    uint32_t holes;         /* their extents, chained */
    uint64_t budget;        /* bytes that may be supplied before looking at what is left */
    int64_t short_until_ns; /* no claims before this */
} lmc_page_supply;

lmc_status lmc_page_supply_start(lmc_page_supply *supply, const lmc_page_supply_config *config,
                                 const lmc_page_source *source, const lmc_clock *clock,
                                 lmc_lock *lock, lmc_extents *extents, lmc_error *error);
void lmc_page_supply_stop(lmc_page_supply *supply);

/* (locked) Something was allocated: wakes the thread if free memory ran low. */
void lmc_page_supply_check(lmc_page_supply *supply);
/* Supplies at least `units` on this thread. False: no more memory can be had. */
bool lmc_page_supply_more(lmc_page_supply *supply, uint32_t units);

/* (locked) Units of the heap that are not memory. */
static inline uint32_t lmc_page_supply_missing(const lmc_page_supply *supply) {
    return supply->pending_units + supply->hole_units;
}

#endif
