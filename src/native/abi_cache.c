/* What modules may ask of the cache. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/lock.h"
#include "base/log.h"
#include "cache/cache.h"
#include "module/context.h"

#define LMC_LOGGER "lmcache.module"

int64_t lmc_chunk_size(lmc_context *context) { return lmc_cache_chunk_size(context->cache); }

size_t lmc_hash_chunks(lmc_context *context, const void *previous, const uint32_t *tokens,
                       size_t count, void *hashes, size_t room) {
    return lmc_cache_hash(context->cache, previous, tokens, count, hashes, room);
}

int64_t lmc_session_count(lmc_context *context) {
    return (int64_t)lmc_cache_active_sessions(context->cache);
}

size_t lmc_session_hashes(lmc_context *context, lmc_slice request_id, size_t first,
                          void *hashes, size_t room) {
    return lmc_cache_session_hashes(context->cache, request_id, first, hashes, room);
}

/* ---- objects ---- */

struct lmc_object {
    lmc_cache *cache;
    lmc_object_ref ref;
    lmc_module_own *own; /* NULL: not accounted for */
    struct lmc_object *previous, *next;
};

lmc_status lmc_objects_present(lmc_context *context, const lmc_object_key *keys, size_t count,
                               bool *present) {
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < count; i++) {
        lmc_object_ref ref;
        lmc_status found = lmc_cache_hold(context->cache, &keys[i], &ref);
        present[i] = found == LMC_OK;
        if (found == LMC_OK)
            lmc_cache_let_go(context->cache, ref);
        else if (found != LMC_NOT_FOUND)
            status = found;
    }
    return status;
}

static void let_go(lmc_object *object) {
    lmc_cache_let_go(object->cache, object->ref);
    free(object);
}

/* Closes what a module left open. */
static void close_left(lmc_module_own *own) {
    lmc_lock_take(&own->lock);
    lmc_object *object = own->objects;
    own->objects = NULL;
    lmc_lock_drop(&own->lock);
    size_t count = 0;
    for (; object != NULL; count++) {
        lmc_object *next = object->next;
        let_go(object);
        object = next;
    }
    if (count > 0)
        LMC_WARNING("%s was closed with %zu objects open", own->name, count);
}

static void link_object(lmc_object *object) {
    lmc_module_own *own = object->own;
    if (own == NULL)
        return;
    lmc_lock_take(&own->lock);
    own->tidy = close_left;
    object->next = own->objects;
    if (object->next != NULL)
        object->next->previous = object;
    own->objects = object;
    lmc_lock_drop(&own->lock);
}

static void unlink_object(lmc_object *object) {
    lmc_module_own *own = object->own;
    if (own == NULL)
        return;
    lmc_lock_take(&own->lock);
    if (object->previous != NULL)
        object->previous->next = object->next;
    else
        own->objects = object->next;
    if (object->next != NULL)
        object->next->previous = object->previous;
    lmc_lock_drop(&own->lock);
}

lmc_status lmc_object_open(lmc_context *context, const lmc_object_key *key, lmc_object **object,
                           lmc_slice *bytes) {
    lmc_object *made = calloc(1, sizeof *made);
    *object = NULL;
    *bytes = (lmc_slice){0};
    if (made == NULL)
        return LMC_NO_MEMORY;
    made->cache = context->cache;
    made->own = context->own;
    lmc_status status = lmc_cache_hold(context->cache, key, &made->ref);
    if (status != LMC_OK) {
        free(made);
        return status;
    }
    lmc_l1 *l1 = lmc_cache_l1(context->cache);
    *bytes = lmc_slice_of(lmc_l1_data(l1, made->ref), lmc_l1_size(l1, made->ref));
    link_object(made);
    *object = made;
    return LMC_OK;
}

void lmc_object_close(lmc_object *object) {
    if (object == NULL)
        return;
    unlink_object(object);
    let_go(object);
}

void lmc_objects_clear(lmc_context *context, bool force) {
    lmc_cache_clear(context->cache, force);
}

/* ---- reports ---- */

/* Copies as much as the caller's struct, whose first member is its size, has room for. */
static lmc_status give_report(void *to, const void *from, uint64_t known) {
    uint64_t size;
    memcpy(&size, to, sizeof size);
    if (size < sizeof size)
        return LMC_INVALID;
    uint64_t given = size < known ? size : known;
    memset(to, 0, size);
    memcpy(to, from, given);
    memcpy(to, &given, sizeof given);
    return LMC_OK;
}

lmc_status lmc_memory_usage(lmc_context *context, lmc_memory_report *report) {
    lmc_l1_report l1;
    lmc_l1_report_get(lmc_cache_l1(context->cache), &l1);
    lmc_memory_report full = {.capacity_bytes = l1.capacity_bytes,
                              .used_bytes = l1.used_bytes,
                              .staging_bytes = l1.staging_bytes,
                              .resident_objects = l1.resident_count,
                              .staging_objects = l1.staging_count,
                              .read_locked_objects = l1.read_locked_count};
    return give_report(report, &full, sizeof full);
}

lmc_status lmc_model_layout_of(lmc_context *context, lmc_slice model_name, int64_t world_size,
                               uint32_t group, lmc_model_layout *layout) {
    lmc_chunk_layout found;
    lmc_status status = lmc_cache_layout(context->cache, model_name, world_size, group, &found);
    if (status != LMC_OK)
        return status;
    lmc_model_layout full = {.bytes = found.size,
                             .window = found.window,
                             .dim_count = found.dim_count,
                             .is_extra = found.extra};
    for (uint32_t i = 0; i < found.dim_count && i < 4; i++)
        full.dims[i] = found.dims[i];
    memcpy(full.dtype, found.dtype, sizeof found.dtype);
    return give_report(layout, &full, sizeof full);
}
