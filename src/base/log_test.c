#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_line.h"
#include "base/thread.h"
#include "support/alloc_fault.h"

#define LMC_LOGGER "lmcache.test"

/* --- Standard error is a pipe during a test; what was written is read from it. --- */

static int real_stderr, reading_end;
static lmc_buffer written;

static void redirect(int target) {
    real_stderr = dup(STDERR_FILENO);
    dup2(target, STDERR_FILENO);
    close(target);
}

static int capture(void **state) {
    (void)state;
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    reading_end = ends[0];
    fcntl(reading_end, F_SETFL, O_NONBLOCK);
    redirect(ends[1]);
    written = (lmc_buffer)LMC_BUFFER_INIT;
    return 0;
}

static int release(void **state) {
    (void)state;
    lmc_log_stop();
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(reading_end);
    lmc_buffer_fini(&written);
    return 0;
}

static void read_what_is_there(void) {
    char piece[4096];
    ssize_t size;
    while ((size = read(reading_end, piece, sizeof piece)) > 0)
        lmc_buffer_append(&written, piece, (size_t)size);
}

static size_t occurrences(const char *text) {
    size_t count = 0;
    for (const char *at = written.data; at != NULL && (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* --- The line. --- */

__attribute__((format(printf, 3, 4))) static void line_of(char *out, bool colour,
                                                          const char *format, ...) {
    static const lmc_log_source source = {LMC_LOG_WARNING, "lmcache.test", "file.c", 42};
    va_list args;
    va_start(args, format);
    size_t size =
        lmc_log_compose(out, colour, INT64_C(1748779200123456789), &source, format, args);
    va_end(args);
    out[size] = '\0';
}

static void a_line_has_the_form_that_scrapers_match(void **state) {
    (void)state;
    char line[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX + 1];
    line_of(line, false, "stored %d tokens", 256);
    assert_string_equal(line, "[2025-06-01 12:00:00,123] LMCache WARNING: stored 256 tokens "
                              "(file.c:42:lmcache.test)\n");
    line_of(line, true, "x");
    assert_string_equal(line, "\x1b[33;20m[2025-06-01 12:00:00,123] LMCache WARNING:\x1b[0m x "
                              "\x1b[3m(file.c:42:lmcache.test)\x1b[0m\n");
}

static void text_cannot_forge_a_line_or_a_colour(void **state) {
    (void)state;
    char line[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX + 1];
    line_of(line, false, "%s", "a\n[2025] LMCache INFO: b\x1b[31m\t\x7f\r\x01");
    assert_non_null(
        strstr(line, ": a\\x0a[2025] LMCache INFO: b\\x1b[31m\\x09\\x7f\\x0d\\x01 ("));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void a_long_message_ends_in_dots_after_a_whole_character(void **state) {
    (void)state;
    char line[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX + 1];
    static char text[3 * LMC_LOG_LINE_MAX];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        line_of(line, false, "%s", text);
        const char *dots = strstr(line, "... (file.c");
        assert_non_null(dots);
        const char *message = strstr(line, "WARNING: ") + strlen("WARNING: ");
        assert_int_equal((size_t)(dots - message - (ptrdiff_t)shift) % 3, 0);
        assert_true(dots + 3 - message <= LMC_LOG_LINE_MAX);
        assert_true(dots + 3 - message > LMC_LOG_LINE_MAX - 8);
    }
    memset(text, '\n', sizeof text - 1);
    line_of(line, true, "%s", text);
    assert_non_null(strstr(line, "\\x0a... \x1b[3m(file.c"));
}

static void long_names_do_not_break_the_frame(void **state) {
    (void)state;
    char line[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX + 1], name[2000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    name[3] = '\n';
    lmc_log_source source = {LMC_LOG_CRITICAL, name, name, 2147483647};
    va_list none;
    memset(&none, 0, sizeof none);
    size_t size = lmc_log_compose(line, true, 0, &source, "x", none);
    assert_true(size < 400);
    assert_int_equal(line[size - 1], '\n');
    assert_null(memchr(line, '\n', size - 1));
}

/* --- Levels. --- */

static void level_names_are_read_in_any_case(void **state) {
    (void)state;
    lmc_log_level level = LMC_LOG_ERROR;
    assert_true(lmc_log_level_parse("dEbUg", &level));
    assert_int_equal(level, LMC_LOG_DEBUG);
    assert_true(lmc_log_level_parse("CRITICAL", &level));
    assert_false(lmc_log_level_parse("loud", &level));
    assert_false(lmc_log_level_parse(NULL, &level));
    assert_int_equal(level, LMC_LOG_CRITICAL);
    assert_string_equal(lmc_log_level_name(LMC_LOG_WARNING), "WARNING");
    assert_string_equal(lmc_log_level_name((lmc_log_level)35), "WARNING");
    assert_string_equal(lmc_log_level_name((lmc_log_level)0), "DEBUG");
}

static void a_logger_inherits_from_its_nearest_ancestor(void **state) {
    (void)state;
    assert_int_equal(lmc_log_level_of("lmcache"), LMC_LOG_INFO);
    assert_true(lmc_log_set_level("lmcache.a.b", LMC_LOG_ERROR));
    assert_true(lmc_log_set_level("lmcache.a", LMC_LOG_DEBUG));
    assert_int_equal(lmc_log_level_of("lmcache.a"), LMC_LOG_DEBUG);
    assert_int_equal(lmc_log_level_of("lmcache.ab"), LMC_LOG_INFO);
    assert_int_equal(lmc_log_level_of("lmcache.a.c.d"), LMC_LOG_DEBUG);
    assert_int_equal(lmc_log_level_of("lmcache.a.b.c"), LMC_LOG_ERROR);
    assert_true(lmc_log_set_level("lmcache", LMC_LOG_WARNING));
    assert_int_equal(lmc_log_level_of("lmcache.ab"), LMC_LOG_WARNING);
    assert_int_equal(lmc_log_level_of("my_plugin"), LMC_LOG_WARNING);
    assert_int_equal(lmc_log_level_of(""), LMC_LOG_WARNING);
    assert_true(lmc_log_set_level("lmcache", LMC_LOG_INFO));
}

static void a_call_site_notices_when_its_level_changes(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        lmc_log_set_level(LMC_LOGGER, round == 1 ? LMC_LOG_DEBUG : LMC_LOG_INFO);
        LMC_DEBUG("round %d", round);
        LMC_DEBUG("again %d", round);
    }
    read_what_is_there();
    assert_int_equal(occurrences("round 1"), 1);
    assert_int_equal(occurrences("again 1"), 1);
    assert_int_equal(occurrences("\n"), 2);
}

static void remember(void *arg, const char *logger, lmc_log_level level) {
    lmc_buffer_printf(arg, "%s=%d;", logger, (int)level);
}

static void loggers_are_listed_in_name_order(void **state) {
    (void)state;
    lmc_log_enabled(LMC_LOG_INFO, "zebra");
    lmc_log_set_level("lmcache.zoo", LMC_LOG_DEBUG);
    lmc_log_enabled(LMC_LOG_INFO, "lmcache.zoo.ape");
    lmc_log_enabled(LMC_LOG_INFO, "lmcache.zo");
    lmc_buffer list = LMC_BUFFER_INIT;
    lmc_log_each(remember, &list);
    assert_non_null(
        strstr(list.data, "lmcache.zo=20;lmcache.zoo=10;lmcache.zoo.ape=10;zebra=20;"));
    lmc_buffer_fini(&list);
}

static void only_so_many_loggers_are_kept(void **state) {
    (void)state;
    char name[200];
    bool kept = true;
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many.%d", i);
        kept = lmc_log_set_level(name, LMC_LOG_ERROR);
    }
    assert_false(kept);
    assert_int_equal(lmc_log_level_of("many.0"), LMC_LOG_ERROR);
    assert_int_equal(lmc_log_level_of("many.299"), LMC_LOG_INFO);
    assert_true(lmc_log_enabled(LMC_LOG_INFO, "many.299"));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_false(lmc_log_set_level(name, LMC_LOG_ERROR));
}

/* --- The queue. --- */

static void lines_before_start_and_after_stop_are_written_at_once(void **state) {
    (void)state;
    LMC_INFO("before");
    read_what_is_there();
    assert_int_equal(occurrences("LMCache INFO: before (log_test.c:"), 1);
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_log_start(&error), LMC_BUSY);
    LMC_ERROR("queued");
    lmc_log_flush();
    read_what_is_there();
    assert_int_equal(occurrences("LMCache ERROR: queued"), 1);
    for (int i = 0; i < 100; i++)
        LMC_WARNING("last %d", i);
    lmc_log_stop();
    lmc_log_stop();
    lmc_log_flush();
    LMC_INFO("after");
    read_what_is_there();
    assert_int_equal(occurrences("LMCache WARNING: last"), 100);
    assert_int_equal(occurrences("LMCache INFO: after"), 1);
}

static void logging_keeps_errno(void **state) {
    (void)state;
    errno = EDOM;
    LMC_INFO("x");
    assert_int_equal(errno, EDOM);
}

typedef struct reader {
    _Atomic bool stop;
} reader;

static void keep_reading(void *arg) {
    reader *r = arg;
    while (!r->stop) {
        struct pollfd source = {.fd = reading_end, .events = POLLIN};
        poll(&source, 1, 1);
        read_what_is_there();
    }
    read_what_is_there();
}

static void log_many(void *arg) {
    const char *name = arg;
    for (int i = 0; i < 2000; i++)
        LMC_INFO("%s line %d.", name, i);
}

static void lines_of_many_threads_stay_whole_and_in_order(void **state) {
    (void)state;
    static const char *const names[] = {"ant", "bee", "cat", "dog"};
    lmc_thread loggers[4], reading;
    reader r = {false};
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    assert_int_equal(lmc_thread_start(&reading, "read", keep_reading, &r, NULL), LMC_OK);
    uint64_t before = lmc_log_dropped();
    for (int i = 0; i < 4; i++)
        lmc_thread_start(&loggers[i], "log", log_many, (char *)names[i], NULL);
    for (int i = 0; i < 4; i++)
        lmc_thread_join(&loggers[i]);
    lmc_log_stop();
    r.stop = true;
    lmc_thread_join(&reading);
    int next[4] = {0};
    size_t lines = 0;
    for (char *rest = written.data, *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        char name[8];
        int number;
        if (sscanf(line, "[%*[^]]] LMCache INFO: %3s line %d.", name, &number) != 2)
            continue; /* the line about dropped lines */
        lines++;
        for (int i = 0; i < 4; i++) {
            if (strcmp(name, names[i]) != 0)
                continue;
            assert_true(number >= next[i]);
            next[i] = number + 1;
        }
        assert_non_null(strstr(line, ":lmcache.test)"));
    }
    assert_int_equal(lines + lmc_log_dropped() - before, 8000);
}

static void what_does_not_fit_is_dropped_and_counted_and_told(void **state) {
    (void)state;
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    uint64_t before = lmc_log_dropped();
    for (int i = 0; i < 1000; i++)
        LMC_INFO("%s", text); /* nobody reads: the pipe fills, then the queue */
    uint64_t lost = lmc_log_dropped() - before;
    assert_true(lost > 500 && lost < 1000);
    lmc_thread reading;
    reader r = {false};
    assert_int_equal(lmc_thread_start(&reading, "read", keep_reading, &r, NULL), LMC_OK);
    lmc_log_stop();
    r.stop = true;
    lmc_thread_join(&reading);
    assert_int_equal(lmc_log_dropped() - before, lost);
    assert_int_equal(occurrences("xxx ("), 1000 - lost);
    char told[64];
    snprintf(told, sizeof told, "WARNING: %d log lines were dropped", (int)lost);
    assert_int_equal(occurrences(told), 1);
}

static void a_reader_that_is_gone_stops_nothing(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO); /* broken from now on */
    close(ends[1]);
    uint64_t before = lmc_log_dropped();
    LMC_INFO("one");
    lmc_log_flush();
    lmc_log_stop();
    assert_int_equal(lmc_log_dropped() - before, 1);
}

