/* Endpoints that exist in the original and not here yet, or not in this configuration. */
#include "http/daemon.h"
#include "http/route.h"

static void run_script(lmc_http_request *request) {
    bool enabled = request->http->config.run_script_enabled;
    lmc_buffer *out = lmc_http_reply(request, enabled ? 501 : 404, LMC_HTTP_TEXT);
    if (enabled)
        lmc_buffer_text(out, "The run_script API is not implemented by this server; a server "
                             "module can provide it.");
    else
        lmc_buffer_text(
            out, "The run_script API is disabled because it executes caller-supplied code in "
                 "the server process. Enable it with run_script_api_enabled "
                 "(LMCACHE_RUN_SCRIPT_API_ENABLED=true, or --run-script-api-enabled on the "
                 "standalone server) on trusted networks only.");
}

static void later(lmc_http_request *request) {
    lmc_http_fail(request, 501, "detail", "not implemented by this server");
}

static void later_error(lmc_http_request *request) {
    lmc_http_fail(request, 501, "error", "not implemented by this server");
}

static void checksums(lmc_http_request *request) {
    lmc_http_fail(request, 501, "detail", "checksum not supported for this engine type");
}

static void download(lmc_http_request *request) {
    lmc_http_fail(request, 403, "detail", "L1 cache download is disabled");
}

const lmc_http_route lmc_http_later_routes[] = {
    {"/run_script", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, run_script},
    {"/metrics/reset", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, later},
    {"/cache/objects", LMC_HTTP_DELETE, LMC_HTTP_AT_ONCE, later},
    {"/cache/prefetches", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, later},
    {"/cache/prefetches/{id}", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, later},
    {"/cache/checksums", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, checksums},
    {"/kvcache/check", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, checksums},
    {"/cache/objects/download", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, download},
    {"/reconfigure/l2/{backend}/status", LMC_HTTP_GET, LMC_HTTP_AT_ONCE, later_error},
    {"/reconfigure/l2/{backend}/{operation}", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, later_error},
    {"/config/policies", LMC_HTTP_GET | LMC_HTTP_PATCH, LMC_HTTP_AT_ONCE, later_error},
    {"/config/policies/validate", LMC_HTTP_POST, LMC_HTTP_AT_ONCE, later_error},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
