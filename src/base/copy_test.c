#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"

#define LARGE ((size_t)1 << 20)
#define ROOM (LARGE + 4096)

static uint8_t *filled(size_t size, uint32_t seed) {
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
    return bytes;
}

/* Copies and checks that exactly these bytes have changed. */
static void expect_copy(size_t to_offset, size_t from_offset, size_t size) {
    uint8_t *from = filled(ROOM, 1), *to = filled(ROOM, 2), *before = filled(ROOM, 2);
    lmc_copy_cold(to + to_offset, from + from_offset, size);
    assert_memory_equal(to, before, to_offset);
    assert_memory_equal(to + to_offset, from + from_offset, size);
    assert_memory_equal(to + to_offset + size, before + to_offset + size,
                        ROOM - to_offset - size);
    free(from);
    free(to);
    free(before);
}

static void every_alignment_and_rest_is_copied(void **state) {
    (void)state;
    static const size_t offsets[] = {0, 1, 15, 16, 17, 63, 64, 65};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        for (size_t more = 0; more < 130; more += 13)
            expect_copy(offsets[i], 3 * i, LARGE + more);
    }
}

static void small_copies_are_copies_too(void **state) {
    (void)state;
    for (size_t size = 0; size < 200; size++)
        expect_copy(size % 7, size % 5, size);
    expect_copy(5, 0, LARGE - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_and_rest_is_copied),
        cmocka_unit_test(small_copies_are_copies_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
