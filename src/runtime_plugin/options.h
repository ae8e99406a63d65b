/*
 * options.h: how one plugin is supervised: keys `plugin.<file name>.<option>` of
 * --runtime-plugin-config.
 *
 * Constant once read. Other keys are the plugins' own and not looked at, except those that
 * begin with a plugin's name and name no option. One thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_OPTIONS_H
#define LMC_RUNTIME_PLUGIN_OPTIONS_H

#include "base/bytes.h"

typedef enum lmc_plugin_policy {
    LMC_PLUGIN_NEVER,
    LMC_PLUGIN_ON_FAILURE,
    LMC_PLUGIN_ALWAYS,
} lmc_plugin_policy;

#define LMC_PLUGIN_UNSET INT64_MIN

typedef struct lmc_plugin_options {
    int64_t restart;              /* lmc_plugin_policy */
    int64_t max_restarts;         /* in a row before FATAL; 0: no limit */
    int64_t ready_fd;             /* 1: ready when it writes a line to a descriptor */
    int64_t memory_mb;            /* address space; LMC_PLUGIN_UNSET: as inherited, as below */
    int64_t cpu_seconds;          /* processor time */
    int64_t open_files;           /* descriptors */
    int64_t nice;                 /* added to the server's */
    int64_t no_new_privs;         /* 1: setuid programs give nothing */
    int64_t split_stderr;         /* 1: a pipe of its own */
    int64_t level_prefixes;       /* 1: `E! `, `W! `, `I! `, `D! ` set a line's level */
    int64_t max_lines_per_second; /* beyond this, and a burst, lines are dropped; 0: no limit */
    char user[64];                /* "": the server's */
} lmc_plugin_options;

void lmc_plugin_options_default(lmc_plugin_options *options);

/*
 * Reads what `config`, a JSON object, says of the plugin with this file name. A bad value is a
 * WARNING and leaves the default. LMC_NO_MEMORY is the only failure.
 */
lmc_status lmc_plugin_options_read(lmc_plugin_options *options, lmc_slice config,
                                   const char *file_name, lmc_error *error);

/* One WARNING for each key of the form plugin.<x>.py.<y> or plugin.<x>.sh.<y> that no plugin of
 * these file names takes. */
void lmc_plugin_options_check(lmc_slice config, const char *const *file_names, size_t count);

/* "never", "on-failure", "always". */
const char *lmc_plugin_policy_name(int64_t policy);

#endif
