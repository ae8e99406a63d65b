/*
 * /plugins: the runtime plugins. A name with a slash in it, which a path cannot carry, stands
 * in the parameter `name`, with any other word in its place in the path.
 */
#include <string.h>

#include "base/error.h"
#include "base/json_writer.h"
#include "http/daemon.h"
#include "http/route.h"

#define LINES_DEFAULT 200
#define LINES_MAX 100000

static void list_plugins(lmc_http_request *request) {
    const lmc_http_provider *provider = &request->http->provider;
    if (provider->write_plugins == NULL) {
        lmc_http_fail(request, 503, "detail", "server not initialized");
        return;
    }
    if (provider->write_plugins(provider->self, lmc_http_reply(request, 200, LMC_HTTP_JSON)) !=
        LMC_OK)
        lmc_http_fail_internal(request);
}

static lmc_slice name_of(const lmc_http_request *request) {
    lmc_slice name = request->param;
    lmc_http_query_text(request, "name", &name);
    return name;
}

static void refuse(lmc_http_request *request) {
    lmc_http_fail(request, 403, "detail",
                  "plugin control is disabled; start the server with --enable-plugin-control");
}

static void fail(lmc_http_request *request, lmc_status status, const lmc_error *error) {
    if (status == LMC_NO_MEMORY) {
        lmc_http_fail_internal(request);
        return;
    }
    unsigned code = status == LMC_NOT_FOUND ? 404 : status == LMC_INVALID ? 409 : 503;
    lmc_http_fail(request, code, "detail", "%s", error->text);
}

static void control(lmc_http_request *request, const char *action) {
    const lmc_http_provider *provider = &request->http->provider;
    lmc_slice name = name_of(request);
    lmc_error error = LMC_ERROR_INIT;
    lmc_json_writer json;
    if (provider->control_plugin == NULL) {
        refuse(request);
        return;
    }
    lmc_status status = provider->control_plugin(provider->self, name, action, &error);
    if (status != LMC_OK) {
        fail(request, status, &error);
        return;
    }
    lmc_json_start(&json, lmc_http_reply(request, 202, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_member_text(&json, "status", "accepted");
    lmc_json_member_slice(&json, "name", name);
    lmc_json_member_text(&json, "action", action);
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK)
        lmc_http_fail_internal(request);
}

static void start_plugin(lmc_http_request *request) { control(request, "start"); }
static void stop_plugin(lmc_http_request *request) { control(request, "stop"); }
static void restart_plugin(lmc_http_request *request) { control(request, "restart"); }

static void plugin_logs(lmc_http_request *request) {
    const lmc_http_provider *provider = &request->http->provider;
    int64_t after = 0, most = LINES_DEFAULT;
    bool given;
    lmc_error error = LMC_ERROR_INIT;
    if (provider->write_plugin_logs == NULL) {
        refuse(request);
        return;
    }
    if (!lmc_http_query_int(request, "after", &given, &after) ||
        !lmc_http_query_int(request, "lines", &given, &most))
        return;
    if (after < 0)
        after = 0;
    most = most < 0 ? 0 : most > LINES_MAX ? LINES_MAX : most;
    lmc_status status = provider->write_plugin_logs(
        provider->self, name_of(request), (uint64_t)after, (uint64_t)most,
        lmc_http_reply(request, 200, LMC_HTTP_JSON), &error);
    if (status != LMC_OK)
        fail(request, status, &error);
}

const lmc_http_route lmc_http_plugin_routes[] = {
    {"/plugins", LMC_HTTP_GET, LMC_HTTP_ON_POOL, list_plugins},
    {"/plugins/{name}/start", LMC_HTTP_POST, LMC_HTTP_ON_POOL, start_plugin},
    {"/plugins/{name}/stop", LMC_HTTP_POST, LMC_HTTP_ON_POOL, stop_plugin},
    {"/plugins/{name}/restart", LMC_HTTP_POST, LMC_HTTP_ON_POOL, restart_plugin},
    {"/plugins/{name}/logs", LMC_HTTP_GET, LMC_HTTP_ON_POOL, plugin_logs},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
