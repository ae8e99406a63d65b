#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "observe/metrics.h"
#include "support/alloc_fault.h"

static const double edges[] = {0, 0.5, 10};
enum { PLAIN, SALTED, GAUGED, TIMED, SMALL, KNOWN, TIMED_BY, SPECS };
static const lmc_family_spec specs[SPECS] = {
    [PLAIN] = {.name = "plain_total", .type = LMC_COUNTER, .help = "A\\b\n\"c\""},
    [SALTED] = {.name = "salted_total",
                .type = LMC_COUNTER,
                .help = "S",
                .labels = {"salt", "tag"},
                .known = {"", "x"}},
    [GAUGED] = {.name = "gauged", .type = LMC_GAUGE, .help = "G", .labels = {"of"}},
    [TIMED] = {.name = "timed_seconds",
               .type = LMC_HISTOGRAM,
               .help = "T",
               .edges = edges,
               .edge_count = 3},
    [SMALL] = {.name = "small_total",
               .type = LMC_COUNTER,
               .help = "B",
               .labels = {"who", "why"},
               .series_max = 4},
    [KNOWN] = {.name = "known_total",
               .type = LMC_COUNTER,
               .help = "K",
               .labels = {"a", "b"},
               .known = {"1|2", "x|y|z"}},
    [TIMED_BY] = {.name = "timed_by",
                  .type = LMC_HISTOGRAM,
                  .help = "T",
                  .labels = {"l"},
                  .edges = edges,
                  .edge_count = 3},
};

static lmc_metrics *metrics;
static lmc_buffer text;

static int set_up(void **state) {
    (void)state;
    text = (lmc_buffer)LMC_BUFFER_INIT;
    lmc_log_set_level("lmcache", LMC_LOG_ERROR); /* the WARNING at a bound is wanted here */
    return lmc_metrics_create(specs, SPECS, &metrics, NULL);
}

static int tear_down(void **state) {
    (void)state;
    lmc_metrics_destroy(metrics);
    lmc_buffer_fini(&text);
    return 0;
}

static const char *scrape(void) {
    lmc_buffer_clear(&text);
    assert_int_equal(lmc_metrics_write(metrics, &text), LMC_OK);
    return text.data;
}

static void assert_shows(const char *line) {
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (strstr(scrape(), wanted) == NULL)
        fail_msg("missing: %s\nin\n%s", line, text.data);
}

