#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cache/extents.h"
#include "support/alloc_fault.h"

static bool check(const lmc_extents *extents) {
    lmc_extents_walk walk = {0};
    bool sound = true;
    while (sound && !walk.done)
        sound = lmc_extents_check(extents, &walk, 7);
    return sound;
}

/* A heap of `units` free units. */
static lmc_extents *make(uint32_t units) {
    lmc_extents *extents = malloc(sizeof *extents);
    assert_non_null(extents);
    assert_int_equal(lmc_extents_init(extents, units), LMC_OK);
    lmc_extents_give(extents, lmc_extents_grow(extents, units));
    return extents;
}

static void destroy(lmc_extents *extents) {
    lmc_extents_fini(extents);
    free(extents);
}

static void equal_sizes_fill_the_heap_to_the_last_unit(void **state) {
    (void)state;
    lmc_extents *extents = make(37 * 100);
    uint32_t taken[100];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            assert_int_not_equal(taken[i] = lmc_extents_take(extents, 37), 0);
        assert_int_equal(extents->free_units, 0);
        assert_int_equal(lmc_extents_take(extents, 1), 0);
        /* A hole of exactly the size is found although its class also holds smaller sizes. */
        lmc_extents_give(extents, taken[50]);
        assert_int_not_equal(taken[50] = lmc_extents_take(extents, 37), 0);
        for (int i = 0; i < 100; i++)
            lmc_extents_give(extents, taken[(i * 37) % 100]);
        assert_true(check(extents));
    }
    destroy(extents);
}

static void given_neighbours_become_one(void **state) {
    (void)state;
    lmc_extents *extents = make(30);
    uint32_t a = lmc_extents_take(extents, 10), b = lmc_extents_take(extents, 10);
    uint32_t c = lmc_extents_take(extents, 10);
    lmc_extents_give(extents, a);
    lmc_extents_give(extents, c);
    assert_int_equal(lmc_extents_take(extents, 11), 0);
    assert_true(check(extents));
    lmc_extents_give(extents, b);
    uint32_t all = lmc_extents_take(extents, 30);
    assert_int_not_equal(all, 0);
    assert_int_equal(lmc_extent_at(extents, all)->start, 0);
    destroy(extents);
}

static void growth_joins_what_is_free_at_the_end(void **state) {
    (void)state;
    lmc_extents *extents = malloc(sizeof *extents);
    assert_int_equal(lmc_extents_init(extents, 100), LMC_OK);
    uint32_t first = lmc_extents_grow(extents, 40), second = lmc_extents_grow(extents, 50);
    assert_int_equal(lmc_extents_take(extents, 1), 0); /* still with whoever grew it */
    lmc_extents_give(extents, second);
    lmc_extents_give(extents, first);
    assert_int_equal(lmc_extents_grow(extents, 11), 0);
    lmc_extents_give(extents, lmc_extents_grow(extents, 10));
    assert_int_not_equal(lmc_extents_take(extents, 100), 0);
    destroy(extents);
}

static void extents_never_overlap(void **state) {
    (void)state;
    enum { UNITS = 5000, SLOTS = 400 };
    lmc_extents *extents = make(UNITS);
    static unsigned char owner[UNITS];
    uint32_t taken[SLOTS] = {0};
    memset(owner, 0, sizeof owner);
    srand(7);
    for (int step = 0; step < 200000; step++) {
        int slot = rand() % SLOTS;
        if (taken[slot] != 0) {
            const lmc_extent *extent = lmc_extent_at(extents, taken[slot]);
            memset(owner + extent->start, 0, lmc_extent_units(extent));
            lmc_extents_give(extents, taken[slot]);
            taken[slot] = 0;
            continue;
        }
        uint32_t units = 1 + (uint32_t)rand() % (rand() % 10 == 0 ? 200 : 20);
        taken[slot] = lmc_extents_take(extents, units);
        if (taken[slot] == 0)
            continue;
        const lmc_extent *extent = lmc_extent_at(extents, taken[slot]);
        assert_int_equal(lmc_extent_units(extent), units);
        assert_true(extent->start + units <= UNITS);
        for (uint32_t i = 0; i < units; i++)
            assert_int_equal(owner[extent->start + i]++, 0);
        if (step % 5000 == 0)
            assert_true(check(extents));
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        if (taken[slot] != 0)
            lmc_extents_give(extents, taken[slot]);
    }
    assert_true(check(extents));
    assert_int_not_equal(lmc_extents_take(extents, UNITS), 0);
    destroy(extents);
}

static void the_check_finds_damage(void **state) {
    (void)state;
    lmc_extents *extents = make(100);
    uint32_t taken = lmc_extents_take(extents, 10);
    assert_true(check(extents));
    lmc_extent_at(extents, taken)->units = 9;
    assert_false(check(extents));
    lmc_extent_at(extents, taken)->units = 10;
    extents->free_units--;
    assert_false(lmc_extents_balance(extents));
    assert_false(check(extents));
    destroy(extents);
}

static void without_memory_for_a_record_nothing_changes(void **state) {
    (void)state;
    lmc_extents *extents = malloc(sizeof *extents);
    lmc_fault_arm(1, true);
    assert_int_equal(lmc_extents_init(extents, 4000), LMC_NO_MEMORY);
    lmc_fault_disarm();
    assert_int_equal(lmc_extents_init(extents, 4000), LMC_OK);
    lmc_fault_arm(1, true);
    assert_int_equal(lmc_extents_grow(extents, 4000), 0);
    lmc_fault_disarm();
    lmc_extents_give(extents, lmc_extents_grow(extents, 4000));
    lmc_fault_arm(1, true);
    uint32_t count = 0;
    while (lmc_extents_take(extents, 1) != 0)
        count++;
    lmc_fault_disarm();
    assert_true(count > 1000 && count < 4000);
    assert_true(check(extents));
    assert_int_equal(extents->free_units, 4000 - count);
    assert_int_not_equal(lmc_extents_take(extents, 1), 0);
    destroy(extents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_sizes_fill_the_heap_to_the_last_unit),
        cmocka_unit_test(given_neighbours_become_one),
        cmocka_unit_test(growth_joins_what_is_free_at_the_end),
        cmocka_unit_test(extents_never_overlap),
        cmocka_unit_test(the_check_finds_damage),
        cmocka_unit_test(without_memory_for_a_record_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
