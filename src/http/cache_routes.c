/* /cache: clearing L1, and what can be said about L2 while there is none. */
#include <string.h>

#include "base/log.h"
#include "http/body.h"
#include "http/daemon.h"
#include "http/route.h"

#define LMC_LOGGER "lmcache.http"

/* False: answered with a failure already. */
static bool clear_l1(lmc_http_request *request, bool force) {
    const lmc_http_provider *provider = &request->http->provider;
    if (provider->clear == NULL) {
        lmc_http_fail(request, 503, "detail", "server not initialized");
        return false;
    }
    if (provider->clear(provider->self, force) != LMC_OK) {
        lmc_http_fail_internal(request);
        return false;
    }
    LMC_INFO("Cache cleared via HTTP API");
    return true;
}

static void cache_clear(lmc_http_request *request) {
    static const char *const tiers[] = {"l1", "l2", "all", NULL};
    const char *tier = tiers[0];
    bool force = true;
    json_t *body = NULL;
    if (!lmc_http_body_object(request, &body))
        return;
    bool valid =
        lmc_http_body_choice(request, body, "tier", tiers, "'l1', 'l2' or 'all'", &tier) &&
        lmc_http_body_bool(request, body, "force", &force);
    json_decref(body);
    if (!valid)
        return;
    if (tier != tiers[0])
        lmc_http_fail(request, 400, "detail", "tier '%s' not supported; only 'l1'", tier);
    else if (clear_l1(request, force))
        lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON),
                        "{\"status\":\"ok\",\"cleared\":{\"tier\":\"l1\"}}");
}

/* The older paths: the body is ignored. */
static void clear_cache(lmc_http_request *request) {
    if (clear_l1(request, true))
        lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON), "{\"status\":\"ok\"}");
}

static void adapters(lmc_http_request *request) {
    lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON), "{\"adapters\":[]}");
}

static void list_objects(lmc_http_request *request) {
    lmc_slice tier = lmc_text("l2");
    lmc_http_query_text(request, "tier", &tier);
    if (lmc_slice_is(tier, "l1") || lmc_slice_is(tier, "all"))
        lmc_http_fail(request, 400, "detail", "tier '%.*s' not supported; only 'l2'",
                      LMC_SLICE_ARGS(tier));
    else
        lmc_http_fail(request, 503, "detail", "no L2 adapters configured");
}

const lmc_http_route lmc_http_cache_routes[] = {
    {"/cache/clear", LMC_HTTP_POST, LMC_HTTP_ON_POOL, cache_clear},
    {"/clear-cache", LMC_HTTP_POST, LMC_HTTP_ON_POOL, clear_cache},
    {"/api/clear-cache", LMC_HTTP_POST, LMC_HTTP_ON_POOL, clear_cache},
    {"/config/adapters", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, adapters},
    {"/reconfigure/backends", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, adapters},
    {"/cache/objects", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, list_objects},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
