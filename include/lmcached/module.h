/*
 * module.h: how behaviour is added to the server. This header is the manual of the module ABI.
 *
 * A module is a constant lmc_module_class: what it is called, what it needs, how it is built
 * and closed, and which requests it answers. The server's own parts (lookup, management,
 * transfers) are modules of this form and have no other way in. A module from outside the tree
 * is a shared object with one or more classes:
 *
 *     #include <lmcached/messages.h>
 *     #include <lmcached/module.h>
 *     static void handle_echo(void *self, lmc_call *call) { ... }
 *     static const lmc_envelope envelopes[] = {{"hello.echo", handle_echo, {0}}, {0}};
 *     static const lmc_module_class hello = {.size = sizeof hello, .name = "HelloModule", ...};
 *     LMC_MODULE(&hello);
 *
 *     cc -shared -fPIC $(pkg-config --cflags lmcached) -o hello.so hello.c
 *     lmcached server ... --server-module '{"module_path": "./hello.so", "config": {...}}'
 *
 * It links nothing of the server. LMC_MODULE, in one file of the module, defines the one
 * exported symbol, which is data: the ABI it was built for, its classes, and the list of
 * functions it wants. The server checks that data, fills in the functions, and only then calls
 * anything. It loads a module with RTLD_NOW | RTLD_LOCAL and never unloads it. `lmcached
 * check-module ./hello.so` shows what a server would find; examples/native_module/ uses every
 * hook.
 *
 * Versions. LMC_ABI_MAJOR of module and server must be equal; within it nothing is removed or
 * changes meaning, members are appended to structs, and functions are added, so a module runs
 * on every server of its time and later. On an older server it runs if that has what it needs:
 * every function says since which minor it exists; those of minor 0 are always there, later
 * ones are NULL where the server lacks them, unless the module was compiled with
 * LMC_MODULE_NEEDS_MINOR at their minor or above, which makes such a server refuse it by name.
 * A class that uses a member the server does not know is refused too. Request and reply structs
 * (messages.h) grow the same way: the server allocates them in its own size and some more,
 * zeroed, and `present` tells what is there.
 *
 * Ownership. A class and all it points to are constant and live as long as the process. `self`
 * is the module's own, from create to close. Whatever is reached from an lmc_call is lent until
 * the call is completed. Texts passed to functions are borrowed for the call of the function.
 *
 * Threads are stated at each member and function. The server holds no lock while it calls a
 * module, and a module should hold none while it calls the server. Handlers of modules from
 * outside run on pools of their own (see lmc_operation), never on the loop that reads requests:
 * one that sleeps or spins delays others like it, not the server. A handler that runs long is
 * reported, not ended.
 *
 * No enum, bit-field, errno, FILE or type of another library crosses the line. Times are
 * int64_t nanoseconds. A status the caller does not know counts as failure if negative, else as
 * success of some kind. Nothing may throw across the line (C++).
 */
#ifndef LMCACHED_MODULE_H
#define LMCACHED_MODULE_H

#include <lmcached/messages.h>
#include <lmcached/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LMC_ABI_MAJOR 1 /* must be equal */
#define LMC_ABI_MINOR 0 /* what this header knows */

typedef struct lmc_call lmc_call;               /* one request, from arrival to reply */
typedef struct lmc_build lmc_build;             /* lent to create() */
typedef struct lmc_context lmc_context;         /* the server as one module sees it */
typedef struct lmc_writer lmc_writer;           /* writes members of one JSON object */
typedef struct lmc_event lmc_event;             /* something that happened in the server */
typedef struct lmc_metric lmc_metric;           /* a number that /metrics shows */
typedef struct lmc_object lmc_object;           /* a stored object that is held open */
typedef struct lmc_http_call lmc_http_call;     /* one request to the HTTP port */
typedef struct lmc_zmq_server lmc_zmq_server;   /* lent to register_zmq() */
typedef struct lmc_grpc_server lmc_grpc_server; /* lent to register_grpc() */

/* ---- what a module is made of ---- */

