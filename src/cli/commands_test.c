/* ping, describe and kvcache against a made-up server. */
#include "cli/cli_case.h"

#include <unistd.h>

#define PING_OK                        \
    "======= Ping KV Cache ========\n" \
    "Status:                     OK\n" \
    "Round trip time (ms):     1.23\n" \
    "==============================\n"
#define PING_FAIL                      \
    "======= Ping KV Cache ========\n" \
    "Status:                   FAIL\n" \
    "Round trip time (ms):     1.23\n" \
    "==============================\n"
#define PING_USAGE                                                                \
    "usage: lmcached ping [-h] [--url URL] [--ready] [--format {terminal,json}] " \
    "[--output PATH] [-q] {kvcache,engine}\n"

static void answer(int status, const char *reason, const char *body) {
    lmc_fake = (lmc_fake_server){.status = status, .reason = reason, .body = body};
}

static void ping_asks_the_liveness_path_of_its_target(void **state) {
    (void)state;
    answer(200, "OK", "{\"status\":\"healthy\"}");
    LMC_EXPECT(0, PING_OK, "", "ping", "kvcache");
    assert_string_equal(lmc_fake.asked, "GET http://localhost:8080/healthcheck");
    lmc_cli_outcome engine = LMC_RUN("ping", "engine", "--url=h:1//");
    assert_int_equal(engine.status, 0);
    assert_non_null(strstr(engine.out, " Ping Engine "));
    assert_string_equal(lmc_fake.asked, "GET http://h:1/health");
    lmc_outcome_fini(&engine);
    engine = LMC_RUN("ping", "engine");
    assert_string_equal(lmc_fake.asked, "GET http://localhost:8000/health");
    lmc_outcome_fini(&engine);
}

static void a_failing_ping_shows_its_table_and_the_reason(void **state) {
    (void)state;
    answer(503, "Service Unavailable", "");
    LMC_EXPECT(1, PING_FAIL, "HTTP 503: Service Unavailable\n", "ping", "kvcache");
    answer(0, NULL, NULL);
    LMC_EXPECT(1, PING_FAIL, "Cannot connect to http://u:***@h: nobody listens\n", "ping",
               "kvcache", "--url", "http://u:p@h/");
    answer(204, "No Content", "");
    LMC_EXPECT(1, PING_FAIL, "HTTP 204: No Content\n", "ping", "kvcache");
}

static void ping_ready_asks_for_readiness_and_tells_why_not(void **state) {
    (void)state;
    answer(200, "OK", "{\"status\":\"ready\"}");
    LMC_EXPECT(0, "", "", "ping", "--ready", "-q");
    assert_string_equal(lmc_fake.asked, "GET http://localhost:8080/readiness");
    answer(503, "Service Unavailable",
           "{\"status\":\"not ready\",\"reasons\":[\"the loop stands\",3]}");
    LMC_EXPECT(1, PING_FAIL, "HTTP 503: Service Unavailable\nnot ready: the loop stands\n",
               "ping", "--ready");
}

static void the_result_can_be_json_in_a_file_or_nowhere(void **state) {
    (void)state;
    static const char json[] = "{\n  \"title\": \"Ping KV Cache\",\n  \"metrics\": {\n"
                               "    \"status\": \"OK\",\n"
                               "    \"round_trip_time_ms\": 1.23\n  }\n}\n";
    char path[] = "/tmp/lmc-report-XXXXXX", content[256] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    answer(200, "OK", "");
    LMC_EXPECT(0, json, "", "ping", "--format", "json", "kvcache");
    LMC_EXPECT(0, "", "", "ping", "kvcache", "-q", "--form=json", "--output", path);
    assert_int_equal(read(file, content, sizeof content - 1), strlen(json));
    assert_string_equal(content, json);
    close(file);
    unlink(path);
    LMC_EXPECT(1, PING_OK,
               "Command failed: cannot write /nonexistent/x: No such file or directory\n",
               "ping", "kvcache", "--output", "/nonexistent/x");
}

