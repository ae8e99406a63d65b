#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above first */
#include <cmocka.h>
#include <lmcached/client.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "support/alloc_fault.h"

#define CHUNK_BYTES ((size_t)2 * 2 * 4 * 8 * 2)

static lmc_client_layout layout_of(const char *dtype) {
    return (lmc_client_layout){.dtype = lmc_text(dtype), .rank = 4, .shape = {2, 2, 4, 8}};
}

static void fill(uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
}

/* The pieces as they travel: one behind the other, on the heap. */
static uint8_t *flat(lmc_pieces data) {
    uint8_t *all = malloc(data.size);
    size_t used = 0;
    assert_non_null(all);
    for (size_t i = 0; i < data.count; i++) {
        memcpy(all + used, data.items[i].data, data.items[i].size);
        used += data.items[i].size;
    }
    assert_int_equal(used, data.size);
    return all;
}

static void expect_round_trip(const char *dtype, size_t item_size) {
    lmc_client_layout layout = layout_of(dtype);
    size_t size = CHUNK_BYTES / 2 * item_size, count = 0;
    uint8_t *bytes = malloc(3 * size), *back = malloc(3 * size);
    fill(bytes, 3 * size);
    lmc_slice chunks[] = {{bytes, size}, {bytes + size, size}, {bytes + 2 * size, size}};
    lmc_client_packed packed;
    assert_int_equal(lmc_client_pack(&layout, chunks, 3, &packed), LMC_OK);
    assert_int_equal(lmc_client_unpack(&layout, packed.data, back, 3 * size, &count), LMC_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(back, bytes, 3 * size);
    lmc_client_packed_free(&packed);
    free(bytes);
    free(back);
}

static void chunks_come_back_as_they_were_packed(void **state) {
    (void)state;
    expect_round_trip("float16", 2);
    expect_round_trip("bfloat16", 2);
    expect_round_trip("float8_e4m3fn", 1);
    expect_round_trip("float32", 4);
    expect_round_trip("double", 8);
}

static void chunks_are_borrowed_not_copied(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16");
    uint8_t bytes[CHUNK_BYTES] = {0};
    lmc_slice chunk = {bytes, sizeof(bytes)};
    lmc_client_packed packed;
    assert_int_equal(lmc_client_pack(&layout, &chunk, 1, &packed), LMC_OK);
    size_t borrowed = 0;
    for (size_t i = 0; i < packed.data.count; i++)
        borrowed += packed.data.items[i].data == bytes;
    assert_int_equal(borrowed, 1);
    lmc_client_packed_free(&packed);
    assert_null(packed.memory);
}

static void no_chunks_are_an_empty_list(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16");
    lmc_client_packed packed;
    size_t count = 9;
    assert_int_equal(lmc_client_pack(&layout, NULL, 0, &packed), LMC_OK);
    assert_true(packed.data.size > 0);
    assert_int_equal(lmc_client_unpack(&layout, packed.data, NULL, 0, &count), LMC_OK);
    assert_int_equal(count, 0);
    lmc_client_packed_free(&packed);
}

static void a_chunk_of_another_size_is_refused_with_a_text(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16");
    uint8_t bytes[CHUNK_BYTES] = {0};
    lmc_slice chunks[] = {{bytes, sizeof(bytes)}, {bytes, sizeof(bytes) - 1}};
    lmc_client_packed packed;
    assert_int_equal(lmc_client_pack(&layout, chunks, 2, &packed), LMC_INVALID);
    assert_null(packed.memory);
    assert_string_equal(lmc_client_error(), "chunk 1 has 255 bytes, not 256");
}

static void a_layout_that_cannot_be_is_refused(void **state) {
    (void)state;
    lmc_client_layout wrong[] = {
        layout_of("complex64"),
        {.dtype = lmc_text("float16"), .rank = 9},
        {.dtype = lmc_text("float16"), .rank = 2, .shape = {-1, 2}},
        {.dtype = lmc_text("float16"), .rank = 2, .shape = {INT64_MAX, INT64_MAX}},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        lmc_client_packed packed;
        assert_int_equal(lmc_client_pack(&wrong[i], NULL, 0, &packed), LMC_INVALID);
        assert_non_null(strstr(lmc_client_error(), "no such layout"));
    }
}

static lmc_status pack_and_unpack_empty(const lmc_client_layout *layout) {
    lmc_slice chunk = {"", 0};
    lmc_client_packed packed;
    size_t count = 0;
    assert_int_equal(lmc_client_pack(layout, &chunk, 1, &packed), LMC_OK);
    lmc_status status = lmc_client_unpack(layout, packed.data, NULL, 0, &count);
    lmc_client_packed_free(&packed);
    return status;
}

static void axes_beside_an_empty_one_do_not_overflow(void **state) {
    (void)state;
    lmc_client_layout empty = {.dtype = lmc_text("float16"), .rank = 3, .shape = {0, 5, 7}};
    assert_int_equal(pack_and_unpack_empty(&empty), LMC_OK);
    empty.shape[1] = empty.shape[2] = INT64_MAX;
    assert_int_equal(pack_and_unpack_empty(&empty), LMC_INVALID);
}

static void what_does_not_fit_or_is_of_another_layout_is_refused(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16"), other = layout;
    uint8_t bytes[CHUNK_BYTES], out[CHUNK_BYTES];
    size_t count = 9;
    fill(bytes, sizeof(bytes));
    lmc_slice chunk = {bytes, sizeof(bytes)};
    lmc_client_packed packed;
    assert_int_equal(lmc_client_pack(&layout, &chunk, 1, &packed), LMC_OK);
    assert_int_equal(lmc_client_unpack(&layout, packed.data, out, sizeof(out) - 1, &count),
                     LMC_INVALID);
    assert_int_equal(count, 0);
    assert_non_null(strstr(lmc_client_error(), "do not fit"));
    other.shape[0] = 1;
    assert_int_equal(lmc_client_unpack(&other, packed.data, out, sizeof(out), &count),
                     LMC_INVALID);
    assert_non_null(strstr(lmc_client_error(), "another layout"));
    lmc_client_packed_free(&packed);
}

static void data_that_ends_anywhere_is_refused_and_leaks_nothing(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16");
    uint8_t bytes[CHUNK_BYTES], out[CHUNK_BYTES];
    size_t count;
    fill(bytes, sizeof(bytes));
    lmc_slice chunk = {bytes, sizeof(bytes)};
    lmc_client_packed packed;
    assert_int_equal(lmc_client_pack(&layout, &chunk, 1, &packed), LMC_OK);
    uint8_t *all = flat(packed.data);
    for (size_t size = 0; size < packed.data.size; size++) {
        lmc_slice cut = {all, size};
        lmc_pieces data = {&cut, 1, size};
        assert_int_not_equal(lmc_client_unpack(&layout, data, out, sizeof(out), &count),
                             LMC_OK);
        assert_true(lmc_client_error()[0] != '\0');
    }
    free(all);
    lmc_client_packed_free(&packed);
    assert_int_not_equal(lmc_client_unpack(&layout, (lmc_pieces){0}, out, sizeof(out), &count),
                         LMC_OK);
}

static void out_of_memory_is_an_error(void **state) {
    (void)state;
    lmc_client_layout layout = layout_of("float16");
    uint8_t bytes[CHUNK_BYTES], out[CHUNK_BYTES];
    size_t count, failures = 0;
    fill(bytes, sizeof(bytes));
    lmc_slice chunk = {bytes, sizeof(bytes)};
    for (uint64_t nth = 1; nth < 12; nth++) {
        lmc_client_packed packed;
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_client_pack(&layout, &chunk, 1, &packed);
        if (status == LMC_OK)
            status = lmc_client_unpack(&layout, packed.data, out, sizeof(out), &count);
        lmc_fault_disarm();
        assert_true(status == LMC_OK || status == LMC_NO_MEMORY);
        failures += status == LMC_NO_MEMORY;
        lmc_client_packed_free(&packed);
    }
    assert_true(failures >= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_come_back_as_they_were_packed),
        cmocka_unit_test(chunks_are_borrowed_not_copied),
        cmocka_unit_test(no_chunks_are_an_empty_list),
        cmocka_unit_test(a_chunk_of_another_size_is_refused_with_a_text),
        cmocka_unit_test(a_layout_that_cannot_be_is_refused),
        cmocka_unit_test(axes_beside_an_empty_one_do_not_overflow),
        cmocka_unit_test(what_does_not_fit_or_is_of_another_layout_is_refused),
        cmocka_unit_test(data_that_ends_anywhere_is_refused_and_leaks_nothing),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
