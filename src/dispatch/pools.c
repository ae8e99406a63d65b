#include "dispatch/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "dispatch/call.h"

#define LMC_LOGGER "lmcache.dispatch"
#define THREADS_MAX 4096u

typedef struct lmc_lane lmc_lane;

typedef struct lmc_worker {
    lmc_lane *lane;
    lmc_thread thread;
    /* For reports; the exchange itself may be gone by the time somebody looks. */
    _Atomic(const lmc_operation_def *) running;
    _Atomic int64_t since_ns;
} lmc_worker;

typedef struct lmc_list {
    lmc_exchange *first, *last;
    size_t count;
} lmc_list;

/* A queue and the threads that serve it. */
struct lmc_lane {
    lmc_lock lock;
    lmc_cond work, gone;
    lmc_list queue;
    lmc_list held; /* affinity: wait for an earlier one of their connection */
    uint32_t idle, alive;
    bool affinity, stopping;
    uint64_t started;
    lmc_worker *workers;
    uint32_t count;
};

typedef struct lmc_group {
    const char *name;
    lmc_lane *lanes;
    uint32_t count;
} lmc_group;

typedef enum group_index { NORMAL, AFFINITY, OUTSIDE, SERIAL, GROUPS } group_index;

struct lmc_pools {
    lmc_group groups[GROUPS];
    uint32_t next_slot; /* dispatching thread */
};

static void push_last(lmc_list *list, lmc_exchange *x) {
    x->next = NULL;
    if (list->last != NULL)
        list->last->next = x;
    else
        list->first = x;
    list->last = x;
    list->count++;
}

static void push_first(lmc_list *list, lmc_exchange *x) {
    x->next = list->first;
    list->first = x;
    if (list->last == NULL)
        list->last = x;
    list->count++;
}

static lmc_exchange *pop_first(lmc_list *list) {
    lmc_exchange *x = list->first;
    if (x == NULL)
        return NULL;
    list->first = x->next;
    if (x->next == NULL)
        list->last = NULL;
    list->count--;
    return x;
}

/* The oldest of one connection, taken out; NULL: none. */
static lmc_exchange *pop_of_peer(lmc_list *list, const lmc_peer *peer) {
    lmc_exchange *before = NULL;
    for (lmc_exchange *x = list->first; x != NULL; before = x, x = x->next) {
        if (x->peer != peer)
            continue;
        if (before == NULL)
            return pop_first(list);
        before->next = x->next;
        if (list->last == x)
            list->last = before;
        list->count--;
        return x;
    }
    return NULL;
}

/* ---- the threads ---- */

/* Lock held. The next that may run; requests whose connection is busy step aside. */
static lmc_exchange *take_runnable(lmc_lane *lane) {
    lmc_exchange *x;
    while ((x = pop_first(&lane->queue)) != NULL) {
        if (!lane->affinity || x->in_affinity)
            return x;
        if (!x->peer->busy) {
            x->peer->busy = true;
            x->in_affinity = true;
            return x;
        }
        push_last(&lane->held, x);
    }
    return NULL;
}

/* Waits for something to do. NULL: the lane stops and its queue is empty. */
static lmc_exchange *next_exchange(lmc_lane *lane, bool *stopping) {
    lmc_lock_take(&lane->lock);
    lmc_exchange *x;
    while ((x = take_runnable(lane)) == NULL && !lane->stopping) {
        lane->idle++;
        lmc_cond_wait(&lane->work, &lane->lock);
        lane->idle--;
    }
    *stopping = lane->stopping;
    lane->started += x != NULL;
    lmc_lock_drop(&lane->lock);
    return x;
}

static void serve(void *arg) {
    lmc_worker *self = arg;
    lmc_lane *lane = self->lane;
    lmc_exchange *x;
    bool stopping;
    while ((x = next_exchange(lane, &stopping)) != NULL) {
        atomic_store_explicit(&self->since_ns, lmc_now(&lmc_system_clock),
                              memory_order_relaxed);
        atomic_store_explicit(&self->running, x->operation, memory_order_relaxed);
        if (stopping)
            lmc_exchange_refuse(x, LMC_CLOSED);
        else
            lmc_exchange_run(x);
        atomic_store_explicit(&self->running, NULL, memory_order_relaxed);
    }
    lmc_lock_take(&lane->lock);
    lane->alive--;
    lmc_cond_broadcast(&lane->gone);
    lmc_lock_drop(&lane->lock);
}

/* ---- queueing ---- */

static group_index group_of(lmc_place place) {
    switch (place) {
    case LMC_PLACE_AFFINITY:
        return AFFINITY;
    case LMC_PLACE_OUTSIDE:
        return OUTSIDE;
    case LMC_PLACE_SERIAL:
        return SERIAL;
    default:
        return NORMAL;
    }
}

