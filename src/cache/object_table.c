#include "cache/object_table.h"

#include <assert.h>
#include <string.h>

#include "cache/mix.h"

#define PREFETCH_AHEAD 32

static uint64_t hash_of(const lmc_object_table *table, const uint8_t *hash, uint32_t space) {
    uint64_t words[2];
    memcpy(words, hash, sizeof words);
    return lmc_mix(lmc_mix(words[0], table->seed.words[0]) ^ words[1] ^ space,
                   table->seed.words[1]);
}

static uint64_t entry_hash(const void *owner, uint32_t index) {
    const lmc_chunk *chunk = lmc_chunk_at(owner, index);
    return hash_of(owner, chunk->hash, chunk->space);
}

static uint32_t *entry_next(const void *owner, uint32_t index) {
    return &lmc_chunk_at(owner, index)->next;
}

lmc_status lmc_object_table_init(lmc_object_table *table, lmc_key_spaces *spaces,
                                 lmc_extents *extents, bool aged) {
    *table = (lmc_object_table){.spaces = spaces, .extents = extents, .aged = aged};
    lmc_hash_seed_init(&table->seed);
    uint32_t max = extents->max_units < LMC_OBJECTS_MAX ? extents->max_units : LMC_OBJECTS_MAX;
    lmc_status status = lmc_slab_init(&table->chunks, sizeof(lmc_chunk), max);
    if (status == LMC_OK)
        status = lmc_slab_init(&table->objects, sizeof(lmc_object), max);
    if (status == LMC_OK)
        status = lmc_index_table_init(&table->index, max,
                                      (lmc_index_entries){entry_hash, entry_next, table});
    if (status != LMC_OK)
        lmc_object_table_fini(table);
    return status;
}

void lmc_object_table_fini(lmc_object_table *table) {
    lmc_index_table_fini(&table->index);
    lmc_slab_fini(&table->objects);
    lmc_slab_fini(&table->chunks);
}

/* ---- the age list ---- */

static void age_remove(lmc_object_table *table, lmc_chunk *chunk) {
    chunk->mark &= ~LMC_CHUNK_PARKED;
    if ((chunk->mark & LMC_CHUNK_LISTED) == 0)
        return;
    chunk->mark &= ~LMC_CHUNK_LISTED;
    if (chunk->older != 0)
        lmc_chunk_at(table, chunk->older)->newer = chunk->newer;
    else
        table->oldest = chunk->newer;
    if (chunk->newer != 0)
        lmc_chunk_at(table, chunk->newer)->older = chunk->older;
    else
        table->newest = chunk->older;
}

static void age_add_newest(lmc_object_table *table, uint32_t index) {
    lmc_chunk *chunk = lmc_chunk_at(table, index);
    chunk->mark |= LMC_CHUNK_LISTED;
    chunk->older = table->newest;
    chunk->newer = 0;
    if (table->newest != 0)
        lmc_chunk_at(table, table->newest)->newer = index;
    else
        table->oldest = index;
    table->newest = index;
}

static void age_add_oldest(lmc_object_table *table, uint32_t index) {
    lmc_chunk *chunk = lmc_chunk_at(table, index);
    chunk->mark = (chunk->mark & ~LMC_CHUNK_PARKED) | LMC_CHUNK_LISTED;
    chunk->newer = table->oldest;
    chunk->older = 0;
    if (table->oldest != 0)
        lmc_chunk_at(table, table->oldest)->older = index;
    else
        table->newest = index;
    table->oldest = index;
}

void lmc_chunk_touch(lmc_object_table *table, uint32_t index) {
    lmc_chunk *chunk = lmc_chunk_at(table, index);
    if (!table->aged || table->newest == index || !lmc_chunk_is_current(table, chunk))
        return;
    age_remove(table, chunk);
    age_add_newest(table, index);
}

uint32_t lmc_object_table_victim(lmc_object_table *table, uint32_t *budget) {
    for (; *budget != 0 && table->oldest != 0; (*budget)--) {
        uint32_t index = table->oldest;
        lmc_chunk *chunk = lmc_chunk_at(table, index);
        if (chunk->busy == 0)
            return index;
        age_remove(table, chunk);
        chunk->mark |= LMC_CHUNK_PARKED;
    }
    return 0;
}

/* ---- finding ---- */

void lmc_object_table_prepare(const lmc_object_table *table, const lmc_l1_key *keys,
                              size_t count, uint64_t *hashes) {
    for (size_t at = 0; at < count; at += PREFETCH_AHEAD) {
        size_t end = at + PREFETCH_AHEAD < count ? at + PREFETCH_AHEAD : count;
        for (size_t i = at; i < end; i++) {
            hashes[i] = hash_of(table, keys[i].hash, keys[i].space->index);
            __builtin_prefetch(lmc_index_table_bucket(&table->index, hashes[i]));
        }
        uint32_t chunks[PREFETCH_AHEAD];
        for (size_t i = at; i < end; i++) {
            uint32_t index = *lmc_index_table_bucket(&table->index, hashes[i]);
            chunks[i - at] = index;
            if (index != 0)
                __builtin_prefetch(lmc_chunk_at(table, index), 1);
        }
        for (size_t i = at; i < end; i++) {
            uint32_t index = chunks[i - at];
            if (index != 0)
                __builtin_prefetch(lmc_object_at(table, lmc_chunk_at(table, index)->object), 1);
        }
    }
}

