#include "cache/instances.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cache/chunk_keys.h"

#define TICK_BATCH 64 /* items handled per taking of the lock */

typedef struct lmc_instance {
    struct lmc_instance *next;
    int64_t id;
    uint64_t serial;
    lmc_transfer_kind kind;
    int64_t world_size, block_size;
    bool use_mla, by_copy, has_pinged;
    lmc_layout *layout;
    uint64_t connection; /* that last named it; 0: closed or unknown */
    int64_t last_seen_ns;
    int64_t orphan_due_ns; /* 0: no disconnect lease runs */
    size_t pending_count;
    lmc_link pending[LMC_PENDING_BUCKETS];
    size_t model_size;
    char model[];
} lmc_instance;

static lmc_slice model_of(const lmc_instance *instance) {
    return lmc_slice_of(instance->model, instance->model_size);
}

lmc_status lmc_instances_init(lmc_instances *instances, const lmc_instances_config *config,
                              const lmc_clock *clock, lmc_l1 *l1, lmc_layouts *layouts) {
    *instances =
        (lmc_instances){.config = *config, .clock = clock, .l1 = l1, .layouts = layouts};
    lmc_link_init(&instances->stores);
    lmc_link_init(&instances->retrieves);
    instances->by_id = lmc_hashmap_create();
    if (instances->by_id == NULL)
        return LMC_NO_MEMORY;
    lmc_lock_init(&instances->lock, LMC_RANK_INSTANCES, "instances");
    return LMC_OK;
}

/* ---- one record, with the lock held ---- */

static lmc_instance *find(lmc_instances *instances, int64_t id) {
    return lmc_hashmap_get_id(instances->by_id, (uint64_t)id);
}

static void set_orphan(lmc_instances *instances, lmc_instance *instance, bool orphan) {
    bool lease = orphan && instances->config.disconnect_lease_ns > 0;
    instances->orphans += (size_t)lease - (size_t)(instance->orphan_due_ns != 0);
    instance->orphan_due_ns =
        lease ? lmc_now(instances->clock) + instances->config.disconnect_lease_ns : 0;
}

/*
 * A request named it, perhaps one that was on its way when its connection closed. Who does not
 * know the connection (0) changes nothing about it.
 */
static void name_instance(lmc_instances *instances, lmc_instance *instance,
                          uint64_t connection) {
    instance->last_seen_ns = lmc_now(instances->clock);
    if (connection == 0 || (instance->connection == connection && instance->orphan_due_ns == 0))
        return;
    bool gone = lmc_closed_has(&instances->closed, connection);
    instance->connection = gone ? 0 : connection;
    set_orphan(instances, instance, gone);
}

static void unlink_pending(lmc_pending *pending, lmc_pending **taken) {
    lmc_link_remove(&pending->of_instance);
    lmc_link_remove(&pending->expiring);
    pending->instance->pending_count--;
    pending->next = *taken;
    *taken = pending;
}

static void unlink_all_pending(lmc_instance *instance, lmc_pending **taken) {
    for (size_t i = 0; i < LMC_PENDING_BUCKETS; i++) {
        lmc_link *first;
        while ((first = lmc_link_first(&instance->pending[i])) != NULL)
            unlink_pending(LMC_OWNER(first, lmc_pending, of_instance), taken);
    }
}

/* ---- closing: without the lock, on what was taken out under it ---- */

static void abandon_all(lmc_instances *instances, lmc_pending *taken) {
    while (taken != NULL) {
        lmc_pending *next = taken->next;
        lmc_pending_abandon(instances->l1, taken);
        taken = next;
    }
}

/* With the lock held: takes the record out, so that nobody else can close it again. */
static void detach(lmc_instances *instances, lmc_instance *instance, lmc_instance **closing,
                   lmc_pending **taken) {
    lmc_hashmap_remove_id(instances->by_id, (uint64_t)instance->id);
    set_orphan(instances, instance, false);
    unlink_all_pending(instance, taken);
    instance->next = *closing;
    *closing = instance;
}

static void close_all(lmc_instances *instances, lmc_instance *closing, lmc_pending *taken) {
    lmc_lock_assert_none();
    abandon_all(instances, taken);
    while (closing != NULL) {
        lmc_instance *next = closing->next;
        lmc_layouts_remove(instances->layouts, model_of(closing), closing->world_size);
        lmc_layout_drop(closing->layout);
        free(closing);
        closing = next;
    }
}

