/*
 * request.h: one HTTP request on its way through the room, and what handlers do with it.
 *
 * A request belongs to the event thread, except between hand-over to the pool and completion,
 * when it belongs to the pool thread that runs its handler. A handler reads the upper part and
 * fills the reply; it never sees libmicrohttpd.
 */
#ifndef LMC_HTTP_REQUEST_H
#define LMC_HTTP_REQUEST_H

#include "http/http.h"
#include "http/target.h"

struct MHD_Connection;
struct lmc_http_route;

#define LMC_HTTP_JSON "application/json"
#define LMC_HTTP_TEXT "text/plain; charset=utf-8"

typedef enum lmc_http_state {
    LMC_HTTP_READING, /* head or body still arrives */
    LMC_HTTP_HANDED,  /* with the pool; the connection is suspended */
    LMC_HTTP_ANSWERED,
} lmc_http_state;

typedef struct lmc_http_request {
    lmc_http *http;
    struct MHD_Connection *connection;
    lmc_http_state state;
    bool head_seen;         /* the callback that announces a request has happened */
    bool closes;            /* the connection ends with this reply */
    char *line_target;      /* target as sent, for the access log */
    lmc_http_target target; /* decoded path and query */
    lmc_slice param;        /* the decoded {…} segment of the route's path */
    const struct lmc_http_route *route;
    char module_method[8];    /* of a module's route */
    const void *module_route; /* of the provider's, for route == &lmc_http_module_route */
    char type_text[LMC_HTTP_TYPE_MAX]; /* a type that is not constant */
    lmc_buffer body;
    size_t body_seen;               /* bytes that arrived, kept or not */
    size_t body_share, reply_share; /* of what all may keep; event thread only */
    bool crowded_out;               /* there was no room for the body */

    unsigned status; /* 0: nothing was answered yet */
    const char *type;
    lmc_buffer reply;
    char allow[LMC_HTTP_ALLOW_MAX]; /* Allow header of a 405 */
    struct lmc_http_request *next;  /* in the pool's queue */
} lmc_http_request;

/* Sets status and type and returns the empty buffer to write the body into. */
lmc_buffer *lmc_http_reply(lmc_http_request *request, unsigned status, const char *type);
/* {"<key>": "<formatted text>"} */
void lmc_http_fail(lmc_http_request *request, unsigned status, const char *key,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A provider function failed: 500. */
void lmc_http_fail_internal(lmc_http_request *request);

/*
 * 422. `place` is "body", "query" or "path"; name may be NULL (the whole); input is JSON text;
 * context is a JSON object as text, or NULL.
 */
void lmc_http_reject(lmc_http_request *request, const char *type, const char *place,
                     const char *name, const char *message, lmc_slice input,
                     const char *context);
/* Query parameter as text; false: absent. */
bool lmc_http_query_text(const lmc_http_request *request, const char *name, lmc_slice *value);
/* Query parameter as boolean; absent leaves *value. False: rejected with 422 already. */
bool lmc_http_query_bool(lmc_http_request *request, const char *name, bool *value);
/* As above for integers. */
bool lmc_http_query_int(lmc_http_request *request, const char *name, bool *given,
                        int64_t *value);
/* true/false/1/0/yes/no/on/off/t/f/y/n in any case. */
bool lmc_http_bool_parse(lmc_slice text, bool *value);

#endif
