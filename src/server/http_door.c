#include <string.h>

#include "base/error.h"
#include "http/http.h"
#include "lmc_commit.h"
#include "server/plugins.h"
#include "server/state.h"

static lmc_status write_status(void *self, lmc_buffer *out) {
    lmc_server *server = self;
    return lmc_status_collect(lmc_composition_status(server->composition),
                              lmc_server_report_core, server, out);
}

static lmc_status write_config(void *self, lmc_buffer *out) {
    const lmc_server *server = self;
    return lmc_config_render(server->config, LMC_CONFIG_HTTP, out);
}

static lmc_status write_metrics(void *self, lmc_buffer *out) {
    const lmc_server *server = self;
    lmc_status status =
        lmc_server_metrics_write(server->metrics, server->config->mp.instance_id, out);
    return status == LMC_OK ? lmc_late_metrics_write(server->late_metrics, out) : status;
}

static lmc_status write_readiness(void *self, lmc_buffer *out, bool *ready) {
    return lmc_server_readiness(self, out, ready);
}

static lmc_status clear(void *self, bool force) {
    const lmc_server *server = self;
    lmc_cache_clear(server->cache, force);
    return LMC_OK;
}

static void visit_core_worker(const lmc_server *server,
                              void (*visit)(void *arg, const lmc_http_loop *loop), void *arg) {
    int64_t ago = lmc_now(&lmc_system_clock) - lmc_core_worker_last_ns(server->worker);
    visit(arg, &(lmc_http_loop){.name = "l1-eviction",
                                .level = "high",
                                .interval = 1.0,
                                .is_running = true,
                                .is_active = ago <= 2 * LMC_CORE_PERIOD_NS,
                                .last_run_ago = (double)ago / (double)LMC_NS_PER_S,
                                .total_runs = lmc_core_worker_runs(server->worker)});
}

/* A worker that hangs in a scan shows as one that has not run. */
static void visit_reaper(const lmc_server *server,
                         void (*visit)(void *arg, const lmc_http_loop *loop), void *arg) {
    lmc_liveness_report reaper;
    lmc_liveness_report_get(server->context.liveness, &reaper);
    if (!reaper.running)
        return;
    int64_t now = lmc_now(&lmc_system_clock);
    int64_t ago = reaper.runs > 0 ? now - reaper.last_run_ns : now - server->started_ns;
    visit(arg, &(lmc_http_loop){.name = "lmcache-mp-worker-reaper",
                                .level = "medium",
                                .interval = (double)reaper.period_ns / (double)LMC_NS_PER_S,
                                .is_running = true,
                                .is_active = ago <= 2 * reaper.period_ns,
                                .last_run_ago =
                                    reaper.runs > 0 ? (double)ago / (double)LMC_NS_PER_S : -1,
                                .total_runs = reaper.runs});
}

typedef struct loop_visit {
    void (*visit)(void *arg, const lmc_http_loop *loop);
    void *arg;
} loop_visit;

static void visit_timer(void *arg, const lmc_timer_report *row) {
    const loop_visit *v = arg;
    double ago =
        row->last_run_ago_ns < 0 ? -1 : (double)row->last_run_ago_ns / (double)LMC_NS_PER_S;
    v->visit(v->arg, &(lmc_http_loop){.name = row->name,
                                      .level = "medium",
                                      .interval = (double)row->period_ns / (double)LMC_NS_PER_S,
                                      .is_running = true,
                                      .is_active = row->last_run_ago_ns <= 2 * row->period_ns,
                                      .last_run_ago = ago,
                                      .total_runs = row->runs});
}

static void each_loop(void *self, void (*visit)(void *arg, const lmc_http_loop *loop),
                      void *arg) {
    const lmc_server *server = self;
    loop_visit v = {visit, arg};
    visit_core_worker(server, visit, arg);
    visit_reaper(server, visit, arg);
    lmc_timers_each(server->timers, visit_timer, &v);
}

/* ---- routes of modules ---- */

static lmc_status find_module_route(void *self, const lmc_slice *segments, size_t count,
                                    const char *method, const void **route,
                                    char allow[LMC_HTTP_ALLOW_MAX]) {
    const lmc_server *server = self;
    const lmc_route *found = NULL;
    lmc_status status = lmc_routes_find(server->routes, segments, count, method, &found, allow);
    *route = found;
    return status;
}

static void run_module_route(void *self, const void *route, lmc_http_module_call *call) {
    (void)self;
    lmc_http_call lent = {.method = call->method,
                          .segments = call->segments,
                          .segment_count = call->segment_count,
                          .body = call->body,
                          .query = call->query,
                          .arg = call->arg,
                          .reply = call->reply};
    lmc_route_run(route, &lent);
    call->status = lent.status;
    memcpy(call->type, lent.type, sizeof call->type);
}
_Static_assert(LMC_HTTP_TYPE_MAX == LMC_ROUTE_TYPE_MAX, "one size");
_Static_assert(LMC_HTTP_ALLOW_MAX == LMC_ROUTE_ALLOW_MAX, "one size");

lmc_status lmc_server_bind_http(lmc_server *server, lmc_error *error) {
    static lmc_http_provider provider;
    const lmc_config *config = server->config;
    provider = (lmc_http_provider){.self = server,
                                   .write_status = write_status,
                                   .write_config = write_config,
                                   .write_metrics = write_metrics,
                                   .write_readiness = write_readiness,
                                   .clear = clear,
                                   .each_loop = each_loop};
    if (config->mp.server_module_count > 0) {
        provider.find_module_route = find_module_route;
        provider.run_module_route = run_module_route;
    }
    lmc_server_offer_plugins(server, &provider);
    lmc_http_config http = {.host = config->http.http_host,
                            .port = (uint16_t)config->http.http_port,
                            .version = LMC_VERSION,
                            .commit = LMC_COMMIT,
                            .run_script_enabled = config->mp.run_script_api_enabled};
    if (config->http.no_http) {
        http.metrics_only = true;
        http.port = (uint16_t)config->observability.prometheus_port;
    }
    return lmc_http_create(&http, &provider, &server->http, error);
}

lmc_status lmc_server_open_http(lmc_server *server, lmc_error *error) {
    return lmc_http_start(server->http, error);
}

void lmc_server_close_http(lmc_server *server) {
    if (server->http != NULL)
        lmc_http_stop(server->http);
}

bool lmc_server_http_is_stuck(const lmc_server *server) {
    return server->http != NULL && lmc_http_is_stuck(server->http);
}

void lmc_server_destroy_http(lmc_server *server) {
    lmc_http_destroy(server->http);
    server->http = NULL;
}
