#include "dispatch/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.dispatch"

struct lmc_registry {
    bool frozen;
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
            free(handler);
            handler = next;
        }
    }
    free(registry);
}

static lmc_status check_entry(const lmc_operation *entry, const char *owner, bool outside,
                              lmc_error *error) {
    if (entry->handle == NULL)
        return lmc_error_set(error, LMC_INVALID, "%s: operation '%s' has no handler function",
                             owner, entry->name);
    if (entry->scheduling > LMC_AFFINITY)
        return lmc_error_set(error, LMC_INVALID,
                             "%s: operation '%s': Non-blocking handler is not supported yet",
                             owner, entry->name);
    uint32_t allowed = outside ? 0 : LMC_NEVER_WAITS;
    if ((entry->flags & ~allowed) != 0)
        return lmc_error_set(error, LMC_INVALID, "%s: operation '%s' has unknown flags 0x%x",
                             owner, entry->name, (unsigned)entry->flags);
    return LMC_OK;
}

static lmc_place place_of(const lmc_operation *entry, bool outside) {
    if ((entry->flags & LMC_NEVER_WAITS) != 0)
        return LMC_PLACE_INLINE;
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
                              const char *owner, const void *self, lmc_error *error) {
    for (; chain != NULL; chain = chain->replaced) {
        if (chain->self == self && strcmp(chain->owner, owner) == 0)
            return lmc_error_set(error, LMC_INVALID, "%s has multiple handlers for '%s'", owner,
                                 entry->name);
    }
    return LMC_OK;
}

/* Later beats earlier among equals, outside beats built in. */
static void insert(lmc_handler **chain, lmc_handler *handler) {
    lmc_handler **at = chain;
    while (*at != NULL && (*at)->outside && !handler->outside)
        at = &(*at)->replaced;
    handler->replaced = *at;
    *at = handler;
    if (at == chain && handler->replaced != NULL)
        LMC_INFO("%s replaces %s as the handler of '%s'", handler->owner,
                 handler->replaced->owner, handler->operation->name);
}

static lmc_status add_one(lmc_registry *registry, const lmc_operation *entry, void *self,
                          const char *owner, bool outside, lmc_error *error) {
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text(entry->name));
    if (operation == NULL)
        return lmc_error_set(error, LMC_NOT_FOUND, "%s: unknown operation '%s'", owner,
                             entry->name);
    lmc_status status = check_entry(entry, owner, outside, error);
    if (status != LMC_OK)
        return status;
    lmc_handler **chain = &registry->winners[operation->index];
    status = check_owner(*chain, entry, owner, self, error);
    if (status != LMC_OK)
        return status;
    lmc_handler *handler = calloc(1, sizeof *handler);
    if (handler == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory for a handler", owner);
    *handler = (lmc_handler){.operation = operation,
                             .entry = entry,
                             .self = self,
                             .owner = owner,
                             .outside = outside,
                             .place = place_of(entry, outside)};
    insert(chain, handler);
    return LMC_OK;
}

lmc_status lmc_registry_add(lmc_registry *registry, const lmc_operation *operations, void *self,
                            const char *owner, bool outside, lmc_error *error) {
    if (registry->frozen)
        return lmc_error_set(error, LMC_CLOSED, "%s: handlers are added before the server runs",
                             owner);
    lmc_status status = LMC_OK;
    for (; status == LMC_OK && operations != NULL && operations->name != NULL; operations++)
        status = add_one(registry, operations, self, owner, outside, error);
    return status;
}

void lmc_registry_freeze(lmc_registry *registry) { registry->frozen = true; }

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
