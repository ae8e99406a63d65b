#include "cache/l1_internal.h"

/* One call of lmc_l1_reserve(). */
typedef struct reservation {
    lmc_l1 *l1;
    const lmc_l1_key *keys;
    uint64_t size;
    uint32_t units; /* 0 = can never fit */
    lmc_object_ref *refs;
    lmc_reserve_result *results;
    bool no_pages;  /* supply has nothing more to give */
    bool no_memory; /* and nothing more can go: what is still missing is left out */
    lmc_tally evicted, reserved;
} reservation;

/* An extent; 0: no_memory is set, or the caller must leave the lock first and come again. */
static uint32_t find_room(reservation *r, uint32_t *budget) {
    lmc_l1 *l1 = r->l1;
    for (;;) {
        uint32_t extent = lmc_extents_take(&l1->extents, r->units);
        if (extent != 0 || !r->no_pages)
            return extent;
        uint32_t memory = l1->extents.heap_units - lmc_page_supply_missing(&l1->supply);
        if (r->units > memory) {
            r->no_memory = true;
            return 0;
        }
        if (lmc_l1_evict_oldest(l1, budget, &r->evicted) == 0) {
            r->no_memory = *budget != 0;
            return 0;
        }
    }
}

/* The new object; 0 as in find_room(). */
static uint32_t add_object(reservation *r, size_t at, uint64_t hash, uint32_t *budget) {
    uint32_t extent = find_room(r, budget);
    if (extent == 0)
        return 0;
    lmc_extent_at(&r->l1->extents, extent)->size = r->size;
    uint32_t object = lmc_object_table_add(&r->l1->table, &r->keys[at], hash, extent);
    if (object == 0) {
        lmc_extents_give(&r->l1->extents, extent);
        r->no_memory = true;
    }
    return object;
}

/* One hold of the lock. Returns the first key that is not decided yet. */
static size_t reserve_some(reservation *r, size_t at, size_t end) {
    lmc_object_table *table = &r->l1->table;
    uint64_t hashes[LMC_L1_BATCH];
    uint32_t budget = LMC_L1_BATCH;
    size_t start = at;
    lmc_object_table_prepare(table, r->keys + at, end - at, hashes);
    for (; at < end; at++) {
        uint64_t hash = hashes[at - start];
        uint32_t object = lmc_object_table_find(table, &r->keys[at], hash);
        if (object != 0) {
            r->results[at] = lmc_object_at(table, object)->state == LMC_OBJECT_STAGING
                                 ? LMC_RESERVE_STAGED
                                 : LMC_RESERVE_RESIDENT;
            continue;
        }
        if (!r->no_memory)
            object = add_object(r, at, hash, &budget);
        if (object == 0 && !r->no_memory)
            break;
        r->results[at] = object != 0 ? LMC_RESERVED : LMC_RESERVE_NO_MEMORY;
        r->refs[at] = object != 0 ? lmc_l1_ref(r->l1, object) : LMC_NO_OBJECT;
        if (object != 0)
            lmc_tally_see(&r->reserved, r->l1, object);
    }
    lmc_page_supply_check(&r->l1->supply);
    return at;
}

static void report_no_memory(reservation *r, size_t count) {
    lmc_tally *left_out = &r->evicted; /* empty by now */
    for (size_t i = 0; i < count; i++) {
        if (r->results[i] != LMC_RESERVE_NO_MEMORY)
            continue;
        lmc_l1_tell(r->l1, LMC_L1_NO_MEMORY, &r->keys[i], 1, r->size);
        if (left_out->used == LMC_L1_BATCH)
            lmc_tally_report_model(r->l1, left_out, r->l1->observer.no_memory);
        lmc_tally_add(left_out, r->keys[i].space, 1);
    }
    lmc_tally_report_model(r->l1, left_out, r->l1->observer.no_memory);
}

void lmc_l1_reserve(lmc_l1 *l1, const lmc_l1_key *keys, size_t count, uint64_t size,
                    lmc_object_ref *refs, lmc_reserve_result *results) {
    reservation r = {.l1 = l1, .keys = keys, .size = size, .refs = refs, .results = results};
    lmc_tally_init(&r.evicted, l1, LMC_L1_EVICTED);
    lmc_tally_init(&r.reserved, l1, LMC_L1_WRITE_RESERVED);
    if (size <= l1->capacity)
        r.units = size != 0 ? (uint32_t)((size + l1->unit - 1) / l1->unit) : 1;
    r.no_memory = r.units == 0 || r.units > l1->extents.max_units;
    for (size_t i = 0; i < count; i++)
        refs[i] = LMC_NO_OBJECT;
    for (size_t at = 0; at < count;) {
        size_t end = count - at > LMC_L1_BATCH ? at + LMC_L1_BATCH : count;
        lmc_l1_enter(l1);
        size_t next = reserve_some(&r, at, end);
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &r.evicted, l1->observer.evicted);
        lmc_tally_report_salt(l1, &r.reserved, NULL);
        if (next < end && r.no_pages)
            lmc_l1_pause(l1);
        else if (next < end)
            r.no_pages = !lmc_page_supply_more(&l1->supply, r.units);
        at = next;
    }
    if (r.no_memory)
        report_no_memory(&r, count);
}

/* From the back, so that of one request the last chunks are the oldest (storage.md 5.2). */
size_t lmc_l1_commit(lmc_l1 *l1, const lmc_object_ref *refs, size_t count) {
    lmc_object_table *table = &l1->table;
    lmc_tally committed;
    size_t readable = 0;
    lmc_tally_init(&committed, l1, LMC_L1_WRITE_FINISHED);
    for (size_t end = count; end > 0;) {
        size_t at = end > LMC_L1_BATCH ? end - LMC_L1_BATCH : 0;
        lmc_l1_enter(l1);
        for (size_t i = end; i-- > at;) {
            if (refs[i] == LMC_NO_OBJECT)
                continue;
            uint32_t object = lmc_l1_object(l1, refs[i]);
            if (lmc_object_is_dead(table, object)) {
                lmc_object_remove(table, object);
                continue;
            }
            lmc_object_publish(table, object);
            readable++;
            lmc_chunk_touch(table, lmc_object_at(table, object)->chunk);
            lmc_tally_add(&committed, lmc_l1_space_of(l1, object), 1);
            lmc_tally_see(&committed, l1, object);
        }
        lmc_l1_leave(l1);
        lmc_tally_report_salt(l1, &committed, l1->observer.committed);
        end = at;
    }
    return readable;
}

void lmc_l1_discard(lmc_l1 *l1, const lmc_object_ref *refs, size_t count) {
    for (size_t at = 0; at < count;) {
        size_t end = count - at > LMC_L1_BATCH ? at + LMC_L1_BATCH : count;
        lmc_l1_enter(l1);
        for (; at < end; at++) {
            if (refs[at] != LMC_NO_OBJECT)
                lmc_object_remove(&l1->table, lmc_l1_object(l1, refs[at]));
        }
        lmc_l1_leave(l1);
    }
}
