/*
 * environment.h: the variables of a plugin process (plugins.md 7.8).
 *
 * Built by the guardian before it starts a plugin. The list owns its strings; the caller gives
 * it back. One thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_ENVIRONMENT_H
#define LMC_RUNTIME_PLUGIN_ENVIRONMENT_H

#include "base/bytes.h"

/* The kernel takes no longer string, name and final NUL included. */
#define LMC_ENVIRONMENT_STRING_MAX 131072

/* Marks every process that a guardian's plugins start without wiping their environment. */
#define LMC_PLUGIN_MARK "LMCACHED_PLUGIN_MARK"
#define LMC_PLUGIN_READY_FD "LMCACHE_RUNTIME_PLUGIN_READY_FD"

typedef struct lmc_plugin_environment {
    char **strings; /* NULL ends */
    size_t count;
} lmc_plugin_environment;

typedef struct lmc_plugin_settings {
    const char *config;      /* JSON */
    const char *config_file; /* NULL: there is none */
    const char *role;        /* "": none */
    const char *mark;
    int64_t worker_count, worker_id;
    bool copy_legacy, copy_main; /* see lmc_plugin_config_copies() */
} lmc_plugin_settings;

/*
 * Decides which copies of the configuration fit: both, the main one, or none. total_limit is
 * what all strings together may take, `inherited` what the inherited ones do.
 */
void lmc_plugin_config_copies(lmc_plugin_settings *settings, size_t total_limit,
                              size_t inherited);
/* Bytes of a list of strings as the kernel counts them, pointers included. */
size_t lmc_environment_size(char *const *strings);

/*
 * The inherited strings, then ours, then `assignments` (NULL ends; may be NULL), each replacing
 * what has its name. ready_fd < 0: none.
 */
lmc_status lmc_plugin_environment_build(lmc_plugin_environment *environment,
                                        char *const *inherited,
                                        const lmc_plugin_settings *settings,
                                        char *const *assignments, int ready_fd);
void lmc_plugin_environment_fini(lmc_plugin_environment *environment);

#endif
