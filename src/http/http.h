/*
 * http.h: the HTTP door for operators: probes, status, configuration, metrics, small controls.
 *
 * One event thread accepts, reads and answers probes itself (healthcheck, readiness, versions).
 * Whatever gathers (status, config, metrics, clear, diagnostics) runs on a pool of two threads
 * while its connection is suspended, so a slow answer delays no probe. Nothing is
 * authenticated.
 *
 * The provider's functions are the only way from here into the server. The provider and its
 * strings are borrowed from create to destroy. create, start, stop and destroy are called by
 * one thread (main), in this order; each of stop and destroy may follow a failed start.
 *
 * Lines logged here: create logs `Starting LMCache HTTP server on http://<host>:<port>` once
 * the port is bound, start `LMCache HTTP server initialized`, stop `Shutting down LMCache HTTP
 * server...`; with metrics only, create logs that only /metrics is served there, and the others
 * nothing. The last line of a stop, `LMCache HTTP server stopped`, belongs to the server.
 */
#ifndef LMC_HTTP_HTTP_H
#define LMC_HTTP_HTTP_H

#include <lmcached/types.h>

#include "base/bytes.h"

typedef struct lmc_http lmc_http;

/* One background loop, for /periodic-threads. */
typedef struct lmc_http_loop {
    const char *name;
    const char *level; /* "critical", "high", "medium", "low" */
    double interval;   /* seconds */
    bool is_running;
    bool is_active;      /* ran within about two intervals */
    double last_run_ago; /* seconds; below 0: never ran (null in JSON) */
    uint64_t total_runs, failed_runs;
} lmc_http_loop;

#define LMC_HTTP_TYPE_MAX 96  /* of a content type that is not constant, with its end */
#define LMC_HTTP_ALLOW_MAX 64 /* of an Allow header, with its end */

/* One request for a route that a module added. */
typedef struct lmc_http_module_call {
    const char *method;
    const lmc_slice *segments; /* behind /ext */
    size_t segment_count;
    lmc_slice body;
    bool (*query)(void *arg, const char *name, lmc_slice *value);
    void *arg;
    /* the answer */
    unsigned status;
    char type[LMC_HTTP_TYPE_MAX];
    lmc_buffer *reply; /* empty */
} lmc_http_module_call;

/*
 * What the server supplies. A NULL function means "not there yet": its endpoint answers the
 * not-initialised body with 503. `out` arrives empty; a failing function's output is dropped
 * and the client gets 500. No function is called before start or after stop has returned.
 */
typedef struct lmc_http_provider {
    void *self;
    /* Pool thread. One JSON object, compact. */
    lmc_status (*write_status)(void *self, lmc_buffer *out);
    /* Pool thread. One JSON object, indented by 2, secrets masked (D10). */
    lmc_status (*write_config)(void *self, lmc_buffer *out);
    /* Pool thread. Prometheus text, version 0.0.4. */
    lmc_status (*write_metrics)(void *self, lmc_buffer *out);
    /* Event thread: must not wait or lock anything that is held long. Writes one JSON object.
     */
    lmc_status (*write_readiness)(void *self, lmc_buffer *out, bool *ready);
    /* Pool thread. Returns when L1 is cleared. */
    lmc_status (*clear)(void *self, bool force);
    /* Pool thread. Calls visit once per background loop. */
    void (*each_loop)(void *self, void (*visit)(void *arg, const lmc_http_loop *loop),
                      void *arg);
    /* Pool thread. {"plugins": [...]}, compact. */
    lmc_status (*write_plugins)(void *self, lmc_buffer *out);
    /* Pool thread. action: "start", "stop" or "restart". LMC_NOT_FOUND, LMC_INVALID and other
     * failures with a text. NULL: not allowed. */
    lmc_status (*control_plugin)(void *self, lmc_slice name, const char *action,
                                 lmc_error *error);
    /* Pool thread. The newest `most` lines after number `after`. NULL: not allowed. */
    lmc_status (*write_plugin_logs)(void *self, lmc_slice name, uint64_t after, uint64_t most,
                                    lmc_buffer *out, lmc_error *error);
    /*
     * Routes of modules, /ext/... find: event thread; *route is passed to run; LMC_NOT_FOUND,
     * or LMC_INVALID with the methods that are allowed. run: a thread of a pool of its own, so
     * that a slow module delays nobody else's answer. NULL: there are none.
     */
    lmc_status (*find_module_route)(void *self, const lmc_slice *segments, size_t count,
                                    const char *method, const void **route,
                                    char allow[LMC_HTTP_ALLOW_MAX]);
    void (*run_module_route)(void *self, const void *route, lmc_http_module_call *call);
} lmc_http_provider;

typedef struct lmc_http_config {
    const char *host; /* name, IPv4 or IPv6 literal; names resolve to IPv4 first (D32) */
    uint16_t port;    /* 0: any free port, see lmc_http_port */
    const char *version, *commit; /* NULL or "": unknown */
    bool metrics_only;            /* serves /metrics and nothing else (--no-http, D15) */
    bool run_script_enabled;      /* --run-script-api-enabled: 501 instead of the 404 text */
    size_t body_limit;            /* bytes of a request body; 0: 1 MiB */
    unsigned connection_limit;    /* open connections; 0: 4096 */
    unsigned idle_timeout_s;      /* a connection without traffic is closed; 0: 30 */
} lmc_http_config;

/*
 * Binds the port without listening: connections stay refused until start. LMC_BUSY with a text
 * that ends in "<host>:<port>: address already in use" when someone else has the port.
 */
lmc_status lmc_http_create(const lmc_http_config *config, const lmc_http_provider *provider,
                           lmc_http **http, lmc_error *error);
/* The port that was bound. */
uint16_t lmc_http_port(const lmc_http *http);
/* Listens, accepts, answers. */
lmc_status lmc_http_start(lmc_http *http, lmc_error *error);
/*
 * Stops accepting at once, lets running requests finish (queued ones get 503), closes all
 * connections. Returns when no provider function runs or will run. Bounded by the slowest
 * provider function, except that a module's route that does not return is left behind after
 * two seconds, with an ERROR line; the door then stays. Does nothing when not started.
 */
void lmc_http_stop(lmc_http *http);
/* After stop: what the provider's functions use must stay until the process ends. */
bool lmc_http_is_stuck(const lmc_http *http);
void lmc_http_destroy(lmc_http *http); /* accepts NULL; stops first */

#endif
