#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"
#include "support/alloc_fault.h"

static lmc_buffer out;

static int set_up(void **state) {
    (void)state;
    out = (lmc_buffer)LMC_BUFFER_INIT;
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    lmc_buffer_fini(&out);
    return 0;
}

static void write_sample(lmc_json_writer *w) {
    lmc_json_object_begin(w);
    lmc_json_member_int(w, "a", -1);
    lmc_json_name(w, "b");
    lmc_json_list_begin(w);
    lmc_json_bool(w, true);
    lmc_json_null(w);
    lmc_json_real(w, 120);
    lmc_json_list_begin(w);
    lmc_json_list_end(w);
    lmc_json_object_begin(w);
    lmc_json_object_end(w);
    lmc_json_list_end(w);
    lmc_json_member_raw(w, "c", lmc_text("[1]"));
    lmc_json_name(w, "d");
    lmc_json_object_begin(w);
    lmc_json_member_uint(w, "e", UINT64_MAX);
    lmc_json_member_text(w, "f", NULL);
    lmc_json_member_null(w, "g");
    lmc_json_member_bool(w, "h", false);
    lmc_json_member_slice(w, "i", lmc_text("x"));
    lmc_json_member_real(w, "j", 0.8);
    lmc_json_object_end(w);
    lmc_json_object_end(w);
}

static void the_three_layouts_are_those_of_python(void **state) {
    (void)state;
    static const char *const expected[] = {
        "{\"a\":-1,\"b\":[true,null,120.0,[],{}],\"c\":[1],\"d\":{\"e\":18446744073709551615,"
        "\"f\":null,\"g\":null,\"h\":false,\"i\":\"x\",\"j\":0.8}}",
        "{\"a\": -1, \"b\": [true, null, 120.0, [], {}], \"c\": [1], \"d\": "
        "{\"e\": 18446744073709551615, \"f\": null, \"g\": null, \"h\": false, \"i\": \"x\", "
        "\"j\": 0.8}}",
        "{\n  \"a\": -1,\n  \"b\": [\n    true,\n    null,\n    120.0,\n    [],\n    {}\n  ],\n"
        "  \"c\": [1],\n  \"d\": {\n    \"e\": 18446744073709551615,\n    \"f\": null,\n"
        "    \"g\": null,\n    \"h\": false,\n    \"i\": \"x\",\n    \"j\": 0.8\n  }\n}"};
    for (int layout = 0; layout < 3; layout++) {
        lmc_json_writer w;
        lmc_buffer_clear(&out);
        lmc_json_start(&w, &out, (lmc_json_layout)layout, LMC_JSON_ASCII);
        write_sample(&w);
        assert_int_equal(lmc_json_finish(&w), LMC_OK);
        assert_string_equal(out.data, expected[layout]);
    }
}

static void assert_text(lmc_json_escapes escapes, lmc_slice text, const char *expected) {
    lmc_json_writer w;
    lmc_buffer_clear(&out);
    lmc_json_start(&w, &out, LMC_JSON_COMPACT, escapes);
    lmc_json_slice(&w, text);
    assert_int_equal(lmc_json_finish(&w), LMC_OK);
    assert_string_equal(out.data, expected);
}