uint32_t lmc_object_table_find_chunk(const lmc_object_table *table, const lmc_l1_key *key,
                                     uint64_t hash) {
    uint32_t index = *lmc_index_table_bucket(&table->index, hash);
    while (index != 0) {
        const lmc_chunk *chunk = lmc_chunk_at(table, index);
        if (chunk->space == key->space->index &&
            memcmp(chunk->hash, key->hash, LMC_HASH_SIZE) == 0 &&
            lmc_chunk_is_current(table, chunk))
            return index;
        index = chunk->next;
    }
    return 0;
}

/* Rows ask for one shard after the other, so the ring remembers where the last one was. */
static uint32_t find_in_chunk(lmc_object_table *table, lmc_chunk *chunk, uint64_t kv_rank,
                              uint32_t group) {
    uint32_t index = chunk->object;
    for (uint32_t i = 0; i < chunk->objects; i++) {
        const lmc_object *object = lmc_object_at(table, index);
        if (object->kv_rank == kv_rank && object->group == group) {
            chunk->object = index;
            return index;
        }
        index = object->next;
    }
    return 0;
}

uint32_t lmc_object_table_find(lmc_object_table *table, const lmc_l1_key *key, uint64_t hash) {
    uint32_t chunk = lmc_object_table_find_chunk(table, key, hash);
    if (chunk == 0)
        return 0;
    return find_in_chunk(table, lmc_chunk_at(table, chunk), key->kv_rank, key->group);
}

/* ---- adding and removing ---- */

static uint32_t add_chunk(lmc_object_table *table, const lmc_l1_key *key, uint64_t hash) {
    uint32_t index = lmc_slab_take(&table->chunks);
    if (index == 0)
        return 0;
    lmc_chunk *chunk = lmc_chunk_at(table, index);
    *chunk = (lmc_chunk){.space = key->space->index, .mark = table->epoch};
    memcpy(chunk->hash, key->hash, LMC_HASH_SIZE);
    lmc_key_space_keep(key->space);
    lmc_index_table_add(&table->index, index, hash);
    if (table->aged)
        age_add_newest(table, index);
    return index;
}

static void remove_chunk(lmc_object_table *table, uint32_t index) {
    lmc_chunk *chunk = lmc_chunk_at(table, index);
    if ((chunk->mark & LMC_CHUNK_DETACHED) == 0) {
        age_remove(table, chunk);
        lmc_index_table_remove(&table->index, index, entry_hash(table, index));
    }
    lmc_key_spaces_drop(table->spaces, lmc_key_spaces_at(table->spaces, chunk->space));
    lmc_slab_give(&table->chunks, index);
}

static void ring_add(lmc_object_table *table, lmc_chunk *chunk, uint32_t index) {
    lmc_object *object = lmc_object_at(table, index);
    if (chunk->object == 0) {
        object->next = index;
    } else {
        lmc_object *last = lmc_object_at(table, chunk->object);
        object->next = last->next;
        last->next = index;
    }
    chunk->object = index;
    chunk->objects++;
}

static void ring_remove(lmc_object_table *table, lmc_chunk *chunk, uint32_t index) {
    uint32_t before = chunk->object;
    while (lmc_object_at(table, before)->next != index)
        before = lmc_object_at(table, before)->next;
    lmc_object_at(table, before)->next = lmc_object_at(table, index)->next;
    chunk->objects--;
    chunk->object = chunk->objects != 0 ? before : 0;
}

static uint64_t size_of(const lmc_object_table *table, const lmc_object *object) {
    return lmc_extent_at(table->extents, object->extent)->size;
}

uint32_t lmc_object_table_add(lmc_object_table *table, const lmc_l1_key *key, uint64_t hash,
                              uint32_t extent) {
    uint32_t index = lmc_slab_take(&table->objects);
    if (index == 0)
        return 0;
    uint32_t chunk_index = lmc_object_table_find_chunk(table, key, hash);
    bool full =
        chunk_index != 0 && lmc_chunk_at(table, chunk_index)->objects >= LMC_CHUNK_OBJECTS_MAX;
    if (chunk_index == 0)
        chunk_index = add_chunk(table, key, hash);
    if (chunk_index == 0 || full) {
        lmc_slab_give(&table->objects, index);
        return 0;
    }
    lmc_object *object = lmc_object_at(table, index);
    *object = (lmc_object){.chunk = chunk_index,
                           .kv_rank = key->kv_rank,
                           .group = key->group,
                           .extent = extent,
                           .state = LMC_OBJECT_STAGING,
                           .generation = object->generation};
    lmc_chunk *chunk = lmc_chunk_at(table, chunk_index);
    ring_add(table, chunk, index);
    chunk->busy++;
    table->staging++;
    table->staging_bytes += size_of(table, object);
    return index;
}