void lmc_instances_fini(lmc_instances *instances) {
    if (instances->by_id == NULL)
        return;
    lmc_instance *closing = NULL;
    lmc_pending *taken = NULL;
    size_t at = 0;
    lmc_slice key;
    void *value;
    lmc_lock_take(&instances->lock);
    while (lmc_hashmap_next(instances->by_id, &at, &key, &value))
        detach(instances, value, &closing, &taken);
    lmc_lock_drop(&instances->lock);
    close_all(instances, closing, taken);
    lmc_hashmap_destroy(instances->by_id);
    instances->by_id = NULL;
    lmc_lock_fini(&instances->lock);
}

/* ---- registration ---- */

static lmc_status check(const lmc_instance_config *config, lmc_error *error) {
    lmc_status status = lmc_model_name_check(config->model_name, error);
    if (status != LMC_OK)
        return status;
    status = lmc_world_size_check(config->world_size, error);
    if (status != LMC_OK)
        return status;
    if (config->group_count > LMC_GROUPS_MAX)
        return lmc_error_set(error, LMC_INVALID, "at most %d object groups (got %zu)",
                             LMC_GROUPS_MAX, config->group_count);
    return LMC_OK;
}

static lmc_instance *create(const lmc_instance_config *config) {
    lmc_instance *instance = calloc(1, sizeof(*instance) + config->model_name.size);
    if (instance == NULL)
        return NULL;
    instance->layout = lmc_layout_create(config->groups, config->group_count);
    if (instance->layout == NULL) {
        free(instance);
        return NULL;
    }
    instance->id = config->instance_id;
    instance->kind = config->kind;
    instance->world_size = config->world_size;
    instance->block_size = config->block_size;
    instance->use_mla = config->use_mla;
    instance->by_copy = config->by_copy;
    instance->model_size = config->model_name.size;
    if (instance->model_size > 0)
        memcpy(instance->model, config->model_name.data, instance->model_size);
    for (size_t i = 0; i < LMC_PENDING_BUCKETS; i++)
        lmc_link_init(&instance->pending[i]);
    return instance;
}

/* With the lock held. Leaves nothing behind on failure. */
static lmc_status add(lmc_instances *instances, lmc_instance *instance, uint64_t connection,
                      lmc_error *error) {
    if (lmc_hashmap_count(instances->by_id) >= LMC_INSTANCES_MAX)
        return lmc_error_set(error, LMC_BUSY, "%d instances are registered already",
                             LMC_INSTANCES_MAX);
    lmc_slice model = model_of(instance);
    lmc_status status =
        lmc_layouts_add(instances->layouts, model, instance->world_size, instance->layout);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "no memory for the layout");
    status = lmc_hashmap_put_id(instances->by_id, (uint64_t)instance->id, instance, NULL);
    if (status != LMC_OK) {
        lmc_layouts_remove(instances->layouts, model, instance->world_size);
        return lmc_error_set(error, status, "no memory for the instance");
    }
    instance->serial = ++instances->last_serial;
    name_instance(instances, instance, connection);
    return LMC_OK;
}

lmc_status lmc_instances_register(lmc_instances *instances, const lmc_instance_config *config,
                                  uint64_t connection, bool *created, lmc_error *error) {
    *created = false;
    lmc_status status = check(config, error);
    if (status != LMC_OK)
        return status;
    lmc_instance *closing = NULL;
    lmc_pending *taken = NULL;
    lmc_instance *made = create(config);
    lmc_lock_take(&instances->lock);
    lmc_instance *known = find(instances, config->instance_id);
    if (known != NULL && known->kind != config->kind) {
        detach(instances, known, &closing, &taken);
        known = NULL;
    }
    if (known != NULL)
        name_instance(instances, known, connection);
    else if (made == NULL)
        status = lmc_error_set(error, LMC_NO_MEMORY, "no memory for the instance");
    else
        status = add(instances, made, connection, error);
    *created = known == NULL && status == LMC_OK;
    lmc_lock_drop(&instances->lock);
    close_all(instances, closing, taken);
    if (made != NULL && !*created) {
        lmc_layout_drop(made->layout);
        free(made);
    }
    return status;
}

bool lmc_instances_unregister(lmc_instances *instances, int64_t id) {
    lmc_instance *closing = NULL;
    lmc_pending *taken = NULL;
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance != NULL)
        detach(instances, instance, &closing, &taken);
    lmc_lock_drop(&instances->lock);
    close_all(instances, closing, taken);
    return instance != NULL;
}

/* ---- liveness ---- */

bool lmc_instances_have(lmc_instances *instances, int64_t id) {
    lmc_lock_take(&instances->lock);
    bool found = find(instances, id) != NULL;
    lmc_lock_drop(&instances->lock);
    return found;
}

bool lmc_instances_ping(lmc_instances *instances, int64_t id, uint64_t connection) {
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance != NULL) {
        name_instance(instances, instance, connection);
        instance->has_pinged = true;
    }
    lmc_lock_drop(&instances->lock);
    return instance != NULL;
}

