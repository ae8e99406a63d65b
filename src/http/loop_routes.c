/* /periodic-threads: the background loops of the server. */
#include <string.h>

#include "base/json_writer.h"
#include "http/daemon.h"
#include "http/route.h"

static const char *const levels[] = {"critical", "high", "medium", "low"};
#define LEVEL_COUNT (sizeof levels / sizeof levels[0])

typedef struct counts {
    uint64_t total, running, active;
} counts;

typedef struct walk {
    lmc_json_writer json;
    lmc_buffer rows; /* what json writes to */
    counts all, by_level[LEVEL_COUNT];
    lmc_slice level; /* only these; data NULL: all */
    bool running_only, active_only;
    lmc_slice name; /* only this one */
    uint64_t found;
} walk;

static size_t level_index(const char *level) {
    size_t i = 0;
    while (i < LEVEL_COUNT - 1 && strcmp(levels[i], level) != 0)
        i++;
    return i;
}

static void count(counts *sum, const lmc_http_loop *loop) {
    sum->total++;
    sum->running += loop->is_running;
    sum->active += loop->is_active;
}

static void write_ago(lmc_json_writer *json, double seconds) {
    if (seconds < 0)
        lmc_json_member_null(json, "last_run_ago");
    else
        lmc_json_member_real(json, "last_run_ago", seconds);
}

static void write_loop(lmc_json_writer *json, const lmc_http_loop *loop) {
    uint64_t good = loop->total_runs - loop->failed_runs;
    lmc_json_object_begin(json);
    lmc_json_member_text(json, "name", loop->name);
    lmc_json_member_text(json, "level", loop->level);
    lmc_json_member_real(json, "interval", loop->interval);
    lmc_json_member_bool(json, "is_running", loop->is_running);
    lmc_json_member_bool(json, "is_active", loop->is_active);
    write_ago(json, loop->last_run_ago);
    lmc_json_member_uint(json, "total_runs", loop->total_runs);
    lmc_json_member_uint(json, "failed_runs", loop->failed_runs);
    lmc_json_member_real(
        json, "success_rate",
        loop->total_runs == 0 ? 100.0 : 100.0 * (double)good / (double)loop->total_runs);
    lmc_json_name(json, "last_summary");
    lmc_json_object_begin(json);
    lmc_json_object_end(json);
    lmc_json_object_end(json);
}

static void each(lmc_http_request *request, void (*visit)(void *arg, const lmc_http_loop *loop),
                 void *arg) {
    const lmc_http_provider *provider = &request->http->provider;
    if (provider->each_loop != NULL)
        provider->each_loop(provider->self, visit, arg);
}

/* ---- /periodic-threads ---- */

static void list_one(void *arg, const lmc_http_loop *loop) {
    walk *all = arg;
    count(&all->all, loop);
    count(&all->by_level[level_index(loop->level)], loop);
    if ((all->level.data == NULL || lmc_slice_is(all->level, loop->level)) &&
        (!all->running_only || loop->is_running) && (!all->active_only || loop->is_active))
        write_loop(&all->json, loop);
}

static void write_summary(lmc_json_writer *json, const walk *all) {
    lmc_json_object_begin(json);
    lmc_json_member_uint(json, "total_count", all->all.total);
    lmc_json_member_uint(json, "running_count", all->all.running);
    lmc_json_member_uint(json, "active_count", all->all.active);
    lmc_json_name(json, "by_level");
    lmc_json_object_begin(json);
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        lmc_json_name(json, levels[i]);
        lmc_json_object_begin(json);
        lmc_json_member_uint(json, "total", all->by_level[i].total);
        lmc_json_member_uint(json, "running", all->by_level[i].running);
        lmc_json_member_uint(json, "active", all->by_level[i].active);
        lmc_json_object_end(json);
    }
    lmc_json_object_end(json);
    lmc_json_object_end(json);
}

