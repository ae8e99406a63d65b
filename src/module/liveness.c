#include "module/liveness.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "module/liveness_member.h"

#define LMC_LOGGER "lmcache.liveness"

struct lmc_liveness_set {
    _Atomic(lmc_liveness_member *) first;
    lmc_liveness_member *last; /* main thread */
    atomic_size_t members, outside;

    lmc_lock lock;
    lmc_cond changed;
    lmc_thread reaper; /* lmcache-mp-worker-reaper, as far as a thread name is long */
    bool running, stopping;
    int64_t timeout_ns, grace_ns;
    int64_t last_run_ns;
    uint64_t runs;
};

lmc_liveness_set *lmc_liveness_create(void) {
    lmc_liveness_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return NULL;
    lmc_lock_init(&set->lock, LMC_RANK_MODULES, "liveness");
    lmc_cond_init(&set->changed);
    return set;
}

void lmc_liveness_destroy(lmc_liveness_set *set) {
    if (set == NULL)
        return;
    if (!lmc_liveness_stop(set, 0))
        return; /* a thread is still in a module; its memory must stay */
    for (lmc_liveness_member *member = set->first; member != NULL;) {
        lmc_liveness_member *next = member->next;
        lmc_liveness_member_destroy(member);
        member = next;
    }
    lmc_cond_fini(&set->changed);
    lmc_lock_fini(&set->lock);
    free(set);
}

lmc_status lmc_liveness_add(lmc_liveness_set *set, const char *name, const lmc_liveness *table,
                            void *self, bool outside, lmc_error *error) {
    if (table->touch_instance == NULL || table->reap_stale_instances == NULL ||
        table->tracked_instance_count == NULL || table->drop_instance_state == NULL)
        return lmc_error_set(error, LMC_INVALID, "%s has an incomplete liveness table", name);
    lmc_liveness_member *member = lmc_liveness_member_create(name, table, self, outside);
    if (member == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the liveness of %s", name);
    if (set->last != NULL)
        atomic_store(&set->last->next, member);
    else
        atomic_store(&set->first, member);
    set->last = member;
    atomic_fetch_add(&set->members, 1);
    if (outside)
        atomic_fetch_add(&set->outside, 1);
    return LMC_OK;
}

size_t lmc_liveness_members(const lmc_liveness_set *set) { return atomic_load(&set->members); }

bool lmc_liveness_has_outside(const lmc_liveness_set *set) {
    return atomic_load_explicit(&set->outside, memory_order_relaxed) > 0;
}

int64_t lmc_liveness_tracked(lmc_liveness_set *set) {
    int64_t sum = 0;
    lmc_lock_assert_none();
    for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
        sum += m->table->tracked_instance_count(m->self);
    return sum;
}

void lmc_liveness_touch(lmc_liveness_set *set, int64_t instance_id) {
    if (!lmc_liveness_has_outside(set))
        return;
    for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
        if (m->outside)
            lmc_liveness_member_post(m, instance_id, false);
}

typedef struct found_ids {
    int64_t *items;
    size_t count, capacity;
    bool lost;
} found_ids;

static void remember_id(void *arg, int64_t instance_id) {
    found_ids *ids = arg;
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity > 0 ? 2 * ids->capacity : 16;
        int64_t *items = realloc(ids->items, capacity * sizeof *items);
        if (items == NULL) {
            ids->lost = true;
            return;
        }
        ids->items = items;
        ids->capacity = capacity;
    }
    ids->items[ids->count++] = instance_id;
}

void lmc_liveness_scan(lmc_liveness_set *set, int64_t timeout_ns, int64_t grace_ns) {
    found_ids ids = {0};
    lmc_lock_assert_none();
    for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
        m->table->reap_stale_instances(m->self, timeout_ns, grace_ns, remember_id, &ids);
    for (size_t i = 0; i < ids.count; i++)
        for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
            lmc_liveness_member_post(m, ids.items[i], true);
    if (ids.lost)
        LMC_ERROR("out of memory: not every module was told about every reaped instance");
    free(ids.items);
}

/* False when the set stops. */
static bool wait_period(lmc_liveness_set *set) {
    int64_t deadline = lmc_now(&lmc_system_clock) + set->timeout_ns / 4;
    bool in_time = true;
    lmc_lock_take(&set->lock);
    while (!set->stopping && in_time)
        in_time = lmc_cond_wait_until(&set->changed, &set->lock, deadline);
    bool go_on = !set->stopping;
    if (!go_on) {
        set->running = false;
        lmc_cond_broadcast(&set->changed);
    }
    lmc_lock_drop(&set->lock);
    return go_on;
}

static void run_reaper(void *arg) {
    lmc_liveness_set *set = arg;
    while (wait_period(set)) {
        lmc_liveness_scan(set, set->timeout_ns, set->grace_ns);
        lmc_lock_take(&set->lock);
        set->last_run_ns = lmc_now(&lmc_system_clock);
        set->runs++;
        lmc_lock_drop(&set->lock);
    }
}

void lmc_liveness_report_get(lmc_liveness_set *set, lmc_liveness_report *report) {
    lmc_lock_take(&set->lock);
    *report = (lmc_liveness_report){.running = set->running,
                                    .period_ns = set->timeout_ns / 4,
                                    .last_run_ns = set->last_run_ns,
                                    .runs = set->runs};
    lmc_lock_drop(&set->lock);
}

lmc_status lmc_liveness_start(lmc_liveness_set *set, int64_t timeout_ns, int64_t grace_ns,
                              lmc_error *error) {
    set->timeout_ns = timeout_ns;
    set->grace_ns = grace_ns;
    set->running = true;
    lmc_status status =
        lmc_thread_start(&set->reaper, "lmcache-mp-reap", run_reaper, set, error);
    if (status != LMC_OK)
        set->running = false;
    return status;
}

static bool join_reaper(lmc_liveness_set *set, int64_t deadline_ns) {
    bool in_time = true;
    lmc_lock_take(&set->lock);
    set->stopping = true;
    lmc_cond_broadcast(&set->changed);
    while (set->running && in_time)
        in_time = lmc_cond_wait_until(&set->changed, &set->lock, deadline_ns);
    bool running = set->running;
    lmc_lock_drop(&set->lock);
    if (running) {
        LMC_ERROR("a module did not return from reap_stale_instances; the reaper is abandoned");
        return false;
    }
    lmc_thread_join(&set->reaper);
    return true;
}

bool lmc_liveness_stop(lmc_liveness_set *set, int64_t wait_ns) {
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    bool quiet = join_reaper(set, deadline);
    for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
        lmc_liveness_member_stop(m);
    for (lmc_liveness_member *m = set->first; m != NULL; m = m->next)
        quiet = lmc_liveness_member_join(m, deadline) && quiet;
    return quiet;
}