/*
 * Scheduling classes: where a handler runs and what runs beside it. For modules from outside
 * the tree: SYNC on one thread of its own, NORMAL on a pool of --max-cpu-workers threads, both
 * apart from the server's own; AFFINITY on the pool for transfers (--max-gpu-workers threads).
 */
#define LMC_SYNC 0u     /* one at a time in the whole process, in arrival order */
#define LMC_NORMAL 1u   /* in parallel, in no order */
#define LMC_AFFINITY 2u /* all requests of one connection on one thread, in order */

/* Flags of an operation handler, for the server's own only; an unknown flag is refused. */
#define LMC_NEVER_WAITS 1u  /* short enough to run on the request loop */
#define LMC_RUNS_OUTSIDE 2u /* hands over to modules from outside: runs where they run */

/*
 * Answers one operation of messages.h, for example "lookup". `handle` is called with a decoded
 * request and completes the call exactly once, then or later, from any thread. A module cannot
 * add operations, only replace handlers: a handler from outside beats a built-in one, and among
 * those from outside the one of the module built last wins; lmc_forward() reaches the others.
 * New calls are envelopes. An array of these ends with a NULL name.
 */
typedef struct lmc_operation {
    const char *name;
    uint32_t scheduling; /* LMC_SYNC, LMC_NORMAL or LMC_AFFINITY: the winner's counts */
    uint32_t flags;      /* 0 */
    void (*handle)(void *self, lmc_call *call);
    void *reserved[2]; /* 0 */
} lmc_operation;

/*
 * Answers one method of the operation server_module_call; runs as LMC_NORMAL. The request is an
 * lmc_server_module_call_request, the reply an lmc_server_module_call_reply: read `payload`,
 * set the reply's `payload`, complete with LMC_OK. On failure the caller gets the text of
 * lmc_fail(). A method may exist once in the server. An array of these ends with a NULL method.
 */
typedef struct lmc_envelope {
    const char *method; /* namespaced: at least one '.' */
    void (*handle)(void *self, lmc_call *call);
    void *reserved[2]; /* 0 */
} lmc_envelope;

/*
 * Membership in worker liveness: the module keeps state per engine instance. All four functions
 * are required. `touch` and `drop` run on a thread of this module's, so a slow one delays only
 * itself; `reap` on the reaper thread, every quarter of the timeout; `count` on the status
 * thread.
 */
typedef struct lmc_liveness {
    /* A ping with this id was answered. */
    void (*touch_instance)(void *self, int64_t instance_id);
    /* Drops instances silent for longer than the timeout that applies; calls found for each. */
    void (*reap_stale_instances)(void *self, int64_t reap_timeout_ns, int64_t grace_ns,
                                 void (*found)(void *arg, int64_t instance_id), void *arg);
    int64_t (*tracked_instance_count)(void *self);
    /* Some member reaped this instance. */
    void (*drop_instance_state)(void *self, int64_t instance_id);
    void *reserved[2]; /* 0 */
} lmc_liveness;

/*
 * The class. Later members come at the end only; the server reads `size` bytes of it. Members
 * after `create` may be NULL.
 */
typedef struct lmc_module_class {
    uint32_t size;       /* sizeof(lmc_module_class) as compiled */
    uint32_t flags;      /* 0, or LMC_MODULE_DEFERRED; an unknown flag is refused */
    const char *name;    /* letters, digits, '_'; unique in the server: "HelloModule" */
    const char *version; /* free text, shown in status; may be NULL */
    const char *const
        *depends; /* names of classes, built in or not, ends with NULL; may be NULL */
    /*
     * Main thread, dependencies first. *self is passed to everything else; it may stay NULL.
     * LMC_OK: built. LMC_DECLINED: not applicable here, the class is simply absent. A failure
     * ends the start with the error's text; what was built is closed in reverse.
     */
    lmc_status (*create)(lmc_build *build, void **self, lmc_error *error);
    /*
     * Main thread, in reverse order of creation, once, after the last handler has returned and
     * the last event was delivered; releases self, ends the module's threads, closes its
     * sockets. One that takes longer than 10 s is reported and abandoned; the others are
     * closed.
     */
    void (*close)(void *self);
    /*
     * Writes members that are merged into /status. A thread of the server's, never two at a
     * time. Waited for 1 s once; while it has not returned its last result is shown. On failure
     * /status names the module in status_errors.
     */
    lmc_status (*report_status)(void *self, lmc_writer *writer);
    const lmc_operation *operations;
    const lmc_envelope *envelopes;
    const lmc_liveness *liveness;
    /* Main thread, request socket bound, before the first request is served, in order of
     * creation; only that of the transport in use. A failure ends the start. */
    lmc_status (*register_zmq)(void *self, lmc_zmq_server *server, lmc_error *error);
    lmc_status (*register_grpc)(void *self, lmc_grpc_server *server, lmc_error *error);
} lmc_module_class;

