#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hashmap.h"
#include "observe/server_metrics.h"

static lmc_metrics *metrics;
static lmc_buffer text;

static int set_up(void **state) {
    (void)state;
    text = (lmc_buffer)LMC_BUFFER_INIT;
    return lmc_server_metrics_create(true, &metrics, NULL);
}

static int tear_down(void **state) {
    (void)state;
    lmc_metrics_destroy(metrics);
    lmc_buffer_fini(&text);
    return 0;
}

static const char *scrape(void) {
    lmc_buffer_clear(&text);
    assert_int_equal(lmc_server_metrics_write(metrics, "id \"1\"", &text), LMC_OK);
    return text.data;
}

/* The value of one series; the test fails when it is not there. */
static double value_of(const char *series) {
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\n%s ", series);
    const char *at = strstr(scrape(), wanted);
    if (at == NULL)
        fail_msg("missing: %s", series);
    return at != NULL ? strtod(at + strlen(wanted), NULL) : 0;
}

static void every_family_is_described_in_the_table_and_named_well(void **state) {
    (void)state;
    lmc_hashmap *seen = lmc_hashmap_create();
    for (size_t i = 0; i < LMC_FAMILY_COUNT; i++) {
        const lmc_family_spec *spec = &lmc_server_families[i];
        assert_non_null(spec->name);
        assert_true(strlen(spec->help) > 5);
        void *twice = NULL;
        lmc_hashmap_put(seen, lmc_text(spec->name), (void *)spec, &twice);
        assert_null(twice);
        bool ours = strncmp(spec->name, "lmcached_", 9) == 0;
        assert_true(ours || strncmp(spec->name, "lmcache_mp_", 11) == 0);
        for (const char *c = spec->name; *c != '\0'; c++)
            assert_true(isalnum((unsigned char)*c) || *c == '_');
        size_t length = strlen(spec->name);
        bool total = length > 6 && strcmp(spec->name + length - 6, "_total") == 0;
        assert_int_equal(total, spec->type == LMC_COUNTER);
    }
    lmc_hashmap_destroy(seen);
}

static void the_first_scrape_describes_every_family(void **state) {
    (void)state;
    static const char *const types[] = {"counter", "gauge", "histogram"};
    scrape();
    for (size_t i = 0; i < LMC_FAMILY_COUNT; i++) {
        const lmc_family_spec *spec = &lmc_server_families[i];
        char wanted[256];
        snprintf(wanted, sizeof wanted, "\n# TYPE %s %s\n", spec->name, types[spec->type]);
        assert_non_null(strstr(text.data, wanted));
        snprintf(wanted, sizeof wanted, "\n# HELP %s ", spec->name);
        assert_non_null(strstr(text.data, wanted));
    }
}

/* Lines are comments, or a name, labels and a number; no series comes twice. */
static void a_scrape_is_well_formed(void **state) {
    (void)state;
    lmc_metrics_lookup_done(metrics, &(lmc_lookup_sample){.model = lmc_text("m} \"x\\\n")});
    lmc_hashmap *seen = lmc_hashmap_create();
    scrape();
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        if (line[0] == '#')
            continue;
        char *space = strrchr(line, ' ');
        assert_non_null(space);
        char *end;
        strtod(space + 1, &end);
        assert_true(end > space + 1 && *end == '\0');
        void *twice = NULL;
        lmc_hashmap_put(seen, lmc_slice_of(line, (size_t)(space - line)), line, &twice);
        assert_null(twice);
    }
    assert_true(lmc_hashmap_count(seen) > 100);
    lmc_hashmap_destroy(seen);
}