static void a_stalled_reader_delays_the_stop_only_for_a_while(void **state) {
    (void)state;
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    uint64_t before = lmc_log_dropped();
    for (int i = 0; i < 100; i++)
        LMC_INFO("%s", text);
    lmc_log_stop(); /* returns although nobody reads */
    read_what_is_there();
    assert_int_equal(occurrences("xxx (") + lmc_log_dropped() - before, 100);
}

static void starting_without_memory_leaves_direct_lines(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        lmc_fault_arm(nth, false);
        assert_int_equal(lmc_log_start(NULL), LMC_NO_MEMORY);
        lmc_fault_disarm();
        LMC_INFO("direct");
    }
    read_what_is_there();
    assert_int_equal(occurrences("direct"), 2);
}

static void text_in_bulk_is_whole_at_any_length(void **state) {
    (void)state;
    static char text[3 * LMC_LOG_LINE_MAX];
    memset(text, 'y', sizeof text);
    text[5] = '\n';
    lmc_log_offer("lmcache.test", LMC_LOG_INFO, "file.c", 7, "[a\r] ",
                  lmc_slice_of(text, sizeof text));
    read_what_is_there();
    assert_non_null(strstr(written.data, " LMCache INFO: [a\\x0d] yyyyy\\x0ayyy"));
    assert_non_null(strstr(written.data, "yyy (file.c:7:lmcache.test)\n"));
    assert_true(written.size > sizeof text);
    assert_int_equal(occurrences("\n"), 1);
}