#define LMC_MODULE_DEFERRED 1u /* flags: built after every class that does not depend on it */

/* ---- how functions are declared ---- */

/* In the server's own tree these are functions. In a module they are pointers that the server
 * fills in; they are called alike. */
#ifdef LMC_MODULE_IN_TREE
#define LMC_API
#define LMC_FN(name) (name)
#else
#define LMC_API extern __attribute__((visibility("hidden")))
#define LMC_FN(name) (*name)
#endif
#define LMC_PRINTS(format_at, first_at) __attribute__((format(printf, format_at, first_at)))

/* ---- versions and failures (any thread) ---- */

/* The minor of the running server's ABI. Since 1.0, as is all that follows without a note. */
LMC_API uint32_t LMC_FN(lmc_abi_minor)(void);
/* Records status and text, printf style, unless a failure is recorded already. Returns status,
 * so that a function may end with it. `error` may be NULL. */
LMC_API lmc_status LMC_FN(lmc_error_set)(lmc_error *error, lmc_status status,
                                         const char *format, ...) LMC_PRINTS(3, 4);

/* ---- while building (main thread, inside create) ---- */

/* The server as this module sees it; valid until close has returned. */
LMC_API lmc_context *LMC_FN(lmc_build_context)(lmc_build *build);
/* `self` of a dependency that was built; NULL with an error text when it was not. What may be
 * done with it is between the two modules; for built-in ones it only says that they are there.
 */
LMC_API void *LMC_FN(lmc_build_require)(lmc_build *build, const char *class_name,
                                        lmc_error *error);
/* This module's configuration as JSON text, "{}" when none was given. Lives as long as the
 * server; all classes of one shared object have the same. */
LMC_API lmc_slice LMC_FN(lmc_build_config)(lmc_build *build);
/*
 * One member of that configuration, "limit" or, nested, "limits.rate". When it is missing
 * *value stays as it is, so put the default there; when it has another type: LMC_INVALID, and
 * the text says which option it is. Text lives as long as the server.
 */
LMC_API lmc_status LMC_FN(lmc_build_config_bool)(lmc_build *build, const char *name,
                                                 bool *value, lmc_error *error);
LMC_API lmc_status LMC_FN(lmc_build_config_int)(lmc_build *build, const char *name,
                                                int64_t *value, lmc_error *error);
LMC_API lmc_status LMC_FN(lmc_build_config_real)(lmc_build *build, const char *name,
                                                 double *value, lmc_error *error);
LMC_API lmc_status LMC_FN(lmc_build_config_text)(lmc_build *build, const char *name,
                                                 lmc_slice *value, lmc_error *error);

/*
 * Answers `method` (GET, which is HEAD too, POST, PUT, PATCH or DELETE) on /ext/<class><path>
 * of the HTTP port. A segment of the path in braces takes any one: "/items/{id}"; "/" is
 * /ext/<class> itself. `handle` runs on one of two threads that all modules' routes share, in
 * parallel, and answers before it returns; else the client gets 500. LMC_INVALID: no such
 * method or path, or twice. With --no-http routes are accepted and not served.
 */
LMC_API lmc_status LMC_FN(lmc_build_add_route)(lmc_build *build, const char *method,
                                               const char *path,
                                               void (*handle)(void *self, lmc_http_call *call),
                                               lmc_error *error);
/* Inside `handle`; all is lent for that long. "GET", also for HEAD; or the segment that {name}
 * took, decoded, {NULL, 0} when there is none. */
