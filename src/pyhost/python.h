/*
 * python.h: what the files of the Python host share. Private to this room.
 *
 * Include it first: Python wants that. Unless a function says otherwise it is called with the
 * GIL held, and returns NULL or false with a Python exception set when it fails. `server` is
 * constant once the host is open.
 */
#ifndef LMC_PYHOST_PYTHON_H
#define LMC_PYHOST_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pyhost/host.h"
#include "rpc/schema.h"

extern const lmc_pyhost_server *lmc_py_server;
extern const lmc_pyhost_options *lmc_py_options;
extern PyObject *lmc_py_bootstrap;   /* the module lmcache._bootstrap */
extern PyObject *lmc_py_start_error; /* _lmcache_host.StartError */

/* ---- gil.c: threads and the GIL ---- */

/* The main thread, right after the interpreter started: keeps its thread state. */
void lmc_py_adopt_main(void);
/*
 * Takes the GIL with the thread's own state, which it gets with its first call and keeps until
 * it ends. False: the interpreter has ended, or this is a forked child in which only the
 * forking thread lives. Not to be nested; the GIL must not be held.
 */
bool lmc_py_enter(void);
void lmc_py_leave(void);
/* For code that may or may not hold the GIL: true when leave_any() has to be called. */
bool lmc_py_enter_any(void);
void lmc_py_end_entering(void); /* the main thread, holding the GIL, before it finalizes */
/* A child that a handler forked must not go on as a server: ends it. No GIL needed. */
void lmc_py_end_child(int exit_code);
bool lmc_py_is_child(void);

/* ---- failure.c: exceptions as text ---- */

typedef struct lmc_py_failure {
    char *text;        /* of the exception; never NULL */
    PyObject *lines;   /* of the traceback; NULL: none wanted or none to be had */
    bool not_built_in; /* text is complete (StartError) */
    bool not_implemented;
} lmc_py_failure;

/* Takes the current exception, which there is, away. */
void lmc_py_failure_take(lmc_py_failure *failure);
void lmc_py_failure_drop(lmc_py_failure *failure);
/* The traceback as ERROR lines. */
void lmc_py_failure_log(const lmc_py_failure *failure, const char *logger);
/* Take, log the traceback, fill in error with prefix and text, drop. */
lmc_status lmc_py_fail(lmc_error *error, const char *prefix);
/* Take and log "<headline>: <text>" and the traceback, at most once per second per limit. */
void lmc_py_report(const char *logger, lmc_log_limit *limit, const char *headline);

/* ---- values_out.c, values_in.c, msgpack.c: C values and Python values ---- */

/* {"cache_key": factory}: kept from now on. */
bool lmc_py_set_message_types(PyObject *types);
void lmc_py_forget_message_types(void);
/* The first `arity` arguments that a handler of this operation gets; a new tuple. */
PyObject *lmc_py_arguments(const lmc_operation_def *operation, const void *request,
                           Py_ssize_t arity);
PyObject *lmc_py_from_message(const lmc_message_def *message, const void *base);
PyObject *lmc_py_from_msgpack(lmc_slice bytes); /* ValueError */

/* Appends MessagePack. */
bool lmc_py_pack(lmc_buffer *out, PyObject *value);
bool lmc_py_pack_member(lmc_buffer *out, const lmc_member_def *member, PyObject *value);
bool lmc_py_pack_message(lmc_buffer *out, const lmc_message_def *message, PyObject *value);
/* A result as the operation's reply frame. False with an exception; *pending for None where the
 * operation has that. */
bool lmc_py_pack_result(lmc_buffer *out, const lmc_operation_def *operation, PyObject *result,
                        bool *pending);
/* One object_key of a mapping or object; what it points to lies in the arena. */
bool lmc_py_to_object_key(PyObject *value, lmc_arena *arena, lmc_object_key *key);

/* ---- interpreter.c, start.c ---- */

/* Which Python: `executable` and whether its home is to be set. */
typedef struct lmc_py_interpreter {
    char executable[4096];
} lmc_py_interpreter;
/* No GIL. Fails with one line that names both versions. */
lmc_status lmc_py_choose(const char *wanted, lmc_py_interpreter *chosen, lmc_error *error);

/* ---- modules.c: Python classes as module classes ---- */

