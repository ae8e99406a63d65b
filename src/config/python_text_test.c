#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "config/python_text.h"

static void texts_print_quoted_as_in_python(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "\"it's\""},
        {"it's \"x\"", "'it\\'s \"x\"'"},
        {"\\ \n\r\t\x01\x7f", "'\\\\ \\n\\r\\t\\x01\\x7f'"},
        {"\xc3\xa9\xe2\x82\xac", "'\xc3\xa9\xe2\x82\xac'"},
        {"\xc2\x85\xc2\xa0", "'\\x85\\xa0'"},
        {"a\xff\xc3", "'a\\udcff\\udcc3'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_buffer out = LMC_BUFFER_INIT;
        lmc_repr_text(&out, lmc_text(cases[i][0]));
        assert_string_equal(out.data, cases[i][1]);
        lmc_buffer_fini(&out);
    }
}

static void integers_read_as_in_python(void **state) {
    (void)state;
    static const char *const good[] = {
        "0", " 12 ", "+3", "-4", "1_000", "007", "9223372036854775807"};
    static const int64_t values[] = {0, 12, 3, -4, 1000, 7, INT64_MAX};
    static const char *const bad[] = {
        "", " ", "1_", "_1", "1__2", "1.0", "0x1", "1e3", "+-1", "- 1", "9223372036854775808"};
    int64_t value = -1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(lmc_read_int(good[i], &value));
        assert_true(value == values[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(lmc_read_int(bad[i], &value));
}

static void floats_read_as_in_python(void **state) {
    (void)state;
    static const char *const good[] = {"1",  " 1.5 ",       "1e3",  ".5",
                                       "5.", "-1_0.2_5e-1", "+INF", "-infinity"};
    static const double values[] = {1, 1.5, 1000, .5, 5, -1.025, 1.0 / 0.0, -1.0 / 0.0};
    static const char *const bad[] = {"", ".", "e5", "1e", "0x1p3", "1_.5", "nan(1)", "1,5"};
    double value = -1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(lmc_read_float(good[i], &value));
        assert_true(value == values[i]);
    }
    assert_true(lmc_read_float("NaN", &value) && value != value);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(lmc_read_float(bad[i], &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_print_quoted_as_in_python),
        cmocka_unit_test(integers_read_as_in_python),
        cmocka_unit_test(floats_read_as_in_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