LMC_API const char *LMC_FN(lmc_http_call_method)(const lmc_http_call *call);
LMC_API lmc_slice LMC_FN(lmc_http_call_segment)(const lmc_http_call *call, const char *name);
/* False: the query has no such parameter. */
LMC_API bool LMC_FN(lmc_http_call_query)(const lmc_http_call *call, const char *name,
                                         lmc_slice *value);
LMC_API lmc_slice LMC_FN(lmc_http_call_body)(const lmc_http_call *call); /* at most 1 MiB */
/* Once; the body is copied. */
LMC_API void LMC_FN(lmc_http_call_answer)(lmc_http_call *call, uint32_t status,
                                          const char *content_type, const void *body,
                                          size_t size);

/* ---- one call (the thread that has it; one at a time) ---- */

/* The operation's name, constant. */
LMC_API const char *LMC_FN(lmc_call_operation)(lmc_call *call);
/* The operation's request struct, filled; constant. See messages.h. */
LMC_API const void *LMC_FN(lmc_call_request)(lmc_call *call);
/* The operation's reply struct, zeroed; set what you know. */
LMC_API void *LMC_FN(lmc_call_reply)(lmc_call *call);
/* Which connection the request came on; unique within the process, never 0. */
LMC_API uint64_t LMC_FN(lmc_call_connection)(lmc_call *call);
/* Memory that lives until the reply has been encoded; NULL when there is none. Not zeroed. */
LMC_API void *LMC_FN(lmc_call_alloc)(lmc_call *call, size_t size);
/* Copies text into such memory; {NULL, 0} when there is none. */
LMC_API lmc_slice LMC_FN(lmc_call_text)(lmc_call *call, const char *text);
/* A byte string of the request as one piece, which costs a copy only when it is in several;
 * {NULL, 0} when there is no memory for that. */
LMC_API lmc_slice LMC_FN(lmc_call_join)(lmc_call *call, const lmc_pieces *bytes);
/* Makes *out a copy of these bytes, for the reply. False: no memory. */
LMC_API bool LMC_FN(lmc_call_copy)(lmc_call *call, lmc_pieces *out, const void *data,
                                   size_t size);
/* Makes *out these bytes themselves. give_back(arg) is called once when nothing reads them any
 * more; NULL: they stay for ever. False: no memory or no room; give_back was not taken. */
LMC_API bool LMC_FN(lmc_call_lend)(lmc_call *call, lmc_pieces *out, const void *data,
                                   size_t size, void (*give_back)(void *arg), void *arg);
/* Runs done(arg) once the reply has been encoded and nothing reads lent bytes any more, on the
 * thread that completes the call. At most four per call, lent bytes included. False: no room;
 * done was not taken. */
LMC_API bool LMC_FN(lmc_call_on_done)(lmc_call *call, void (*done)(void *arg), void *arg);
/*
 * Ends the call, exactly once; a second time is an ERROR in the log and changes nothing. LMC_OK
 * sends the reply struct; LMC_AGAIN sends "still pending" for operations that have it;
 * LMC_INVALID and every other failure send the operation's negative where it has one. After
 * this the call must not be touched. When the server stops it answers what was not completed in
 * time; the call must still be completed then.
 */
LMC_API void LMC_FN(lmc_complete)(lmc_call *call, lmc_status status);
/* As lmc_complete(status), with a text for the log, for the callers of envelopes, and for
 * transports that carry one. */
LMC_API void LMC_FN(lmc_fail)(lmc_call *call, lmc_status status, const char *text);
/* Hands the call to the handler that this one replaced, which then completes it. It may run
 * there and then or on another thread, as its scheduling class wants. */
LMC_API void LMC_FN(lmc_forward)(lmc_call *call);
/*
 * As lmc_forward(), but when the other handler completes the call, after(arg, call, status)
 * gets it back, with the reply as the other one made it; that must complete it. Not called when
 * the server has stopped meanwhile; memory is best given back by lmc_call_on_done().
 */
LMC_API void LMC_FN(lmc_forward_then)(
    lmc_call *call, void (*after)(void *arg, lmc_call *call, lmc_status status), void *arg);