void lmc_instances_reap(lmc_instances *instances, lmc_transfer_kind kind, int64_t timeout_ns,
                        int64_t grace_ns, void (*found)(void *arg, int64_t id), void *arg) {
    if (timeout_ns <= 0)
        return;
    lmc_instance *closing = NULL;
    lmc_pending *taken = NULL;
    int64_t now = lmc_now(instances->clock);
    size_t at = 0;
    lmc_slice key;
    void *value;
    lmc_lock_take(&instances->lock);
    while (lmc_hashmap_next(instances->by_id, &at, &key, &value)) {
        lmc_instance *instance = value;
        bool proven = instance->has_pinged && instance->connection == 0;
        if (instance->kind == kind &&
            now - instance->last_seen_ns > (proven ? timeout_ns : grace_ns))
            detach(instances, instance, &closing, &taken);
    }
    lmc_lock_drop(&instances->lock);
    for (const lmc_instance *each = closing; each != NULL; each = each->next) {
        if (found != NULL)
            found(arg, each->id);
    }
    close_all(instances, closing, taken);
}

size_t lmc_instances_count(lmc_instances *instances, lmc_transfer_kind kind) {
    size_t count = 0, at = 0;
    lmc_slice key;
    void *value;
    lmc_lock_take(&instances->lock);
    while (lmc_hashmap_next(instances->by_id, &at, &key, &value))
        count += ((const lmc_instance *)value)->kind == kind;
    lmc_lock_drop(&instances->lock);
    return count;
}

typedef struct copied_row {
    lmc_instance_report report;
    lmc_layout *layout;
    size_t name_at;
} copied_row;

/* With the lock held. False: no memory for the names. */
static bool copy_rows(lmc_instances *instances, lmc_transfer_kind kind, copied_row *rows,
                      size_t *count, lmc_buffer *names) {
    size_t at = 0;
    lmc_slice key;
    void *value;
    while (lmc_hashmap_next(instances->by_id, &at, &key, &value)) {
        const lmc_instance *instance = value;
        if (instance->kind != kind)
            continue;
        rows[(*count)++] = (copied_row){
            .report = {.instance_id = instance->id,
                       .model_name = model_of(instance),
                       .world_size = instance->world_size,
                       .block_size = instance->block_size,
                       .use_mla = instance->use_mla},
            .name_at = names->size,
        };
        lmc_buffer_append(names, instance->model, instance->model_size);
    }
    return !names->failed;
}

void lmc_instances_each(lmc_instances *instances, lmc_transfer_kind kind,
                        void (*visit)(void *arg, const lmc_instance_report *row), void *arg) {
    lmc_buffer names = LMC_BUFFER_INIT;
    size_t count = 0;
    lmc_lock_take(&instances->lock);
    copied_row *rows = calloc(lmc_hashmap_count(instances->by_id) + 1, sizeof(*rows));
    bool complete = rows != NULL && copy_rows(instances, kind, rows, &count, &names);
    lmc_lock_drop(&instances->lock);
    for (size_t i = 0; complete && i < count; i++) {
        rows[i].report.model_name.data = names.data != NULL ? names.data + rows[i].name_at : "";
        visit(arg, &rows[i].report);
    }
    free(rows);
    lmc_buffer_fini(&names);
}

void lmc_instances_connection_closed(lmc_instances *instances, uint64_t connection) {
    size_t at = 0;
    lmc_slice key;
    void *value;
    lmc_lock_take(&instances->lock);
    lmc_closed_add(&instances->closed, connection);
    while (lmc_hashmap_next(instances->by_id, &at, &key, &value)) {
        lmc_instance *instance = value;
        if (instance->connection != connection || connection == 0)
            continue;
        instance->connection = 0;
        set_orphan(instances, instance, true);
    }
    lmc_lock_drop(&instances->lock);
}

/* ---- the clock ---- */

static void take_orphans(lmc_instances *instances, int64_t now, lmc_pending **taken) {
    size_t at = 0;
    lmc_slice key;
    void *value;
    while (instances->orphans > 0 && lmc_hashmap_next(instances->by_id, &at, &key, &value)) {
        lmc_instance *instance = value;
        if (instance->orphan_due_ns == 0 || instance->orphan_due_ns > now)
            continue;
        set_orphan(instances, instance, false);
        unlink_all_pending(instance, taken);
    }
}

/* Returns how many were taken. */
static int take_expired(const lmc_link *list, int64_t now, lmc_pending **taken) {
    for (int n = 0; n < TICK_BATCH; n++) {
        lmc_link *first = lmc_link_first(list);
        if (first == NULL || LMC_OWNER(first, lmc_pending, expiring)->expiry_ns > now)
            return n;
        unlink_pending(LMC_OWNER(first, lmc_pending, expiring), taken);
    }
    return TICK_BATCH;
}

