#include "cache/l1.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/l1_internal.h"
#include "cache/memory_limit.h"

#define LMC_LOGGER "lmcache.storage"
#define ALIGN_MIN UINT64_C(64)
#define KEEP_LEFT_MIN (UINT64_C(64) << 20)
#define CHECK_STEPS 1024
#define GIB (1024.0 * 1024.0 * 1024.0)

/* ---- where pages come from ---- */

static lmc_status pool_supply(void *arg, uint64_t offset, uint64_t length) {
    const lmc_l1 *l1 = arg;
    return lmc_pool_supply(&l1->pool, offset, length);
}

static uint64_t machine_left(void *arg) {
    (void)arg;
    return lmc_memory_left("");
}

/* Huge pages were set aside when the pool was mapped. */
static uint64_t plenty_left(void *arg) {
    (void)arg;
    return UINT64_MAX;
}

static void warn_beyond(uint64_t capacity, const lmc_memory_limit *limit) {
    if (capacity <= limit->bytes)
        return;
    LMC_WARNING("--l1-size-gb: %.1f GiB of L1 is more than %s, %.1f GiB; L1 will stop growing "
                "short of it",
                (double)capacity / GIB, limit->source, (double)limit->bytes / GIB);
}

/* ---- create and destroy ---- */

static lmc_status check_config(const lmc_l1_config *config, lmc_error *error) {
    if (config->align == 0 || (config->align & (config->align - 1)) != 0)
        return lmc_error_set(error, LMC_INVALID, "--l1-align-bytes must be a power of two");
    if (config->capacity < config->align || config->capacity < ALIGN_MIN)
        return lmc_error_set(error, LMC_INVALID,
                             "--l1-size-gb: %" PRIu64 " bytes of L1 do not hold one object of "
                             "--l1-align-bytes",
                             config->capacity);
    return LMC_OK;
}

/* Units are counted in 30 bits; a multiple of the alignment is as good. */
static uint64_t unit_for(const lmc_l1_config *config) {
    uint64_t unit = config->align < ALIGN_MIN ? ALIGN_MIN : config->align;
    while (config->capacity / unit > LMC_EXTENT_UNITS_MAX)
        unit *= 2;
    return unit;
}

static lmc_status start_supply(lmc_l1 *l1, const lmc_l1_config *config,
                               const lmc_page_source *source, const lmc_clock *clock,
                               lmc_error *error) {
    lmc_memory_limit limit;
    lmc_memory_limit_find("", &limit);
    warn_beyond(config->capacity, &limit);
    uint64_t keep = limit.bytes != UINT64_MAX ? limit.bytes / 32 : 0;
    bool lazy = config->use_lazy && !config->use_hugepages;
    lmc_page_supply_config supply = {
        .unit = l1->unit,
        .capacity = config->capacity,
        .page_size = l1->pool.page_size,
        .init_size = lazy ? config->init_size : config->capacity,
        .keep_left = keep > KEEP_LEFT_MIN ? keep : KEEP_LEFT_MIN,
    };
    lmc_page_source own = {pool_supply, config->use_hugepages ? plenty_left : machine_left, l1};
    return lmc_page_supply_start(&l1->supply, &supply, source != NULL ? source : &own, clock,
                                 &l1->lock, &l1->extents, error);
}

static lmc_status build(lmc_l1 *l1, const lmc_l1_config *config, const lmc_page_source *source,
                        const lmc_clock *clock, lmc_error *error) {
    lmc_status status = lmc_extents_init(&l1->extents, (uint32_t)(config->capacity / l1->unit));
    if (status != LMC_OK)
        return status;
    status = lmc_key_spaces_init(&l1->spaces);
    if (status != LMC_OK)
        goto no_spaces;
    status = lmc_object_table_init(&l1->table, &l1->spaces, &l1->extents,
                                   config->policy == LMC_EVICT_LRU);
    if (status != LMC_OK)
        goto no_table;
    status = start_supply(l1, config, source, clock, error);
    if (status == LMC_OK)
        return LMC_OK;
    lmc_object_table_fini(&l1->table);
no_table:
    lmc_key_spaces_fini(&l1->spaces);
no_spaces:
    lmc_extents_fini(&l1->extents);
    return status;
}

