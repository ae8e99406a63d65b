#include "cache/page_supply.h"

#include <pthread.h>
#include <sched.h>

#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.storage"
#define CLAIM_BYTES (UINT64_C(4) << 20)
#define BUDGET_BYTES (UINT64_C(64) << 20)
#define AHEAD_BYTES (UINT64_C(512) << 20)
#define SHORT_NS (10 * LMC_NS_PER_S)

/*
 * The thread runs at the lowest priority only while it asks the kernel for pages: preempted
 * there it keeps nobody waiting, preempted with L1's lock it would.
 */
static void set_idle(bool idle) {
    struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), idle ? SCHED_IDLE : SCHED_OTHER, &none);
}

static uint32_t to_units(const lmc_page_supply *supply, uint64_t bytes) {
    uint64_t units = (bytes + supply->config.unit - 1) / supply->config.unit;
    return units < supply->total_units ? (uint32_t)units : supply->total_units;
}

/* Claims end at page boundaries, so that no page belongs to two of them. */
static uint32_t whole_pages(const lmc_page_supply *supply, uint32_t units) {
    uint32_t page = to_units(supply, supply->config.page_size);
    uint64_t rounded = ((uint64_t)units + page - 1) / page * page;
    return rounded < supply->total_units ? (uint32_t)rounded : supply->total_units;
}

/* (locked) A range to supply: one that failed before, else the heap grows; 0 = none. */
static uint32_t claim(lmc_page_supply *supply, uint32_t units) {
    if (lmc_now(supply->clock) < supply->short_until_ns)
        return 0;
    uint32_t index = supply->holes;
    if (index != 0) {
        const lmc_extent *hole = lmc_extent_at(supply->extents, index);
        supply->holes = hole->list.next;
        supply->hole_units -= hole->units;
        supply->pending_units += hole->units;
        return index;
    }
    uint32_t remaining = supply->total_units - supply->extents->heap_units;
    units = whole_pages(supply, units < supply->claim_units ? supply->claim_units : units);
    if (units > remaining)
        units = remaining;
    index = units != 0 ? lmc_extents_grow(supply->extents, units) : 0;
    if (index != 0)
        supply->pending_units += units;
    return index;
}

/* (locked) */
static void settle(lmc_page_supply *supply, uint32_t index, bool supplied) {
    lmc_extent *extent = lmc_extent_at(supply->extents, index);
    supply->pending_units -= extent->units;
    if (supplied) {
        lmc_extents_give(supply->extents, index);
    } else {
        extent->list.next = supply->holes;
        supply->holes = index;
        supply->hole_units += extent->units;
        supply->short_until_ns = lmc_now(supply->clock) + SHORT_NS;
    }
    lmc_cond_broadcast(&supply->progress);
}

/* (locked) Whether a range may be taken from what the machine has left; may drop the lock. */
static bool may_use(lmc_page_supply *supply, uint64_t length) {
    if (supply->budget < length) {
        lmc_lock_drop(supply->lock);
        uint64_t left = supply->source.left(supply->source.arg);
        lmc_lock_take(supply->lock);
        uint64_t spare = left > supply->config.keep_left ? left - supply->config.keep_left : 0;
        supply->budget = spare;
        if (spare >= length && spare - length > BUDGET_BYTES)
            supply->budget = length + BUDGET_BYTES;
    }
    if (supply->budget < length)
        return false;
    supply->budget -= length;
    return true;
}

/* (locked) Tells once that L1 stays smaller than asked for; may drop the lock. */
static void warn_short(lmc_page_supply *supply) {
    if (supply->warned)
        return;
    supply->warned = true;
    uint64_t have = (uint64_t)(supply->extents->heap_units - lmc_page_supply_missing(supply)) *
                    supply->config.unit;
    lmc_lock_drop(supply->lock);
    LMC_WARNING("No more memory for L1: it has %llu of %llu bytes for now",
                (unsigned long long)have, (unsigned long long)supply->config.capacity);
    lmc_lock_take(supply->lock);
}

