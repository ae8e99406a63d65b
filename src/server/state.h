/*
 * state.h: what the files of the server share. Private to this room.
 *
 * The main thread fills it during the start and empties it during the stop; in between it is
 * constant, except for members that say otherwise.
 */
#ifndef LMC_SERVER_STATE_H
#define LMC_SERVER_STATE_H

#include <stdatomic.h>

#include "cache/cache.h"
#include "dispatch/dispatcher.h"
#include "module/composition.h"
#include "module/context.h"
#include "observe/server_metrics.h"
#include "server/core_worker.h"
#include "server/notify.h"
#include "server/outside_modules.h"
#include "transport/zmq/transport.h"

typedef struct lmc_http lmc_http; /* http/http.h, which only http_door.c includes */
typedef struct lmc_plugin_host lmc_plugin_host; /* runtime_plugin/host.h, only plugins.c */

typedef struct lmc_server {
    const lmc_config *config;
    const char *program;
    char boot_id[37]; /* new per process, shown in the status (D4) */
    int64_t started_ns;
    lmc_notify notify;
    lmc_http *http;
    lmc_timers *timers;
    lmc_timer *watchdog, *handler_watch;
    lmc_metrics *metrics;
    lmc_l1_source l1_source;
    lmc_cache *cache;
    lmc_outside_modules outside;
    bool is_rehearsal;                  /* others may follow in this process */
    const lmc_module_class *last_class; /* of a rehearsal, built last; NULL: none */
    lmc_events *events;                 /* NULL: no bus */
    _Atomic uint32_t interest;          /* in what the cache core tells; see core_events.c */
    lmc_routes *routes;                 /* of modules, on the HTTP port */
    lmc_late_metrics *late_metrics;     /* of modules from outside; NULL: none */
    lmc_buffer config_text;             /* for modules from outside */
    lmc_context context;
    lmc_composition *composition;
    lmc_registry *registry;
    lmc_dispatcher *dispatcher;
    atomic_bool handlers_known; /* the registry is complete */
    lmc_zmq_transport *transport;
    lmc_core_worker *worker;
    _Atomic(lmc_plugin_host *) plugins; /* NULL: none; set last in the start */
    int exit_status;
    atomic_bool stopping;
} lmc_server;

/* metering.c: counters, and what a scrape reads from the parts once all of them are there. */
lmc_status lmc_server_create_metrics(lmc_server *server, lmc_error *error);
lmc_cache_observer lmc_server_observer(lmc_server *server);
void lmc_server_attach_metrics(lmc_server *server);
void lmc_server_destroy_metrics(lmc_server *server); /* after the HTTP door was closed */

/* core_events.c: what the cache core saw, for the event bus. */
void lmc_server_watch_events(lmc_server *server); /* once there is a bus */
void lmc_server_saw(void *server, uint32_t what, const lmc_l1_sight *sights, size_t count);
void lmc_server_publish_capacity(lmc_server *server);

/* cache_setup.c: the cache core as the configuration wants it. */
lmc_status lmc_server_create_cache(lmc_server *server, lmc_error *error);
/* Removes the name of the shared memory pool, when memory itself cannot be given back. */
void lmc_server_unlink_pool(const lmc_server *server);

/* composing.c: modules, from load to close. Main thread. */
lmc_status lmc_server_compose(lmc_server *server, lmc_error *error);
/* Once the request socket is bound; freezes the registry. */
lmc_status lmc_server_run_registrars(lmc_server *server, lmc_error *error);
/* Handlers of modules from outside that run for long are named in the log. */
lmc_status lmc_server_watch_handlers(lmc_server *server, lmc_error *error);
void lmc_server_close_modules(lmc_server *server);
void lmc_server_destroy_modules(lmc_server *server); /* after the last call has ended */

/* status_core.c: the members of /status that are not a module's. lmc_status_report, any thread.
 */
lmc_status lmc_server_report_core(void *server, lmc_writer *writer);
/* Its member storage_manager alone, as JSON; any thread. */
lmc_status lmc_server_storage_status(void *server, lmc_buffer *out);

/* readiness.c: one JSON object that says whether requests are served, and if not why. Does not
 * wait and changes nothing; any thread. */
lmc_status lmc_server_readiness(lmc_server *server, lmc_buffer *out, bool *ready);
/* The request loop came round within the last second. */
bool lmc_server_loop_turns(const lmc_server *server);

/* http_door.c: the HTTP door with this server behind it. */
lmc_status lmc_server_bind_http(lmc_server *server, lmc_error *error);
lmc_status lmc_server_open_http(lmc_server *server, lmc_error *error);
void lmc_server_close_http(lmc_server *server);          /* no provider runs any more */
bool lmc_server_http_is_stuck(const lmc_server *server); /* then nothing may be freed */
void lmc_server_destroy_http(lmc_server *server);        /* and the port is free */

/* stopping.c: everything down again, as far as it was up. */
void lmc_server_stop(lmc_server *server);
/* The rest of a stop that a module holds up: ends the process. Any thread. */
void lmc_server_end_now(void *server);

#endif
