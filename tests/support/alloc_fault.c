#include "support/alloc_fault.h"

#include <stdatomic.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static atomic_bool armed;
static atomic_bool keep_failing;
static atomic_bool hit;
static _Atomic uint64_t seen;
static _Atomic uint64_t fail_at;

void lmc_fault_arm(uint64_t nth, bool persistent) {
    atomic_store(&seen, 0);
    atomic_store(&fail_at, nth);
    atomic_store(&keep_failing, persistent);
    atomic_store(&hit, false);
    atomic_store(&armed, true);
}

void lmc_fault_disarm(void) { atomic_store(&armed, false); }

bool lmc_fault_hit(void) { return atomic_load(&hit); }

uint64_t lmc_fault_count(void) { return atomic_load(&seen); }

static bool should_fail(void) {
    if (!atomic_load_explicit(&armed, memory_order_relaxed))
        return false;
    uint64_t n = atomic_fetch_add(&seen, 1) + 1;
    uint64_t at = atomic_load(&fail_at);
    bool fail = atomic_load(&keep_failing) ? n >= at : n == at;
    if (fail)
        atomic_store(&hit, true);
    return fail;
}

void *__wrap_malloc(size_t size) { return should_fail() ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) {
    return should_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return should_fail() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return should_fail() ? NULL : __real_aligned_alloc(alignment, size);
}
