#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/l1_internal.h"

#define PAUSE_YIELDS 200
#define REST_NS 50000L

void lmc_l1_enter(lmc_l1 *l1) {
    if (lmc_lock_try(&l1->lock))
        return;
    atomic_fetch_add_explicit(&l1->waiting, 1, memory_order_relaxed);
    lmc_lock_take(&l1->lock);
    atomic_fetch_sub_explicit(&l1->waiting, 1, memory_order_relaxed);
}

void lmc_l1_leave(lmc_l1 *l1) { lmc_lock_drop(&l1->lock); }

void lmc_l1_pause(lmc_l1 *l1) {
    for (int i = 0; i < PAUSE_YIELDS; i++) {
        if (atomic_load_explicit(&l1->waiting, memory_order_relaxed) == 0)
            return;
        (void)sched_yield();
    }
}

void lmc_l1_rest(void) {
    struct timespec pause = {.tv_nsec = REST_NS};
    (void)nanosleep(&pause, NULL);
}

/* ---- references ---- */

#ifdef NDEBUG
lmc_object_ref lmc_l1_ref(const lmc_l1 *l1, uint32_t object) {
    (void)l1;
    return object;
}

uint32_t lmc_l1_object(const lmc_l1 *l1, lmc_object_ref ref) {
    (void)l1;
    return ref;
}
#else
#define GENERATION_MASK ((UINT32_C(1) << (32 - LMC_REF_BITS)) - 1)

lmc_object_ref lmc_l1_ref(const lmc_l1 *l1, uint32_t object) {
    uint32_t generation = lmc_object_at(&l1->table, object)->generation & GENERATION_MASK;
    return generation << LMC_REF_BITS | object;
}

uint32_t lmc_l1_object(const lmc_l1 *l1, lmc_object_ref ref) {
    uint32_t index = ref & LMC_OBJECTS_MAX;
    const lmc_object *object = lmc_object_at(&l1->table, index);
    if (object->state == LMC_OBJECT_FREE ||
        (object->generation & GENERATION_MASK) != ref >> LMC_REF_BITS) {
        fprintf(stderr, "l1: stale object reference %#x\n", (unsigned)ref);
        abort();
    }
    return index;
}
#endif

/* ---- tallies ---- */

lmc_key_space *lmc_l1_space_of(const lmc_l1 *l1, uint32_t object) {
    uint32_t chunk = lmc_object_at(&l1->table, object)->chunk;
    return lmc_key_spaces_at(&l1->spaces, lmc_chunk_at(&l1->table, chunk)->space);
}

void lmc_tally_init(lmc_tally *tally, const lmc_l1 *l1, uint32_t what) {
    tally->used = 0;
    tally->wanted = lmc_l1_wants(l1, what) ? what : 0;
    tally->sights.items = NULL;
    tally->sights.count = tally->sights.room = 0;
}

void lmc_tally_add(lmc_tally *tally, lmc_key_space *space, size_t count) {
    for (size_t i = tally->used; i-- > 0;) {
        if (tally->rows[i].space == space) {
            tally->rows[i].count += count;
            return;
        }
    }
    tally->rows[tally->used].space = lmc_key_space_keep(space);
    tally->rows[tally->used++].count = count;
}

/* ---- single objects ---- */

/* The next one, or NULL: there is no memory to remember it. */
static lmc_l1_sight *next_sight(lmc_tally *tally) {
    if (tally->sights.count == tally->sights.room) {
        size_t room = tally->sights.room != 0 ? 2 * tally->sights.room : LMC_L1_BATCH;
        lmc_l1_sight *more = realloc(tally->sights.items, room * sizeof *more);
        if (more == NULL)
            return NULL;
        tally->sights.items = more;
        tally->sights.room = room;
    }
    return &tally->sights.items[tally->sights.count++];
}

static void see(lmc_tally *tally, lmc_l1 *l1, uint32_t index) {
    const lmc_object *object = lmc_object_at(&l1->table, index);
    const lmc_chunk *chunk = lmc_chunk_at(&l1->table, object->chunk);
    lmc_key_space *space = lmc_key_spaces_at(&l1->spaces, chunk->space);
    lmc_l1_sight *sight = next_sight(tally);
    if (sight == NULL)
        return;
    *sight = (lmc_l1_sight){.space = space,
                            .kv_rank = object->kv_rank,
                            .size = lmc_extent_at(&l1->extents, object->extent)->size,
                            .group = object->group};
    memcpy(sight->hash, chunk->hash, sizeof sight->hash);
    lmc_tally_add(tally, space, 0); /* holds it */
}

void lmc_tally_see(lmc_tally *tally, lmc_l1 *l1, uint32_t object) {
    if (tally->wanted != 0)
        see(tally, l1, object);
}

void lmc_tally_see_chunk(lmc_tally *tally, lmc_l1 *l1, uint32_t chunk_index, bool idle) {
    if (tally->wanted == 0)
        return;
    const lmc_chunk *chunk = lmc_chunk_at(&l1->table, chunk_index);
    uint32_t index = chunk->object;
    for (uint32_t i = 0; i < chunk->objects; i++) {
        const lmc_object *object = lmc_object_at(&l1->table, index);
        if (object->state == LMC_OBJECT_RESIDENT && (!idle || object->readers == 0))
            see(tally, l1, index);
        index = object->next;
    }
}

/* Under no lock. */
static void report_sights(lmc_l1 *l1, lmc_tally *tally) {
    for (uint32_t what = 1; what != 0 && what <= tally->wanted; what <<= 1) {
        if ((what & tally->wanted) != 0)
            l1->observer.saw(l1->observer.arg, what, tally->sights.items, tally->sights.count);
    }
    free(tally->sights.items);
    tally->sights.items = NULL;
    tally->sights.count = tally->sights.room = 0;
}

void lmc_l1_tell(lmc_l1 *l1, uint32_t what, const lmc_l1_key *keys, size_t count,
                 uint64_t size) {
    lmc_l1_sight *sights =
        lmc_l1_wants(l1, what) && count != 0 ? calloc(count, sizeof *sights) : NULL;
    if (sights == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        sights[i] = (lmc_l1_sight){.space = keys[i].space,
                                   .kv_rank = keys[i].kv_rank,
                                   .size = size,
                                   .group = keys[i].group};
        memcpy(sights[i].hash, keys[i].hash, sizeof sights[i].hash);
    }
    l1->observer.saw(l1->observer.arg, what, sights, count);
    free(sights);
}

/* ---- reports ---- */

static void report(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call,
                   lmc_slice (*text)(const lmc_key_space *space)) {
    if (tally->sights.count != 0)
        report_sights(l1, tally);
    for (size_t i = 0; i < tally->used; i++) {
        if (call != NULL && tally->rows[i].count != 0)
            call(l1->observer.arg, text(tally->rows[i].space), tally->rows[i].count);
        lmc_key_space_drop(l1, tally->rows[i].space);
    }
    tally->used = 0;
}

void lmc_tally_report_salt(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call) {
    report(l1, tally, call, lmc_key_space_salt);
}

void lmc_tally_report_model(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call) {
    report(l1, tally, call, lmc_key_space_model);
}
