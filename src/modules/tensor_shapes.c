#include "modules/tensor_shapes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hashmap.h"
#include "base/lock.h"

typedef struct shapes_entry {
    size_t count;
    lmc_chunk_layout items[];
} shapes_entry;

struct lmc_tensor_shapes {
    lmc_lock lock;
    lmc_hashmap *by_id;
    atomic_size_t count; /* usually 0: then nobody takes the lock */
};

lmc_tensor_shapes *lmc_tensor_shapes_create(void) {
    lmc_tensor_shapes *shapes = calloc(1, sizeof *shapes);
    if (shapes == NULL)
        return NULL;
    shapes->by_id = lmc_hashmap_create();
    if (shapes->by_id == NULL) {
        free(shapes);
        return NULL;
    }
    lmc_lock_init(&shapes->lock, LMC_RANK_MODULES, "tensor shapes");
    return shapes;
}

void lmc_tensor_shapes_destroy(lmc_tensor_shapes *shapes) {
    if (shapes == NULL)
        return;
    size_t at = 0;
    void *entry;
    while (lmc_hashmap_next(shapes->by_id, &at, NULL, &entry))
        free(entry);
    lmc_hashmap_destroy(shapes->by_id);
    lmc_lock_fini(&shapes->lock);
    free(shapes);
}

lmc_status lmc_tensor_shapes_put(lmc_tensor_shapes *shapes, int64_t instance_id,
                                 const lmc_object_tensors *tensors) {
    size_t size = tensors->count * sizeof *tensors->items;
    shapes_entry *entry = malloc(sizeof *entry + size);
    void *old = NULL;
    if (entry == NULL)
        return LMC_NO_MEMORY;
    entry->count = tensors->count;
    memcpy(entry->items, tensors->items, size);
    lmc_lock_take(&shapes->lock);
    lmc_status status = lmc_hashmap_put_id(shapes->by_id, (uint64_t)instance_id, entry, &old);
    atomic_store(&shapes->count, lmc_hashmap_count(shapes->by_id));
    lmc_lock_drop(&shapes->lock);
    free(status == LMC_OK ? old : entry);
    return status;
}

void lmc_tensor_shapes_forget(lmc_tensor_shapes *shapes, int64_t instance_id) {
    if (atomic_load(&shapes->count) == 0)
        return;
    lmc_lock_take(&shapes->lock);
    void *entry = lmc_hashmap_remove_id(shapes->by_id, (uint64_t)instance_id);
    atomic_store(&shapes->count, lmc_hashmap_count(shapes->by_id));
    lmc_lock_drop(&shapes->lock);
    free(entry);
}

lmc_status lmc_tensor_shapes_get(lmc_tensor_shapes *shapes, int64_t instance_id,
                                 lmc_arena *arena, lmc_object_tensors *tensors) {
    lmc_status status = LMC_OK;
    *tensors = (lmc_object_tensors){0};
    if (atomic_load(&shapes->count) == 0)
        return LMC_OK;
    lmc_lock_take(&shapes->lock);
    const shapes_entry *entry = lmc_hashmap_get_id(shapes->by_id, (uint64_t)instance_id);
    if (entry != NULL) {
        lmc_chunk_layout *items = lmc_arena_array(arena, entry->count, sizeof *items);
        if (items != NULL) {
            memcpy(items, entry->items, entry->count * sizeof *items);
            *tensors = (lmc_object_tensors){items, entry->count};
        } else {
            status = LMC_NO_MEMORY;
        }
    }
    lmc_lock_drop(&shapes->lock);
    return status;
}