static void series_that_can_be_foreseen_start_at_zero(void **state) {
    (void)state;
    static const char *const foreseen[] = {
        "lmcache_mp_l1_write_chunks_total{cache_salt=\"\",l1_tag=\"_default\"}",
        "lmcache_mp_l1_eviction_loop_ticks_total",
        "lmcache_mp_l1_memory_usage_bytes{l1_tag=\"_default\",backend=\"dram\"}",
        "lmcache_mp_num_submitted_stores_total{device=\"cpu\"}",
        "lmcache_mp_event_bus_dropped_events_total",
        "lmcache_mp_active_prefetch_jobs",
        "lmcached_silent_requests_total{reason=\"malformed\"}",
        "lmcached_replies_dropped_total{reason=\"peer_gone\"}",
        "lmcached_handler_failures_total{answer=\"none\"}",
        "lmcached_pool_queue_depth{pool=\"normal\"}",
        "lmcached_unread_reply_bytes",
    };
    for (size_t i = 0; i < sizeof foreseen / sizeof foreseen[0]; i++)
        assert_true(value_of(foreseen[i]) == 0);
    assert_true(value_of("lmcached_build_info{version=\"" LMC_VERSION "\"}") == 1);
}

static void a_lookup_moves_all_its_counters_together(void **state) {
    (void)state;
    lmc_lookup_sample sample = {.model = lmc_text("m"),
                                .salt = lmc_text("s"),
                                .requested_tokens = 1024,
                                .l1_tokens = 256,
                                .l2_tokens = 512,
                                .l1_keys = 1,
                                .l2_keys = 2,
                                .early_exit = ""};
    lmc_metrics_lookup_done(metrics, &sample);
    lmc_metrics_lookup_done(metrics, &sample);
    assert_true(value_of("lmcache_mp_lookup_requested_tokens_total"
                         "{model_name=\"m\",cache_salt=\"s\"}") == 2048);
    assert_true(value_of("lmcache_mp_lookup_hit_tokens_total"
                         "{model_name=\"m\",cache_salt=\"s\"}") == 1536);
    assert_true(value_of("lmcache_mp_lookup_hit_l1_tokens_total"
                         "{model_name=\"m\",cache_salt=\"s\"}") == 512);
    assert_true(value_of("lmcache_mp_lookup_hit_l2_keys_total"
                         "{model_name=\"m\",cache_salt=\"s\"}") == 4);
    assert_true(value_of("lmcache_mp_lookups_requests_total"
                         "{model_name=\"m\",cache_salt=\"s\"}") == 2);
    assert_null(strstr(text.data, "lmcache_mp_lookup_early_exit_requests_total{"));
}

static void an_early_exit_counts_requests_only(void **state) {
    (void)state;
    lmc_lookup_sample sample = {.model = lmc_text("m"),
                                .requested_tokens = 1024,
                                .l1_tokens = 256,
                                .early_exit = "empty_chunk_hashes"};
    lmc_metrics_lookup_done(metrics, &sample);
    assert_true(value_of("lmcache_mp_lookup_requested_tokens_total"
                         "{model_name=\"m\",cache_salt=\"\"}") == 0);
    assert_true(value_of("lmcache_mp_lookups_requests_total"
                         "{model_name=\"m\",cache_salt=\"\"}") == 1);
    assert_true(value_of("lmcache_mp_lookup_early_exit_requests_total{model_name=\"m\","
                         "cache_salt=\"\",reason=\"empty_chunk_hashes\"}") == 1);
}

