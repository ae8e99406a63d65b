#include "http/route.h"

#include <stdio.h>
#include <string.h>

#include "http/daemon.h"

static const lmc_http_route *const all_families[] = {
    lmc_http_health_routes,  lmc_http_status_routes,
    lmc_http_metrics_routes, lmc_http_cache_routes,
    lmc_http_quota_routes,   lmc_http_debug_routes,
    lmc_http_loop_routes,    lmc_http_plugin_routes,
    lmc_http_later_routes,   NULL,
};
static const lmc_http_route *const metrics_family[] = {lmc_http_metrics_routes, NULL};

static const struct {
    const char *name;
    unsigned bit;
} method_names[] = {
    {"GET", LMC_HTTP_GET}, {"HEAD", LMC_HTTP_GET},    {"POST", LMC_HTTP_POST},
    {"PUT", LMC_HTTP_PUT}, {"PATCH", LMC_HTTP_PATCH}, {"DELETE", LMC_HTTP_DELETE},
};
#define METHOD_COUNT (sizeof method_names / sizeof method_names[0])

static unsigned method_bit(const char *method) {
    for (size_t i = 0; i < METHOD_COUNT; i++)
        if (strcmp(method, method_names[i].name) == 0)
            return method_names[i].bit;
    return 0;
}

/* Does the pattern's next segment, [pattern, pattern + size), take this one? */
static bool takes(const char *pattern, size_t size, lmc_slice segment, lmc_slice *param) {
    if (pattern[0] == '{') {
        *param = segment;
        return true;
    }
    return segment.size == size && memcmp(segment.data, pattern, size) == 0;
}

static bool matches(const char *pattern, const lmc_http_target *target, lmc_slice *param) {
    size_t at = 0;
    while (*pattern == '/' && pattern[1] != '\0') {
        size_t size = strcspn(pattern + 1, "/");
        if (at == target->segment_count ||
            !takes(pattern + 1, size, target->segments[at++], param))
            return false;
        pattern += 1 + size;
    }
    return at == target->segment_count;
}

/* /ext/...; LMC_DECLINED: another path. */
static lmc_status find_of_modules(lmc_http_request *request, const char *method) {
    const lmc_http_provider *provider = &request->http->provider;
    const lmc_http_target *target = &request->target;
    if (provider->find_module_route == NULL || target->segment_count < 2 ||
        !lmc_slice_is(target->segments[0], "ext"))
        return LMC_DECLINED;
    request->route = &lmc_http_module_route;
    snprintf(request->module_method, sizeof request->module_method, "%s",
             strcmp(method, "HEAD") == 0 ? "GET" : method);
    return provider->find_module_route(provider->self, target->segments + 1,
                                       target->segment_count - 1, method,
                                       &request->module_route, request->allow);
}

lmc_status lmc_http_route_find(lmc_http_request *request, const char *method, bool metrics_only,
                               unsigned *methods) {
    unsigned wanted = method_bit(method);
    *methods = 0;
    if (request->target.unroutable)
        return LMC_NOT_FOUND;
    lmc_status of_modules = metrics_only ? LMC_DECLINED : find_of_modules(request, method);
    if (of_modules != LMC_DECLINED)
        return of_modules;
    for (const lmc_http_route *const *family = metrics_only ? metrics_family : all_families;
         *family != NULL; family++)
        for (const lmc_http_route *route = *family; route->path != NULL; route++) {
            lmc_slice param = {NULL, 0};
            if (!matches(route->path, &request->target, &param))
                continue;
            if ((route->methods & wanted) != 0) {
                request->route = route;
                request->param = param;
                return LMC_OK;
            }
            *methods |= route->methods;
        }
    return *methods != 0 ? LMC_INVALID : LMC_NOT_FOUND;
}

void lmc_http_route_allow(unsigned methods, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < METHOD_COUNT && at < size; i++)
        if ((methods & method_names[i].bit) != 0)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at > 0 ? ", " : "",
                                   method_names[i].name);
}
