#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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

static void report(lmc_l1 *l1, lmc_tally *tally, lmc_tally_call call,
                   lmc_slice (*text)(const lmc_key_space *space)) {
    for (size_t i = 0; i < tally->used; i++) {
        if (call != NULL)
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