static void wrong_usage_asks_nobody(void **state) {
    (void)state;
    answer(200, "OK", "");
    LMC_EXPECT(2, "",
               PING_USAGE
               "lmcached ping: error: the following arguments are required: target\n",
               "ping");
    LMC_EXPECT(2, "",
               PING_USAGE "lmcached ping: error: argument target: invalid choice: 'x' (choose "
                          "from 'kvcache', 'engine')\n",
               "ping", "x");
    LMC_EXPECT(2, "", PING_USAGE "lmcached ping: error: unrecognized arguments: --nope b\n",
               "ping", "kvcache", "--nope", "b");
    LMC_EXPECT(2, "",
               PING_USAGE "lmcached ping: error: argument --url: expected one argument\n",
               "ping", "kvcache", "--url", "-q");
    LMC_EXPECT(2, "",
               PING_USAGE "lmcached ping: error: argument --quiet: ignored explicit argument "
                          "'1'\n",
               "ping", "kvcache", "--quiet=1");
    lmc_cli_outcome bare = LMC_RUN("describe");
    assert_int_equal(bare.status, 2);
    assert_string_equal(bare.out, "");
    assert_non_null(
        strstr(bare.err, "describe: error: the following arguments are required: "));
    lmc_outcome_fini(&bare);
    LMC_EXPECT(1, "", "Unknown format 'xml'. Available: json, terminal\n", "ping", "kvcache",
               "--format", "xml");
    assert_int_equal(lmc_fake.requests, 0);
}

#define STATUS                                                                              \
    "{\"is_healthy\":true,\"engine_type\":\"MPCacheServer\",\"chunk_size\":256,"            \
    "\"active_sessions\":2,\"storage_manager\":{\"l1_manager\":{\"memory_total_bytes\":"    \
    "64424509440,\"memory_used_bytes\":45415895859,\"memory_usage_ratio\":0.7049,"          \
    "\"total_object_count\":1024},\"eviction_controller\":{\"eviction_policy\":\"LRU\"},"   \
    "\"l2_adapters\":[{\"type\":\"FSL2Adapter\",\"is_healthy\":false,\"base_path\":\"/d\"," \
    "\"current_size_bytes\":1073741824,\"max_capacity_bytes\":4294967296,\"pool_size\":8,"  \
    "\"pool_free_slots\":6}]},\"cache_context_meta\":{\"18446744073709551615\":{"           \
    "\"model_name\":\"m\",\"world_size\":2,\"kv_cache_layout\":{\"num_layers\":32,"         \
    "\"num_blocks\":9,\"cache_size_per_token\":131072,\"kernel_groups\":["                  \
    "{\"kernel_group_idx\":0,\"is_mla\":false,\"dtype\":\"torch.bfloat16\"}]}},\"7\":{"     \
    "\"model_name\":\"m\",\"world_size\":2}},\"non_cuda_context_meta\":{\"5\":{"            \
    "\"model_name\":\"n\",\"world_size\":1,\"block_size\":16}}}"

static void describe_shows_what_the_status_says(void **state) {
    (void)state;
    answer(200, "OK", STATUS);
    LMC_EXPECT(0,
               "============ LMCache KV Cache Service ============\n"
               "Health:                                         OK\n"
               "URL:                         http://localhost:8080\n"
               "Engine type:                         MPCacheServer\n"
               "Chunk size:                                    256\n"
               "L1 capacity (GB):                            60.00\n"
               "L1 used (GB):                        42.30 (70.5%)\n"
               "Eviction policy:                               LRU\n"
               "Cached objects:                               1024\n"
               "Active sessions:                                 2\n"
               "--------------------- Model ----------------------\n"
               "Model:                                           m\n"
               "World size:                                      2\n"
               "GPU IDs:                   18446744073709551615, 7\n"
               "Layers:                                         32\n"
               "Blocks:                                          9\n"
               "Cache size per token:                       131072\n"
               "------------------ Kernel group ------------------\n"
               "Model:                                           m\n"
               "Kernel group:                                    0\n"
               "Data type:                          torch.bfloat16\n"
               "MLA:                                         False\n"
               "------------- Model (engine-driven) --------------\n"
               "Model:                                           n\n"
               "World size:                                      1\n"
               "Worker IDs:                                      5\n"
               "Block size:                                     16\n"
               "------------------- L2 adapter -------------------\n"
               "Type:                                  FSL2Adapter\n"
               "Health:                                  UNHEALTHY\n"
               "Base path:                                      /d\n"
               "Used (GB):                     1.00 / 4.00 (25.0%)\n"
               "Pool used:                           2 / 8 (25.0%)\n"
               "==================================================\n",
               "", "describe", "kvcache");
    assert_string_equal(lmc_fake.asked, "GET http://localhost:8080/status");
}