static void text_in_bulk_leaves_room_for_other_lines(void **state) {
    (void)state;
    static char text[60000];
    memset(text, 'z', sizeof text);
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    uint64_t before = lmc_log_dropped();
    unsigned taken = 0;
    while (taken < 1000 && lmc_log_offer("lmcache.test", LMC_LOG_INFO, "file.c", 7, "",
                                         lmc_slice_of(text, sizeof text)))
        taken++; /* nobody reads */
    assert_in_range(taken, 2, 20);
    LMC_INFO("ours");
    assert_int_equal(lmc_log_dropped(), before);
    lmc_log_stop();
}

static void only_a_terminal_gets_colours(void **state) {
    (void)state;
    int master, slave;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    dup2(slave, STDERR_FILENO);
    close(slave);
    assert_int_equal(lmc_log_start(NULL), LMC_OK);
    LMC_ERROR("bright");
    lmc_log_flush();
    char seen[512] = "";
    assert_true(read(master, seen, sizeof seen - 1) > 0);
    lmc_log_stop();
    close(master);
    assert_non_null(strstr(seen, "\x1b[31;20m["));
    assert_non_null(strstr(seen, "LMCache ERROR:\x1b[0m bright \x1b[3m("));
}

static void a_site_is_allowed_once_and_counts_what_it_suppressed(void **state) {
    (void)state;
    lmc_log_limit limit = {0};
    uint64_t suppressed = 99;
    assert_true(lmc_log_allow(&limit, &suppressed));
    assert_int_equal(suppressed, 0);
    limit.next_ns = INT64_MAX;
    assert_false(lmc_log_allow(&limit, &suppressed));
    assert_false(lmc_log_allow(&limit, NULL));
    limit.next_ns = 1;
    assert_true(lmc_log_allow(&limit, &suppressed));
    assert_int_equal(suppressed, 2);
    assert_true(limit.next_ns > 1);
}

