#include "dispatch/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.dispatch"

#define POOLS_MAX 256u /* of modules */

struct lmc_registry {
    bool frozen;
    lmc_private_pool *pools;
    uint32_t pool_count;
    size_t count;
    lmc_handler *winners[]; /* by operation index; the chain is owned */
};

lmc_status lmc_registry_create(lmc_registry **registry, lmc_error *error) {
    size_t count = lmc_operation_count();
    lmc_registry *made = calloc(1, sizeof *made + count * sizeof(lmc_handler *));
    *registry = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the operation registry");
    made->count = count;
    return LMC_OK;
}

void lmc_registry_destroy(lmc_registry *registry) {
    if (registry == NULL)
        return;
    for (size_t i = 0; i < registry->count; i++) {
        lmc_handler *handler = registry->winners[i];
        while (handler != NULL) {
            lmc_handler *next = handler->replaced;
            free(handler->made);
            free(handler);
            handler = next;
        }
    }
    free(registry->pools);
    free(registry);
}

static lmc_status check_entry(const lmc_operation *entry, const lmc_owner *owner,
                              lmc_error *error) {
    if (entry->handle == NULL)
        return lmc_error_set(error, LMC_INVALID, "%s: operation '%s' has no handler function",
                             owner->name, entry->name);
    if (entry->scheduling > LMC_AFFINITY)
        return lmc_error_set(error, LMC_INVALID,
                             "%s: operation '%s': Non-blocking handler is not supported yet",
                             owner->name, entry->name);
    uint32_t allowed = owner->outside ? 0 : LMC_NEVER_WAITS | LMC_RUNS_OUTSIDE;
    if ((entry->flags & ~allowed) != 0)
        return lmc_error_set(error, LMC_INVALID, "%s: operation '%s' has unknown flags 0x%x",
                             owner->name, entry->name, (unsigned)entry->flags);
    return LMC_OK;
}

static lmc_place place_of(const lmc_operation *entry, bool outside) {
    if ((entry->flags & LMC_NEVER_WAITS) != 0)
        return LMC_PLACE_INLINE;
    outside = outside || (entry->flags & LMC_RUNS_OUTSIDE) != 0;
    switch (entry->scheduling) {
    case LMC_SYNC:
        return outside ? LMC_PLACE_SERIAL : LMC_PLACE_INLINE;
    case LMC_AFFINITY:
        return LMC_PLACE_AFFINITY;
    default:
        return outside ? LMC_PLACE_OUTSIDE : LMC_PLACE_NORMAL;
    }
}

static lmc_status check_owner(const lmc_handler *chain, const lmc_operation *entry,
                              const lmc_owner *owner, lmc_error *error) {
    for (; chain != NULL; chain = chain->replaced) {
        if (chain->self == owner->self && strcmp(chain->owner, owner->name) == 0)
            return lmc_error_set(error, LMC_INVALID, "%s has multiple handlers for '%s'",
                                 owner->name, entry->name);
    }
    return LMC_OK;
}

static void log_replaced(const lmc_handler *winner, const lmc_handler *other) {
    if (winner->owner != other->owner)
        LMC_INFO("%s replaces %s as the handler of '%s'", winner->owner, other->owner,
                 winner->operation->name);
}

/* Later beats earlier among equals, outside beats built in. */
static void insert(lmc_handler **chain, lmc_handler *handler) {
    lmc_handler **at = chain;
    while (*at != NULL && (*at)->outside && !handler->outside)
        at = &(*at)->replaced;
    handler->replaced = *at;
    *at = handler;
    if (at != chain)
        log_replaced(*chain, handler);
    else if (handler->replaced != NULL)
        log_replaced(handler, handler->replaced);
}

static lmc_status find_operation(const char *name, const char *owner,
                                 const lmc_operation_def **found, lmc_error *error) {
    *found = lmc_operation_by_name(lmc_text(name));
    if (*found != NULL)
        return LMC_OK;
    return lmc_error_set(error, LMC_NOT_FOUND, "%s: unknown operation '%s'", owner, name);
}

