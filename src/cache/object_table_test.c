#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/object_table.h"
#include "support/alloc_fault.h"

typedef struct fixture {
    lmc_extents extents;
    lmc_key_spaces spaces;
    lmc_object_table table;
    lmc_key_space *space;
} fixture;

#define UNITS 20000u

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (f == NULL || lmc_extents_init(&f->extents, UNITS) != LMC_OK ||
        lmc_key_spaces_init(&f->spaces) != LMC_OK ||
        lmc_object_table_init(&f->table, &f->spaces, &f->extents, true) != LMC_OK)
        return -1;
    lmc_extents_give(&f->extents, lmc_extents_grow(&f->extents, UNITS));
    f->space = lmc_key_spaces_get(&f->spaces, lmc_text("model"), lmc_text(""));
    *state = f;
    return f->space != NULL ? 0 : -1;
}

static int teardown(void **state) {
    fixture *f = *state;
    lmc_object_table_fini(&f->table);
    lmc_key_spaces_fini(&f->spaces);
    lmc_extents_fini(&f->extents);
    free(f);
    return 0;
}

typedef struct number_key {
    lmc_l1_key key;
    uint8_t hash[LMC_HASH_SIZE];
    uint64_t hashed;
} number_key;

static number_key *key_of(fixture *f, uint32_t number, uint64_t rank, number_key *out) {
    memset(out->hash, 0, sizeof out->hash);
    memcpy(out->hash, &number, sizeof number);
    out->key = (lmc_l1_key){out->hash, f->space, rank, 0};
    lmc_object_table_prepare(&f->table, &out->key, 1, &out->hashed);
    return out;
}

static uint32_t find(fixture *f, uint32_t number, uint64_t rank) {
    number_key key;
    (void)key_of(f, number, rank, &key);
    return lmc_object_table_find(&f->table, &key.key, key.hashed);
}

static uint32_t add(fixture *f, uint32_t number, uint64_t rank) {
    number_key key;
    (void)key_of(f, number, rank, &key);
    uint32_t extent = lmc_extents_take(&f->extents, 1);
    lmc_extent_at(&f->extents, extent)->size = 10;
    return lmc_object_table_add(&f->table, &key.key, key.hashed, extent);
}

static uint32_t add_resident(fixture *f, uint32_t number, uint64_t rank) {
    uint32_t object = add(f, number, rank);
    lmc_object_publish(&f->table, object);
    return object;
}

static uint32_t number_of(fixture *f, uint32_t chunk) {
    uint32_t number;
    memcpy(&number, lmc_chunk_at(&f->table, chunk)->hash, sizeof number);
    return number;
}

/* The number of the chunk that would go now; 0 = none. */
static uint32_t victim(fixture *f) {
    uint32_t budget = 1000;
    uint32_t chunk = lmc_object_table_victim(&f->table, &budget);
    return chunk != 0 ? number_of(f, chunk) : 0;
}

static void evict(fixture *f) {
    uint32_t budget = 1000;
    (void)lmc_chunk_sweep(&f->table, lmc_object_table_victim(&f->table, &budget));
}

static void shards_of_a_chunk_are_told_apart_and_share_it(void **state) {
    fixture *f = *state;
    uint32_t objects[9];
    for (uint64_t rank = 1; rank <= 8; rank++)
        objects[rank] = add_resident(f, 1, rank);
    for (int round = 0; round < 2; round++) {
        for (uint64_t rank = 8; rank >= 1; rank--)
            assert_int_equal(find(f, 1, rank), objects[rank]);
    }
    assert_int_equal(find(f, 1, 9), 0);
    assert_int_equal(f->table.index.count, 1);
    assert_int_equal(f->table.resident, 8);
    lmc_object_remove(&f->table, objects[4]);
    assert_int_equal(find(f, 1, 4), 0);
    assert_int_equal(find(f, 1, 5), objects[5]);
    for (uint64_t rank = 1; rank <= 8; rank++) {
        if (rank != 4)
            lmc_object_remove(&f->table, objects[rank]);
    }
    assert_int_equal(f->table.index.count, 0);
    assert_int_equal(f->extents.free_units, UNITS);
}

static void the_oldest_goes_first_and_touching_makes_new(void **state) {
    fixture *f = *state;
    for (uint32_t i = 1; i <= 4; i++)
        (void)add_resident(f, i, 1);
    assert_int_equal(victim(f), 1);
    lmc_chunk_touch(&f->table, lmc_object_at(&f->table, find(f, 1, 1))->chunk);
    assert_int_equal(victim(f), 2);
    evict(f);
    assert_int_equal(find(f, 2, 1), 0);
    assert_int_equal(victim(f), 3);
    evict(f);
    evict(f);
    assert_int_equal(victim(f), 1);
    evict(f);
    assert_int_equal(victim(f), 0);
    assert_int_equal(f->table.resident, 0);
}

