#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "http/http_fixture.h"

static void identity_is_json_text(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/version", NULL, 200, "\"0.1.0-abc\"");
    expect(f, "GET", "/lmc_version", NULL, 200, "\"0.1.0\"");
    expect(f, "GET", "/commit_id", NULL, 200, "\"abc\"");
}

static void unknown_identity_is_na(void **state) {
    fixture *f = *state;
    f->config.version = NULL;
    f->config.commit = "";
    start(f);
    expect(f, "GET", "/version", NULL, 200, "\"NA-NA\"");
    expect(f, "GET", "/lmc_version", NULL, 200, "\"\"");
}

static void what_the_server_writes_is_served_under_every_name(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "GET", "/api/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
    expect(f, "GET", "/status", NULL, 200, "{\"is_healthy\":true}");
    expect(f, "GET", "/api/status", NULL, 200, "{\"is_healthy\":true}");
    expect(f, "GET", "/config", NULL, 200, "{\n  \"mp\": {}\n}");
    expect(f, "GET", "/conf", NULL, 200, "{\n  \"mp\": {}\n}");
    expect(f, "GET", "/config/adapters", NULL, 200, "{\"adapters\":[]}");
    expect_header(f, "GET", "/status", "Content-Type: application/json\r\n");
    expect_header(f, "GET", "/metrics",
                  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
}

static void a_failing_provider_is_500_and_its_output_is_dropped(void **state) {
    fixture *f = *state;
    f->backend.fail = true;
    start(f);
    expect(f, "GET", "/status", NULL, 500, "{\"detail\":\"Internal Server Error\"}");
}

static void what_is_not_there_yet_is_503_with_its_own_body(void **state) {
    fixture *f = *state;
    f->provider = (lmc_http_provider){.self = NULL};
    start(f);
    expect(f, "GET", "/healthcheck", NULL, 503,
           "{\"status\":\"unhealthy\",\"reason\":\"engine not initialized\"}");
    expect(f, "GET", "/status", NULL, 503, "{\"error\":\"engine not initialized\"}");
    expect(f, "GET", "/config", NULL, 503, "{\"error\":\"configs not initialized\"}");
    expect(f, "POST", "/cache/clear", NULL, 503, "{\"detail\":\"server not initialized\"}");
}

static void readiness_tells_the_truth(void **state) {
    fixture *f = *state;
    f->backend.not_ready = true;
    start(f);
    expect(f, "GET", "/readiness", NULL, 503, "{\"ready\":false}");
    expect(f, "GET", "/healthcheck", NULL, 200, "{\"status\":\"healthy\"}");
}

static void clear_takes_tier_and_force(void **state) {
    fixture *f = *state;
    static const char cleared[] = "{\"status\":\"ok\",\"cleared\":{\"tier\":\"l1\"}}";
    start(f);
    expect(f, "POST", "/cache/clear", NULL, 200, cleared);
    assert_true(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "{\"force\":false,\"tier\":\"l1\",\"x\":1}", 200,
           cleared);
    assert_false(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "null", 200, cleared);
    assert_true(f->backend.last_force);
    expect(f, "POST", "/cache/clear", "{\"force\":\"off\"}", 200, cleared);
    assert_false(f->backend.last_force);
    expect(f, "POST", "/clear-cache", "not json", 200, "{\"status\":\"ok\"}");
    assert_true(f->backend.last_force);
    expect(f, "POST", "/api/clear-cache", "{\"force\":false}", 200, "{\"status\":\"ok\"}");
    assert_true(f->backend.last_force);
    assert_int_equal(f->backend.clears, 6);
}

static void clear_refuses_what_it_does_not_understand(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "POST", "/cache/clear", "{\"tier\":\"l2\"}", 400,
           "{\"detail\":\"tier 'l2' not supported; only 'l1'\"}");
    expect(f, "POST", "/cache/clear", "{\"tier\":\"l3\"}", 422,
           "{\"detail\":[{\"type\":\"literal_error\",\"loc\":[\"body\",\"tier\"],"
           "\"msg\":\"Input should be 'l1', 'l2' or 'all'\",\"input\":\"l3\","
           "\"ctx\":{\"expected\":\"'l1', 'l2' or 'all'\"}}]}");
    expect(f, "POST", "/cache/clear", "{\"force\":\"maybe\"}", 422,
           "{\"detail\":[{\"type\":\"bool_parsing\",\"loc\":[\"body\",\"force\"],"
           "\"msg\":\"Input should be a valid boolean, unable to interpret input\","
           "\"input\":\"maybe\"}]}");
    expect(f, "POST", "/cache/clear", "[1]", 422,
           "{\"detail\":[{\"type\":\"model_attributes_type\",\"loc\":[\"body\"],"
           "\"msg\":\"Input should be a valid dictionary or object to extract fields from\","
           "\"input\":[1]}]}");
    char *reply = exchange(f, "POST", "/cache/clear", "{\"tier\":");
    assert_int_equal(status_of(reply), 422);
    assert_non_null(strstr(reply, "\"type\":\"json_invalid\",\"loc\":[\"body\",8]"));
    assert_int_equal(f->backend.clears, 0);
}