static lmc_status check_open(const lmc_registry *registry, const char *owner,
                             lmc_error *error) {
    if (!registry->frozen)
        return LMC_OK;
    return lmc_error_set(error, LMC_CLOSED, "%s: handlers are added before the server runs",
                         owner);
}

static lmc_handler *make_handler(const lmc_operation_def *operation, const lmc_operation *entry,
                                 const lmc_owner *owner, lmc_error *error) {
    lmc_handler *handler = calloc(1, sizeof *handler);
    if (handler == NULL) {
        lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory for a handler", owner->name);
        return NULL;
    }
    *handler = (lmc_handler){.operation = operation,
                             .entry = entry,
                             .self = owner->self,
                             .owner = owner->name,
                             .account = owner->account,
                             .outside = owner->outside,
                             .answers_at_once = owner->answers_at_once,
                             .place = place_of(entry, owner->outside)};
    return handler;
}

static lmc_status add_one(lmc_registry *registry, const lmc_operation *entry,
                          const lmc_owner *owner, lmc_error *error) {
    const lmc_operation_def *operation;
    lmc_status status = find_operation(entry->name, owner->name, &operation, error);
    if (status == LMC_OK)
        status = check_entry(entry, owner, error);
    if (status == LMC_OK)
        status = check_owner(registry->winners[operation->index], entry, owner, error);
    if (status != LMC_OK)
        return status;
    lmc_handler *handler = make_handler(operation, entry, owner, error);
    if (handler == NULL)
        return LMC_NO_MEMORY;
    insert(&registry->winners[operation->index], handler);
    return LMC_OK;
}

lmc_status lmc_registry_add_of(lmc_registry *registry, const lmc_operation *operations,
                               const lmc_owner *owner, lmc_error *error) {
    lmc_status status = check_open(registry, owner->name, error);
    for (; status == LMC_OK && operations != NULL && operations->name != NULL; operations++)
        status = add_one(registry, operations, owner, error);
    return status;
}

lmc_status lmc_registry_add(lmc_registry *registry, const lmc_operation *operations, void *self,
                            const char *owner, bool outside, lmc_error *error) {
    return lmc_registry_add_of(registry, operations,
                               &(lmc_owner){.name = owner, .self = self, .outside = outside},
                               error);
}

/* ---- what modules add by hand ---- */

static lmc_operation *copy_entry(const lmc_operation *from, const char *name) {
    lmc_operation *entry = malloc(sizeof *entry);
    if (entry != NULL) {
        *entry = *from;
        entry->name = name;
    }
    return entry;
}

lmc_status lmc_registry_set(lmc_registry *registry, const lmc_operation *entry,
                            const lmc_owner *owner, lmc_error *error) {
    const lmc_operation_def *operation = NULL;
    lmc_status status = check_open(registry, owner->name, error);
    if (status == LMC_OK)
        status = find_operation(entry->name, owner->name, &operation, error);
    if (status == LMC_OK)
        status = check_entry(entry, owner, error);
    if (status != LMC_OK)
        return status;
    lmc_handler *handler = make_handler(operation, entry, owner, error);
    if (handler != NULL)
        handler->made = copy_entry(entry, operation->name);
    if (handler == NULL || handler->made == NULL) {
        free(handler);
        return lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory for a handler", owner->name);
    }
    handler->entry = handler->made;
    if (entry->scheduling != LMC_SYNC)
        handler->place = LMC_PLACE_NONE;
    insert(&registry->winners[operation->index], handler);
    return LMC_OK;
}