static void text_is_escaped_as_python_does(void **state) {
    (void)state;
    assert_text(LMC_JSON_ASCII, lmc_text("\"\\/\b\f\n\r\t\x01\x1f\x7f"),
                "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"");
    assert_text(LMC_JSON_UTF8, lmc_text("\"\\/\b\f\n\r\t\x01\x1f\x7f"),
                "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
    assert_text(LMC_JSON_ASCII, lmc_slice_of("a\0b", 3), "\"a\\u0000b\"");
    assert_text(LMC_JSON_ASCII, (lmc_slice){NULL, 0}, "\"\"");
    const char *mixed = "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    assert_text(LMC_JSON_ASCII, lmc_text(mixed), "\"\\u00e9\\u20ac\\ud83d\\ude00z\"");
    assert_text(LMC_JSON_UTF8, lmc_text(mixed), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z\"");
    assert_text(LMC_JSON_ASCII, lmc_text("\xF4\x8F\xBF\xBF"), "\"\\udbff\\udfff\"");
}

static void bytes_that_are_not_utf8_become_replacement_characters(void **state) {
    (void)state;
    assert_text(LMC_JSON_ASCII, lmc_text("a\xFF\xC3z"), "\"a\\ufffd\\ufffdz\"");
    assert_text(LMC_JSON_UTF8, lmc_text("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_text(LMC_JSON_UTF8, lmc_text("\xED\xA0\x80"),
                "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void assert_real(double value, const char *expected) {
    char text[LMC_REAL_TEXT_MAX];
    size_t size = lmc_real_text(value, text);
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
}

static void numbers_read_as_python_prints_them(void **state) {
    (void)state;
    assert_real(0, "0.0");
    assert_real(-0.0, "-0.0");
    assert_real(120, "120.0");
    assert_real(-0.8, "-0.8");
    assert_real(0.1 + 0.2, "0.30000000000000004");
    assert_real(1e15, "1000000000000000.0");
    assert_real(9999999999999998.0, "9999999999999998.0");
    assert_real(1e16, "1e+16");
    assert_real(1.5e16, "1.5e+16");
    assert_real(0.0001, "0.0001");
    assert_real(0.00001, "1e-05");
    assert_real(0.000012345, "1.2345e-05");
    assert_real(1e22, "1e+22");
    assert_real(1e23, "1e+23");
    assert_real(5e-324, "5e-324");
    assert_real(1.7976931348623157e308, "1.7976931348623157e+308");
    assert_real(2.2250738585072014e-308, "2.2250738585072014e-308");
    assert_real(ldexp(1, -44), "5.684341886080802e-14");
    assert_real(ldexp(1, 89), "6.189700196426902e+26");
    assert_real(9007199254740993.0, "9007199254740992.0");
    assert_real(6.290184345309701e-235, "6.290184345309701e-235");
    assert_real(NAN, "nan");
    assert_real(-INFINITY, "-inf");
}

static void every_number_reads_back_the_same(void **state) {
    (void)state;
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[LMC_REAL_TEXT_MAX];
        size_t size = lmc_real_text(value, text);
        assert_int_equal(size, strlen(text));
        assert_true(strtod(text, NULL) == value);
    }
}

static void nan_and_infinity_are_null(void **state) {
    (void)state;
    lmc_json_writer w;
    lmc_json_start(&w, &out, LMC_JSON_COMPACT, LMC_JSON_ASCII);
    lmc_json_list_begin(&w);
    lmc_json_real(&w, NAN);
    lmc_json_real(&w, -INFINITY);
    lmc_json_int(&w, INT64_MIN);
    lmc_json_list_end(&w);
    assert_int_equal(lmc_json_finish(&w), LMC_OK);
    assert_string_equal(out.data, "[null,null,-9223372036854775808]");
}

static lmc_status run_calls(const char *calls) {
    lmc_json_writer w;
    lmc_buffer_clear(&out);
    lmc_json_start(&w, &out, LMC_JSON_COMPACT, LMC_JSON_ASCII);
    for (; *calls != '\0'; calls++) {
        switch (*calls) {
        case '{':
            lmc_json_object_begin(&w);
            break;
        case '}':
            lmc_json_object_end(&w);
            break;
        case '[':
            lmc_json_list_begin(&w);
            break;
        case ']':
            lmc_json_list_end(&w);
            break;
        case 'n':
            lmc_json_name(&w, "n");
            break;
        default:
            lmc_json_int(&w, 1);
        }
    }
    return lmc_json_finish(&w);
}

static void calls_that_do_not_nest_are_told_once_at_the_end(void **state) {
    (void)state;
    static const char *const good[] = {"1", "[]", "{}", "{n1}", "{n[1{}]n{}}"};
    static const char *const bad[] = {"",      "[",    "]",  "{]", "[}",  "{1}", "{n}",
                                      "{nn1}", "[n1]", "n1", "11", "{n1", "[]1", "{{}}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(run_calls(good[i]), LMC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(run_calls(bad[i]), LMC_INVALID);
    char deep[4 * LMC_JSON_DEPTH_MAX + 1] = "";
    memset(deep, '[', LMC_JSON_DEPTH_MAX);
    memset(deep + LMC_JSON_DEPTH_MAX, ']', LMC_JSON_DEPTH_MAX);
    assert_int_equal(run_calls(deep), LMC_OK);
    memset(deep, '[', LMC_JSON_DEPTH_MAX + 1);
    memset(deep + LMC_JSON_DEPTH_MAX + 1, ']', LMC_JSON_DEPTH_MAX + 1);
    assert_int_equal(run_calls(deep), LMC_INVALID);
}

static void lost_memory_is_told_at_the_end_whenever_it_was_lost(void **state) {
    (void)state;
    lmc_status status = LMC_NO_MEMORY;
    for (uint64_t nth = 1; status != LMC_OK; nth++) {
        lmc_json_writer w;
        lmc_buffer_fini(&out);
        lmc_json_start(&w, &out, LMC_JSON_INDENTED, LMC_JSON_ASCII);
        lmc_fault_arm(nth, false);
        write_sample(&w);
        status = lmc_json_finish(&w);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status, hit ? LMC_NO_MEMORY : LMC_OK);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* With arguments: prints each as a double, for comparing with another program's output. */
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char text[LMC_REAL_TEXT_MAX];
        lmc_real_text(strtod(argv[i], NULL), text);
        puts(text);
    }
    if (argc > 1)
        return 0;
    const struct CMUnitTest tests[] = {
        TEST(the_three_layouts_are_those_of_python),
        TEST(text_is_escaped_as_python_does),
        TEST(bytes_that_are_not_utf8_become_replacement_characters),
        TEST(numbers_read_as_python_prints_them),
        TEST(every_number_reads_back_the_same),
        TEST(nan_and_infinity_are_null),
        TEST(calls_that_do_not_nest_are_told_once_at_the_end),
        TEST(lost_memory_is_told_at_the_end_whenever_it_was_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
