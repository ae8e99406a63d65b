#include "cache/key_space.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "cache/mix.h"

static uint64_t entry_hash(const void *owner, uint32_t index) {
    return lmc_key_spaces_at(owner, index)->hash;
}

static uint32_t *entry_next(const void *owner, uint32_t index) {
    return &lmc_key_spaces_at(owner, index)->next;
}

lmc_status lmc_key_spaces_init(lmc_key_spaces *spaces) {
    *spaces = (lmc_key_spaces){0};
    lmc_hash_seed_init(&spaces->seed);
    lmc_status status =
        lmc_slab_init(&spaces->slab, sizeof(lmc_key_space *), LMC_KEY_SPACES_MAX);
    if (status == LMC_OK)
        status = lmc_index_table_init(&spaces->table, LMC_KEY_SPACES_MAX,
                                      (lmc_index_entries){entry_hash, entry_next, spaces});
    if (status != LMC_OK)
        lmc_key_spaces_fini(spaces);
    return status;
}

void lmc_key_spaces_fini(lmc_key_spaces *spaces) {
    for (size_t i = 0; i < spaces->table.segment_count << LMC_INDEX_SEGMENT_BITS; i++) {
        uint32_t index = spaces->table.segments[i >> LMC_INDEX_SEGMENT_BITS]
                                               [i & ((1u << LMC_INDEX_SEGMENT_BITS) - 1)];
        while (index != 0) {
            lmc_key_space *space = lmc_key_spaces_at(spaces, index);
            index = space->next;
            free(space);
        }
    }
    lmc_index_table_fini(&spaces->table);
    lmc_slab_fini(&spaces->slab);
}

static bool is_space(const lmc_key_space *space, lmc_slice model, lmc_slice salt) {
    return lmc_slice_equal(lmc_key_space_model(space), model) &&
           lmc_slice_equal(lmc_key_space_salt(space), salt);
}

static lmc_key_space *add(lmc_key_spaces *spaces, lmc_slice model, lmc_slice salt,
                          uint64_t hash) {
    lmc_key_space *space = malloc(sizeof *space + model.size + salt.size);
    uint32_t index = space != NULL ? lmc_slab_take(&spaces->slab) : 0;
    if (index == 0) {
        free(space);
        return NULL;
    }
    atomic_init(&space->references, 1);
    space->hash = hash;
    space->index = index;
    space->next = 0;
    space->model_size = model.size;
    space->salt_size = salt.size;
    if (model.size != 0)
        memcpy(space->text, model.data, model.size);
    if (salt.size != 0)
        memcpy(space->text + model.size, salt.data, salt.size);
    *(lmc_key_space **)lmc_slab_at(&spaces->slab, index) = space;
    lmc_index_table_add(&spaces->table, index, hash);
    spaces->bytes += sizeof *space + model.size + salt.size;
    return space;
}

lmc_key_space *lmc_key_spaces_get(lmc_key_spaces *spaces, lmc_slice model, lmc_slice salt) {
    uint64_t hash = lmc_mix(lmc_hash_keyed(&spaces->seed, model.data, model.size),
                            lmc_hash_keyed(&spaces->seed, salt.data, salt.size));
    uint32_t index = *lmc_index_table_bucket(&spaces->table, hash);
    while (index != 0) {
        lmc_key_space *space = lmc_key_spaces_at(spaces, index);
        if (space->hash == hash && is_space(space, model, salt))
            return lmc_key_space_keep(space);
        index = space->next;
    }
    return add(spaces, model, salt, hash);
}

void lmc_key_spaces_drop(lmc_key_spaces *spaces, lmc_key_space *space) {
    if (atomic_fetch_sub_explicit(&space->references, 1, memory_order_acq_rel) != 1)
        return;
    spaces->bytes -= sizeof *space + space->model_size + space->salt_size;
    lmc_index_table_remove(&spaces->table, space->index, space->hash);
    lmc_slab_give(&spaces->slab, space->index);
    free(space);
}

bool lmc_key_space_drop_shared(lmc_key_space *space) {
    uint64_t references = atomic_load_explicit(&space->references, memory_order_relaxed);
    while (references > 1) {
        if (atomic_compare_exchange_weak_explicit(&space->references, &references,
                                                  references - 1, memory_order_release,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

lmc_key_space *lmc_key_space_keep(lmc_key_space *space) {
    atomic_fetch_add_explicit(&space->references, 1, memory_order_relaxed);
    return space;
}

lmc_slice lmc_key_space_model(const lmc_key_space *space) {
    return (lmc_slice){space->text, space->model_size};
}

lmc_slice lmc_key_space_salt(const lmc_key_space *space) {
    return (lmc_slice){space->text + space->model_size, space->salt_size};
}

size_t lmc_key_spaces_bytes(const lmc_key_spaces *spaces) {
    return spaces->bytes + lmc_slab_bytes(&spaces->slab) +
           lmc_index_table_bytes(&spaces->table);
}