static bool known_level(lmc_slice level) {
    for (size_t i = 0; i < LEVEL_COUNT; i++)
        if (lmc_slice_is(level, levels[i]))
            return true;
    return false;
}

static void list_loops(lmc_http_request *request) {
    walk all = {.level = {NULL, 0}};
    lmc_json_writer json;
    if (lmc_http_query_text(request, "level", &all.level) && !known_level(all.level)) {
        lmc_http_fail(request, 400, "error",
                      "Invalid level: %.*s. Valid values: critical, high, medium, low",
                      LMC_SLICE_ARGS(all.level));
        return;
    }
    if (!lmc_http_query_bool(request, "running_only", &all.running_only) ||
        !lmc_http_query_bool(request, "active_only", &all.active_only))
        return;
    lmc_json_start(&all.json, &all.rows, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_list_begin(&all.json);
    each(request, list_one, &all);
    lmc_json_list_end(&all.json);
    lmc_status written = lmc_json_finish(&all.json);
    lmc_json_start(&json, lmc_http_reply(request, 200, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_name(&json, "summary");
    write_summary(&json, &all);
    lmc_json_member_raw(&json, "threads", lmc_slice_of(all.rows.data, all.rows.size));
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK || written != LMC_OK)
        lmc_http_fail_internal(request);
    lmc_buffer_fini(&all.rows);
}

/* ---- /periodic-threads/{name} ---- */

static void show_one(void *arg, const lmc_http_loop *loop) {
    walk *one = arg;
    if (one->found == 0 && lmc_slice_is(one->name, loop->name)) {
        one->found = 1;
        write_loop(&one->json, loop);
    }
}

static void show_loop(lmc_http_request *request) {
    walk one = {.name = request->param};
    lmc_json_start(&one.json, lmc_http_reply(request, 200, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    each(request, show_one, &one);
    if (one.found == 0)
        lmc_http_fail(request, 404, "error", "Thread not found: %.*s",
                      LMC_SLICE_ARGS(request->param));
    else if (lmc_json_finish(&one.json) != LMC_OK)
        lmc_http_fail_internal(request);
}

/* ---- /periodic-threads-health ---- */

static void list_if_overdue(void *arg, const lmc_http_loop *loop) {
    walk *bad = arg;
    bool matters = strcmp(loop->level, "critical") == 0 || strcmp(loop->level, "high") == 0;
    if (!matters || !loop->is_running || loop->is_active)
        return;
    bad->found++;
    lmc_json_object_begin(&bad->json);
    lmc_json_member_text(&bad->json, "name", loop->name);
    lmc_json_member_text(&bad->json, "level", loop->level);
    write_ago(&bad->json, loop->last_run_ago);
    lmc_json_member_real(&bad->json, "interval", loop->interval);
    lmc_json_object_end(&bad->json);
}

static void loops_health(lmc_http_request *request) {
    walk bad = {.found = 0};
    lmc_json_writer json;
    lmc_json_start(&bad.json, &bad.rows, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_list_begin(&bad.json);
    each(request, list_if_overdue, &bad);
    lmc_json_list_end(&bad.json);
    lmc_status written = lmc_json_finish(&bad.json);
    lmc_json_start(&json, lmc_http_reply(request, 200, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_member_bool(&json, "healthy", bad.found == 0);
    lmc_json_member_uint(&json, "unhealthy_count", bad.found);
    lmc_json_member_raw(&json, "unhealthy_threads", lmc_slice_of(bad.rows.data, bad.rows.size));
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK || written != LMC_OK)
        lmc_http_fail_internal(request);
    lmc_buffer_fini(&bad.rows);
}

const lmc_http_route lmc_http_loop_routes[] = {
    {"/periodic-threads", LMC_HTTP_GET, LMC_HTTP_ON_POOL, list_loops},
    {"/periodic-threads/{name}", LMC_HTTP_GET, LMC_HTTP_ON_POOL, show_loop},
    {"/periodic-threads-health", LMC_HTTP_GET, LMC_HTTP_ON_POOL, loops_health},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
