/*
 * host.h: what the server and the Python host, a shared object of its own, know of each other.
 *
 * The host is loaded when --server-module names a dotted path, and only then is there a Python
 * library in the process. It links nothing of the server: the server hands it the functions
 * below. Both are built together, and `size` tells when they were not. What is pure computation
 * (arenas, buffers, the codecs) the host links for itself.
 *
 * open, load, the functions of its classes that module.h promises to the main thread, and
 * finish belong to the thread that called open.
 */
#ifndef LMC_PYHOST_HOST_H
#define LMC_PYHOST_HOST_H

#include "cache/cache.h"
#include "config/config.h"
#include "config/json_value.h"
#include "dispatch/inner_call.h"
#include "module/build.h"
#include "module/composition.h"
#include "module/context.h"
#include "module/status_writer.h"

#define LMC_PYHOST_SYMBOL "lmcached_python_host" /* the one exported symbol, which is data */
#define LMC_PYHOST_FILE "lmcached-pyhost.so"

/* Functions of the server that have state, and so exist once. */
#define LMC_PYHOST_FUNCTIONS(F)         \
    F(lmc_log_write)                    \
    F(lmc_log_offer)                    \
    F(lmc_log_enabled)                  \
    F(lmc_log_level_of)                 \
    F(lmc_log_allow)                    \
    F(lmc_json_read)                    \
    F(lmc_call_copy)                    \
    F(lmc_call_lend)                    \
    F(lmc_complete)                     \
    F(lmc_fail)                         \
    F(lmc_write_json)                   \
    F(lmc_writer_fail)                  \
    F(lmc_inner_call_run)               \
    F(lmc_registry_find)                \
    F(lmc_composition_each)             \
    F(lmc_build_add)                    \
    F(lmc_zmq_server_add_handler)       \
    F(lmc_zmq_server_add_normal_pool)   \
    F(lmc_zmq_server_add_affinity_pool) \
    F(lmc_events_subscribe)             \
    F(lmc_events_begin)                 \
    F(lmc_events_report_get)            \
    F(lmc_events_wanted)                \
    F(lmc_events_failed)                \
    F(lmc_event_attach)                 \
    F(lmc_event_attached)               \
    F(lmc_event_each)                   \
    F(lmc_event_put_int)                \
    F(lmc_event_put_real)               \
    F(lmc_event_put_text)               \
    F(lmc_event_publish)                \
    F(lmc_event_name)                   \
    F(lmc_event_time_ns)                \
    F(lmc_event_session)                \
    F(lmc_late_metrics_declare)         \
    F(lmc_metric_add)                   \
    F(lmc_metric_set)                   \
    F(lmc_cache_l1)                     \
    F(lmc_cache_chunk_size)             \
    F(lmc_cache_hash)                   \
    F(lmc_cache_active_sessions)        \
    F(lmc_cache_session_hashes)         \
    F(lmc_cache_end_session)            \
    F(lmc_cache_clear)                  \
    F(lmc_cache_hold)                   \
    F(lmc_cache_let_go)                 \
    F(lmc_cache_layout)                 \
    F(lmc_l1_data)                      \
    F(lmc_l1_size)                      \
    F(lmc_l1_check)                     \
    F(lmc_l1_report_get)                \
    F(lmc_l1_capacity)                  \
    F(lmc_l1_pool_name)                 \
    F(lmc_config_render)

typedef struct lmc_pyhost_server {
    uint32_t size; /* of this struct */
    void *arg;     /* of the functions that follow; they belong to any thread */
    lmc_context *(*context)(void *arg);         /* NULL before modules are built */
    lmc_registry *(*registry)(void *arg);       /* NULL until it is complete */
    lmc_dispatcher *(*dispatcher)(void *arg);   /* NULL until the registry is */
    lmc_composition *(*composition)(void *arg); /* main thread; NULL before all are built */
    lmc_status (*storage_status)(void *arg, lmc_buffer *out); /* a JSON object */
#define LMC_PYHOST_SLOT(name) __typeof__(name) *name;
    LMC_PYHOST_FUNCTIONS(LMC_PYHOST_SLOT)
#undef LMC_PYHOST_SLOT
} lmc_pyhost_server;

typedef struct lmc_pyhost_options {
    const lmc_pyhost_server *server; /* borrowed, as all of this, until finish */
    const lmc_config *config;
    const char *const *argv;                /* the server's own, ends with NULL */
    const char *package_dir;                /* where the package `lmcache` lies */
    const char *interpreter;                /* the operator's choice; NULL: none */
    bool rehearsal;                         /* for looking at modules, not for serving */
    const lmc_module_class *const *classes; /* built-in ones, then native ones */
    size_t class_count, built_in_count;
} lmc_pyhost_options;

typedef struct lmc_pyhost {
    uint32_t size, server_size;  /* of this struct and of lmc_pyhost_server, as compiled */
    const char *python_version;  /* "3.11.2", that the host is built with */
    const char *(*prefix)(void); /* sys.prefix, once it is open */
    /* Starts the interpreter, once per process: opened again after a release, it goes on. */
    lmc_status (*open)(const lmc_pyhost_options *options, lmc_error *error);
    /* Imports the modules and lists their classes. */
    lmc_status (*load)(lmc_error *error);
    /* In command-line order. *module_path: of the spec it came with. */
    size_t (*class_count)(void);
    const lmc_module_class *(*class_at)(size_t index, const char **module_path);
    /* All modules are built; before registrars and handlers run. */
    void (*composed)(void);
    /* A module of any kind is about to be closed: nobody calls its operations from Python any
     * more, and the calls that are on their way are waited for. */
    void (*closing)(const char *class_name);
    /*
     * After the last module was closed, with the server still there: exit functions of Python
     * run, threads are awaited for budget_ns together, and if all have ended the interpreter
     * does. False: some have not, and what they may use must stay.
     */
    bool (*finish)(int64_t budget_ns);
    /* Once nobody looks at the classes any more: drops them. An interpreter that was not
     * finished waits for another open. */
    void (*release)(void);
} lmc_pyhost;

#endif