/* ---- status (inside report_status, on its thread) ---- */

LMC_API void LMC_FN(lmc_write_bool)(lmc_writer *writer, const char *name, bool value);
LMC_API void LMC_FN(lmc_write_int)(lmc_writer *writer, const char *name, int64_t value);
LMC_API void LMC_FN(lmc_write_real)(lmc_writer *writer, const char *name, double value);
/* data NULL: null */
LMC_API void LMC_FN(lmc_write_text)(lmc_writer *writer, const char *name, lmc_slice value);
LMC_API void LMC_FN(lmc_write_null)(lmc_writer *writer, const char *name);
/* A value that is JSON text already; what is not valid JSON fails the report. */
LMC_API void LMC_FN(lmc_write_json)(lmc_writer *writer, const char *name, lmc_slice json);
/* What status_errors says of this module when report_status then returns a failure. */
LMC_API void LMC_FN(lmc_write_failure)(lmc_writer *writer, const char *text);
/* Between begin and end, members go into the nested value; inside a list, name is NULL. */
LMC_API void LMC_FN(lmc_write_object_begin)(lmc_writer *writer, const char *name);
LMC_API void LMC_FN(lmc_write_object_end)(lmc_writer *writer);
LMC_API void LMC_FN(lmc_write_list_begin)(lmc_writer *writer, const char *name);
LMC_API void LMC_FN(lmc_write_list_end)(lmc_writer *writer);

/* ---- the log (any thread, from create to close) ---- */

#define LMC_LEVEL_DEBUG 10u
#define LMC_LEVEL_INFO 20u
#define LMC_LEVEL_WARNING 30u
#define LMC_LEVEL_ERROR 40u

/* Writes one line, printf style, as logger "lmcache.module.<class name>", whose level can be
 * set like any other's. Never waits: a full queue drops lines and says how many. */
LMC_API void LMC_FN(lmc_log_at)(lmc_context *context, uint32_t level, const char *file,
                                int line, const char *format, ...) LMC_PRINTS(5, 6);
#define lmc_log(context, level, ...) lmc_log_at(context, level, __FILE__, __LINE__, __VA_ARGS__)

/* ---- metrics (any thread) ---- */

/*
 * Declares a family that /metrics shows as lmcached_module_<class name in snake case>_<name>, a
 * counter's name with "_total". `label` is the name of its one label, or NULL. The same name
 * again gives the same family. NULL: metrics are off, or the name or label is not a Prometheus
 * name, which the log says. Every function below accepts NULL and then does nothing. Lives as
 * long as the server.
 */
LMC_API lmc_metric *LMC_FN(lmc_metric_counter)(lmc_context *context, const char *name,
                                               const char *help, const char *label);
LMC_API lmc_metric *LMC_FN(lmc_metric_gauge)(lmc_context *context, const char *name,
                                             const char *help, const char *label);
/* Adds to a counter (by > 0) or a gauge. `value` of the label, {NULL, 0} without one. Label
 * values beyond a few hundred count as "other". */
LMC_API void LMC_FN(lmc_metric_add)(lmc_metric *metric, lmc_slice value, int64_t by);
LMC_API void LMC_FN(lmc_metric_set)(lmc_metric *metric, lmc_slice value,
                                    double to); /* gauges */

/* ---- events ---- */

/*
 * Calls receive(arg, event) for every event of this name from now on until the module is
 * closed: on one thread of the server's for all subscribers, in order of publishing. The event
 * is lent for the call. A slow subscriber delays the others; when 10,000 events
 * (--event-bus-queue-size) or 64 MiB of them wait, new ones are dropped and counted. Names are
 * listed in docs/native-modules.md; one that nobody publishes is accepted. LMC_DECLINED: there
 * is no bus (--disable-observability). Any thread.
 */
LMC_API lmc_status LMC_FN(lmc_subscribe)(lmc_context *context, const char *event_name,
                                         void (*receive)(void *arg, const lmc_event *event),
                                         void *arg, lmc_error *error);
