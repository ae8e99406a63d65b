#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>

#include "base/error.h"
#include "config/json_value.h"

static void a_mistake_is_told_as_python_tells_it(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "Expecting value: line 1 column 1 (char 0)"},
        {"  ", "Expecting value: line 1 column 3 (char 2)"},
        {"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
        {"{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"},
        {"{\"a\":}", "Expecting value: line 1 column 6 (char 5)"},
        {"{\"a\":1 \"b\"}", "Expecting ',' delimiter: line 1 column 8 (char 7)"},
        {"{\"a\":1,\n  x}",
         "Expecting property name enclosed in double quotes: line 2 column 3 (char 10)"},
        {"[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"},
        {"[1,]", "Expecting value: line 1 column 4 (char 3)"},
        {"\"abc", "Unterminated string starting at: line 1 column 1 (char 0)"},
        {"\"a\tb\"", "Invalid control character at: line 1 column 3 (char 2)"},
        {"\"\\q\"", "Invalid \\escape: line 1 column 2 (char 1)"},
        {"\"\\u12g4\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"},
        {"nul", "Expecting value: line 1 column 1 (char 0)"},
        {"01", "Extra data: line 1 column 2 (char 1)"},
        {"1.", "Extra data: line 1 column 2 (char 1)"},
        {"-", "Expecting value: line 1 column 1 (char 0)"},
        {"\"\xc3\xa9\" x", "Extra data: line 1 column 5 (char 4)"},
        {"'a'", "Expecting value: line 1 column 1 (char 0)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_arena arena;
        lmc_error error = LMC_ERROR_INIT;
        const lmc_json_value *value = NULL;
        lmc_arena_init(&arena, 0);
        assert_int_equal(lmc_json_read(&arena, lmc_text(cases[i][0]), &value, &error),
                         LMC_MALFORMED);
        assert_string_equal(error.text, cases[i][1]);
        lmc_arena_fini(&arena);
    }
}

static void values_read_as_python_reads_them(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"null", "None"},
        {" [true, false] ", "[True, False]"},
        {"-12", "-12"},
        {"-0", "0"},
        {"1.50", "1.5"},
        {"1E3", "1000.0"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"[NaN, -Infinity]", "[nan, -inf]"},
        {"\"a\\u00e9\\n'\"", "\"a\xc3\xa9\\n'\""},
        {"\"\\ud83d\\ude00\\ud83d\"", "'\xf0\x9f\x98\x80\xef\xbf\xbd'"},
        {"{\"b\": 1, \"a\": {}, \"b\": [2]}", "{'b': [2], 'a': {}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_arena arena;
        lmc_buffer text = LMC_BUFFER_INIT;
        const lmc_json_value *value = NULL;
        lmc_arena_init(&arena, 0);
        assert_int_equal(lmc_json_read(&arena, lmc_text(cases[i][0]), &value, NULL), LMC_OK);
        lmc_json_repr(&text, value);
        assert_string_equal(text.data, cases[i][1]);
        lmc_buffer_fini(&text);
        lmc_arena_fini(&arena);
    }
}

static void a_value_keeps_the_text_it_came_in(void **state) {
    (void)state;
    lmc_arena arena;
    const lmc_json_value *value = NULL;
    lmc_arena_init(&arena, 0);
    assert_int_equal(
        lmc_json_read(&arena, lmc_text("{\"c\": {\"x\": 1.00, \"y\":NaN } }"), &value, NULL),
        LMC_OK);
    assert_true(lmc_slice_is(lmc_json_get(value, "c")->source, "{\"x\": 1.00, \"y\":NaN }"));
    lmc_arena_fini(&arena);
}

static void integers_are_told_from_other_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool number, integer;
    } cases[] = {{"7", true, true},
                 {"7.0", true, false},
                 {"true", false, false},
                 {"\"7\"", false, false},
                 {"99999999999999999999", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_arena arena;
        int64_t out = 0;
        const lmc_json_value *value = NULL;
        lmc_arena_init(&arena, 0);
        assert_int_equal(lmc_json_read(&arena, lmc_text(cases[i].text), &value, NULL), LMC_OK);
        assert_int_equal(lmc_json_is_number(value), cases[i].number);
        assert_int_equal(lmc_json_integer(value, &out), cases[i].integer);
        lmc_arena_fini(&arena);
    }
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    char text[4096];
    lmc_arena arena;
    lmc_error error = LMC_ERROR_INIT;
    const lmc_json_value *value = NULL;
    memset(text, '[', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    lmc_arena_init(&arena, 0);
    assert_int_equal(lmc_json_read(&arena, lmc_text(text), &value, &error), LMC_MALFORMED);
    assert_string_equal(error.text, "Nested too deeply: line 1 column 41 (char 40)");
    lmc_arena_fini(&arena);
}

static void a_text_is_told_to_be_an_object_or_not(void **state) {
    (void)state;
    assert_true(lmc_json_is_object_text(" {\"a\": 1} "));
    static const char *const others[] = {"", "{", "[]", "null", "3", "{} {}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(lmc_json_is_object_text(others[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_told_to_be_an_object_or_not),
        cmocka_unit_test(a_mistake_is_told_as_python_tells_it),
        cmocka_unit_test(values_read_as_python_reads_them),
        cmocka_unit_test(a_value_keeps_the_text_it_came_in),
        cmocka_unit_test(integers_are_told_from_other_numbers),
        cmocka_unit_test(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
