/* The last lines of a plugin. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/log_tail.h"
#include "support/alloc_fault.h"

static void add(lmc_log_tail *tail, const char *text) {
    lmc_log_tail_add(tail, 1, LMC_LOG_INFO, 5, lmc_text(text));
}

static size_t count_of(lmc_tail_line *lines, uint64_t first) {
    size_t count = 0;
    for (const lmc_tail_line *at = lines; at != NULL; at = at->next, count++)
        assert_int_equal(at->sequence, first + count);
    lmc_tail_lines_free(lines);
    return count;
}

static void lines_are_numbered_and_asked_for_by_number(void **state) {
    (void)state;
    lmc_log_tail tail = {0};
    for (int i = 0; i < 10; i++)
        add(&tail, i == 9 ? "last" : "line");
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 0, 100), 1), 10);
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 7, 100), 8), 3);
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 0, 4), 7), 4);
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 7, 1), 10), 1);
    assert_null(lmc_log_tail_copy(&tail, 10, 100));
    assert_null(lmc_log_tail_copy(&tail, 0, 0));
    lmc_tail_line *line = lmc_log_tail_copy(&tail, 9, 1);
    assert_memory_equal(line->text, "last", 4);
    assert_int_equal(line->size, 4);
    assert_int_equal(line->wall_ns, 5);
    lmc_tail_lines_free(line);
    lmc_log_tail_fini(&tail);
}

static void the_oldest_lines_go(void **state) {
    (void)state;
    lmc_log_tail tail = {0};
    static char text[LMC_LOG_TAIL_BYTES];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 100000; i++)
        add(&tail, "a line of some length, as plugins write them");
    assert_true(tail.bytes <= LMC_LOG_TAIL_BYTES);
    assert_int_equal(tail.sequence, 100000);
    add(&tail, text); /* one that is too long for the bound is there all the same */
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 0, 100), 100001), 1);
    add(&tail, "next");
    assert_int_equal(count_of(lmc_log_tail_copy(&tail, 0, 100), 100002), 1);
    lmc_log_tail_fini(&tail);
}

static void without_memory_a_line_is_counted_and_missing(void **state) {
    (void)state;
    lmc_log_tail tail = {0};
    add(&tail, "a");
    lmc_fault_arm(1, false);
    add(&tail, "b");
    lmc_fault_disarm();
    add(&tail, "c");
    lmc_tail_line *lines = lmc_log_tail_copy(&tail, 0, 10);
    assert_int_equal(lines->sequence, 1);
    assert_int_equal(lines->next->sequence, 3);
    lmc_tail_lines_free(lines);
    lmc_log_tail_fini(&tail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_numbered_and_asked_for_by_number),
        cmocka_unit_test(the_oldest_lines_go),
        cmocka_unit_test(without_memory_a_line_is_counted_and_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