static void a_busy_chunk_is_passed_over_and_comes_back_as_the_oldest(void **state) {
    fixture *f = *state;
    for (uint32_t i = 1; i <= 5; i++)
        (void)add_resident(f, i, 1);
    lmc_object_hold(&f->table, find(f, 1, 1), 2);
    uint32_t writing = add(f, 2, 2); /* another shard is being written */
    assert_int_equal(victim(f), 3);
    lmc_object_let_go(&f->table, find(f, 1, 1), 1);
    assert_int_equal(victim(f), 3);
    lmc_object_let_go(&f->table, find(f, 1, 1), 1);
    assert_int_equal(victim(f), 1);
    lmc_object_publish(&f->table, writing);
    assert_int_equal(victim(f), 2);
    evict(f);
    assert_int_equal(find(f, 2, 1), 0);
    assert_int_equal(find(f, 2, 2), 0);
    assert_int_equal(victim(f), 1);
}

static void looking_for_a_victim_costs_its_budget(void **state) {
    fixture *f = *state;
    for (uint32_t i = 1; i <= 10; i++) {
        (void)add_resident(f, i, 1);
        if (i <= 8)
            lmc_object_hold(&f->table, find(f, i, 1), 1);
    }
    uint32_t budget = 5;
    assert_int_equal(lmc_object_table_victim(&f->table, &budget), 0);
    assert_int_equal(budget, 0);
    budget = 5;
    assert_int_equal(number_of(f, lmc_object_table_victim(&f->table, &budget)), 9);
    assert_int_equal(budget, 2);
}

static void a_parked_chunk_that_is_touched_is_the_newest(void **state) {
    fixture *f = *state;
    for (uint32_t i = 1; i <= 3; i++)
        (void)add_resident(f, i, 1);
    lmc_object_hold(&f->table, find(f, 1, 1), 1);
    assert_int_equal(victim(f), 2); /* parks 1 */
    lmc_chunk_touch(&f->table, lmc_object_at(&f->table, find(f, 1, 1))->chunk);
    lmc_object_let_go(&f->table, find(f, 1, 1), 1);
    assert_int_equal(victim(f), 2);
    evict(f);
    evict(f);
    assert_int_equal(victim(f), 1);
}

static void an_advanced_table_is_empty_at_once(void **state) {
    fixture *f = *state;
    uint32_t held = add_resident(f, 1, 1), writing = add(f, 1, 2);
    (void)add_resident(f, 1, 3);
    (void)add_resident(f, 2, 1);
    lmc_object_hold(&f->table, held, 3);
    lmc_object_table_advance(&f->table);
    assert_int_equal(find(f, 1, 1), 0);
    assert_int_equal(find(f, 2, 1), 0);
    assert_true(lmc_object_is_dead(&f->table, held));
    uint32_t fresh = add_resident(f, 1, 1);
    assert_int_equal(find(f, 1, 1), fresh);
    uint32_t old_chunk = lmc_object_at(&f->table, held)->chunk;
    assert_int_equal(lmc_chunk_sweep(&f->table, old_chunk), 2);
    assert_int_equal(lmc_chunk_sweep(&f->table, old_chunk), 0);
    assert_int_equal(f->table.staging, 0);
    assert_int_equal(f->table.staging_bytes, 0);
    assert_int_equal(f->table.read_locked, 0);
    assert_int_equal(find(f, 1, 1), fresh);
    assert_int_equal(f->extents.free_units, UNITS - 4);
    lmc_object_let_go(&f->table, held, 3);
    lmc_object_remove(&f->table, writing);
    assert_int_equal(f->extents.free_units, UNITS - 2);
    assert_int_equal(f->table.resident, 2); /* 2 was not swept yet */
}

static void a_chunk_has_a_bounded_number_of_objects(void **state) {
    fixture *f = *state;
    for (uint64_t rank = 1; rank <= LMC_CHUNK_OBJECTS_MAX; rank++)
        assert_int_not_equal(add(f, 1, rank), 0);
    assert_int_equal(add(f, 1, LMC_CHUNK_OBJECTS_MAX + 1), 0);
    assert_int_not_equal(add(f, 2, 1), 0);
}

static void without_memory_nothing_is_added(void **state) {
    fixture *f = *state;
    lmc_fault_arm(1, true);
    uint32_t count = 0;
    while (add(f, count + 1, 1) != 0)
        count++;
    lmc_fault_disarm();
    assert_int_equal(f->table.staging, count);
    assert_int_equal(f->table.index.count, count);
    assert_int_equal(atomic_load(&f->space->references), 1 + count);
    assert_int_not_equal(add(f, count + 1, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(shards_of_a_chunk_are_told_apart_and_share_it),
        TEST(the_oldest_goes_first_and_touching_makes_new),
        TEST(a_busy_chunk_is_passed_over_and_comes_back_as_the_oldest),
        TEST(looking_for_a_victim_costs_its_budget),
        TEST(a_parked_chunk_that_is_touched_is_the_newest),
        TEST(an_advanced_table_is_empty_at_once),
        TEST(a_chunk_has_a_bounded_number_of_objects),
        TEST(without_memory_nothing_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
