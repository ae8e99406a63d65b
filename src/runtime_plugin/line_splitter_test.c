/* From bytes to lines. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/line_splitter.h"
#include "support/alloc_fault.h"

/* Lines as they come, one after the other, each followed by "|". */
typedef struct seen {
    lmc_buffer text;
    size_t lines, raw, longest;
} seen;

static void take(void *arg, lmc_slice text, size_t raw) {
    seen *s = arg;
    assert_true(lmc_slice_is_utf8(text));
    lmc_buffer_append(&s->text, text.data, text.size);
    lmc_buffer_char(&s->text, '|');
    s->lines++;
    s->raw += raw;
    if (text.size > s->longest)
        s->longest = text.size;
}

/* Feeds in pieces of this size, then ends. */
static void run(seen *s, const char *bytes, size_t size, size_t step) {
    lmc_line_splitter splitter;
    *s = (seen){.lines = 0};
    lmc_line_splitter_init(&splitter, take, s);
    for (size_t at = 0; at < size; at += step) {
        size_t part = size - at < step ? size - at : step;
        assert_int_equal(lmc_line_splitter_feed(&splitter, lmc_slice_of(bytes + at, part)),
                         LMC_OK);
    }
    lmc_line_splitter_flush(&splitter);
    assert_false(lmc_line_splitter_waits(&splitter));
    lmc_line_splitter_fini(&splitter);
}

static void expect(const char *bytes, size_t size, const char *lines) {
    static const size_t steps[] = {1, 2, 3, 7, 1000};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        seen s;
        run(&s, bytes, size, steps[i]);
        if (size > 0)
            assert_string_equal(s.text.data, lines);
        /* The \n of a last \r\n may come too late to be counted. */
        bool pair = size >= 2 && memcmp(bytes + size - 2, "\r\n", 2) == 0;
        assert_in_range(s.raw, size - pair, size);
        lmc_buffer_fini(&s.text);
    }
}
#define EXPECT(bytes, lines) expect(bytes, sizeof bytes - 1, lines)

static void every_kind_of_line_end_ends_a_line(void **state) {
    (void)state;
    EXPECT("a\nb\r\nc\rd", "a|b|c|d|");
    EXPECT("\n\r\n\r\r\n", "||||");
    EXPECT("10%\r20%\r\n", "10%|20%|");
    EXPECT("a\n\rb\n", "a||b|");
}

static void lines_are_trimmed(void **state) {
    (void)state;
    EXPECT("  a b\t\n \t \n\v\fx\x1c\n", "a b||x|");
}

static void what_is_no_text_is_replaced(void **state) {
    (void)state;
    EXPECT("a\xFF\xFE"
           "b\xC3\n",
           "a\xEF\xBF\xBD\xEF\xBF\xBD"
           "b\xEF\xBF\xBD|");
    EXPECT("t\xC3\xA4g \xE2\x82\xAC \xF0\x9F\x98\x80\n",
           "t\xC3\xA4g \xE2\x82\xAC \xF0\x9F\x98\x80|");
    EXPECT("\xED\xA0\x80\n", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|");
}

static void controls_are_escaped(void **state) {
    (void)state;
    EXPECT("x\x1b[31m\x07\x7f\ty\0z\n", "x\\x1b[31m\\x07\\x7f\\x09y\\x00z|");
    EXPECT("\xC2\x9B"
           "1m \xC2\xA0\n",
           "\\xc2\\x9b1m \xC2\xA0|");
}

static void a_long_line_comes_in_pieces(void **state) {
    (void)state;
    size_t size = 3 * LMC_PLUGIN_PIECE_MAX + 10;
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memset(bytes, 'x', size);
    bytes[size] = '\n';
    seen s;
    run(&s, bytes, size + 1, 5000);
    assert_int_equal(s.lines, 4);
    assert_int_equal(s.raw, size + 1);
    assert_int_equal(s.longest, LMC_PLUGIN_PIECE_MAX + strlen(LMC_PLUGIN_CONTINUED));
    lmc_buffer_fini(&s.text);
    run(&s, bytes + size - LMC_PLUGIN_PIECE_MAX, LMC_PLUGIN_PIECE_MAX + 1, 100000);
    assert_int_equal(s.lines, 1); /* exactly one piece is no reason to cut */
    lmc_buffer_fini(&s.text);
    free(bytes);
}

static void a_piece_ends_between_characters(void **state) {
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        size_t size = shift + 4 * LMC_PLUGIN_PIECE_MAX;
        char *bytes = malloc(size);
        assert_non_null(bytes);
        memset(bytes, 'x', shift);
        for (size_t i = shift; i < size; i += 4)
            memcpy(bytes + i, "\xF0\x9F\x98\x80", 4);
        seen s;
        run(&s, bytes, size, 4096);
        assert_null(strstr(s.text.data, "\xEF\xBF\xBD"));
        assert_int_equal(s.raw, size);
        lmc_buffer_fini(&s.text);
        free(bytes);
    }
}

static void a_prompt_is_given_and_its_line_end_adds_nothing(void **state) {
    (void)state;
    lmc_line_splitter splitter;
    seen s = {.lines = 0};
    lmc_line_splitter_init(&splitter, take, &s);
    lmc_line_splitter_feed(&splitter, lmc_text("Name: "));
    assert_true(lmc_line_splitter_waits(&splitter));
    lmc_line_splitter_flush(&splitter);
    lmc_line_splitter_flush(&splitter);
    lmc_line_splitter_feed(&splitter, lmc_text("\nnext"));
    lmc_line_splitter_flush(&splitter);
    lmc_line_splitter_feed(&splitter, lmc_text("  more\n\n"));
    assert_string_equal(s.text.data, "Name:|next|more||");
    assert_int_equal(s.raw, strlen("Name: \nnext  more\n\n"));
    lmc_buffer_fini(&s.text);
    lmc_line_splitter_fini(&splitter);
}

static void without_memory_lines_are_lost_and_the_rest_goes_on(void **state) {
    (void)state;
    lmc_line_splitter splitter;
    seen s = {.lines = 0};
    lmc_line_splitter_init(&splitter, take, &s);
    lmc_fault_arm(1, true);
    assert_int_equal(lmc_line_splitter_feed(&splitter, lmc_text("lost")), LMC_NO_MEMORY);
    lmc_fault_disarm();
    lmc_line_splitter_feed(&splitter, lmc_text("\nkept\n"));
    assert_non_null(strstr(s.text.data, "kept|"));
    lmc_buffer_fini(&s.text);
    lmc_line_splitter_fini(&splitter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_line_end_ends_a_line),
        cmocka_unit_test(lines_are_trimmed),
        cmocka_unit_test(what_is_no_text_is_replaced),
        cmocka_unit_test(controls_are_escaped),
        cmocka_unit_test(a_long_line_comes_in_pieces),
        cmocka_unit_test(a_piece_ends_between_characters),
        cmocka_unit_test(a_prompt_is_given_and_its_line_end_adds_nothing),
        cmocka_unit_test(without_memory_lines_are_lost_and_the_rest_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