/* Inside receive. */
LMC_API const char *LMC_FN(lmc_event_name)(const lmc_event *event);
LMC_API int64_t LMC_FN(lmc_event_time_ns)(const lmc_event *event); /* wall clock, at publish */
LMC_API
lmc_slice LMC_FN(lmc_event_session)(const lmc_event *event); /* request id, may be empty */
/* A member of the event; false, and *value is untouched: it has none of that name and type. */
LMC_API bool LMC_FN(lmc_event_int)(const lmc_event *event, const char *member, int64_t *value);
LMC_API bool LMC_FN(lmc_event_real)(const lmc_event *event, const char *member, double *value);
LMC_API bool LMC_FN(lmc_event_text)(const lmc_event *event, const char *member,
                                    lmc_slice *value);
/* Members that are lists; lent as the event is. slices: texts or byte strings. */
LMC_API bool LMC_FN(lmc_event_keys)(const lmc_event *event, const char *member,
                                    lmc_object_key_list *value);
LMC_API bool LMC_FN(lmc_event_ints)(const lmc_event *event, const char *member,
                                    lmc_ints *value);
LMC_API bool LMC_FN(lmc_event_int_lists)(const lmc_event *event, const char *member,
                                         lmc_int_lists *value);
LMC_API bool LMC_FN(lmc_event_slices)(const lmc_event *event, const char *member,
                                      lmc_slices *value);
/*
 * Begins an event of the module's own; NULL: nobody has subscribed to it, or there is no
 * memory. Fill it and publish it, on one thread; publishing never waits. All accept NULL.
 */
LMC_API lmc_event *LMC_FN(lmc_event_begin)(lmc_context *context, const char *event_name,
                                           lmc_slice session);
LMC_API void LMC_FN(lmc_event_put_int)(lmc_event *event, const char *member, int64_t value);
LMC_API void LMC_FN(lmc_event_put_real)(lmc_event *event, const char *member, double value);
LMC_API void LMC_FN(lmc_event_put_text)(lmc_event *event, const char *member, lmc_slice value);
/* Lists are copied whole. At most 16 members are kept of one event. */
LMC_API void LMC_FN(lmc_event_put_keys)(lmc_event *event, const char *member,
                                        const lmc_object_key *keys, size_t count);
LMC_API void LMC_FN(lmc_event_put_ints)(lmc_event *event, const char *member,
                                        const int64_t *values, size_t count);
LMC_API void LMC_FN(lmc_event_put_int_lists)(lmc_event *event, const char *member,
                                             const lmc_ints *lists, size_t count);
LMC_API void LMC_FN(lmc_event_put_texts)(lmc_event *event, const char *member,
                                         const lmc_slice *texts, size_t count);
LMC_API void LMC_FN(lmc_event_put_blobs)(lmc_event *event, const char *member,
                                         const lmc_slice *blobs, size_t count);
LMC_API void LMC_FN(lmc_event_publish)(lmc_event *event);

/* ---- the cache (any thread; none of these waits) ---- */

#define LMC_CHUNK_HASH_SIZE 32

/* The server's configuration, as GET /config shows it; lives as long as the server. */
LMC_API lmc_slice LMC_FN(lmc_server_config)(lmc_context *context);
LMC_API int64_t LMC_FN(lmc_chunk_size)(lmc_context *context); /* tokens */
/*
 * Hashes whole chunks of a prompt: `count` tokens at `tokens`, LMC_CHUNK_HASH_SIZE bytes each
 * into `hashes`, at most `room` of them. `previous` is the hash of the chunk before, NULL at
 * the start of a prompt. Returns the number of hashes written.
 */
LMC_API size_t LMC_FN(lmc_hash_chunks)(lmc_context *context, const void *previous,
                                       const uint32_t *tokens, size_t count, void *hashes,
                                       size_t room);
LMC_API int64_t LMC_FN(lmc_session_count)(lmc_context *context);
/* The chunk hashes that a session knows, from chunk `first` on. Returns how many it has from
 * there; at most `room` are written. 0: unknown session. The session's life is not prolonged.
 */
