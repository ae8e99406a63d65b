/*
 * module.h: how behaviour is added to the server.
 *
 * A module is one constant lmc_module_class: what it is called, what it needs, how it is built and
 * closed, and which requests it answers. The server's own parts (lookup, management, transfers)
 * are modules of this form and have no other way in.
 *
 * Ownership and threads are stated at each member and function. In general: the class and all it
 * points to are constant and live as long as the process; `self` belongs to the module from create
 * to close; everything reached from an lmc_call is lent until that call is completed.
 */
#ifndef LMCACHED_MODULE_H
#define LMCACHED_MODULE_H

#include <lmcached/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LMC_ABI_MAJOR 1 /* must be equal; within it nothing is removed or changes meaning */
#define LMC_ABI_MINOR 0 /* what this header knows */

typedef struct lmc_call lmc_call;       /* one request, from arrival to reply */
typedef struct lmc_build lmc_build;     /* lent to create() */
typedef struct lmc_context lmc_context; /* what all modules of one server share */
typedef struct lmc_writer lmc_writer;   /* writes members of one JSON object */
typedef struct lmc_zmq_server lmc_zmq_server;   /* lent to register_zmq() */
typedef struct lmc_grpc_server lmc_grpc_server; /* lent to register_grpc() */

/* Scheduling classes: where a handler runs and what runs beside it. */
#define LMC_SYNC 0u     /* one at a time in the whole process, in arrival order; must not wait */
#define LMC_NORMAL 1u   /* on a pool, in parallel, in no order */
#define LMC_AFFINITY 2u /* on a pool; all requests of one connection on one thread, in order */

/* Flags of an operation handler. */
#define LMC_NEVER_WAITS 1u /* built-in handlers only: short enough to run on the request loop */

/*
 * Answers one operation. `handle` is called with a decoded request and must complete the call
 * exactly once, then or later, from any thread. An array of these ends with a NULL name.
 */
typedef struct lmc_operation {
    const char *name;    /* an operation of messages.h, for example "lookup" */
    uint32_t scheduling; /* LMC_SYNC, LMC_NORMAL or LMC_AFFINITY */
    uint32_t flags;
    void (*handle)(void *self, lmc_call *call);
    void *reserved[2];
} lmc_operation;

/*
 * Answers one method of `server_module_call`; runs as LMC_NORMAL. The request and reply are
 * lmc_server_module_call_request and _reply: read `payload`, set the reply's `payload`, complete.
 * Ends with a NULL method.
 */
typedef struct lmc_envelope {
    const char *method; /* namespaced: at least one '.' */
    void (*handle)(void *self, lmc_call *call);
    void *reserved[2];
} lmc_envelope;

/*
 * Membership in worker liveness: the module keeps state per engine instance. All members are
 * required. Called from the reaper thread, except touch, which is called after a ping was
 * answered; never on the request loop.
 */
typedef struct lmc_liveness {
    void (*touch_instance)(void *self, int64_t instance_id);
    /* Drops instances silent for longer than the timeout that applies; calls found for each. */
    void (*reap_stale_instances)(void *self, int64_t reap_timeout_ns, int64_t grace_ns,
                                 void (*found)(void *arg, int64_t instance_id), void *arg);
    int64_t (*tracked_instance_count)(void *self);
    void (*drop_instance_state)(void *self, int64_t instance_id);
    void *reserved[2];
} lmc_liveness;

typedef struct lmc_module_class {
    uint32_t size;               /* sizeof(lmc_module_class) as compiled */
    uint32_t flags;              /* 0; an unknown flag is refused */
    const char *name;            /* "LookupModule"; unique in the server */
    const char *version;         /* free text, shown in status; may be NULL */
    const char *const *depends;  /* class names, ends with NULL; may be NULL */
    /* Main thread. *self is passed to everything else. LMC_DECLINED = not applicable here. */
    lmc_status (*create)(lmc_build *build, void **self, lmc_error *error);
    /* Main thread, after the last call has returned; releases self. May be NULL. */
    void (*close)(void *self);
    /* Any one thread at a time, within a time budget; writes members merged into /status. */
    lmc_status (*report_status)(void *self, lmc_writer *writer);
    const lmc_operation *operations; /* may be NULL */
    const lmc_envelope *envelopes;   /* may be NULL */
    const lmc_liveness *liveness;    /* may be NULL */
    /* Main thread, socket bound, before the first request is served. May be NULL. */
    lmc_status (*register_zmq)(void *self, lmc_zmq_server *server, lmc_error *error);
    lmc_status (*register_grpc)(void *self, lmc_grpc_server *server, lmc_error *error);
} lmc_module_class; /* later members at the end only; the host reads `size` bytes */

#define LMC_MODULE_DEFERRED 1u /* flags: built after every class that does not depend on it */

/* ---- while building (main thread, inside create) ---- */

/* The context all modules share; lives longer than every module. */
lmc_context *lmc_build_context(lmc_build *build);
/* `self` of a dependency that was built; NULL with an error text when it was not. */
void *lmc_build_require(lmc_build *build, const char *class_name, lmc_error *error);
/* This class's configuration as JSON text, "{}" when none was given. Lives as long as the server. */
lmc_slice lmc_build_config(lmc_build *build);

/* ---- one call (the thread that has it; one at a time) ---- */

/* The operation's request struct, filled; constant. See messages.h. */
const void *lmc_call_request(lmc_call *call);
/* The operation's reply struct, zeroed; set what you know. */
void *lmc_call_reply(lmc_call *call);
/* Memory that lives until the reply has been encoded; NULL when there is none. Not zeroed. */
void *lmc_call_alloc(lmc_call *call, size_t size);
/* Copies text into such memory; {NULL, 0} when there is none. */
lmc_slice lmc_call_text(lmc_call *call, const char *text);
/* Runs done(arg) once the reply has been encoded and nothing reads lent bytes any more. At most
 * four per call. False: no room; done was not taken. */
bool lmc_call_on_done(lmc_call *call, void (*done)(void *arg), void *arg);
/* Which connection the request came on; unique within the process, never 0. */
uint64_t lmc_call_connection(lmc_call *call);
/*
 * Ends the call, exactly once. LMC_OK sends the reply struct; LMC_AGAIN sends "still pending" for
 * operations that have it; LMC_INVALID and every other failure send the operation's negative where
 * it has one. After this the call must not be touched.
 */
void lmc_complete(lmc_call *call, lmc_status status);
/* As lmc_complete(status), with a text for the log and for transports that carry one. */
void lmc_fail(lmc_call *call, lmc_status status, const char *text);
/* Hands the call to the handler that this one replaced, which then completes it. */
void lmc_forward(lmc_call *call);

/* ---- status (inside report_status) ---- */

void lmc_write_bool(lmc_writer *writer, const char *name, bool value);
void lmc_write_int(lmc_writer *writer, const char *name, int64_t value);
void lmc_write_real(lmc_writer *writer, const char *name, double value);
void lmc_write_text(lmc_writer *writer, const char *name, lmc_slice value); /* data NULL: null */
void lmc_write_null(lmc_writer *writer, const char *name);
/* Between begin and end, members go into the nested value; inside a list, name is NULL. */
void lmc_write_object_begin(lmc_writer *writer, const char *name);
void lmc_write_object_end(lmc_writer *writer);
void lmc_write_list_begin(lmc_writer *writer, const char *name);
void lmc_write_list_end(lmc_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
