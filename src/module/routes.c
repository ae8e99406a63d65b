#include "module/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "module/build.h"

#define LMC_LOGGER "lmcache.http"
#define PATH_MAX_BYTES 200
#define SEGMENTS_MAX 6

struct lmc_route {
    lmc_route *next;
    lmc_module_own *own;
    void *self;
    void (*handle)(void *self, lmc_http_call *call);
    const char *method; /* of the table below */
    char path[];        /* "/items/{id}" */
};

struct lmc_routes {
    lmc_route *first;
};

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
#define METHOD_COUNT (sizeof methods / sizeof methods[0])

lmc_routes *lmc_routes_create(void) { return calloc(1, sizeof(lmc_routes)); }

void lmc_routes_destroy(lmc_routes *routes) {
    if (routes == NULL)
        return;
    for (lmc_route *at = routes->first, *next; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    free(routes);
}

/* ---- patterns ---- */

/* The next segment of a path; size 0: none is left. */
static lmc_slice next_segment(const char **path) {
    *path += **path == '/';
    lmc_slice segment = {*path, strcspn(*path, "/")};
    *path += segment.size;
    return segment;
}

static bool is_wild(lmc_slice segment) {
    return segment.size > 0 && ((const char *)segment.data)[0] == '{';
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-_.~", c) != NULL;
}

/* "items", or "{id}". */
static bool is_segment(lmc_slice segment) {
    const char *text = segment.data;
    size_t from = is_wild(segment), to = segment.size;
    if (from == 1 && (segment.size < 3 || text[--to] != '}'))
        return false;
    for (size_t i = from; i < to; i++)
        if (text[i] == '\0' || !is_plain(text[i]))
            return false;
    return to > from;
}

static bool is_pattern(const char *path) {
    size_t count = 0;
    if (path == NULL || path[0] != '/' || strlen(path) > PATH_MAX_BYTES)
        return false;
    for (const char *at = path; *at != '\0'; count++)
        if (!is_segment(next_segment(&at)))
            return path[1] == '\0'; /* "/" alone is the module's root */
    return count <= SEGMENTS_MAX;
}

static bool same_pattern(const char *a, const char *b) {
    while (*a != '\0' && *b != '\0') {
        lmc_slice one = next_segment(&a), two = next_segment(&b);
        if (is_wild(one) != is_wild(two) || (!is_wild(one) && !lmc_slice_equal(one, two)))
            return false;
    }
    return *a == *b;
}

static bool takes(const lmc_route *route, const lmc_slice *segments, size_t count) {
    const char *at = route->path;
    size_t i = 0;
    for (lmc_slice segment = next_segment(&at); segment.size > 0;
         segment = next_segment(&at), i++)
        if (i == count || (!is_wild(segment) && !lmc_slice_equal(segment, segments[i])))
            return false;
    return i == count;
}

/* ---- adding ---- */

static const char *find_method(const char *name) {
    for (size_t i = 0; name != NULL && i < METHOD_COUNT; i++)
        if (strcmp(methods[i], name) == 0)
            return methods[i];
    return NULL;
}

static lmc_status check_route(const lmc_build *build, const char *method, const char *path,
                              bool has_handler, lmc_error *error) {
    const lmc_module_own *own = build->context->own;
    if (find_method(method) == NULL)
        return lmc_error_set(error, LMC_INVALID,
                             "HTTP route %s: the method must be GET, POST, PUT, PATCH or "
                             "DELETE, not %s",
                             path != NULL ? path : "?", method != NULL ? method : "none");
    if (!is_pattern(path))
        return lmc_error_set(error, LMC_INVALID,
                             "HTTP route '%s': a path is '/' or '/' and at most %d names or "
                             "{names} with '/' between",
                             path != NULL ? path : "", SEGMENTS_MAX);
    if (!has_handler)
        return lmc_error_set(error, LMC_INVALID, "HTTP route %s has no handler", path);
    for (const lmc_route *at = build->context->routes->first; at != NULL; at = at->next)
        if (at->own == own && strcmp(at->method, method) == 0 && same_pattern(at->path, path))
            return lmc_error_set(error, LMC_INVALID, "duplicate HTTP route: %s /ext/%s%s",
                                 method, own->name, path);
    return LMC_OK;
}

lmc_status lmc_build_add_route(lmc_build *build, const char *method, const char *path,
                               void (*handle)(void *self, lmc_http_call *call),
                               lmc_error *error) {
    lmc_routes *routes = build->context->routes;
    if (routes == NULL || build->context->own == NULL)
        return LMC_DECLINED;
    lmc_status status = check_route(build, method, path, handle != NULL, error);
    if (status != LMC_OK)
        return status;
    size_t size = strlen(path) + 1;
    lmc_route *route = calloc(1, sizeof *route + size);
    if (route == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for an HTTP route");
    route->own = build->context->own;
    route->handle = handle;
    route->method = find_method(method);
    memcpy(route->path, path, size);
    lmc_route **end = &routes->first;
    while (*end != NULL)
        end = &(*end)->next;
    *end = route;
    return LMC_OK;
}

void lmc_routes_bind(lmc_routes *routes, lmc_module_own *own, void *self) {
    for (lmc_route *at = routes != NULL ? routes->first : NULL; at != NULL; at = at->next) {
        if (at->own != own)
            continue;
        at->self = self;
        LMC_INFO("Registered HTTP route: %s /ext/%s%s", at->method, own->name, at->path);
    }
}

void lmc_routes_drop(lmc_routes *routes, const lmc_module_own *own) {
    if (routes == NULL)
        return;
    for (lmc_route **at = &routes->first; *at != NULL;) {
        lmc_route *route = *at;
        if (route->own != own) {
            at = &route->next;
            continue;
        }
        *at = route->next;
        free(route);
    }
}

/* ---- finding ---- */

static void allow_method(char allow[LMC_ROUTE_ALLOW_MAX], const char *method) {
    size_t at = strlen(allow);
    snprintf(allow + at, LMC_ROUTE_ALLOW_MAX - at, "%s%s%s", at > 0 ? ", " : "", method,
             strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

lmc_status lmc_routes_find(const lmc_routes *routes, const lmc_slice *segments, size_t count,
                           const char *method, const lmc_route **found,
                           char allow[LMC_ROUTE_ALLOW_MAX]) {
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    allow[0] = '\0';
    if (routes == NULL || count == 0)
        return LMC_NOT_FOUND;
    for (const lmc_route *at = routes->first; at != NULL; at = at->next) {
        if (!lmc_slice_is(segments[0], at->own->name) || !takes(at, segments + 1, count - 1))
            continue;
        if (strcmp(at->method, wanted) == 0) {
            *found = at;
            allow[0] = '\0';
            return LMC_OK;
        }
        if (strstr(allow, at->method) == NULL)
            allow_method(allow, at->method);
    }
    return allow[0] != '\0' ? LMC_INVALID : LMC_NOT_FOUND;
}

/* ---- one request ---- */

void lmc_route_run(const lmc_route *route, lmc_http_call *call) {
    int64_t began = lmc_now(&lmc_system_clock);
    call->route = route;
    call->segments++;
    call->segment_count--;
    lmc_lock_assert_none();
    atomic_fetch_add(&route->own->in_routes, 1);
    lmc_account_begin(&route->own->account);
    route->handle(route->self, call);
    if (call->status == 0) {
        static const char text[] = "{\"detail\":\"the module did not answer\"}";
        lmc_http_call_answer(call, 500, "application/json", text, sizeof text - 1);
    }
    lmc_account_end(&route->own->account, call->status >= 500,
                    lmc_now(&lmc_system_clock) - began);
    atomic_fetch_sub(&route->own->in_routes, 1);
}

const char *lmc_http_call_method(const lmc_http_call *call) { return call->method; }

lmc_slice lmc_http_call_body(const lmc_http_call *call) { return call->body; }

bool lmc_http_call_query(const lmc_http_call *call, const char *name, lmc_slice *value) {
    return call->query(call->arg, name, value);
}

lmc_slice lmc_http_call_segment(const lmc_http_call *call, const char *name) {
    const char *at = call->route->path;
    size_t size = strlen(name);
    for (size_t i = 0; i < call->segment_count; i++) {
        lmc_slice segment = next_segment(&at);
        if (is_wild(segment) && segment.size == size + 2 &&
            memcmp((const char *)segment.data + 1, name, size) == 0)
            return call->segments[i];
    }
    return (lmc_slice){0};
}

/* What goes into a header must not end it. */
static bool is_header(const char *text) {
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return size > 0 && size < LMC_ROUTE_TYPE_MAX;
}

void lmc_http_call_answer(lmc_http_call *call, uint32_t status, const char *content_type,
                          const void *body, size_t size) {
    bool fine = status >= 200 && status <= 599 && content_type != NULL &&
                is_header(content_type) && (body != NULL || size == 0);
    if (call->status != 0 || !fine) {
        LMC_ERROR("%s answers %s %s %s", call->route->own->name, call->route->method,
                  call->route->path,
                  call->status != 0 ? "twice; the first answer counts"
                                    : "with a status or content type that cannot be sent");
        return;
    }
    call->status = status;
    snprintf(call->type, sizeof call->type, "%s", content_type);
    lmc_buffer_append(call->reply, body, size);
}