static void l1_events_are_counted_by_salt_and_cause(void **state) {
    (void)state;
    lmc_metrics_l1_written(metrics, lmc_text("s"), 3);
    lmc_metrics_l1_read(metrics, lmc_text(""), 2);
    lmc_metrics_l1_evicted(metrics, lmc_text("s"), 1);
    lmc_metrics_l1_eviction_tick(metrics, false);
    lmc_metrics_l1_eviction_tick(metrics, true);
    lmc_metrics_l1_no_memory(metrics, "l1_store", lmc_text("m"), 7);
    lmc_metrics_l1_read_failed(metrics, "l1_retrieve", "not_found", lmc_text("m"), 1);
    assert_true(value_of("lmcache_mp_l1_write_chunks_total"
                         "{cache_salt=\"s\",l1_tag=\"_default\"}") == 3);
    assert_true(value_of("lmcache_mp_l1_read_chunks_total"
                         "{cache_salt=\"\",l1_tag=\"_default\"}") == 2);
    assert_true(value_of("lmcache_mp_l1_evicted_chunks_total"
                         "{cache_salt=\"s\",l1_tag=\"_default\"}") == 1);
    assert_true(value_of("lmcache_mp_l1_eviction_loop_ticks_total") == 2);
    assert_true(value_of("lmcache_mp_l1_eviction_loop_triggered_total") == 1);
    assert_true(value_of("lmcache_mp_l1_allocation_failure_chunks_total"
                         "{during=\"l1_store\",model_name=\"m\"}") == 7);
    assert_true(value_of("lmcache_mp_l1_read_failure_chunks_total{during=\"l1_retrieve\","
                         "reason=\"not_found\",model_name=\"m\"}") == 1);
}

static void read_usage(void *arg, lmc_l1_usage *usage) {
    (void)arg;
    *usage = (lmc_l1_usage){
        .used = 1 << 20, .capacity = 1 << 22, .staging = 4096, .supplied = 1 << 21};
}

static void the_state_of_l1_is_asked_for_at_a_scrape(void **state) {
    (void)state;
    static const lmc_l1_source source = {read_usage, NULL};
    lmc_metrics_l1_source(metrics, &source);
    assert_true(value_of("lmcache_mp_l1_memory_usage_bytes"
                         "{l1_tag=\"_default\",backend=\"dram\"}") == 1 << 20);
    assert_true(value_of("lmcache_mp_l1_usage_ratio"
                         "{l1_tag=\"_default\",backend=\"dram\"}") == 0.25);
    assert_true(value_of("lmcache_mp_l1_staging_bytes"
                         "{l1_tag=\"_default\",backend=\"dram\"}") == 4096);
    assert_true(value_of("lmcached_l1_supplied_bytes"
                         "{l1_tag=\"_default\",backend=\"dram\"}") == 1 << 21);
    lmc_metrics_l1_source(metrics, NULL);
    assert_true(value_of("lmcache_mp_l1_staging_bytes"
                         "{l1_tag=\"_default\",backend=\"dram\"}") == 0);
}

static void transfers_are_counted_when_begun_and_when_ended(void **state) {
    (void)state;
    lmc_metrics_transfer_submitted(metrics, LMC_TRANSFER_STORE, "cpu");
    lmc_metrics_transfer_submitted(metrics, LMC_TRANSFER_RETRIEVE, "cpu");
    lmc_metrics_transfer_finished(metrics, LMC_TRANSFER_RETRIEVE, "cpu");
    lmc_metrics_transfer_speed(metrics, LMC_TRANSFER_STORE, 5, "cpu", lmc_text("m"), 4000,
                               1000);
    lmc_metrics_transfer_speed(metrics, LMC_TRANSFER_STORE, 5, "cpu", lmc_text("m"), 0, 1000);
    lmc_metrics_transfer_speed(metrics, LMC_TRANSFER_STORE, 5, "cpu", lmc_text("m"), 1, 0);
    lmc_metrics_chunks_loaded(metrics, -1, lmc_text("m"), lmc_text(""), 128);
    lmc_metrics_timeout(metrics, "TimeoutError");
    assert_true(value_of("lmcache_mp_num_submitted_stores_total{device=\"cpu\"}") == 1);
    assert_true(value_of("lmcache_mp_num_finished_stores_total{device=\"cpu\"}") == 0);
    assert_true(value_of("lmcache_mp_num_finished_retrieves_total{device=\"cpu\"}") == 1);
    assert_true(value_of("lmcache_mp_l0_l1_store_throughput_GB_per_second_sum"
                         "{engine_id=\"5\",device=\"cpu\",model_name=\"m\"}") == 4);
    assert_true(value_of("lmcache_mp_l0_l1_store_throughput_GB_per_second_count"
                         "{engine_id=\"5\",device=\"cpu\",model_name=\"m\"}") == 1);
    assert_true(value_of("lmcache_mp_num_chunks_loaded_total"
                         "{worker_id=\"-1\",model_name=\"m\",cache_salt=\"\"}") == 128);
    assert_true(value_of("lmcache_mp_timeouts_total{exception_type=\"TimeoutError\"}") == 1);
}