typedef struct lmc_py_handler {
    PyObject *function; /* NULL: none */
    Py_ssize_t arity;
} lmc_py_handler;

typedef struct lmc_py_method {
    char *name;
    PyObject *function;
} lmc_py_method;

#define LMC_PY_METHODS_MAX 4096
enum { LMC_PY_TOUCH, LMC_PY_REAP, LMC_PY_COUNT_TRACKED, LMC_PY_DROP, LMC_PY_LIVENESS };

typedef struct lmc_py_module {
    lmc_module_class class;
    size_t index; /* in the list of lmcache._bootstrap.load() */
    char *name, *version, *module_path;
    char logger[128];
    char **depends;
    PyObject *instance; /* NULL until built */
    lmc_operation operations[LMC_OP_COUNT + 1];
    lmc_py_handler handlers[LMC_OP_COUNT];
    lmc_envelope *envelopes; /* LMC_PY_METHODS_MAX + 1, filled by create */
    lmc_py_method *methods;  /* sorted by name */
    size_t method_count;
    PyObject *liveness[LMC_PY_LIVENESS];
    bool closed;
} lmc_py_module;

lmc_status lmc_py_load(lmc_error *error); /* no GIL, main thread */
size_t lmc_py_class_count(void);
const lmc_module_class *lmc_py_class_at(size_t index, const char **module_path);
void lmc_py_drop_classes(void); /* after finalizing, no GIL */
/* Calls bootstrap.<name>(index), the result is new. */
PyObject *lmc_py_ask(const char *name, const lmc_py_module *module);

/* ---- callees.c: modules whose operations Python code calls, while they are open ---- */

typedef struct lmc_py_callee lmc_py_callee;

/* Takes in what is built by now. Main thread; NULL: nothing. */
void lmc_py_note_built(lmc_composition *composition);
PyObject *lmc_py_built_names(void); /* a new list, in construction order */
/* The module cannot be closed until it is left, which needs no GIL. */
lmc_py_callee *lmc_py_callee_enter(const char *name);
void lmc_py_callee_leave(lmc_py_callee *callee);
bool lmc_py_callee_handles(const lmc_py_callee *callee, const char *operation);
const lmc_liveness *lmc_py_callee_liveness(const lmc_py_callee *callee, void **self);
/* Its handler and those that it has replaced, as the registry will have them; free() it. */
lmc_handler *lmc_py_callee_chain(const lmc_py_callee *callee,
                                 const lmc_operation_def *operation);
void lmc_py_close_callee(const char *name); /* no GIL; waits for those inside */
void lmc_py_forget_callees(void);           /* nobody calls any more */

/* handlers.c: no GIL; the threads of the pools. */
void lmc_py_handle_operation(void *self, lmc_call *call);
void lmc_py_handle_envelope(void *self, lmc_call *call);
/* The connection of the request that this thread answers; 0: none. */
uint64_t lmc_py_connection(void);

/* liveness.c: no GIL */
extern const lmc_liveness lmc_py_liveness;
lmc_status lmc_py_report_status(void *self, lmc_writer *writer);

/* signals.c: SIGTERM and SIGINT stay the server's. Around Python code of the main thread. */
void lmc_py_keep_signals(void);
void lmc_py_restore_signals(const char *whose);

/* ---- api_*.c: the module _lmcache_host ---- */

PyObject *lmc_py_make_host_module(void); /* PyInit function */
extern PyMethodDef lmc_py_log_functions[], lmc_py_schema_functions[], lmc_py_cache_functions[],
    lmc_py_event_functions[], lmc_py_metric_functions[], lmc_py_call_functions[],
    lmc_py_liveness_functions[], lmc_py_registrar_functions[];
/* The bytes of an object where they lie, or None; api_objects.c. */
PyObject *lmc_py_hold(lmc_cache *cache, const lmc_object_key *key);
bool lmc_py_add_object_type(PyObject *module);
void lmc_py_forget_objects(void); /* the cache is gone; GIL, or no Python any more */
/* The bus that they are subscribed to is gone. `alive`: the GIL is held, else Python has ended.
 */
void lmc_py_forget_subscribers(bool alive);
/* Which module create() or register_zmq() runs for; main thread. NULL: none. */
extern lmc_py_module *lmc_py_current;
extern lmc_zmq_server *lmc_py_zmq_server;

#endif