static void log_levels_are_read_and_set(void **state) {
    fixture *f = *state;
    lmc_log_level before = lmc_log_level_of("lmcache");
    start(f);
    expect(f, "GET", "/loglevel?logger_name=lmcache.test&level=warning", NULL, 200,
           "lmcache.test: WARNING");
    assert_int_equal(lmc_log_level_of("lmcache.test"), LMC_LOG_WARNING);
    expect(f, "GET", "/loglevel?logger_name=lmcache.test", NULL, 200, "lmcache.test: WARNING");
    expect(f, "GET", "/loglevel?level=DEBUG", NULL, 200, "null");
    assert_int_equal(lmc_log_level_of("lmcache"), before);
    expect(f, "GET", "/loglevel?logger_name=lmcache&level=loud", NULL, 400,
           "Invalid log level: loud");
    expect(f, "GET", "/loglevel?logger_name=a%0ab&level=INFO", NULL, 400,
           "Invalid logger name");
    char *reply = exchange(f, "GET", "/loglevel", NULL);
    assert_non_null(strstr(reply, "lmcache.test: WARNING\n"));
    assert_non_null(strstr(reply, "lmcache: "));
}

static void the_environment_is_sorted_and_masked(void **state) {
    fixture *f = *state;
    setenv("LMC_TEST_API_KEY", "hush", 1);
    setenv("LMC_TEST_DB", "redis://me:pass@host/0", 1);
    setenv("LMC_TEST_PLAIN", "shown", 1);
    start(f);
    char *reply = exchange(f, "GET", "/env", NULL);
    assert_non_null(strstr(reply, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(reply, "  \"LMC_TEST_API_KEY\": \"***\",\n"
                                  "  \"LMC_TEST_DB\": \"redis://me:***@host/0\",\n"
                                  "  \"LMC_TEST_PLAIN\": \"shown\""));
    assert_null(strstr(reply, "hush"));
}

static void threads_are_listed_by_name(void **state) {
    fixture *f = *state;
    start(f);
    char *reply = exchange(f, "GET", "/threads?name=HTTP-POOL", NULL);
    assert_int_equal(strncmp(body_of(reply), "Total threads: ", 15), 0);
    assert_non_null(strstr(reply, "Thread: http-pool (ID: "));
    assert_null(strstr(reply, "http_test"));
    reply = exchange(f, "GET", "/threads?thread_id=x", NULL);
    assert_int_equal(status_of(reply), 422);
    assert_non_null(strstr(reply, "\"loc\":[\"query\",\"thread_id\"]"));
}

static void loops_are_listed_filtered_and_judged(void **state) {
    fixture *f = *state;
    start(f);
    static const char reaper[] =
        "{\"name\":\"reaper\",\"level\":\"critical\",\"interval\":30.0,\"is_running\":true,"
        "\"is_active\":false,\"last_run_ago\":90.5,\"total_runs\":4,\"failed_runs\":1,"
        "\"success_rate\":75.0,\"last_summary\":{}}";
    char expected[1024];
    snprintf(expected, sizeof expected,
             "{\"summary\":{\"total_count\":3,\"running_count\":2,\"active_count\":1,"
             "\"by_level\":{\"critical\":{\"total\":1,\"running\":1,\"active\":0},"
             "\"high\":{\"total\":1,\"running\":1,\"active\":1},"
             "\"medium\":{\"total\":0,\"running\":0,\"active\":0},"
             "\"low\":{\"total\":1,\"running\":0,\"active\":0}}},\"threads\":[%s]}",
             reaper);
    expect(f, "GET", "/periodic-threads?level=critical&running_only=yes", NULL, 200, expected);
    expect(f, "GET", "/periodic-threads/reaper", NULL, 200, reaper);
    expect(f, "GET", "/periodic-threads/nobody", NULL, 404,
           "{\"error\":\"Thread not found: nobody\"}");
    expect(
        f, "GET", "/periodic-threads-health", NULL, 200,
        "{\"healthy\":false,\"unhealthy_count\":1,\"unhealthy_threads\":[{\"name\":\"reaper\","
        "\"level\":\"critical\",\"last_run_ago\":90.5,\"interval\":30.0}]}");
    assert_int_equal(status_of(exchange(f, "GET", "/periodic-threads?level=urgent", NULL)),
                     400);
    assert_int_equal(
        status_of(exchange(f, "GET", "/periodic-threads?active_only=perhaps", NULL)), 422);
}

static void quotas_are_kept(void **state) {
    fixture *f = *state;
    start(f);
    expect(f, "PUT", "/quota/alice", "{\"limit_gb\":10}", 200,
           "{\"cache_salt\":\"alice\",\"limit_gb\":10.0,\"status\":\"ok\"}");
    expect(f, "PUT", "/api/quota/_default", "{\"limit_gb\":\"1.5\"}", 200,
           "{\"cache_salt\":\"_default\",\"limit_gb\":1.5,\"status\":\"ok\"}");
    expect(f, "GET", "/quota", NULL, 200,
           "{\"users\":{\"_default\":{\"limit_gb\":1.5,\"current_usage_gb\":0.0},"
           "\"alice\":{\"limit_gb\":10.0,\"current_usage_gb\":0.0}}}");
    expect(f, "GET", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"limit_gb\":10.0,\"current_usage_gb\":0.0,"
           "\"exists\":true}");
    expect(f, "GET", "/quota/bob", NULL, 200,
           "{\"cache_salt\":\"bob\",\"limit_gb\":0.0,\"current_usage_gb\":0.0,"
           "\"exists\":false}");
    expect(f, "DELETE", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"status\":\"removed\"}");
    expect(f, "DELETE", "/quota/alice", NULL, 200,
           "{\"cache_salt\":\"alice\",\"status\":\"not_found\"}");
}

static void quotas_refuse_what_is_not_a_limit(void **state) {
    fixture *f = *state;
    static const struct {
        const char *target, *body, *text;
    } cases[] = {
        {"/quota/a", "{", "invalid JSON body"},
        {"/quota/a", NULL, "invalid JSON body"},
        {"/quota/a", "[]", "body must be {'limit_gb': <float>}"},
        {"/quota/a", "{}", "body must be {'limit_gb': <float>}"},
        {"/quota/a", "{\"limit_gb\":null}", "limit_gb must be numeric"},
        {"/quota/a", "{\"limit_gb\":\"much\"}", "limit_gb must be numeric"},
        {"/quota/a", "{\"limit_gb\":\"inf\"}", "limit_gb must be finite"},
        {"/quota/a", "{\"limit_gb\":-1}", "limit_gb must be non-negative"},
        {"/quota/a%40b", "{\"limit_gb\":1}",
         "cache_salt must not contain '@', '/', '\\\\' or NUL"},
    };
    start(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "{\"error\":\"%s\"}", cases[i].text);
        expect(f, "PUT", cases[i].target, cases[i].body, 400, expected);
    }
    expect(f, "PUT", "/quota/a%2fb", "{\"limit_gb\":1}", 404, "{\"detail\":\"Not Found\"}");
    expect(f, "GET", "/quota", NULL, 200, "{\"users\":{}}");
}