static size_t lines_with(const char *part) {
    size_t count = 0;
    for (const char *at = scrape(); (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static lmc_counter *small(const char *who, const char *why) {
    const lmc_slice values[] = {lmc_text(who), lmc_text(why)};
    return lmc_counter_of(lmc_metrics_family(metrics, SMALL), values);
}

static void the_first_scrape_has_every_family_and_known_series_at_zero(void **state) {
    (void)state;
    assert_string_equal(
        scrape(),
        "# HELP plain_total A\\\\b\\n\"c\"\n# TYPE plain_total counter\nplain_total 0\n"
        "# HELP salted_total S\n# TYPE salted_total counter\nsalted_total{salt=\"\",tag=\"x\"} "
        "0\n"
        "# HELP gauged G\n# TYPE gauged gauge\n"
        "# HELP timed_seconds T\n# TYPE timed_seconds histogram\n"
        "timed_seconds_bucket{le=\"0.0\"} 0\ntimed_seconds_bucket{le=\"0.5\"} 0\n"
        "timed_seconds_bucket{le=\"10.0\"} 0\ntimed_seconds_bucket{le=\"+Inf\"} 0\n"
        "timed_seconds_sum 0\ntimed_seconds_count 0\n"
        "# HELP small_total B\n# TYPE small_total counter\n"
        "# HELP known_total K\n# TYPE known_total counter\n"
        "known_total{a=\"1\",b=\"x\"} 0\nknown_total{a=\"1\",b=\"y\"} 0\n"
        "known_total{a=\"1\",b=\"z\"} 0\nknown_total{a=\"2\",b=\"x\"} 0\n"
        "known_total{a=\"2\",b=\"y\"} 0\nknown_total{a=\"2\",b=\"z\"} 0\n"
        "# HELP timed_by T\n# TYPE timed_by histogram\n");
}

static void one_combination_of_values_is_one_series(void **state) {
    (void)state;
    lmc_counter *ab = small("a", "b");
    assert_ptr_equal(small("a", "b"), ab);
    assert_ptr_not_equal(small("ab", ""), ab);
    assert_ptr_not_equal(small("", "ab"), small("ab", ""));
    lmc_counter_add(ab, 3);
    lmc_counter_add(small("a", "b"), UINT64_C(1) << 60);
    assert_shows("small_total{who=\"a\",why=\"b\"} 1152921504606846979");
}

static void label_values_are_escaped(void **state) {
    (void)state;
    lmc_counter_add(small("q\"\\\nz", "\xFF\xC3\xA9"), 1);
    assert_shows("small_total{who=\"q\\\"\\\\\\nz\",why=\"\xEF\xBF\xBD\xC3\xA9\"} 1");
}

static void beyond_the_bound_everything_counts_as_other(void **state) {
    (void)state;
    char name[16];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "w%d", i);
        lmc_counter_add(small(name, "y"), 1);
    }
    assert_int_equal(lines_with("\nsmall_total{"), 5);
    assert_shows("small_total{who=\"other\",why=\"other\"} 6");
    assert_shows("small_total{who=\"w3\",why=\"y\"} 1");
    lmc_counter_add(small("w3", "y"), 1);
    assert_shows("small_total{who=\"w3\",why=\"y\"} 2");
}

static void a_value_that_is_too_long_counts_as_other(void **state) {
    (void)state;
    char name[LMC_LABEL_VALUE_MAX + 2];
    memset(name, 'n', sizeof name);
    name[LMC_LABEL_VALUE_MAX + 1] = '\0';
    lmc_counter_add(small(name, ""), 2);
    assert_shows("small_total{who=\"other\",why=\"other\"} 2");
    lmc_counter_add(small(name + 1, ""), 1); /* the longest that is allowed */
    assert_int_equal(lines_with("\nsmall_total{"), 2);
}

static void values_that_are_other_share_the_series_of_the_rest(void **state) {
    (void)state;
    lmc_counter_add(small("other", "other"), 1);
    char name[16];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "w%d", i);
        lmc_counter_add(small(name, "y"), 1);
    }
    assert_int_equal(lines_with("who=\"other\",why=\"other\""), 1);
    assert_shows("small_total{who=\"other\",why=\"other\"} 7");
}

static void the_bound_is_warned_of_once(void **state) {
    (void)state;
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    lmc_log_set_level("lmcache", LMC_LOG_WARNING);
    dup2(fileno(file), STDERR_FILENO);
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "w%d", i);
        small(name, "y");
    }
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    char line[1024];
    assert_non_null(fgets(line, sizeof line, file));
    assert_non_null(strstr(line, "WARNING: Metric small_total has too many label values"));
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static void a_histogram_puts_a_sample_at_the_edge_below_it(void **state) {
    (void)state;
    lmc_histogram *timed = lmc_histogram_of(lmc_metrics_family(metrics, TIMED), NULL);
    static const double samples[] = {-1, 0, 0.25, 0.5, 0.5000001, 10, 11};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        lmc_histogram_observe(timed, samples[i]);
    lmc_histogram_observe(timed, NAN);
    assert_shows("timed_seconds_bucket{le=\"0.0\"} 2");
    assert_shows("timed_seconds_bucket{le=\"0.5\"} 4");
    assert_shows("timed_seconds_bucket{le=\"10.0\"} 6");
    assert_shows("timed_seconds_bucket{le=\"+Inf\"} 7");
    assert_shows("timed_seconds_count 7");
    assert_shows("timed_seconds_sum 21.2500001");
    lmc_slice label = lmc_text("v");
    lmc_histogram_observe(lmc_histogram_of(lmc_metrics_family(metrics, TIMED_BY), &label), 1);
    assert_shows("timed_by_bucket{l=\"v\",le=\"0.5\"} 0");
    assert_shows("timed_by_bucket{l=\"v\",le=\"10.0\"} 1");
    assert_shows("timed_by_sum{l=\"v\"} 1");
    assert_shows("timed_by_count{l=\"v\"} 1");
}