static void collect_pools(void *arg, lmc_samples *samples) {
    (void)arg;
    lmc_samples_add_text(samples, "normal", 3);
    lmc_samples_add_text(samples, "outside", 1);
}

static void our_own_counters_take_one_label_or_a_collector(void **state) {
    (void)state;
    lmc_metrics_count(metrics, LMC_M_SILENT_REQUESTS, "malformed", 2);
    lmc_metrics_count(metrics, LMC_M_SHED_REQUESTS, NULL, 1);
    lmc_metrics_collect(metrics, LMC_M_POOL_QUEUE_DEPTH, collect_pools, NULL);
    assert_true(value_of("lmcached_silent_requests_total{reason=\"malformed\"}") == 2);
    assert_true(value_of("lmcached_shed_requests_total") == 1);
    assert_true(value_of("lmcached_pool_queue_depth{pool=\"outside\"}") == 1);
    assert_null(strstr(text.data, "lmcached_pool_queue_depth{pool=\"affinity\"}"));
}

static void the_process_tells_of_itself(void **state) {
    (void)state;
    assert_true(value_of("process_resident_memory_bytes") > 100000);
    assert_true(value_of("process_virtual_memory_bytes") >
                value_of("process_resident_memory_bytes"));
    assert_true(value_of("process_cpu_seconds_total") >= 0);
    assert_true(value_of("process_open_fds") >= 3);
    assert_true(value_of("process_max_fds") >= value_of("process_open_fds"));
    assert_true(value_of("process_start_time_seconds") > 1.6e9);
    assert_true(value_of("target_info{service_instance_id=\"id \\\"1\\\"\","
                         "service_name=\"unknown_service\"}") == 1);
}

static void without_metrics_only_the_process_is_there(void **state) {
    (void)state;
    lmc_metrics_destroy(metrics);
    assert_int_equal(lmc_server_metrics_create(false, &metrics, NULL), LMC_OK);
    lmc_metrics_lookup_done(metrics, &(lmc_lookup_sample){.requested_tokens = 1});
    lmc_metrics_l1_source(metrics, NULL);
    lmc_metrics_lookup_done(NULL, &(lmc_lookup_sample){.requested_tokens = 1});
    lmc_metrics_count(NULL, LMC_M_SILENT_REQUESTS, "x", 1);
    scrape();
    assert_null(strstr(text.data, "lmcache"));
    assert_true(value_of("process_open_fds") > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* With an argument: prints the first scrape, for other programs to judge. */
int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        set_up(NULL);
        fputs(scrape(), stdout);
        tear_down(NULL);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        TEST(every_family_is_described_in_the_table_and_named_well),
        TEST(the_first_scrape_describes_every_family),
        TEST(a_scrape_is_well_formed),
        TEST(series_that_can_be_foreseen_start_at_zero),
        TEST(a_lookup_moves_all_its_counters_together),
        TEST(an_early_exit_counts_requests_only),
        TEST(l1_events_are_counted_by_salt_and_cause),
        TEST(the_state_of_l1_is_asked_for_at_a_scrape),
        TEST(transfers_are_counted_when_begun_and_when_ended),
        TEST(our_own_counters_take_one_label_or_a_collector),
        TEST(the_process_tells_of_itself),
        TEST(without_metrics_only_the_process_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
