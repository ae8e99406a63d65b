#include "dispatch/pools.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "dispatch/lane.h"

#define THREADS_MAX 4096u
#define OWED_MAX 32u /* requests that wait for one wake-up */

typedef struct lmc_group {
    const char *name;
    lmc_lane *lanes;
    uint32_t count;
} lmc_group;

/* Pools of modules follow. */
typedef enum group_index { NORMAL, AFFINITY, OUTSIDE, SERIAL, PRIVATE } group_index;

struct lmc_pools {
    lmc_group *groups;
    size_t group_count;
    _Atomic uint32_t next_slot;
    lmc_lane *owed; /* the dispatching thread: lanes that are due a wake-up */
};

/* ---- queueing ---- */

static size_t group_of(const lmc_handler *handler) {
    switch (handler->place) {
    case LMC_PLACE_AFFINITY:
        return AFFINITY;
    case LMC_PLACE_OUTSIDE:
        return OUTSIDE;
    case LMC_PLACE_SERIAL:
        return SERIAL;
    case LMC_PLACE_PRIVATE:
        return PRIVATE + (size_t)handler->pool;
    default:
        return NORMAL;
    }
}

static lmc_lane *lane_of(lmc_pools *pools, lmc_exchange *x) {
    lmc_group *group = &pools->groups[group_of(x->handler)];
    if (group->count == 1 && group != &pools->groups[AFFINITY])
        return &group->lanes[0];
    int32_t slot = atomic_load_explicit(&x->peer->slot, memory_order_relaxed);
    if (slot < 0) {
        uint32_t lanes = pools->groups[AFFINITY].count;
        int32_t next = (int32_t)(atomic_fetch_add(&pools->next_slot, 1) % lanes);
        if (atomic_compare_exchange_strong(&x->peer->slot, &slot, next))
            slot = next;
    }
    return &group->lanes[(uint32_t)slot % group->count];
}

void lmc_pools_submit(lmc_pools *pools, lmc_exchange *x) {
    lmc_lane *lane = lane_of(pools, x);
    if (lmc_lane_push(lane, x))
        lmc_lane_wake(lane, 1);
}

void lmc_pools_submit_later(lmc_pools *pools, lmc_exchange *x) {
    lmc_lane *lane = lane_of(pools, x);
    if (!lmc_lane_push(lane, x))
        return;
    if (lane->owed++ == 0) {
        lane->next_owed = pools->owed;
        pools->owed = lane;
    }
    if (lane->owed == OWED_MAX)
        lmc_pools_flush(pools);
}

void lmc_pools_flush(lmc_pools *pools) {
    while (pools->owed != NULL) {
        lmc_lane *lane = pools->owed;
        pools->owed = lane->next_owed;
        uint32_t owed = lane->owed;
        lane->owed = 0;
        lmc_lane_wake(lane, owed);
    }
}

void lmc_pools_end_turn(lmc_pools *pools, lmc_exchange *x) {
    lmc_lane_end_turn(&pools->groups[AFFINITY].lanes[x->peer->slot], x);
}

static void each_lane(lmc_pools *pools, void (*visit)(lmc_lane *lane)) {
    for (size_t g = 0; g < pools->group_count; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            visit(&pools->groups[g].lanes[i]);
    }
}

void lmc_pools_refuse_queued(lmc_pools *pools) { each_lane(pools, lmc_lane_refuse); }

/* ---- start and stop ---- */

