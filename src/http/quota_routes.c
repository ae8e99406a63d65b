/* /quota: budgets per cache salt. "_default" in a path stands for the empty salt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_writer.h"
#include "http/body.h"
#include "http/daemon.h"
#include "http/route.h"

#define DEFAULT_SALT "_default"

static lmc_slice salt_of(const lmc_http_request *request) {
    return lmc_slice_is(request->param, DEFAULT_SALT) ? lmc_text("") : request->param;
}

static lmc_slice shown(lmc_slice salt) {
    return salt.size == 0 ? lmc_text(DEFAULT_SALT) : salt;
}

static void start_object(lmc_http_request *request, lmc_json_writer *json) {
    lmc_json_start(json, lmc_http_reply(request, 200, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(json);
}

static void end_object(lmc_http_request *request, lmc_json_writer *json) {
    lmc_json_object_end(json);
    if (lmc_json_finish(json) != LMC_OK)
        lmc_http_fail_internal(request);
}

/* A number, or a text that is one, as Python's float() takes it (blanks around it are allowed).
 */
static bool as_number(const json_t *value, double *number) {
    if (json_is_number(value)) {
        *number = json_number_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value) || strpbrk(text, "xXpP("))
        return false;
    char *end;
    *number = strtod(text, &end);
    return end != text && strspn(end, " \t\r\n") == strlen(end);
}

static const char *limit_problem(const json_t *body, double *limit) {
    const json_t *member = json_object_get(body, "limit_gb");
    if (member == NULL)
        return "body must be {'limit_gb': <float>}";
    if (!as_number(member, limit))
        return "limit_gb must be numeric";
    if (!isfinite(*limit))
        return "limit_gb must be finite";
    return *limit < 0 ? "limit_gb must be non-negative" : NULL;
}

static void put_quota(lmc_http_request *request) {
    double limit = 0;
    lmc_error error = LMC_ERROR_INIT;
    json_t *body = lmc_http_body_any(request);
    const char *problem = body == NULL ? "invalid JSON body" : limit_problem(body, &limit);
    json_decref(body);
    if (problem == NULL &&
        lmc_http_quota_set(request->http->quotas, salt_of(request), limit, &error) != LMC_OK)
        problem = error.text;
    if (problem != NULL) {
        lmc_http_fail(request, error.status == LMC_NO_MEMORY ? 500 : 400, "error", "%s",
                      problem);
        return;
    }
    lmc_json_writer json;
    start_object(request, &json);
    lmc_json_member_slice(&json, "cache_salt", shown(salt_of(request)));
    lmc_json_member_real(&json, "limit_gb", limit);
    lmc_json_member_text(&json, "status", "ok");
    end_object(request, &json);
}

static void get_quota(lmc_http_request *request) {
    double limit = 0;
    lmc_json_writer json;
    bool exists = lmc_http_quota_get(request->http->quotas, salt_of(request), &limit);
    start_object(request, &json);
    lmc_json_member_slice(&json, "cache_salt", shown(salt_of(request)));
    lmc_json_member_real(&json, "limit_gb", limit);
    lmc_json_member_real(&json, "current_usage_gb", 0.0); /* L2 bytes (D55); there is none */
    lmc_json_member_bool(&json, "exists", exists);
    end_object(request, &json);
}

static void delete_quota(lmc_http_request *request) {
    lmc_json_writer json;
    bool removed = lmc_http_quota_remove(request->http->quotas, salt_of(request));
    start_object(request, &json);
    lmc_json_member_slice(&json, "cache_salt", shown(salt_of(request)));
    lmc_json_member_text(&json, "status", removed ? "removed" : "not_found");
    end_object(request, &json);
}

static void write_row(void *arg, lmc_slice salt, double limit_gb) {
    lmc_json_writer *json = arg;
    lmc_json_name_slice(json, shown(salt));
    lmc_json_object_begin(json);
    lmc_json_member_real(json, "limit_gb", limit_gb);
    lmc_json_member_real(json, "current_usage_gb", 0.0);
    lmc_json_object_end(json);
}

static void list_quotas(lmc_http_request *request) {
    lmc_json_writer json;
    start_object(request, &json);
    lmc_json_name(&json, "users");
    lmc_json_object_begin(&json);
    lmc_http_quota_each(request->http->quotas, write_row, &json);
    lmc_json_object_end(&json);
    end_object(request, &json);
}

const lmc_http_route lmc_http_quota_routes[] = {
    {"/quota", LMC_HTTP_GET, LMC_HTTP_ON_POOL, list_quotas},
    {"/quota/{salt}", LMC_HTTP_GET, LMC_HTTP_ON_POOL, get_quota},
    {"/quota/{salt}", LMC_HTTP_PUT, LMC_HTTP_ON_POOL, put_quota},
    {"/quota/{salt}", LMC_HTTP_DELETE, LMC_HTTP_ON_POOL, delete_quota},
    {"/api/quota", LMC_HTTP_GET, LMC_HTTP_ON_POOL, list_quotas},
    {"/api/quota/{salt}", LMC_HTTP_GET, LMC_HTTP_ON_POOL, get_quota},
    {"/api/quota/{salt}", LMC_HTTP_PUT, LMC_HTTP_ON_POOL, put_quota},
    {"/api/quota/{salt}", LMC_HTTP_DELETE, LMC_HTTP_ON_POOL, delete_quota},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
