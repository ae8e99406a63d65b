#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "support/alloc_fault.h"

static void appended_pieces_are_one_terminated_text(void **state) {
    (void)state;
    lmc_buffer buffer = LMC_BUFFER_INIT;
    for (int i = 0; i < 1000; i++) {
        lmc_buffer_printf(&buffer, "%d", i);
        lmc_buffer_char(&buffer, ',');
        lmc_buffer_text(&buffer, "ab");
        lmc_buffer_append(&buffer, NULL, 0);
        assert_int_equal(strlen(buffer.data), buffer.size);
    }
    assert_memory_equal(buffer.data, "0,ab1,ab2,ab", 12);
    lmc_buffer_clear(&buffer);
    assert_string_equal(buffer.data, "");
    lmc_buffer_fini(&buffer);
    assert_null(buffer.data);
}

static void a_failed_buffer_stays_failed_until_cleared(void **state) {
    (void)state;
    lmc_buffer buffer = LMC_BUFFER_INIT;
    lmc_fault_arm(1, false);
    lmc_buffer_text(&buffer, "one");
    lmc_fault_disarm();
    lmc_buffer_text(&buffer, "two");
    lmc_buffer_printf(&buffer, "%d", 3);
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, 0);
    assert_null(lmc_buffer_take(&buffer));
    lmc_buffer_text(&buffer, "again");
    assert_false(buffer.failed);
    char *text = lmc_buffer_take(&buffer);
    assert_string_equal(text, "again");
    free(text);
}

static void taking_an_empty_buffer_gives_an_empty_text(void **state) {
    (void)state;
    lmc_buffer buffer = LMC_BUFFER_INIT;
    char *text = lmc_buffer_take(&buffer);
    assert_string_equal(text, "");
    free(text);
}

static void a_size_that_overflows_fails_without_allocating(void **state) {
    (void)state;
    lmc_buffer buffer = LMC_BUFFER_INIT;
    lmc_buffer_text(&buffer, "x");
    assert_false(lmc_buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    lmc_buffer_fini(&buffer);
}

static void reserved_room_is_not_reallocated(void **state) {
    (void)state;
    lmc_buffer buffer = LMC_BUFFER_INIT;
    assert_true(lmc_buffer_reserve(&buffer, 1000));
    const char *place = buffer.data;
    for (int i = 0; i < 1000; i++)
        lmc_buffer_char(&buffer, 'x');
    assert_ptr_equal(buffer.data, place);
    lmc_buffer_fini(&buffer);
}

static void utf8_is_told_from_other_bytes(void **state) {
    (void)state;
    static const char *const valid[] = {"",
                                        "abc",
                                        "\xC2\x80",
                                        "\xDF\xBF",
                                        "\xE0\xA0\x80",
                                        "\xED\x9F\xBF",
                                        "\xEE\x80\x80",
                                        "\xF0\x90\x80\x80",
                                        "\xF4\x8F\xBF\xBF"};
    static const char *const invalid[] = {"\x80",
                                          "\xC0\x80",
                                          "\xC1\xBF",
                                          "\xC2",
                                          "\xC2\x41",
                                          "\xE0\x9F\xBF",
                                          "\xED\xA0\x80",
                                          "\xE2\x82",
                                          "\xF0\x8F\xBF\xBF",
                                          "\xF4\x90\x80\x80",
                                          "\xF5\x80\x80\x80",
                                          "\xFF",
                                          "a\xF0\x9F\x98"};
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++)
        assert_true(lmc_slice_is_utf8(lmc_text(valid[i])));
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        assert_false(lmc_slice_is_utf8(lmc_text(invalid[i])));
    assert_true(lmc_slice_is_utf8((lmc_slice){NULL, 0}));
    assert_int_equal(lmc_slice_code_points(lmc_text("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80")),
                     4);
}

static void slices_compare_by_content(void **state) {
    (void)state;
    assert_true(lmc_slice_equal((lmc_slice){NULL, 0}, lmc_text("")));
    assert_true(lmc_slice_is(lmc_slice_of("abc", 2), "ab"));
    assert_false(lmc_slice_is(lmc_text("ab"), "abc"));
    assert_int_equal(lmc_text(NULL).size, 0);
}

static void hex_has_two_digits_for_every_byte(void **state) {
    (void)state;
    char out[9];
    lmc_hex("\x00\x0F\xA5\xFF", 4, out);
    assert_string_equal(out, "000fa5ff");
}

static void uuids_are_version_four_and_differ(void **state) {
    (void)state;
    char first[37], second[37];
    lmc_uuid4(first);
    lmc_uuid4(second);
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_non_null(strchr("89ab", first[19]));
    for (int i = 8; i < 24; i += 5)
        assert_int_equal(first[i], '-');
    assert_string_not_equal(first, second);
}

static void random_bytes_fill_any_size(void **state) {
    (void)state;
    unsigned char bytes[1024] = {0};
    size_t zeros = 0;
    assert_int_equal(lmc_random(bytes, sizeof bytes), LMC_OK);
    for (size_t i = 0; i < sizeof bytes; i++)
        zeros += bytes[i] == 0;
    assert_true(zeros < 64);
    assert_int_equal(lmc_random(NULL, 0), LMC_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_pieces_are_one_terminated_text),
        cmocka_unit_test(a_failed_buffer_stays_failed_until_cleared),
        cmocka_unit_test(taking_an_empty_buffer_gives_an_empty_text),
        cmocka_unit_test(a_size_that_overflows_fails_without_allocating),
        cmocka_unit_test(reserved_room_is_not_reallocated),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(slices_compare_by_content),
        cmocka_unit_test(hex_has_two_digits_for_every_byte),
        cmocka_unit_test(uuids_are_version_four_and_differ),
        cmocka_unit_test(random_bytes_fill_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
