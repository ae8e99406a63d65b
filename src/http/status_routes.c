/* What the provider writes whole: status, configuration, metrics. */
#include "http/daemon.h"
#include "http/route.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef lmc_status (*write_function)(void *self, lmc_buffer *out);

static void reply_written(lmc_http_request *request, write_function write, const char *type,
                          const char *absent) {
    if (write == NULL) {
        lmc_http_fail(request, 503, "error", "%s", absent);
        return;
    }
    lmc_buffer *out = lmc_http_reply(request, 200, type);
    if (write(request->http->provider.self, out) != LMC_OK)
        lmc_http_fail_internal(request);
}

static void status(lmc_http_request *request) {
    reply_written(request, request->http->provider.write_status, LMC_HTTP_JSON,
                  "engine not initialized");
}

static void config(lmc_http_request *request) {
    reply_written(request, request->http->provider.write_config, LMC_HTTP_JSON,
                  "configs not initialized");
}

static void metrics(lmc_http_request *request) {
    reply_written(request, request->http->provider.write_metrics, METRICS_TYPE,
                  "metrics not initialized");
}

const lmc_http_route lmc_http_status_routes[] = {
    {"/status", LMC_HTTP_GET, LMC_HTTP_ON_POOL, status},
    {"/api/status", LMC_HTTP_GET, LMC_HTTP_ON_POOL, status},
    {"/config", LMC_HTTP_GET, LMC_HTTP_ON_POOL, config},
    {"/conf", LMC_HTTP_GET, LMC_HTTP_ON_POOL, config},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};

const lmc_http_route lmc_http_metrics_routes[] = {
    {"/metrics", LMC_HTTP_GET, LMC_HTTP_ON_POOL, metrics},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