lmc_status lmc_l1_create_from(const lmc_l1_config *config, const lmc_page_source *source,
                              const lmc_clock *clock, const lmc_l1_observer *observer,
                              lmc_l1 **out, lmc_error *error) {
    lmc_status status = check_config(config, error);
    if (status != LMC_OK)
        return status;
    lmc_l1 *l1 = calloc(1, sizeof *l1);
    if (l1 == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory for L1");
    if (observer != NULL)
        l1->observer = *observer;
    l1->watermark = config->watermark;
    l1->eviction_ratio = config->eviction_ratio;
    l1->capacity = config->capacity;
    l1->unit = unit_for(config);
    lmc_lock_init(&l1->lock, LMC_RANK_L1, "l1");
    lmc_pool_config pool = {config->capacity, config->shm_name, config->shm_mode,
                            config->use_hugepages};
    status = lmc_pool_open(&pool, &l1->pool, error);
    if (status != LMC_OK)
        goto no_pool;
    status = build(l1, config, source, clock, error);
    if (status != LMC_OK)
        goto no_build;
    *out = l1;
    return LMC_OK;
no_build:
    (void)lmc_error_set(error, status, "cannot set up the tables of L1");
    lmc_pool_close(&l1->pool);
no_pool:
    lmc_lock_fini(&l1->lock);
    free(l1);
    return status;
}

lmc_status lmc_l1_create(const lmc_l1_config *config, const lmc_clock *clock,
                         const lmc_l1_observer *observer, lmc_l1 **l1, lmc_error *error) {
    return lmc_l1_create_from(config, NULL, clock, observer, l1, error);
}

void lmc_l1_destroy(lmc_l1 *l1) {
    if (l1 == NULL)
        return;
    lmc_page_supply_stop(&l1->supply);
    lmc_object_table_fini(&l1->table);
    lmc_key_spaces_fini(&l1->spaces);
    lmc_extents_fini(&l1->extents);
    lmc_pool_close(&l1->pool);
    lmc_lock_fini(&l1->lock);
    free(l1);
}

const char *lmc_l1_pool_name(const lmc_l1 *l1) { return l1->pool.name; }

uint64_t lmc_l1_capacity(const lmc_l1 *l1) { return l1->capacity; }

/* ---- key spaces ---- */

lmc_status lmc_key_space_get(lmc_l1 *l1, lmc_slice model, lmc_slice salt,
                             lmc_key_space **space) {
    lmc_l1_enter(l1);
    *space = lmc_key_spaces_get(&l1->spaces, model, salt);
    lmc_l1_leave(l1);
    return *space != NULL ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_key_space_drop(lmc_l1 *l1, lmc_key_space *space) {
    if (space == NULL || lmc_key_space_drop_shared(space))
        return;
    lmc_l1_enter(l1);
    lmc_key_spaces_drop(&l1->spaces, space);
    lmc_l1_leave(l1);
}

/* ---- report ---- */

uint64_t lmc_l1_used(const lmc_l1 *l1) {
    uint32_t missing = lmc_page_supply_missing(&l1->supply);
    return (uint64_t)(l1->extents.taken_units - missing) * l1->unit;
}

void lmc_l1_report_get(lmc_l1 *l1, lmc_l1_report *report) {
    lmc_l1_enter(l1);
    uint32_t missing = lmc_page_supply_missing(&l1->supply);
    *report = (lmc_l1_report){
        .is_sound = lmc_extents_balance(&l1->extents) && missing <= l1->extents.taken_units,
        .resident_count = l1->table.resident,
        .staging_count = l1->table.staging,
        .read_locked_count = l1->table.read_locked,
        .staging_bytes = l1->table.staging_bytes,
        .used_bytes = lmc_l1_used(l1),
        .supplied_bytes = (uint64_t)(l1->extents.heap_units - missing) * l1->unit,
        .capacity_bytes = l1->capacity,
        .metadata_bytes = lmc_object_table_bytes(&l1->table) + lmc_extents_bytes(&l1->extents) +
                          lmc_key_spaces_bytes(&l1->spaces),
    };
    lmc_l1_leave(l1);
}

bool lmc_l1_check(lmc_l1 *l1) {
    lmc_extents_walk walk = {0};
    bool sound = true;
    while (sound && !walk.done) {
        lmc_l1_enter(l1);
        sound = lmc_extents_check(&l1->extents, &walk, CHECK_STEPS);
        lmc_l1_leave(l1);
        lmc_l1_pause(l1);
    }
    return sound;
}

int64_t lmc_l1_longest_hold_ns(lmc_l1 *l1) { return lmc_lock_longest_ns(&l1->lock); }