/* (locked) Gives a claimed range its pages; drops the lock meanwhile. */
static bool provide(lmc_page_supply *supply, uint32_t index, bool idle) {
    const lmc_extent *extent = lmc_extent_at(supply->extents, index);
    uint64_t offset = (uint64_t)extent->start * supply->config.unit;
    uint64_t length = (uint64_t)extent->units * supply->config.unit;
    bool supplied = may_use(supply, length);
    if (supplied) {
        lmc_lock_drop(supply->lock);
        if (idle)
            set_idle(true);
        supplied = supply->source.supply(supply->source.arg, offset, length) == LMC_OK;
        if (idle)
            set_idle(false);
        lmc_lock_take(supply->lock);
    }
    settle(supply, index, supplied);
    if (!supplied)
        warn_short(supply);
    return supplied;
}

/* (locked) */
static bool is_low(const lmc_page_supply *supply) {
    uint32_t heap = supply->extents->heap_units;
    if (heap == supply->total_units && supply->holes == 0)
        return false;
    if (heap - supply->hole_units < to_units(supply, supply->config.init_size))
        return true;
    return supply->extents->free_units + supply->pending_units < supply->ahead_units;
}

static void run(void *arg) {
    lmc_page_supply *supply = arg;
    lmc_lock_take(supply->lock);
    while (!supply->stopping) {
        uint32_t index = is_low(supply) ? claim(supply, supply->claim_units) : 0;
        if (index != 0) {
            (void)provide(supply, index, true);
            continue;
        }
        supply->sleeping = true;
        lmc_cond_wait(&supply->wake, supply->lock);
        supply->sleeping = false;
        supply->wakeups++;
    }
    lmc_lock_drop(supply->lock);
}

lmc_status lmc_page_supply_start(lmc_page_supply *supply, const lmc_page_supply_config *config,
                                 const lmc_page_source *source, const lmc_clock *clock,
                                 lmc_lock *lock, lmc_extents *extents, lmc_error *error) {
    *supply = (lmc_page_supply){.config = *config,
                                .source = *source,
                                .clock = clock,
                                .lock = lock,
                                .extents = extents,
                                .total_units = extents->max_units,
                                .short_until_ns = INT64_MIN};
    uint64_t ahead = config->capacity / 8 < AHEAD_BYTES ? config->capacity / 8 : AHEAD_BYTES;
    supply->claim_units = whole_pages(supply, to_units(supply, CLAIM_BYTES));
    supply->ahead_units = to_units(supply, ahead);
    if (supply->ahead_units < supply->claim_units)
        supply->ahead_units = supply->claim_units;
    lmc_cond_init(&supply->wake);
    lmc_cond_init(&supply->progress);
    lmc_status status = lmc_thread_start(&supply->thread, "lmc-pages", run, supply, error);
    if (status != LMC_OK) {
        lmc_cond_fini(&supply->wake);
        lmc_cond_fini(&supply->progress);
    }
    return status;
}

void lmc_page_supply_stop(lmc_page_supply *supply) {
    lmc_lock_take(supply->lock);
    supply->stopping = true;
    lmc_cond_broadcast(&supply->wake);
    lmc_cond_broadcast(&supply->progress);
    lmc_lock_drop(supply->lock);
    lmc_thread_join(&supply->thread);
    lmc_cond_fini(&supply->wake);
    lmc_cond_fini(&supply->progress);
}

void lmc_page_supply_check(lmc_page_supply *supply) {
    if (supply->sleeping && is_low(supply) && lmc_now(supply->clock) >= supply->short_until_ns)
        lmc_cond_signal(&supply->wake);
}

bool lmc_page_supply_more(lmc_page_supply *supply, uint32_t units) {
    bool more = false;
    lmc_lock_take(supply->lock);
    for (;;) {
        uint32_t index = claim(supply, units);
        if (index != 0 && provide(supply, index, false)) {
            more = true;
            break;
        }
        if (index != 0)
            continue;
        more = supply->pending_units != 0;
        if (more)
            lmc_cond_wait(&supply->progress, supply->lock);
        break;
    }
    lmc_lock_drop(supply->lock);
    return more;
}