void lmc_instances_tick(lmc_instances *instances) {
    int64_t now = lmc_now(instances->clock);
    for (bool more = true; more;) {
        lmc_pending *taken = NULL;
        lmc_lock_take(&instances->lock);
        take_orphans(instances, now, &taken);
        more = take_expired(&instances->stores, now, &taken) == TICK_BATCH;
        more |= take_expired(&instances->retrieves, now, &taken) == TICK_BATCH;
        lmc_lock_drop(&instances->lock);
        abandon_all(instances, taken);
    }
}

/* ---- transfers ---- */

lmc_status lmc_instances_enter(lmc_instances *instances, int64_t id, uint64_t connection,
                               lmc_instance_view *view) {
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance != NULL) {
        name_instance(instances, instance, connection);
        *view = (lmc_instance_view){.layout = lmc_layout_keep(instance->layout),
                                    .serial = instance->serial,
                                    .by_copy = instance->by_copy};
    }
    lmc_lock_drop(&instances->lock);
    return instance != NULL ? LMC_OK : LMC_NOT_FOUND;
}

void lmc_instances_set_by_copy(lmc_instances *instances, int64_t id) {
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance != NULL)
        instance->by_copy = true;
    lmc_lock_drop(&instances->lock);
}

/* All that is compared but the texts and the mark. */
static lmc_link *bucket_of(lmc_instance *instance, lmc_pending_kind kind,
                           const lmc_pending_id *id) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = (uint64_t)id->start * odd ^ (uint64_t)id->end;
    hash = (hash ^ hash >> 32) * odd ^ id->token_count;
    hash = (hash ^ hash >> 32) * odd ^ (uint64_t)id->worker_id ^ (uint64_t)kind << 32;
    return &instance->pending[(hash * odd) >> 58];
}

static bool is_equal(const lmc_pending_id *a, const lmc_pending_id *b) {
    return a->world_size == b->world_size && a->worker_id == b->worker_id &&
           a->start == b->start && a->end == b->end && a->token_count == b->token_count &&
           (a->mark == b->mark || a->mark == 0 || b->mark == 0) &&
           lmc_slice_equal(a->model_name, b->model_name) &&
           lmc_slice_equal(a->cache_salt, b->cache_salt);
}

lmc_status lmc_instances_remember(lmc_instances *instances, int64_t id, uint64_t serial,
                                  lmc_pending *pending) {
    bool store = pending->kind == LMC_PENDING_STORE;
    int64_t ttl = store ? instances->config.write_ttl_ns : instances->config.read_ttl_ns;
    lmc_status status = LMC_OK;
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance == NULL || instance->serial != serial)
        status = LMC_NOT_FOUND;
    else if (instance->pending_count >= LMC_PENDING_MAX)
        status = LMC_BUSY;
    if (status == LMC_OK) {
        pending->instance = instance;
        pending->expiry_ns = lmc_now(instances->clock) + ttl;
        lmc_link_append(bucket_of(instance, pending->kind, &pending->id),
                        &pending->of_instance);
        lmc_link_append(store ? &instances->stores : &instances->retrieves, &pending->expiring);
        instance->pending_count++;
    }
    lmc_lock_drop(&instances->lock);
    return status;
}

/* With the lock held: the exact identity first, then one of another request (D74). */
static lmc_pending *take_matching(lmc_link *bucket, lmc_pending_kind kind,
                                  const lmc_pending_id *id) {
    lmc_pending *taken = NULL, *other = NULL;
    for (lmc_link *at = bucket->next, *next; at != bucket; at = next) {
        next = at->next;
        lmc_pending *pending = LMC_OWNER(at, lmc_pending, of_instance);
        if (pending->kind != kind || !is_equal(&pending->id, id))
            continue;
        bool same_request = lmc_slice_equal(pending->id.request_id, id->request_id);
        if (!same_request && other == NULL)
            other = pending;
        if (same_request)
            unlink_pending(pending, &taken);
        if (same_request && kind == LMC_PENDING_RETRIEVE)
            break;
    }
    if (taken == NULL && other != NULL)
        unlink_pending(other, &taken);
    return taken;
}

lmc_pending *lmc_instances_take(lmc_instances *instances, int64_t id, uint64_t connection,
                                lmc_pending_kind kind, const lmc_pending_id *pending_id) {
    lmc_pending *taken = NULL;
    lmc_lock_take(&instances->lock);
    lmc_instance *instance = find(instances, id);
    if (instance != NULL) {
        name_instance(instances, instance, connection);
        taken = take_matching(bucket_of(instance, kind, pending_id), kind, pending_id);
    }
    lmc_lock_drop(&instances->lock);
    return taken;
}
