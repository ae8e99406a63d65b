#include "cache/layouts.h"

#include <stdlib.h>
#include <string.h>

#include "cache/chunk_keys.h"

typedef struct entry {
    uint64_t registrations;
    lmc_layout *layout;
} entry;

/* Text key of an entry: the world size's bytes, then the model name. */
typedef struct entry_name {
    size_t size;
    uint8_t bytes[sizeof(int64_t) + LMC_NAME_MAX];
} entry_name;

static bool name_of(lmc_slice model, int64_t world_size, entry_name *name) {
    if (model.size > LMC_NAME_MAX)
        return false;
    memcpy(name->bytes, &world_size, sizeof(world_size));
    if (model.size > 0)
        memcpy(name->bytes + sizeof(world_size), model.data, model.size);
    name->size = sizeof(world_size) + model.size;
    return true;
}

static lmc_slice slice_of(const entry_name *name) {
    return (lmc_slice){name->bytes, name->size};
}

lmc_layout *lmc_layout_create(const lmc_chunk_layout *groups, size_t count) {
    lmc_layout *layout = malloc(sizeof(*layout) + count * sizeof(*groups));
    if (layout == NULL)
        return NULL;
    atomic_init(&layout->refs, 1);
    layout->group_count = (uint32_t)count;
    if (count > 0)
        memcpy(layout->groups, groups, count * sizeof(*groups));
    return layout;
}

lmc_layout *lmc_layout_keep(lmc_layout *layout) {
    atomic_fetch_add_explicit(&layout->refs, 1, memory_order_relaxed);
    return layout;
}

void lmc_layout_drop(lmc_layout *layout) {
    if (layout != NULL &&
        atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) == 1)
        free(layout);
}

lmc_status lmc_layouts_init(lmc_layouts *layouts) {
    layouts->entries = lmc_hashmap_create();
    if (layouts->entries == NULL)
        return LMC_NO_MEMORY;
    lmc_lock_init(&layouts->lock, LMC_RANK_LAYOUTS, "layouts");
    return LMC_OK;
}

void lmc_layouts_fini(lmc_layouts *layouts) {
    if (layouts->entries == NULL)
        return;
    size_t at = 0;
    lmc_slice key;
    void *value;
    while (lmc_hashmap_next(layouts->entries, &at, &key, &value)) {
        lmc_layout_drop(((entry *)value)->layout);
        free(value);
    }
    lmc_hashmap_destroy(layouts->entries);
    layouts->entries = NULL;
    lmc_lock_fini(&layouts->lock);
}

/* With the lock held; `spare` becomes the entry when there is none yet. */
static lmc_status add_locked(lmc_layouts *layouts, lmc_slice name, lmc_layout *layout,
                             entry **spare, lmc_layout **replaced) {
    entry *found = lmc_hashmap_get(layouts->entries, name);
    if (found == NULL) {
        lmc_status status = lmc_hashmap_put(layouts->entries, name, *spare, NULL);
        if (status != LMC_OK)
            return status;
        found = *spare;
        *spare = NULL;
    }
    *replaced = found->layout;
    found->layout = lmc_layout_keep(layout);
    found->registrations++;
    return LMC_OK;
}

lmc_status lmc_layouts_add(lmc_layouts *layouts, lmc_slice model, int64_t world_size,
                           lmc_layout *layout) {
    entry_name name;
    if (!name_of(model, world_size, &name))
        return LMC_INVALID;
    entry *spare = calloc(1, sizeof(*spare));
    if (spare == NULL)
        return LMC_NO_MEMORY;
    lmc_layout *replaced = NULL;
    lmc_lock_take(&layouts->lock);
    lmc_status status = add_locked(layouts, slice_of(&name), layout, &spare, &replaced);
    lmc_lock_drop(&layouts->lock);
    lmc_layout_drop(replaced);
    free(spare);
    return status;
}

void lmc_layouts_remove(lmc_layouts *layouts, lmc_slice model, int64_t world_size) {
    entry_name name;
    if (!name_of(model, world_size, &name))
        return;
    lmc_lock_take(&layouts->lock);
    entry *found = lmc_hashmap_get(layouts->entries, slice_of(&name));
    if (found != NULL && --found->registrations == 0)
        lmc_hashmap_remove(layouts->entries, slice_of(&name));
    else
        found = NULL;
    lmc_lock_drop(&layouts->lock);
    if (found != NULL)
        lmc_layout_drop(found->layout);
    free(found);
}

lmc_layout *lmc_layouts_get(lmc_layouts *layouts, lmc_slice model, int64_t world_size) {
    entry_name name;
    if (!name_of(model, world_size, &name))
        return NULL;
    lmc_lock_take(&layouts->lock);
    const entry *found = lmc_hashmap_get(layouts->entries, slice_of(&name));
    lmc_layout *layout = found != NULL ? lmc_layout_keep(found->layout) : NULL;
    lmc_lock_drop(&layouts->lock);
    return layout;
}