static void run_script_says_how_to_enable_it(void **state) {
    fixture *f = *state;
    start(f);
    char *reply = exchange(f, "POST", "/run_script", "x");
    assert_int_equal(status_of(reply), 404);
    assert_non_null(strstr(reply, "Content-Type: text/plain"));
    assert_non_null(strstr(reply, "--run-script-api-enabled"));
}

static void run_script_is_501_when_enabled(void **state) {
    fixture *f = *state;
    f->config.run_script_enabled = true;
    start(f);
    assert_int_equal(status_of(exchange(f, "POST", "/run_script", "x")), 501);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(identity_is_json_text),
        T(unknown_identity_is_na),
        T(what_the_server_writes_is_served_under_every_name),
        T(a_failing_provider_is_500_and_its_output_is_dropped),
        T(what_is_not_there_yet_is_503_with_its_own_body),
        T(readiness_tells_the_truth),
        T(clear_takes_tier_and_force),
        T(clear_refuses_what_it_does_not_understand),
        T(log_levels_are_read_and_set),
        T(the_environment_is_sorted_and_masked),
        T(threads_are_listed_by_name),
        T(loops_are_listed_filtered_and_judged),
        T(quotas_are_kept),
        T(quotas_refuse_what_is_not_a_limit),
        T(run_script_says_how_to_enable_it),
        T(run_script_is_501_when_enabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
