#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

static void the_first_text_set_wins(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_error_set(&error, LMC_INVALID, "option %s", "--port"), LMC_INVALID);
    assert_int_equal(lmc_error_set(&error, LMC_FAILED, "later"), LMC_FAILED);
    assert_int_equal(error.status, LMC_INVALID);
    assert_string_equal(error.text, "option --port");
    lmc_error_clear(&error);
    assert_int_equal(error.status, LMC_OK);
    assert_string_equal(error.text, "");
}

static void a_caller_that_does_not_care_passes_null(void **state) {
    (void)state;
    assert_int_equal(lmc_error_set(NULL, LMC_BUSY, "x"), LMC_BUSY);
    assert_int_equal(lmc_error_set_errno(NULL, LMC_BUSY, ENOENT, "x"), LMC_BUSY);
    lmc_error_clear(NULL);
}

static void the_system_reason_follows_the_text(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    lmc_error_set_errno(&error, LMC_FAILED, ENOENT, "cannot open %s", "/a");
    assert_string_equal(error.text, "cannot open /a: No such file or directory");
}

static void a_long_text_is_cut_between_characters(void **state) {
    (void)state;
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t c = 0; c < 3; c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[2 * LMC_ERROR_TEXT_MAX] = "";
            size_t used = shift, length = strlen(characters[c]);
            memset(text, 'x', shift);
            for (; used + length < sizeof text; used += length)
                memcpy(text + used, characters[c], length);
            lmc_error error = LMC_ERROR_INIT;
            lmc_error_set(&error, LMC_FAILED, "%s", text);
            size_t got = strlen(error.text);
            assert_true(got < LMC_ERROR_TEXT_MAX && got >= LMC_ERROR_TEXT_MAX - 4);
            assert_int_equal((got - shift) % length, 0);
        }
    }
}

static void every_status_has_a_name(void **state) {
    (void)state;
    assert_string_equal(lmc_status_name(LMC_OK), "ok");
    assert_string_equal(lmc_status_name(LMC_TIMEOUT), "timeout");
    for (lmc_status status = -20; status < 20; status++)
        assert_non_null(lmc_status_name(status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_text_set_wins),
        cmocka_unit_test(a_caller_that_does_not_care_passes_null),
        cmocka_unit_test(the_system_reason_follows_the_text),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