static lmc_status start_group(lmc_group *group, uint32_t lanes, const lmc_lane_options *options,
                              lmc_error *error) {
    group->name = options->pool;
    group->lanes = calloc(lanes, sizeof *group->lanes);
    if (group->lanes == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the %s pool", options->pool);
    lmc_status status = LMC_OK;
    for (uint32_t i = 0; i < lanes && status == LMC_OK; i++) {
        group->count++;
        status = lmc_lane_init(&group->lanes[i], options, i, error);
    }
    return status;
}

static uint32_t bounded(uint32_t threads) {
    if (threads == 0)
        return 1;
    return threads < THREADS_MAX ? threads : THREADS_MAX;
}

static lmc_status start_private(lmc_pools *pools, const lmc_registry *registry,
                                lmc_error *error) {
    lmc_status status = LMC_OK;
    uint32_t count = lmc_registry_pool_count(registry);
    for (uint32_t i = 0; i < count && status == LMC_OK; i++) {
        const lmc_private_pool *pool = lmc_registry_pool(registry, i);
        uint32_t threads = bounded(pool->threads);
        lmc_lane_options lane = {pool->name, pool->affinity ? 1 : threads, false, false};
        status = start_group(&pools->groups[PRIVATE + i], pool->affinity ? threads : 1, &lane,
                             error);
    }
    return status;
}

static lmc_status start(lmc_pools *pools, const lmc_pools_options *options,
                        const lmc_registry *registry, lmc_error *error) {
    lmc_group *groups = pools->groups;
    uint32_t threads = bounded(options->normal_threads);
    uint32_t lanes = bounded(options->affinity_threads);
    lmc_lane_options normal = {"normal", threads, false, true};
    lmc_lane_options affinity = {"affinity", 1, true, true};
    lmc_lane_options outside = {"outside", threads, false, false};
    lmc_lane_options serial = {"serial", 1, false, false};
    lmc_status status = start_group(&groups[NORMAL], 1, &normal, error);
    if (status == LMC_OK)
        status = start_group(&groups[AFFINITY], lanes, &affinity, error);
    if (status == LMC_OK && lmc_registry_uses(registry, LMC_PLACE_OUTSIDE))
        status = start_group(&groups[OUTSIDE], 1, &outside, error);
    if (status == LMC_OK && lmc_registry_uses(registry, LMC_PLACE_SERIAL))
        status = start_group(&groups[SERIAL], 1, &serial, error);
    if (status == LMC_OK)
        status = start_private(pools, registry, error);
    return status;
}

lmc_status lmc_pools_create(const lmc_pools_options *options, const lmc_registry *registry,
                            lmc_pools **pools, lmc_error *error) {
    lmc_pools *made = calloc(1, sizeof *made);
    *pools = made;
    if (made != NULL) {
        made->group_count = PRIVATE + (size_t)lmc_registry_pool_count(registry);
        made->groups = calloc(made->group_count, sizeof *made->groups);
    }
    if (made == NULL || made->groups == NULL) {
        free(made);
        *pools = NULL;
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the pools");
    }
    lmc_status status = start(made, options, registry, error);
    if (status != LMC_OK) {
        lmc_pools_stop(made, INT64_MAX);
        lmc_pools_destroy(made);
        *pools = NULL;
    }
    return status;
}

lmc_status lmc_pools_stop(lmc_pools *pools, int64_t deadline_ns) {
    bool gone = true;
    if (pools == NULL)
        return LMC_OK;
    each_lane(pools, lmc_lane_tell_to_stop);
    lmc_pools_refuse_queued(pools);
    for (size_t g = 0; g < pools->group_count; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            gone &= lmc_lane_await(&pools->groups[g].lanes[i], deadline_ns);
    }
    return gone ? LMC_OK : LMC_TIMEOUT;
}

void lmc_pools_destroy(lmc_pools *pools) {
    if (pools == NULL)
        return;
    each_lane(pools, lmc_lane_fini);
    for (size_t g = 0; g < pools->group_count; g++)
        free(pools->groups[g].lanes);
    free(pools->groups);
    free(pools);
}

/* ---- reports ---- */

void lmc_pools_each(lmc_pools *pools, void (*visit)(void *arg, const lmc_pool_report *report),
                    void *arg) {
    int64_t now = lmc_now(&lmc_system_clock);
    for (size_t g = 0; pools != NULL && g < pools->group_count; g++) {
        lmc_group *group = &pools->groups[g];
        if (group->count == 0)
            continue;
        lmc_pool_report report = {.name = group->name};
        for (uint32_t i = 0; i < group->count; i++)
            lmc_lane_report(&group->lanes[i], now, &report);
        visit(arg, &report);
    }
}

void lmc_pools_watch(lmc_pools *pools, const lmc_pools_watch_options *options) {
    int64_t now = lmc_now(&lmc_system_clock);
    for (size_t g = 0; pools != NULL && g < pools->group_count; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            lmc_lane_watch(&pools->groups[g].lanes[i], now, options);
    }
}
