#include "module/unknown_ids.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/hashmap.h"
#include "base/lock.h"

typedef struct told_id {
    struct told_id *older, *newer;
    int64_t id;
} told_id;

struct lmc_unknown_ids {
    lmc_lock lock;
    lmc_hashmap *map; /* id to told_id */
    told_id *oldest, *newest;
    size_t limit;
    atomic_size_t count; /* read without the lock: nothing to forget is the usual case */
};

lmc_unknown_ids *lmc_unknown_ids_create(size_t limit) {
    lmc_unknown_ids *ids = calloc(1, sizeof *ids);
    if (ids == NULL)
        return NULL;
    ids->map = lmc_hashmap_create();
    if (ids->map == NULL) {
        free(ids);
        return NULL;
    }
    ids->limit = limit;
    lmc_lock_init(&ids->lock, LMC_RANK_MODULES, "unknown ids");
    return ids;
}

void lmc_unknown_ids_destroy(lmc_unknown_ids *ids) {
    if (ids == NULL)
        return;
    for (told_id *told = ids->oldest; told != NULL;) {
        told_id *newer = told->newer;
        free(told);
        told = newer;
    }
    lmc_hashmap_destroy(ids->map);
    lmc_lock_fini(&ids->lock);
    free(ids);
}

static void unlink_locked(lmc_unknown_ids *ids, told_id *told) {
    *(told->older != NULL ? &told->older->newer : &ids->oldest) = told->newer;
    *(told->newer != NULL ? &told->newer->older : &ids->newest) = told->older;
    lmc_hashmap_remove_id(ids->map, (uint64_t)told->id);
    atomic_fetch_sub(&ids->count, 1);
    free(told);
}

static bool remember_locked(lmc_unknown_ids *ids, int64_t instance_id) {
    if (lmc_hashmap_get_id(ids->map, (uint64_t)instance_id) != NULL)
        return false;
    told_id *told = calloc(1, sizeof *told);
    if (told == NULL)
        return false;
    told->id = instance_id;
    if (lmc_hashmap_put_id(ids->map, (uint64_t)instance_id, told, NULL) != LMC_OK) {
        free(told);
        return false;
    }
    told->older = ids->newest;
    *(ids->newest != NULL ? &ids->newest->newer : &ids->oldest) = told;
    ids->newest = told;
    if (atomic_fetch_add(&ids->count, 1) >= ids->limit)
        unlink_locked(ids, ids->oldest);
    return true;
}

bool lmc_unknown_ids_tell(lmc_unknown_ids *ids, int64_t instance_id) {
    lmc_lock_take(&ids->lock);
    bool first = remember_locked(ids, instance_id);
    lmc_lock_drop(&ids->lock);
    return first;
}

void lmc_unknown_ids_forget(lmc_unknown_ids *ids, int64_t instance_id) {
    if (atomic_load(&ids->count) == 0)
        return;
    lmc_lock_take(&ids->lock);
    told_id *told = lmc_hashmap_get_id(ids->map, (uint64_t)instance_id);
    if (told != NULL)
        unlink_locked(ids, told);
    lmc_lock_drop(&ids->lock);
}