static void describe_shows_na_for_what_a_status_lacks(void **state) {
    (void)state;
    answer(200, "OK", "{\"is_healthy\":false}");
    lmc_cli_outcome seen = LMC_RUN("describe", "kvcache", "--format=json");
    assert_int_equal(seen.status, 0);
    assert_non_null(strstr(seen.out, "    \"health\": \"UNHEALTHY\",\n"));
    assert_non_null(strstr(seen.out, "    \"l1_capacity_gb\": null,\n"
                                     "    \"l1_used_gb\": null,\n"
                                     "    \"eviction_policy\": null,\n"));
    lmc_outcome_fini(&seen);
}

static void a_failing_describe_says_why(void **state) {
    (void)state;
    answer(0, NULL, NULL);
    LMC_EXPECT(1, "", "Cannot connect to http://h: nobody listens\n", "describe", "kvcache",
               "--url", "h");
    answer(404, "Not Found", "");
    LMC_EXPECT(1, "", "HTTP 404 from http://h: Not Found\n", "describe", "kvcache", "--url",
               "h");
    answer(503, "Service Unavailable", "{\"error\":\"engine not initialized\"}");
    LMC_EXPECT(1, "", "Server unhealthy: engine not initialized\n", "describe", "kvcache");
    answer(200, "OK", "<html>");
    LMC_EXPECT(1, "",
               "Command failed: the status of http://h does not read: Expecting value: line 1 "
               "column 1 (char 0)\n",
               "describe", "kvcache", "--url", "h");
}

#define CLEARED                                          \
    "================ KV Cache Clear ================\n" \
    "Status:                                       OK\n" \
    "================================================\n"

static void kvcache_clear_clears_servers_of_any_age(void **state) {
    (void)state;
    answer(200, "OK", "{\"status\":\"ok\"}");
    LMC_EXPECT(0, CLEARED, "", "kvcache", "clear", "--url", "h:1");
    assert_string_equal(lmc_fake.asked, "POST http://h:1/cache/clear");
    answer(200, "OK", "{\"status\":\"ok\"}");
    lmc_fake.only_path = "/api/clear-cache";
    LMC_EXPECT(0, CLEARED, "", "kvcache", "clear", "--url", "h:1");
    assert_string_equal(lmc_fake.asked, "POST http://h:1/api/clear-cache");
}

static void a_failing_clear_says_why(void **state) {
    (void)state;
    answer(0, NULL, NULL);
    LMC_EXPECT(1, "",
               "Cannot reach http://h:1 \xe2\x80\x94 is the server running? (nobody listens)\n",
               "kvcache", "clear", "--url", "h:1");
    answer(500, "Internal Server Error", "{\"error\":\"e\",\"message\":\"m\"}");
    LMC_EXPECT(1, "", "m\n", "kvcache", "clear", "--url", "h:1");
    answer(500, "Internal Server Error", "oops");
    LMC_EXPECT(1, "", "HTTP 500 from http://h:1: Internal Server Error\n", "kvcache", "clear",
               "--url", "h:1");
    lmc_cli_outcome seen = LMC_RUN("kvcache", "clear");
    assert_int_equal(seen.status, 2);
    assert_non_null(strstr(seen.err, "error: the following arguments are required: --url\n"));
    lmc_outcome_fini(&seen);
    seen = LMC_RUN("kvcache");
    assert_int_equal(seen.status, 1);
    assert_int_equal(strncmp(seen.out, "usage: lmcached kvcache [-h] --url URL ", 39), 0);
    lmc_outcome_fini(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ping_asks_the_liveness_path_of_its_target),
        cmocka_unit_test(a_failing_ping_shows_its_table_and_the_reason),
        cmocka_unit_test(ping_ready_asks_for_readiness_and_tells_why_not),
        cmocka_unit_test(the_result_can_be_json_in_a_file_or_nowhere),
        cmocka_unit_test(wrong_usage_asks_nobody),
        cmocka_unit_test(describe_shows_what_the_status_says),
        cmocka_unit_test(describe_shows_na_for_what_a_status_lacks),
        cmocka_unit_test(a_failing_describe_says_why),
        cmocka_unit_test(kvcache_clear_clears_servers_of_any_age),
        cmocka_unit_test(a_failing_clear_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