static lmc_lane *lane_of(lmc_pools *pools, lmc_exchange *x) {
    lmc_group *group = &pools->groups[group_of(x->handler->place)];
    if (group != &pools->groups[AFFINITY])
        return &group->lanes[0];
    if (x->peer->slot < 0)
        x->peer->slot = (int32_t)(pools->next_slot++ % group->count);
    return &group->lanes[x->peer->slot];
}

void lmc_pools_submit(lmc_pools *pools, lmc_exchange *x) {
    lmc_lane *lane = lane_of(pools, x);
    x->queued_ns = lmc_now(&lmc_system_clock);
    lmc_lock_take(&lane->lock);
    bool stopping = lane->stopping;
    if (!stopping) {
        push_last(&lane->queue, x);
        if (lane->idle > 0)
            lmc_cond_signal(&lane->work);
    }
    lmc_lock_drop(&lane->lock);
    if (stopping)
        lmc_exchange_refuse(x, LMC_CLOSED);
}

void lmc_pools_end_turn(lmc_pools *pools, lmc_exchange *x) {
    lmc_lane *lane = &pools->groups[AFFINITY].lanes[x->peer->slot];
    lmc_lock_take(&lane->lock);
    x->peer->busy = false;
    lmc_exchange *next = pop_of_peer(&lane->held, x->peer);
    if (next != NULL) {
        /* To the front: later ones of this connection may be in the queue already. */
        push_first(&lane->queue, next);
        if (lane->idle > 0)
            lmc_cond_signal(&lane->work);
    }
    lmc_lock_drop(&lane->lock);
}

static void refuse_list(lmc_list *taken) {
    lmc_exchange *x;
    while ((x = pop_first(taken)) != NULL)
        lmc_exchange_refuse(x, LMC_CLOSED);
}

static void refuse_lane(lmc_lane *lane) {
    lmc_lock_take(&lane->lock);
    lmc_list held = lane->held, queue = lane->queue;
    lane->held = (lmc_list){0};
    lane->queue = (lmc_list){0};
    lmc_lock_drop(&lane->lock);
    refuse_list(&held);
    refuse_list(&queue);
}

void lmc_pools_refuse_queued(lmc_pools *pools) {
    for (size_t g = 0; g < GROUPS; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            refuse_lane(&pools->groups[g].lanes[i]);
    }
}

/* ---- start and stop ---- */

