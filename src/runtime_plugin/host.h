/*
 * host.h: runtime plugins as the server sees them: found, handed to a guardian, watched.
 *
 * One thread of the host talks to the guardian, logs what it tells and keeps the table; so a
 * slow log or a mad plugin delays nobody else. start, stop and destroy on one thread, which
 * must live as long as the guardian (its death is the guardian's); the rest on any.
 */
#ifndef LMC_RUNTIME_PLUGIN_HOST_H
#define LMC_RUNTIME_PLUGIN_HOST_H

#include "base/bytes.h"
#include "runtime_plugin/log_tail.h"
#include "runtime_plugin/wire.h"

typedef struct lmc_plugin_host lmc_plugin_host;

/* Borrowed during start only. */
typedef struct lmc_plugin_host_options {
    char *const *locations;
    size_t location_count;
    const char *role; /* "": none */
    int64_t worker_count, worker_id;
    const char *config; /* the plugins' JSON */
    const char *extra;  /* --runtime-plugin-config: the options of single plugins */
    int64_t grace_ns;
} lmc_plugin_host_options;

/* Finds the plugins and starts them; a plugin that cannot start is logged and is no failure. */
lmc_status lmc_plugin_host_start(const lmc_plugin_host_options *options, lmc_plugin_host **host,
                                 lmc_error *error);
/* SIGTERM to all, SIGKILL after the grace; on return no process of a plugin is left. */
void lmc_plugin_host_stop(lmc_plugin_host *host);
void lmc_plugin_host_destroy(lmc_plugin_host *host); /* accepts NULL; stops first */

/* One plugin as it is now. Texts live as long as the host. */
typedef struct lmc_plugin_row {
    const char *name; /* the tag of its log lines */
    const char *path;
    const char *restart; /* policy */
    bool split_stderr;
    lmc_plugin_report report;
    uint64_t lines, stderr_lines, bytes, dropped_lines;
} lmc_plugin_row;

/* A copy of the table; free() it. NULL with *count 0 when there are none or no memory. */
lmc_plugin_row *lmc_plugin_host_rows(lmc_plugin_host *host, size_t *count);

/* The guardian's process, and that of its watcher; 0: not yet known, or none any more. */
int64_t lmc_plugin_host_guardian(lmc_plugin_host *host);
int64_t lmc_plugin_host_watcher(lmc_plugin_host *host);

typedef enum lmc_plugin_action {
    LMC_PLUGIN_START,
    LMC_PLUGIN_STOP,
    LMC_PLUGIN_RESTART,
} lmc_plugin_action;
/* Asks for it; what becomes of it shows in the table. LMC_NOT_FOUND: no plugin of this name;
 * LMC_CLOSED: the guardian is gone; LMC_INVALID: its file cannot run, error says why. */
lmc_status lmc_plugin_host_control(lmc_plugin_host *host, lmc_slice name,
                                   lmc_plugin_action action, lmc_error *error);

/* The last lines of a plugin after number `after`; free with lmc_tail_lines_free(). *next is
 * the number of its last line. */
lmc_status lmc_plugin_host_logs(lmc_plugin_host *host, lmc_slice name, uint64_t after,
                                size_t most, lmc_tail_line **lines, uint64_t *next);

/* Becomes readable once no plugin runs or will run by itself, or the guardian is gone. */
int lmc_plugin_host_idle_fd(const lmc_plugin_host *host);
/* Every plugin has ended by itself with 0. */
bool lmc_plugin_host_all_well(lmc_plugin_host *host);

#endif
