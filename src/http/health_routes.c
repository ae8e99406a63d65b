/* Liveness, readiness, identity: answered by the event thread, so nothing here may wait. */
#include "base/json_writer.h"
#include "http/daemon.h"
#include "http/route.h"

static void root(lmc_http_request *request) {
    lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON),
                    "{\"status\":\"ok\",\"service\":\"LMCache HTTP API\"}");
}

static void healthcheck(lmc_http_request *request) {
    if (request->http->provider.write_status == NULL)
        lmc_buffer_text(lmc_http_reply(request, 503, LMC_HTTP_JSON),
                        "{\"status\":\"unhealthy\",\"reason\":\"engine not initialized\"}");
    else
        lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON),
                        "{\"status\":\"healthy\"}");
}

static void readiness(lmc_http_request *request) {
    const lmc_http_provider *provider = &request->http->provider;
    bool ready = false;
    if (provider->write_readiness == NULL) {
        lmc_http_fail(request, 503, "error", "engine not initialized");
        return;
    }
    lmc_buffer *out = lmc_http_reply(request, 200, LMC_HTTP_JSON);
    if (provider->write_readiness(provider->self, out, &ready) != LMC_OK)
        lmc_http_fail_internal(request);
    else
        request->status = ready ? 200 : 503;
}

static void reply_text_value(lmc_http_request *request, const char *text) {
    lmc_json_writer json;
    lmc_json_start(&json, lmc_http_reply(request, 200, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_text(&json, text);
    lmc_json_finish(&json);
}

static const char *or_else(const char *text, const char *fallback) {
    return text != NULL && text[0] != '\0' ? text : fallback;
}

static void version(lmc_http_request *request) {
    const lmc_http_config *config = &request->http->config;
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_buffer_printf(&text, "%s-%s", or_else(config->version, "NA"),
                      or_else(config->commit, "NA"));
    if (text.failed)
        lmc_http_fail_internal(request);
    else
        reply_text_value(request, text.data);
    lmc_buffer_fini(&text);
}

static void lmc_version(lmc_http_request *request) {
    reply_text_value(request, or_else(request->http->config.version, ""));
}

static void commit_id(lmc_http_request *request) {
    reply_text_value(request, or_else(request->http->config.commit, ""));
}

const lmc_http_route lmc_http_health_routes[] = {
    {"/", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, root},
    {"/healthcheck", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, healthcheck},
    {"/api/healthcheck", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, healthcheck},
    {"/readiness", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, readiness},
    {"/version", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, version},
    {"/lmc_version", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, lmc_version},
    {"/commit_id", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, commit_id},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
