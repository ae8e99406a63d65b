#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/slab.h"
#include "support/alloc_fault.h"

static void indexes_start_at_one_and_records_do_not_move(void **state) {
    (void)state;
    lmc_slab slab;
    assert_int_equal(lmc_slab_init(&slab, 8, 5000), LMC_OK);
    uint64_t *first = NULL;
    for (uint32_t i = 1; i <= 5000; i++) {
        assert_int_equal(lmc_slab_take(&slab), i);
        *(uint64_t *)lmc_slab_at(&slab, i) = i;
        if (i == 1)
            first = lmc_slab_at(&slab, 1);
    }
    assert_ptr_equal(first, lmc_slab_at(&slab, 1));
    for (uint32_t i = 1; i <= 5000; i++)
        assert_int_equal(*(uint64_t *)lmc_slab_at(&slab, i), i);
    assert_int_equal(lmc_slab_take(&slab), 0); /* no more than asked for */
    lmc_slab_fini(&slab);
}

static void given_records_are_taken_again(void **state) {
    (void)state;
    lmc_slab slab;
    assert_int_equal(lmc_slab_init(&slab, 16, 100), LMC_OK);
    for (int i = 0; i < 3; i++)
        (void)lmc_slab_take(&slab);
    size_t bytes = lmc_slab_bytes(&slab);
    lmc_slab_give(&slab, 2);
    lmc_slab_give(&slab, 3);
    assert_int_equal(lmc_slab_take(&slab), 3);
    assert_int_equal(lmc_slab_take(&slab), 2);
    assert_int_equal(lmc_slab_take(&slab), 4);
    assert_int_equal(lmc_slab_bytes(&slab), bytes);
    lmc_slab_fini(&slab);
}

static void blocks_start_at_cache_lines(void **state) {
    (void)state;
    lmc_slab slab;
    assert_int_equal(lmc_slab_init(&slab, 24, 3000), LMC_OK);
    for (int i = 0; i < 3000; i++)
        (void)lmc_slab_take(&slab);
    for (uint32_t block = 0; block < slab.block_count; block++)
        assert_int_equal((uintptr_t)slab.blocks[block] % 64, 0);
    lmc_slab_fini(&slab);
}

static void out_of_memory_is_zero_and_leaves_it_usable(void **state) {
    (void)state;
    lmc_slab slab = {0};
    lmc_fault_arm(1, true);
    assert_int_equal(lmc_slab_init(&slab, 8, 10), LMC_NO_MEMORY);
    lmc_fault_disarm();
    lmc_slab_fini(&slab);
    assert_int_equal(lmc_slab_init(&slab, 8, 10), LMC_OK);
    lmc_fault_arm(1, false);
    assert_int_equal(lmc_slab_take(&slab), 0);
    assert_int_equal(lmc_slab_take(&slab), 1);
    lmc_fault_disarm();
    lmc_slab_fini(&slab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_start_at_one_and_records_do_not_move),
        cmocka_unit_test(given_records_are_taken_again),
        cmocka_unit_test(blocks_start_at_cache_lines),
        cmocka_unit_test(out_of_memory_is_zero_and_leaves_it_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
