#include "http/exchange.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "http/daemon.h"
#include "http/route.h"

#define LMC_LOGGER "lmcache.http.access" /* one of its own: probes and scrapes are many */

/* A body beyond the limit is read and dropped up to this much, so that the 413 arrives. */
#define DROPPED_MAX (8u << 20)

static const char internal_error[] = "{\"detail\":\"Internal Server Error\"}";

void *lmc_http_on_target(void *http, const char *target, struct MHD_Connection *connection) {
    lmc_http_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->http = http;
    request->connection = connection;
    request->line_target = strdup(target);
    if (request->line_target == NULL ||
        lmc_http_target_init(&request->target, target) != LMC_OK) {
        free(request->line_target);
        free(request);
        return NULL;
    }
    atomic_fetch_add(&request->http->active, 1);
    return request;
}

void lmc_http_on_completed(void *http, struct MHD_Connection *connection, void **slot,
                           enum MHD_RequestTerminationCode why) {
    (void)connection, (void)why;
    lmc_http_request *request = *slot;
    *slot = NULL;
    if (request == NULL)
        return;
    lmc_http_target_fini(&request->target);
    lmc_buffer_fini(&request->body);
    lmc_buffer_fini(&request->reply);
    free(request->line_target);
    free(request);
    atomic_fetch_sub(&((lmc_http *)http)->active, 1);
}

/* ---- the access log ---- */

static void client_name(struct MHD_Connection *connection, char *out, size_t size) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    char ip[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    bool is_v6 = address != NULL && address->sa_family == AF_INET6;
    if (is_v6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip);
        port = ntohs(v6->sin6_port);
    } else if (address != NULL && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip);
        port = ntohs(v4->sin_port);
    }
    snprintf(out, size, is_v6 ? "[%s]:%u" : "%s:%u", ip, port);
}

/* A peer chose these bytes: nothing but printable ASCII reaches the log, and not much of it. */
static void printable(const char *text, char *out, size_t size) {
    size_t at = 0;
    for (; *text != '\0' && at + 5 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
            at += (size_t)snprintf(out + at, size - at, "\\x%02x", c);
        else
            out[at++] = (char)c;
    }
    out[at] = '\0';
}

static void log_access(const lmc_http_request *request, const char *method,
                       const char *version) {
    if (!lmc_log_enabled(LMC_LOG_INFO, LMC_LOGGER))
        return;
    char client[80], verb[32], target[512];
    client_name(request->connection, client, sizeof client);
    printable(method, verb, sizeof verb);
    printable(request->line_target, target, sizeof target);
    LMC_INFO("%s - \"%s %s %s\" %u", client, verb, target, version, request->status);
}

/* ---- replies ---- */

static struct MHD_Response *make_response(lmc_http_request *request) {
    size_t size = request->reply.size;
    char *data = request->reply.failed ? NULL : lmc_buffer_take(&request->reply);
    if (request->reply.failed || (data == NULL && size > 0)) {
        request->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
        request->type = LMC_HTTP_JSON;
        return MHD_create_response_from_buffer(sizeof internal_error - 1,
                                               (void *)(uintptr_t)internal_error,
                                               MHD_RESPMEM_PERSISTENT);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(data);
    return response;
}

static enum MHD_Result send_reply(lmc_http_request *request, const char *method,
                                  const char *version) {
    struct MHD_Response *response = make_response(request);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->type);
    if (result == MHD_YES && request->allow[0] != '\0')
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
    if (result == MHD_YES && atomic_load(&request->http->stopping))
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (result == MHD_YES)
        result = MHD_queue_response(request->connection, request->status, response);
    MHD_destroy_response(response);
    if (result == MHD_YES)
        log_access(request, method, version);
    return result;
}

/* ---- from request to reply ---- */

static void run_handler(lmc_http_request *request) {
    request->route->handle(request);
    if (request->status == 0)
        lmc_http_fail_internal(request);
}

static void refuse_busy(lmc_http_request *request) {
    lmc_http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE, "detail", "%s",
                  atomic_load(&request->http->stopping) ? "server is stopping"
                                                        : "server is busy");
}

/* Hands the request back to the event thread; nothing here may touch it afterwards. */
static void hand_back(lmc_http_request *request) {
    request->state = LMC_HTTP_ANSWERED;
    MHD_resume_connection(request->connection);
}

void lmc_http_run_on_pool(lmc_http_request *request) {
    run_handler(request);
    hand_back(request);
}

void lmc_http_refuse_on_pool(lmc_http_request *request) {
    refuse_busy(request);
    hand_back(request);
}

static bool answer_without_handler(lmc_http_request *request, const char *method) {
    const lmc_http_config *config = &request->http->config;
    unsigned methods = 0;
    if (request->body_seen > config->body_limit) {
        lmc_http_fail(request, MHD_HTTP_CONTENT_TOO_LARGE, "detail",
                      "request body larger than %zu bytes", config->body_limit);
        return true;
    }
    switch (lmc_http_route_find(request, method, config->metrics_only, &methods)) {
    case LMC_OK:
        break;
    case LMC_INVALID:
        if (methods != 0)
            lmc_http_route_allow(methods, request->allow, sizeof request->allow);
        lmc_http_fail(request, MHD_HTTP_METHOD_NOT_ALLOWED, "detail", "Method Not Allowed");
        return true;
    default:
        lmc_http_fail(request, MHD_HTTP_NOT_FOUND, "detail", "Not Found");
        return true;
    }
    if (request->body.failed)
        lmc_http_fail_internal(request);
    return request->body.failed;
}

static enum MHD_Result answer(lmc_http_request *request, const char *method,
                              const char *version) {
    if (!answer_without_handler(request, method)) {
        if (request->route->where != LMC_HTTP_AT_ONCE) {
            bool of_module = request->route->where == LMC_HTTP_ON_MODULE_POOL;
            request->state = LMC_HTTP_HANDED;
            MHD_suspend_connection(request->connection);
            if (lmc_http_pool_submit(
                    of_module ? request->http->module_pool : request->http->pool, request))
                return MHD_YES;
            lmc_http_refuse_on_pool(request);
            return MHD_YES;
        }
        run_handler(request);
    }
    request->state = LMC_HTTP_ANSWERED;
    return send_reply(request, method, version);
}

/* False: more than we are willing to read and drop. */
static bool take_body(lmc_http_request *request, const char *data, size_t size) {
    size_t limit = request->http->config.body_limit;
    request->body_seen += size;
    if (request->body_seen <= limit)
        lmc_buffer_append(&request->body, data, size);
    else
        lmc_buffer_fini(&request->body);
    return request->body_seen <= limit + DROPPED_MAX;
}

enum MHD_Result lmc_http_on_access(void *http, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *upload, size_t *upload_size, void **slot) {
    (void)http, (void)connection, (void)url;
    lmc_http_request *request = *slot;
    if (request == NULL)
        return MHD_NO;
    if (request->state == LMC_HTTP_ANSWERED)
        return send_reply(request, method, version);
    if (!request->head_seen) {
        request->head_seen = true;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        bool go_on = take_body(request, upload, *upload_size);
        *upload_size = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    return answer(request, method, version);
}
