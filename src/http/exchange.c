#include "http/exchange.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/heap.h"
#include "base/log.h"
#include "http/daemon.h"
#include "http/route.h"

#define LMC_LOGGER "lmcache.http.access" /* one of its own: probes and scrapes are many */

/* A body beyond the limit is read and dropped up to this much, so that the 413 arrives. */
#define DROPPED_MAX (8u << 20)

static const char internal_error[] = "{\"detail\":\"Internal Server Error\"}";

/* So much that peers made us keep goes back to the system once nothing is kept any more. */
#define TRIM_AFTER ((size_t)32 << 20)

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

static const char too_many_params[] =
    "HTTP/1.1 414 URI Too Long\r\n"
    "Connection: close\r\n"
    "Content-Type: application/json\r\n"
    "\r\n"
    "{\"detail\":\"more than " TEXT(LMC_HTTP_PARAMS_ALLOWED) " query parameters\"}";

/*
 * What the library keeps for a connection. It knows of a request from the moment that it
 * announces one; if it then gives the request up by itself (a head that it has no room for), it
 * does not always say so. Such a request ends with the next one or with its connection.
 */
typedef struct peer {
    lmc_http_request *announced; /* not yet on its way through lmc_http_on_access */
} peer;

/* ---- a request's life ---- */

static void drop_body(lmc_http_request *request) {
    lmc_http *http = request->http;
    lmc_buffer_fini(&request->body);
    http->released += lmc_http_budget_release(&http->bodies, &request->body_share);
}

static void destroy_request(lmc_http_request *request) {
    if (request == NULL)
        return;
    lmc_http *http = request->http;
    drop_body(request);
    http->released += lmc_http_budget_release(&http->replies, &request->reply_share);
    lmc_http_target_fini(&request->target);
    lmc_buffer_fini(&request->reply);
    free(request->line_target);
    free(request);
}

static lmc_http_request *create_request(lmc_http *http, const char *target,
                                        struct MHD_Connection *connection) {
    lmc_http_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->http = http;
    request->connection = connection;
    request->line_target = strdup(target);
    if (request->line_target != NULL &&
        lmc_http_target_init(&request->target, target) == LMC_OK)
        return request;
    destroy_request(request);
    return NULL;
}

/* The library has no room for many parameters and would then end the connection without a word:
 * the answer goes past it. */
static void refuse_params(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == NULL)
        return;
    ssize_t sent = send(info->connect_fd, too_many_params, sizeof too_many_params - 1,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* a peer that reads nothing learns nothing */
    shutdown(info->connect_fd, SHUT_RDWR);
}

static peer *peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void tidy(lmc_http *http) {
    if (http->released < TRIM_AFTER || http->bodies.held + http->replies.held > 0)
        return;
    lmc_heap_trim();
    http->released = 0;
}

void lmc_http_on_connection(void *http, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what) {
    (void)connection;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        tidy(http); /* what those before it left behind */
        *context = calloc(1, sizeof(peer));
        return;
    }
    ((lmc_http *)http)->released += LMC_HTTP_HEAD_MEMORY;
    peer *ended = *context;
    *context = NULL;
    if (ended != NULL)
        destroy_request(ended->announced);
    free(ended);
}

void *lmc_http_on_target(void *http, const char *target, struct MHD_Connection *connection) {
    peer *from = peer_of(connection);
    if (from == NULL)
        return NULL;
    destroy_request(from->announced);
    from->announced = NULL;
    if (lmc_http_target_count_params(target) > LMC_HTTP_PARAMS_ALLOWED) {
        refuse_params(connection);
        return NULL;
    }
    from->announced = create_request(http, target, connection);
    return from->announced;
}

/* From here on the library tells when the request is over. */
static void begin(lmc_http_request *request) {
    request->head_seen = true;
    peer_of(request->connection)->announced = NULL;
    atomic_fetch_add(&request->http->active, 1);
}

void lmc_http_on_completed(void *http, struct MHD_Connection *connection, void **slot,
                           enum MHD_RequestTerminationCode why) {
    (void)connection, (void)why;
    lmc_http_request *request = *slot;
    *slot = NULL;
    if (request == NULL || !request->head_seen)
        return;
    destroy_request(request);
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

static void refuse_busy(lmc_http_request *request) {
    lmc_http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE, "detail", "%s",
                  atomic_load(&request->http->stopping) ? "server is stopping"
                                                        : "server is busy");
}

/* The bytes stay until the peer has read them; peers that do not read have only so much. */
static void weigh_reply(lmc_http_request *request) {
    if (!lmc_http_budget_take(&request->http->replies, &request->reply_share,
                              request->reply.capacity))
        refuse_busy(request);
}

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
    drop_body(request);
    weigh_reply(request);
    struct MHD_Response *response = make_response(request);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->type);
    if (result == MHD_YES && request->allow[0] != '\0')
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
    if (result == MHD_YES && (request->closes || atomic_load(&request->http->stopping)))
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

static bool body_is_refused(lmc_http_request *request) {
    size_t limit = request->http->config.body_limit;
    if (request->body_seen > limit)
        lmc_http_fail(request, MHD_HTTP_CONTENT_TOO_LARGE, "detail",
                      "request body larger than %zu bytes", limit);
    else if (request->crowded_out)
        refuse_busy(request);
    return request->body_seen > limit || request->crowded_out;
}

static bool answer_without_handler(lmc_http_request *request, const char *method) {
    const lmc_http_config *config = &request->http->config;
    unsigned methods = 0;
    if (body_is_refused(request))
        return true;
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
    lmc_http *http = request->http;
    size_t limit = http->config.body_limit;
    request->body_seen += size;
    if (request->body_seen <= limit && !request->crowded_out) {
        lmc_buffer_append(&request->body, data, size);
        request->crowded_out =
            !lmc_http_budget_take(&http->bodies, &request->body_share, request->body.capacity);
    }
    if (request->body_seen > limit || request->crowded_out)
        drop_body(request);
    return request->body_seen <= limit + DROPPED_MAX;
}

typedef struct framing {
    const char *length; /* of the first Content-Length */
    bool is_chunked, is_ambiguous;
} framing;

static enum MHD_Result note_framing(void *arg, enum MHD_ValueKind kind, const char *name,
                                    const char *value) {
    (void)kind;
    framing *seen = arg;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        seen->is_ambiguous |=
            seen->is_chunked || value == NULL || strcasecmp(value, "chunked") != 0;
        seen->is_chunked = true;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        seen->is_ambiguous |=
            value == NULL || (seen->length != NULL && strcmp(seen->length, value) != 0);
        seen->length = value;
    }
    return MHD_YES;
}

/* Two ends that disagree on where a body ends let a peer hide a request in it. */
static bool body_size_is_plain(lmc_http_request *request) {
    framing seen = {0};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, note_framing, &seen);
    return !seen.is_ambiguous && !(seen.is_chunked && seen.length != NULL);
}

static enum MHD_Result refuse_head(lmc_http_request *request, const char *method,
                                   const char *version) {
    lmc_http_fail(request, MHD_HTTP_BAD_REQUEST, "detail",
                  "the size of the body is given more than once, or in a way that is unknown");
    request->closes = true;
    request->state = LMC_HTTP_ANSWERED;
    return send_reply(request, method, version);
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
        begin(request);
        return body_size_is_plain(request) ? MHD_YES : refuse_head(request, method, version);
    }
    if (*upload_size > 0) {
        bool go_on = take_body(request, upload, *upload_size);
        *upload_size = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    return answer(request, method, version);
}