LMC_API size_t LMC_FN(lmc_session_hashes)(lmc_context *context, lmc_slice request_id,
                                          size_t first, void *hashes, size_t room);

/* The kv_rank member of an lmc_object_key. */
static inline int64_t lmc_object_rank(int64_t world_size, int64_t rank) {
    return (int64_t)((uint64_t)world_size << 24 | (uint64_t)rank << 16 |
                     (uint64_t)world_size << 8 | (uint64_t)rank);
}
/* Whether each object can be read now: present[i] for keys[i]. */
LMC_API lmc_status LMC_FN(lmc_objects_present)(lmc_context *context, const lmc_object_key *keys,
                                               size_t count, bool *present);
/*
 * Holds an object open: its bytes stay where they are until it is closed; it is not evicted
 * meanwhile, so close it soon. LMC_NOT_FOUND: not in memory. What is open when the module is
 * closed is closed then, with a WARNING.
 */
LMC_API lmc_status LMC_FN(lmc_object_open)(lmc_context *context, const lmc_object_key *key,
                                           lmc_object **object, lmc_slice *bytes);
LMC_API void LMC_FN(lmc_object_close)(lmc_object *object); /* accepts NULL */
/* Drops all objects; `force`: also those in use, as GET /cache/clear says. */
LMC_API void LMC_FN(lmc_objects_clear)(lmc_context *context, bool force);

typedef struct lmc_memory_report {
    uint64_t size; /* set to sizeof before asking; later members come at the end */
    uint64_t capacity_bytes, used_bytes, staging_bytes;
    uint64_t resident_objects, staging_objects, read_locked_objects;
} lmc_memory_report;
LMC_API lmc_status LMC_FN(lmc_memory_usage)(lmc_context *context, lmc_memory_report *report);

/* How one chunk of one object group of a model lies in memory: row-major, no padding. */
typedef struct lmc_model_layout {
    uint64_t size; /* set to sizeof before asking; later members come at the end */
    uint64_t bytes;
    int64_t window; /* chunks that attention reaches back; < 1: all */
    int64_t dims[4];
    uint32_t dim_count;
    uint32_t is_extra; /* not 0: private to the engine, not looked up */
    char dtype[32];    /* torch name without prefix, terminated */
} lmc_model_layout;
/* As the workers of a model registered it last. LMC_NOT_FOUND: no such model, world size or
 * group. */
LMC_API lmc_status LMC_FN(lmc_model_layout_of)(lmc_context *context, lmc_slice model_name,
                                               int64_t world_size, uint32_t group,
                                               lmc_model_layout *layout);

/* ---- the ZMQ transport (main thread, inside register_zmq) ---- */

/* A libzmq context (of zmq_ctx_new) for sockets of modules, which close them in close(); it
 * ends when all modules are closed, and sockets left open are a WARNING. NULL: none could be
 * made. */
LMC_API void *LMC_FN(lmc_zmq_server_context)(lmc_zmq_server *server);
/* Sets the handler of an operation, as an entry of lmc_operation does, with this module's
 * `self`. One that is not LMC_SYNC needs a pool of the module's, or the start fails. */
LMC_API lmc_status LMC_FN(lmc_zmq_server_add_handler)(
    lmc_zmq_server *server, const char *operation, uint32_t scheduling,
    void (*handle)(void *self, lmc_call *call), lmc_error *error);
/* A pool of max_workers threads for these operations' winning handlers (names, ended by NULL);
 * "server_module_call" stands for all envelopes. Fails for an operation without a handler and
 * for one whose handler is LMC_SYNC. An empty list is no pool. */
LMC_API lmc_status LMC_FN(lmc_zmq_server_add_normal_pool)(lmc_zmq_server *server,
                                                          const char *const *operations,
                                                          uint32_t max_workers,
                                                          lmc_error *error);
/* The same; all requests of one connection on one thread, in order. */
LMC_API lmc_status LMC_FN(lmc_zmq_server_add_affinity_pool)(lmc_zmq_server *server,
                                                            const char *const *operations,
                                                            uint32_t max_workers,
                                                            lmc_error *error);

#ifdef __cplusplus
}
#endif

#include <lmcached/module_image.h>

#endif