static lmc_status find_pool_member(const lmc_registry *registry, const char *name,
                                   lmc_handler **winner, lmc_error *error) {
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text(name));
    *winner = operation != NULL ? registry->winners[operation->index] : NULL;
    if (*winner == NULL)
        return lmc_error_set(error, LMC_NOT_FOUND,
                             "No handler registered for operation: %s. Register handlers "
                             "before calling add_normal_thread_pool.",
                             name);
    if ((*winner)->entry->scheduling == LMC_SYNC)
        return lmc_error_set(error, LMC_INVALID,
                             "Handler for %s is SyncRequestHandler, not "
                             "BlockingRequestHandler. Only blocking handlers can use thread "
                             "pools.",
                             name);
    return LMC_OK;
}

static lmc_status grow_pools(lmc_registry *registry, lmc_error *error) {
    if (registry->pool_count == POOLS_MAX)
        return lmc_error_set(error, LMC_INVALID, "modules have more than %u thread pools",
                             POOLS_MAX);
    lmc_private_pool *pools =
        realloc(registry->pools, (registry->pool_count + 1) * sizeof *pools);
    if (pools == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for a thread pool");
    registry->pools = pools;
    return LMC_OK;
}

lmc_status lmc_registry_add_pool(lmc_registry *registry, const char *const *operations,
                                 uint32_t threads, bool affinity, lmc_error *error) {
    lmc_handler *winner;
    lmc_status status = check_open(registry, "thread pool", error);
    if (operations == NULL || operations[0] == NULL)
        return status;
    for (size_t i = 0; operations[i] != NULL && status == LMC_OK; i++)
        status = find_pool_member(registry, operations[i], &winner, error);
    if (status == LMC_OK)
        status = grow_pools(registry, error);
    if (status != LMC_OK)
        return status;
    uint32_t index = registry->pool_count++;
    lmc_private_pool *pool = &registry->pools[index];
    *pool = (lmc_private_pool){.threads = threads, .affinity = affinity};
    snprintf(pool->name, sizeof pool->name, "own-%u", index);
    for (size_t i = 0; operations[i] != NULL; i++) {
        if (find_pool_member(registry, operations[i], &winner, NULL) != LMC_OK)
            continue;
        winner->place = LMC_PLACE_PRIVATE;
        winner->pool = index;
    }
    return LMC_OK;
}

lmc_status lmc_registry_check(const lmc_registry *registry, lmc_error *error) {
    for (size_t i = 0; i < registry->count; i++) {
        const lmc_handler *winner = registry->winners[i];
        if (winner != NULL && winner->place == LMC_PLACE_NONE)
            return lmc_error_set(error, LMC_INVALID,
                                 "BlockingRequestHandler for %s has no thread pool assigned. "
                                 "Call add_normal_thread_pool or add_affinity_thread_pool "
                                 "before start().",
                                 winner->operation->name);
    }
    return LMC_OK;
}

/* ---- reading ---- */

/* A handler behind the winner that got no pool runs where its scheduling class says. */
static void place_the_rest(lmc_registry *registry) {
    for (size_t i = 0; i < registry->count; i++) {
        for (lmc_handler *h = registry->winners[i]; h != NULL; h = h->replaced) {
            if (h->place == LMC_PLACE_NONE)
                h->place = place_of(h->entry, h->outside);
        }
    }
}

void lmc_registry_freeze(lmc_registry *registry) {
    place_the_rest(registry);
    registry->frozen = true;
}

uint32_t lmc_registry_pool_count(const lmc_registry *registry) { return registry->pool_count; }

const lmc_private_pool *lmc_registry_pool(const lmc_registry *registry, uint32_t index) {
    return &registry->pools[index];
}

const lmc_handler *lmc_registry_find(const lmc_registry *registry,
                                     const lmc_operation_def *operation) {
    return operation->index < registry->count ? registry->winners[operation->index] : NULL;
}

bool lmc_registry_uses(const lmc_registry *registry, lmc_place place) {
    for (size_t i = 0; i < registry->count; i++) {
        for (const lmc_handler *h = registry->winners[i]; h != NULL; h = h->replaced) {
            if (h->place == place)
                return true;
        }
    }
    return false;
}