static void an_unknown_level_in_the_environment_is_told(void **state) {
    (void)state;
    lmc_log_read_environment(); /* main() has set one */
    read_what_is_there();
    assert_int_equal(occurrences("LMCACHE_LOG_LEVEL=nonsense is no level, INFO is used"), 1);
    setenv("LMCACHE_LOG_LEVEL", "Warning", 1);
    lmc_log_read_environment();
    unsetenv("LMCACHE_LOG_LEVEL");
    lmc_log_read_environment();
    read_what_is_there();
    assert_int_equal(occurrences("is no level"), 1);
}

static void the_environment_sets_single_loggers(void **state) {
    (void)state;
    setenv("LMCACHED_LOG_LEVELS", "test.one=WARNING, test.two = debug ,,test.one.deep=error,",
           1);
    lmc_log_read_environment();
    assert_int_equal(lmc_log_level_of("test.one.wide"), LMC_LOG_WARNING);
    assert_int_equal(lmc_log_level_of("test.one.deep"), LMC_LOG_ERROR);
    assert_int_equal(lmc_log_level_of("test.two"), LMC_LOG_DEBUG);
    assert_int_equal(lmc_log_level_of("test"), LMC_LOG_INFO);
    char list[2000] = "test.three=ERROR,test.four=LOUD,=INFO,DEBUG,";
    memset(list + strlen(list), 'x', 1000);
    setenv("LMCACHED_LOG_LEVELS", list, 1);
    read_what_is_there();
    lmc_log_read_environment();
    unsetenv("LMCACHED_LOG_LEVELS");
    read_what_is_there();
    assert_int_equal(lmc_log_level_of("test.three"), LMC_LOG_ERROR);
    assert_int_equal(lmc_log_level_of("test.four"), LMC_LOG_INFO);
    assert_int_equal(occurrences("LMCACHED_LOG_LEVELS: test.four=LOUD is not used"), 1);
    assert_int_equal(occurrences("is not used: it is a list of logger=LEVEL"), 4);
}