static lmc_status start_lane(lmc_lane *lane, const char *name, uint32_t first, uint32_t threads,
                             lmc_error *error) {
    lmc_lock_init(&lane->lock, LMC_RANK_DISPATCH, name);
    lmc_cond_init(&lane->work);
    lmc_cond_init(&lane->gone);
    lane->affinity = strcmp(name, "affinity") == 0;
    lane->workers = calloc(threads, sizeof *lane->workers);
    if (lane->workers == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the %s pool", name);
    for (uint32_t i = 0; i < threads; i++) {
        char label[16];
        snprintf(label, sizeof label, "lmc-%.6s-%u", name, (first + i) % 10000);
        lane->workers[i].lane = lane;
        lane->alive++; /* before the thread can end */
        lane->count++;
        lmc_status status =
            lmc_thread_start(&lane->workers[i].thread, label, serve, &lane->workers[i], error);
        if (status != LMC_OK) {
            lane->alive--;
            lane->count--;
            return status;
        }
    }
    return LMC_OK;
}

static lmc_status start_group(lmc_group *group, const char *name, uint32_t lanes,
                              uint32_t threads, lmc_error *error) {
    group->name = name;
    group->lanes = calloc(lanes, sizeof *group->lanes);
    if (group->lanes == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the %s pool", name);
    for (uint32_t i = 0; i < lanes; i++) {
        group->count++;
        lmc_status status = start_lane(&group->lanes[i], name, i, threads, error);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

static uint32_t bounded(uint32_t threads) {
    if (threads == 0)
        return 1;
    return threads < THREADS_MAX ? threads : THREADS_MAX;
}

lmc_status lmc_pools_create(const lmc_pools_options *options, const lmc_registry *registry,
                            lmc_pools **pools, lmc_error *error) {
    lmc_pools *made = calloc(1, sizeof *made);
    *pools = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the pools");
    uint32_t normal = bounded(options->normal_threads);
    uint32_t affinity = bounded(options->affinity_threads);
    lmc_status status = start_group(&made->groups[NORMAL], "normal", 1, normal, error);
    if (status == LMC_OK)
        status = start_group(&made->groups[AFFINITY], "affinity", affinity, 1, error);
    if (status == LMC_OK && lmc_registry_uses(registry, LMC_PLACE_OUTSIDE))
        status = start_group(&made->groups[OUTSIDE], "outside", 1, normal, error);
    if (status == LMC_OK && lmc_registry_uses(registry, LMC_PLACE_SERIAL))
        status = start_group(&made->groups[SERIAL], "serial", 1, 1, error);
    if (status != LMC_OK) {
        lmc_pools_stop(made, INT64_MAX);
        lmc_pools_destroy(made);
        *pools = NULL;
    }
    return status;
}

static void tell_to_stop(lmc_lane *lane) {
    lmc_lock_take(&lane->lock);
    lane->stopping = true;
    lmc_cond_broadcast(&lane->work);
    lmc_lock_drop(&lane->lock);
}

static void name_stuck(const lmc_lane *lane, const char *pool) {
    for (uint32_t i = 0; i < lane->count; i++) {
        const lmc_operation_def *running =
            atomic_load_explicit(&lane->workers[i].running, memory_order_relaxed);
        if (running != NULL)
            LMC_ERROR("a handler of '%s' on the %s pool has not returned in time",
                      running->name, pool);
    }
}

static bool await_lane(lmc_lane *lane, const char *pool, int64_t deadline_ns) {
    bool in_time = true;
    lmc_lock_take(&lane->lock);
    while (lane->alive > 0 && in_time) {
        if (deadline_ns == INT64_MAX)
            lmc_cond_wait(&lane->gone, &lane->lock);
        else
            in_time = lmc_cond_wait_until(&lane->gone, &lane->lock, deadline_ns);
    }
    bool gone = lane->alive == 0;
    lmc_lock_drop(&lane->lock);
    if (!gone)
        name_stuck(lane, pool);
    for (uint32_t i = 0; gone && i < lane->count; i++)
        lmc_thread_join(&lane->workers[i].thread);
    return gone;
}

lmc_status lmc_pools_stop(lmc_pools *pools, int64_t deadline_ns) {
    bool gone = true;
    for (size_t g = 0; g < GROUPS; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            tell_to_stop(&pools->groups[g].lanes[i]);
    }
    lmc_pools_refuse_queued(pools);
    for (size_t g = 0; g < GROUPS; g++) {
        for (uint32_t i = 0; i < pools->groups[g].count; i++)
            gone &= await_lane(&pools->groups[g].lanes[i], pools->groups[g].name, deadline_ns);
    }
    return gone ? LMC_OK : LMC_TIMEOUT;
}

void lmc_pools_destroy(lmc_pools *pools) {
    if (pools == NULL)
        return;
    for (size_t g = 0; g < GROUPS; g++) {
        lmc_group *group = &pools->groups[g];
        for (uint32_t i = 0; i < group->count; i++) {
            lmc_cond_fini(&group->lanes[i].work);
            lmc_cond_fini(&group->lanes[i].gone);
            lmc_lock_fini(&group->lanes[i].lock);
            free(group->lanes[i].workers);
        }
        free(group->lanes);
    }
    free(pools);
}

/* ---- reports ---- */

static void report_lane(lmc_lane *lane, int64_t now, lmc_pool_report *report) {
    lmc_lock_take(&lane->lock);
    report->threads += lane->count;
    report->queued += lane->queue.count + lane->held.count;
    report->started += lane->started;
    int64_t waits = lane->queue.first != NULL ? now - lane->queue.first->queued_ns : 0;
    lmc_lock_drop(&lane->lock);
    if (waits > report->oldest_ns)
        report->oldest_ns = waits;
    for (uint32_t i = 0; i < lane->count; i++) {
        lmc_worker *worker = &lane->workers[i];
        const lmc_operation_def *running =
            atomic_load_explicit(&worker->running, memory_order_relaxed);
        if (running == NULL)
            continue;
        report->busy++;
        int64_t since = atomic_load_explicit(&worker->since_ns, memory_order_relaxed);
        if (now - since > report->longest_ns) {
            report->longest_ns = now - since;
            report->longest = running->name;
        }
    }
}

void lmc_pools_each(lmc_pools *pools, void (*visit)(void *arg, const lmc_pool_report *report),
                    void *arg) {
    int64_t now = lmc_now(&lmc_system_clock);
    for (size_t g = 0; g < GROUPS; g++) {
        lmc_group *group = &pools->groups[g];
        if (group->count == 0)
            continue;
        lmc_pool_report report = {.name = group->name};
        for (uint32_t i = 0; i < group->count; i++)
            report_lane(&group->lanes[i], now, &report);
        visit(arg, &report);
    }
}