/* Takes an object out of the counters of what can be found. */
static void uncount(lmc_object_table *table, const lmc_object *object) {
    if (object->state == LMC_OBJECT_STAGING) {
        table->staging--;
        table->staging_bytes -= size_of(table, object);
        return;
    }
    table->resident--;
    if (object->readers != 0)
        table->read_locked--;
}

static void no_longer_busy(lmc_object_table *table, uint32_t chunk_index) {
    lmc_chunk *chunk = lmc_chunk_at(table, chunk_index);
    if (--chunk->busy == 0 && (chunk->mark & LMC_CHUNK_PARKED) != 0)
        age_add_oldest(table, chunk_index);
}

void lmc_object_remove(lmc_object_table *table, uint32_t index) {
    lmc_object *object = lmc_object_at(table, index);
    uint32_t chunk_index = object->chunk;
    lmc_chunk *chunk = lmc_chunk_at(table, chunk_index);
    if ((chunk->mark & LMC_CHUNK_DETACHED) == 0)
        uncount(table, object);
    if (object->state == LMC_OBJECT_STAGING || object->readers != 0)
        no_longer_busy(table, chunk_index);
    ring_remove(table, chunk, index);
    lmc_extents_give(table->extents, object->extent);
    object->state = LMC_OBJECT_FREE;
    object->generation++;
    lmc_slab_give(&table->objects, index);
    if (chunk->objects == 0)
        remove_chunk(table, chunk_index);
}

/* ---- references ---- */

void lmc_object_hold(lmc_object_table *table, uint32_t index, uint32_t shares) {
    lmc_object *object = lmc_object_at(table, index);
    lmc_chunk *chunk = lmc_chunk_at(table, object->chunk);
    if (object->readers == 0 && shares != 0) {
        chunk->busy++;
        table->read_locked++;
    }
    object->readers += shares;
}

void lmc_object_let_go(lmc_object_table *table, uint32_t index, uint32_t shares) {
    lmc_object *object = lmc_object_at(table, index);
    assert(object->readers >= shares);
    if (shares == 0)
        return;
    if (object->readers > shares) {
        object->readers -= shares;
        return;
    }
    if ((lmc_chunk_at(table, object->chunk)->mark & LMC_CHUNK_DETACHED) != 0) {
        lmc_object_remove(table, index);
        return;
    }
    object->readers = 0;
    table->read_locked--;
    no_longer_busy(table, object->chunk);
}

void lmc_object_publish(lmc_object_table *table, uint32_t index) {
    lmc_object *object = lmc_object_at(table, index);
    uncount(table, object);
    object->state = LMC_OBJECT_RESIDENT;
    table->resident++;
    no_longer_busy(table, object->chunk);
}

bool lmc_object_is_dead(const lmc_object_table *table, uint32_t index) {
    return !lmc_chunk_is_current(table,
                                 lmc_chunk_at(table, lmc_object_at(table, index)->chunk));
}

/* ---- clearing ---- */

void lmc_object_table_advance(lmc_object_table *table) {
    table->epoch = (table->epoch + 1) & LMC_CHUNK_EPOCH;
}

static void detach(lmc_object_table *table, uint32_t chunk_index) {
    lmc_chunk *chunk = lmc_chunk_at(table, chunk_index);
    age_remove(table, chunk);
    lmc_index_table_remove(&table->index, chunk_index, entry_hash(table, chunk_index));
    chunk->mark |= LMC_CHUNK_DETACHED;
    uint32_t index = chunk->object;
    for (uint32_t i = 0; i < chunk->objects; i++) {
        uncount(table, lmc_object_at(table, index));
        index = lmc_object_at(table, index)->next;
    }
}

uint32_t lmc_chunk_sweep(lmc_object_table *table, uint32_t chunk_index) {
    lmc_chunk *chunk = lmc_chunk_at(table, chunk_index);
    if (chunk->objects == 0 || (chunk->mark & LMC_CHUNK_DETACHED) != 0)
        return 0;
    bool all = !lmc_chunk_is_current(table, chunk);
    uint32_t gone = 0, left = 0, count = chunk->objects;
    uint32_t index = lmc_object_at(table, chunk->object)->next;
    for (uint32_t i = 0; i < count; i++) {
        const lmc_object *object = lmc_object_at(table, index);
        uint32_t next = object->next;
        bool resident = object->state == LMC_OBJECT_RESIDENT;
        bool held = !resident || object->readers != 0;
        gone += resident && (all || !held);
        left += held;
        if (!held)
            lmc_object_remove(table, index);
        index = next;
    }
    if (all && left != 0)
        detach(table, chunk_index);
    return gone;
}

size_t lmc_object_table_bytes(const lmc_object_table *table) {
    return lmc_slab_bytes(&table->chunks) + lmc_slab_bytes(&table->objects) +
           lmc_index_table_bytes(&table->index);
}