static void gauges_are_set_and_moved(void **state) {
    (void)state;
    lmc_slice label = lmc_text("x");
    lmc_gauge *gauge = lmc_gauge_of(lmc_metrics_family(metrics, GAUGED), &label);
    lmc_gauge_set(gauge, 0.75);
    assert_shows("gauged{of=\"x\"} 0.75");
    lmc_gauge_add(gauge, 64424509440.25);
    lmc_gauge_add(gauge, -1);
    assert_shows("gauged{of=\"x\"} 64424509440");
    lmc_gauge_set(gauge, NAN);
    assert_shows("gauged{of=\"x\"} NaN");
    lmc_gauge_set(gauge, -INFINITY);
    assert_shows("gauged{of=\"x\"} -Inf");
}

static void collect_two(void *arg, lmc_samples *samples) {
    lmc_lock_assert_none();
    lmc_slice first = lmc_text("a\"b"), second = lmc_text("c");
    lmc_samples_add(samples, &first, *(double *)arg);
    lmc_samples_add(samples, &second, 2);
}

static void collect_plain(void *arg, lmc_samples *samples) {
    (void)arg;
    lmc_samples_add(samples, NULL, 5);
}

static void a_collector_gives_the_values_of_its_family(void **state) {
    (void)state;
    double value = 1.5;
    lmc_family *gauged = lmc_metrics_family(metrics, GAUGED);
    lmc_slice label = lmc_text("kept");
    lmc_gauge_set(lmc_gauge_of(gauged, &label), 9);
    lmc_family_collect(gauged, collect_two, &value);
    lmc_family_collect(lmc_metrics_family(metrics, PLAIN), collect_plain, NULL);
    assert_shows("gauged{of=\"a\\\"b\"} 1.5");
    assert_shows("gauged{of=\"c\"} 2");
    assert_shows("plain_total 5");
    assert_int_equal(lines_with("kept"), 0);
    lmc_family_collect(gauged, NULL, NULL);
    assert_shows("gauged{of=\"kept\"} 9");
}

static void reset_zeroes_counters_and_histograms_but_not_gauges(void **state) {
    (void)state;
    lmc_slice label = lmc_text("x");
    lmc_counter_add(small("a", "b"), 3);
    lmc_gauge_set(lmc_gauge_of(lmc_metrics_family(metrics, GAUGED), &label), 9);
    lmc_histogram_observe(lmc_histogram_of(lmc_metrics_family(metrics, TIMED), NULL), 3);
    lmc_metrics_reset(metrics);
    assert_shows("small_total{who=\"a\",why=\"b\"} 0");
    assert_shows("gauged{of=\"x\"} 9");
    assert_shows("timed_seconds_sum 0");
    assert_shows("timed_seconds_bucket{le=\"+Inf\"} 0");
}

static void nothing_is_counted_without_a_registry(void **state) {
    (void)state;
    assert_null(lmc_metrics_family(NULL, 0));
    assert_null(lmc_metrics_family(metrics, SPECS));
    assert_null(lmc_counter_of(NULL, NULL));
    lmc_counter_add(NULL, 1);
    lmc_gauge_set(NULL, 1);
    lmc_gauge_add(lmc_gauge_of(NULL, NULL), 1);
    lmc_histogram_observe(lmc_histogram_of(NULL, NULL), 1);
    lmc_family_collect(NULL, NULL, NULL);
    lmc_metrics_reset(NULL);
    lmc_metrics_destroy(NULL);
    lmc_buffer_clear(&text);
    assert_int_equal(lmc_metrics_write(NULL, &text), LMC_OK);
    assert_int_equal(text.size, 0);
}

static void creating_without_memory_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    lmc_status status = LMC_NO_MEMORY;
    for (uint64_t nth = 1; status != LMC_OK; nth++) {
        lmc_metrics *made = NULL;
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(nth, false);
        status = lmc_metrics_create(specs, SPECS, &made, &error);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(status, hit ? LMC_NO_MEMORY : LMC_OK);
        lmc_metrics_destroy(made);
    }
}

