/* /ext/: what server modules answer, by way of the provider. */
#include <string.h>

#include "base/bytes.h"
#include "http/daemon.h"
#include "http/route.h"

static bool query(void *arg, const char *name, lmc_slice *value) {
    return lmc_http_query_text(arg, name, value);
}

static void run_module_route(lmc_http_request *request) {
    const lmc_http_provider *provider = &request->http->provider;
    lmc_buffer reply = LMC_BUFFER_INIT;
    lmc_http_module_call call = {
        .method = request->module_method,
        .segments = request->target.segments + 1,
        .segment_count = request->target.segment_count - 1,
        .body = lmc_slice_of(request->body.data, request->body.size),
        .query = query,
        .arg = request,
        .reply = &reply,
    };
    provider->run_module_route(provider->self, request->module_route, &call);
    memcpy(request->type_text, call.type, sizeof request->type_text);
    lmc_http_reply(request, call.status, request->type_text);
    request->reply = reply;
}

const lmc_http_route lmc_http_module_route = {"/ext", 0, LMC_HTTP_ON_MODULE_POOL,
                                              run_module_route};