static void what_was_suppressed_is_told_only_when_something_was(void **state) {
    (void)state;
    assert_string_equal(lmc_log_more(0).text, "");
    assert_string_equal(lmc_log_more(3).text, " (3 more not shown)");
    assert_string_equal(lmc_log_more(UINT64_MAX).text,
                        " (18446744073709551615 more not shown)");
}

#define CAPTURED(test) cmocka_unit_test_setup_teardown(test, capture, release)

int main(void) {
    setenv("TZ", "UTC", 1);
    setenv("LMCACHE_LOG_LEVEL", "nonsense", 1);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_form_that_scrapers_match),
        cmocka_unit_test(text_cannot_forge_a_line_or_a_colour),
        cmocka_unit_test(a_long_message_ends_in_dots_after_a_whole_character),
        cmocka_unit_test(long_names_do_not_break_the_frame),
        cmocka_unit_test(level_names_are_read_in_any_case),
        cmocka_unit_test(a_logger_inherits_from_its_nearest_ancestor),
        CAPTURED(a_call_site_notices_when_its_level_changes),
        cmocka_unit_test(loggers_are_listed_in_name_order),
        CAPTURED(lines_before_start_and_after_stop_are_written_at_once),
        CAPTURED(logging_keeps_errno),
        CAPTURED(lines_of_many_threads_stay_whole_and_in_order),
        CAPTURED(what_does_not_fit_is_dropped_and_counted_and_told),
        CAPTURED(a_reader_that_is_gone_stops_nothing),
        CAPTURED(a_stalled_reader_delays_the_stop_only_for_a_while),
        CAPTURED(starting_without_memory_leaves_direct_lines),
        CAPTURED(text_in_bulk_is_whole_at_any_length),
        CAPTURED(text_in_bulk_leaves_room_for_other_lines),
        CAPTURED(only_a_terminal_gets_colours),
        cmocka_unit_test(a_site_is_allowed_once_and_counts_what_it_suppressed),
        cmocka_unit_test(what_was_suppressed_is_told_only_when_something_was),
        CAPTURED(an_unknown_level_in_the_environment_is_told),
        CAPTURED(the_environment_sets_single_loggers),
        cmocka_unit_test(only_so_many_loggers_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
