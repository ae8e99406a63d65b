#include <assert.h>

#include "cache/l1_internal.h"

static size_t batch_end(size_t at, size_t count) {
    return count - at > LMC_L1_BATCH ? at + LMC_L1_BATCH : count;
}

/* One more reader unless the counter would overflow, which counts as not found. */
static lmc_object_ref hold(lmc_l1 *l1, uint32_t object, uint32_t shares) {
    const lmc_object *record = lmc_object_at(&l1->table, object);
    if (record->state != LMC_OBJECT_RESIDENT || record->readers > UINT32_MAX - shares)
        return LMC_NO_OBJECT;
    lmc_object_hold(&l1->table, object, shares);
    return lmc_l1_ref(l1, object);
}

void lmc_l1_acquire(lmc_l1 *l1, const lmc_l1_key *keys, size_t count, uint32_t shares,
                    lmc_object_ref *refs) {
    uint64_t hashes[LMC_L1_BATCH];
    lmc_tally held;
    assert(shares > 0);
    lmc_tally_init(&held, l1, LMC_L1_READ_RESERVED);
    for (size_t at = 0; at < count;) {
        size_t end = batch_end(at, count);
        lmc_l1_enter(l1);
        lmc_object_table_prepare(&l1->table, keys + at, end - at, hashes);
        for (size_t i = at; i < end; i++) {
            uint32_t object = lmc_object_table_find(&l1->table, &keys[i], hashes[i - at]);
            refs[i] = object != 0 ? hold(l1, object, shares) : LMC_NO_OBJECT;
            if (refs[i] != LMC_NO_OBJECT)
                lmc_tally_see(&held, l1, object);
        }
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &held, NULL);
        at = end;
    }
}

void lmc_l1_acquire_more(lmc_l1 *l1, const lmc_object_ref *refs, size_t count,
                         uint32_t shares) {
    for (size_t at = 0; at < count;) {
        size_t end = batch_end(at, count);
        lmc_l1_enter(l1);
        for (size_t i = at; i < end; i++) {
            if (refs[i] != LMC_NO_OBJECT)
                lmc_object_hold(&l1->table, lmc_l1_object(l1, refs[i]), shares);
        }
        lmc_l1_leave(l1);
        at = end;
    }
}

static void warm(const lmc_l1 *l1, const lmc_object_ref *refs, size_t at, size_t end) {
    for (size_t i = at; i < end; i++) {
        if (refs[i] != LMC_NO_OBJECT)
            __builtin_prefetch(lmc_object_at(&l1->table, lmc_l1_object(l1, refs[i])), 1);
    }
    for (size_t i = at; i < end; i++) {
        if (refs[i] == LMC_NO_OBJECT)
            continue;
        const lmc_object *object = lmc_object_at(&l1->table, lmc_l1_object(l1, refs[i]));
        __builtin_prefetch(lmc_chunk_at(&l1->table, object->chunk), 1);
    }
}

void lmc_l1_release(lmc_l1 *l1, const lmc_object_ref *refs, size_t count, uint32_t shares,
                    bool transfer) {
    lmc_tally read;
    lmc_tally_init(&read, l1,
                   transfer ? LMC_L1_READ_FINISHED | LMC_L1_READ_RELEASED
                            : LMC_L1_READ_RELEASED);
    for (size_t at = 0; at < count;) {
        size_t end = batch_end(at, count);
        lmc_l1_enter(l1);
        warm(l1, refs, at, end);
        for (size_t i = at; i < end; i++) {
            if (refs[i] == LMC_NO_OBJECT)
                continue;
            uint32_t object = lmc_l1_object(l1, refs[i]);
            if (transfer)
                lmc_tally_add(&read, lmc_l1_space_of(l1, object), 1);
            lmc_tally_see(&read, l1, object);
            lmc_object_let_go(&l1->table, object, shares);
        }
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &read, l1->observer.read);
        at = end;
    }
}

/* The object of that key among those of its chunk. */
static void see_key(lmc_tally *touched, lmc_l1 *l1, uint32_t chunk, const lmc_l1_key *key) {
    if (touched->wanted == 0)
        return;
    const lmc_chunk *record = lmc_chunk_at(&l1->table, chunk);
    uint32_t index = record->object;
    for (uint32_t i = 0; i < record->objects; i++) {
        const lmc_object *object = lmc_object_at(&l1->table, index);
        if (object->kv_rank == key->kv_rank && object->group == key->group &&
            object->state == LMC_OBJECT_RESIDENT)
            lmc_tally_see(touched, l1, index);
        index = object->next;
    }
}

/* From the back: see lmc_l1_commit(). */
void lmc_l1_touch(lmc_l1 *l1, const lmc_l1_key *keys, size_t count) {
    uint64_t hashes[LMC_L1_BATCH];
    lmc_tally touched;
    lmc_tally_init(&touched, l1, LMC_L1_ACCESSED);
    for (size_t end = count; end > 0;) {
        size_t at = end > LMC_L1_BATCH ? end - LMC_L1_BATCH : 0;
        lmc_l1_enter(l1);
        lmc_object_table_prepare(&l1->table, keys + at, end - at, hashes);
        for (size_t i = end; i-- > at;) {
            uint32_t chunk = lmc_object_table_find_chunk(&l1->table, &keys[i], hashes[i - at]);
            if (chunk == 0)
                continue;
            lmc_chunk_touch(&l1->table, chunk);
            see_key(&touched, l1, chunk, &keys[i]);
        }
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &touched, NULL);
        end = at;
    }
}

/* The holder's reference keeps the record and its extent as they are, so no lock is needed. */
static const lmc_extent *extent_of(const lmc_l1 *l1, lmc_object_ref ref) {
    const lmc_object *object = lmc_object_at(&l1->table, lmc_l1_object(l1, ref));
    return lmc_extent_at(&l1->extents, object->extent);
}

uint64_t lmc_l1_offset(lmc_l1 *l1, lmc_object_ref ref) {
    return (uint64_t)extent_of(l1, ref)->start * l1->unit;
}

void *lmc_l1_data(lmc_l1 *l1, lmc_object_ref ref) {
    return l1->pool.base + lmc_l1_offset(l1, ref);
}

uint64_t lmc_l1_size(lmc_l1 *l1, lmc_object_ref ref) { return extent_of(l1, ref)->size; }