static void a_series_without_memory_counts_as_other(void **state) {
    (void)state;
    lmc_fault_arm(1, false);
    lmc_counter_add(small("a", "b"), 1);
    lmc_fault_disarm();
    lmc_counter_add(small("a", "b"), 1);
    assert_shows("small_total{who=\"other\",why=\"other\"} 1");
    assert_shows("small_total{who=\"a\",why=\"b\"} 1");
}

static void a_scrape_without_memory_says_so(void **state) {
    (void)state;
    lmc_buffer_fini(&text);
    lmc_fault_arm(2, false);
    assert_int_equal(lmc_metrics_write(metrics, &text), LMC_NO_MEMORY);
    lmc_fault_disarm();
}

/* --- Many threads. --- */

#define THREADS 4
#define ROUNDS 3000

static atomic_bool stop_scraping;

static void count_much(void *arg) {
    (void)arg;
    char name[16];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "s%d", i % 40);
        const lmc_slice values[] = {lmc_text(name), lmc_text("t")};
        lmc_counter_add(lmc_counter_of(lmc_metrics_family(metrics, SALTED), values), 1);
        lmc_counter_add(small(name, "y"), 1);
        lmc_histogram_observe(lmc_histogram_of(lmc_metrics_family(metrics, TIMED), NULL), 1);
    }
}

static void scrape_much(void *arg) {
    double value = 1;
    lmc_buffer out = LMC_BUFFER_INIT;
    while (!stop_scraping) {
        lmc_buffer_clear(&out);
        lmc_metrics_write(metrics, &out);
        lmc_family_collect(lmc_metrics_family(metrics, GAUGED), collect_two, &value);
        lmc_family_collect(lmc_metrics_family(metrics, GAUGED), NULL, NULL);
        sched_yield();
    }
    lmc_buffer_fini(&out);
    (void)arg;
}

static void nothing_is_lost_between_threads_and_scrapes(void **state) {
    (void)state;
    lmc_thread threads[THREADS], scrapers[2];
    stop_scraping = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(lmc_thread_start(&scrapers[i], "scrape", scrape_much, NULL, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(lmc_thread_start(&threads[i], "count", count_much, NULL, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        lmc_thread_join(&threads[i]);
    stop_scraping = true;
    for (int i = 0; i < 2; i++)
        lmc_thread_join(&scrapers[i]);
    assert_int_equal(lines_with("\nsalted_total{salt=\"s"), 40);
    assert_shows("salted_total{salt=\"s39\",tag=\"t\"} 300");
    assert_int_equal(lines_with("\nsmall_total{"), 5);
    assert_shows("timed_seconds_count 12000");
    assert_shows("timed_seconds_sum 12000");
    uint64_t total = 0;
    for (const char *at = scrape(); (at = strstr(at, "\nsmall_total{")) != NULL; at++)
        total += strtoull(strstr(at, "} ") + 2, NULL, 10);
    assert_int_equal(total, THREADS * ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_first_scrape_has_every_family_and_known_series_at_zero),
        TEST(one_combination_of_values_is_one_series),
        TEST(label_values_are_escaped),
        TEST(beyond_the_bound_everything_counts_as_other),
        TEST(a_value_that_is_too_long_counts_as_other),
        TEST(values_that_are_other_share_the_series_of_the_rest),
        TEST(the_bound_is_warned_of_once),
        TEST(a_histogram_puts_a_sample_at_the_edge_below_it),
        TEST(gauges_are_set_and_moved),
        TEST(a_collector_gives_the_values_of_its_family),
        TEST(reset_zeroes_counters_and_histograms_but_not_gauges),
        TEST(nothing_is_counted_without_a_registry),
        TEST(creating_without_memory_is_an_error_and_leaks_nothing),
        TEST(a_series_without_memory_counts_as_other),
        TEST(a_scrape_without_memory_says_so),
        TEST(nothing_is_lost_between_threads_and_scrapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
