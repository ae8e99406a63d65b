#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "support/alloc_fault.h"

static void allocations_are_aligned_and_do_not_overlap(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 1 << 16);
    unsigned char *made[300];
    for (size_t i = 0; i < 300; i++) {
        made[i] = lmc_arena_alloc(&arena, i);
        assert_non_null(made[i]);
        assert_int_equal((uintptr_t)made[i] % 16, 0);
        memset(made[i], (int)(i & 0xFF), i);
    }
    for (size_t i = 0; i < 300; i++) {
        for (size_t k = 0; k < i; k++)
            assert_int_equal(made[i][k], i & 0xFF);
    }
    lmc_arena_fini(&arena);
}

static void a_reset_arena_serves_the_same_request_without_allocating(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 1 << 20);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            assert_non_null(lmc_arena_alloc(&arena, 100));
        lmc_arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    lmc_fault_arm(UINT64_MAX, false);
    for (int i = 0; i < 30; i++)
        assert_non_null(lmc_arena_alloc(&arena, 100));
    assert_int_equal(lmc_fault_count(), 0);
    lmc_fault_disarm();
    lmc_arena_fini(&arena);
}

static void reset_gives_back_what_is_larger_than_keep(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 1000);
    assert_non_null(lmc_arena_alloc(&arena, 5000));
    lmc_arena_reset(&arena);
    assert_null(arena.blocks);
    lmc_arena_fini(&arena);
}

static void zeroed_memory_is_zero_after_reuse(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 1 << 16);
    memset(lmc_arena_alloc(&arena, 256), 0xAA, 256);
    lmc_arena_reset(&arena);
    const unsigned char *zeroed = lmc_arena_zalloc(&arena, 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(zeroed[i], 0);
    lmc_arena_fini(&arena);
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    assert_null(lmc_arena_array(&arena, SIZE_MAX / 8, 16));
    assert_null(lmc_arena_alloc(&arena, SIZE_MAX));
    assert_null(lmc_arena_text(&arena, (lmc_slice){"", SIZE_MAX}));
    assert_non_null(lmc_arena_array(&arena, 0, 16));
    lmc_arena_fini(&arena);
}

static void texts_are_copied_and_formatted_terminated(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    assert_string_equal(lmc_arena_text(&arena, lmc_slice_of("abcdef", 3)), "abc");
    assert_string_equal(lmc_arena_text(&arena, (lmc_slice){NULL, 0}), "");
    assert_string_equal(lmc_arena_printf(&arena, "%s-%d", "x", 7), "x-7");
    lmc_arena_fini(&arena);
}

static void running_out_of_memory_is_null_and_the_arena_stays_usable(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_fault_arm(1, false);
    assert_null(lmc_arena_zalloc(&arena, 10));
    lmc_fault_arm(1, false);
    assert_null(lmc_arena_printf(&arena, "%d", 1));
    lmc_fault_disarm();
    assert_non_null(lmc_arena_alloc(&arena, 10));
    lmc_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(a_reset_arena_serves_the_same_request_without_allocating),
        cmocka_unit_test(reset_gives_back_what_is_larger_than_keep),
        cmocka_unit_test(zeroed_memory_is_zero_after_reuse),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(texts_are_copied_and_formatted_terminated),
        cmocka_unit_test(running_out_of_memory_is_null_and_the_arena_stays_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
