/*
 * host_state.h: what the host's files share. Private to them.
 */
#ifndef LMC_RUNTIME_PLUGIN_HOST_STATE_H
#define LMC_RUNTIME_PLUGIN_HOST_STATE_H

#include <sys/types.h>

#include "base/lock.h"
#include "base/thread.h"
#include "runtime_plugin/host.h"
#include "runtime_plugin/interpreter.h"

/* Constant after start, but for what the host's lock guards. */
typedef struct lmc_hosted {
    char *path, *tag;
    lmc_plugin_options options;
    bool known; /* the guardian has been told of it */
    /* guarded */
    lmc_plugin_report report;
    uint64_t lines, stderr_lines, bytes, dropped_lines;
    lmc_log_tail tail;
    /* the host's thread only */
    uint64_t untold; /* dropped lines that no log line tells of yet */
    pid_t groups[4]; /* of its last runs, for the time after the guardian's death */
    size_t group_at;
} lmc_hosted;

struct lmc_plugin_host {
    lmc_hosted *plugins;
    size_t count;
    char token[37];
    char *folder; /* of configuration files; the host's thread only */
    int64_t grace_ns;
    int socket, wake_fd, idle_fd;
    pid_t watcher;     /* the guardian's parent, our child; constant */
    int watcher_fd;    /* readable once it is dead; -1: this system has no such thing */
    int was_subreaper; /* what this process was before */
    lmc_thread thread;
    lmc_buffer inbox, sending; /* the host's thread only */
    size_t sent;
    int64_t tell_ns; /* when losses are told; INT64_MAX: there are none */
    bool has_ended;  /* the guardian said so */
    bool log_stalls; /* the log took nothing for a while: lines are dropped at once */

    lmc_lock lock;
    lmc_cond changed;
    lmc_buffer outbox; /* frames to be sent */
    bool stopping;     /* asked for by lmc_plugin_host_stop() */
    bool alive;        /* the guardian */
    pid_t guardian;    /* 0: it has not said yet */
    bool finished;     /* the thread is about to end */
};

/* host_guardian.c: starts the guardian process with one end of a socket pair. */
lmc_status lmc_host_launch_guardian(lmc_plugin_host *host, lmc_error *error);
/* Waits for the end of guardian and watcher and says in `how` what it was; true: it was in
 * order. */
bool lmc_host_reap_guardian(lmc_plugin_host *host, char how[96]);
/* After the guardian's death: everything its plugins started. */
void lmc_host_end_orphans(lmc_plugin_host *host);
void lmc_host_remove_folder(lmc_plugin_host *host);

/* host_talk.c: the host's thread. */
void lmc_host_talk(void *host);
/* Puts a frame with the command of one plugin into the outbox; the lock is held. */
void lmc_host_put_start(lmc_plugin_host *host, size_t number, lmc_wire_type type,
                        const lmc_plugin_command *command);
void lmc_host_wake(lmc_plugin_host *host);

/* host_table.c: which plugins there are. */
lmc_status lmc_host_fill_table(lmc_plugin_host *host, const lmc_plugin_host_options *options,
                               lmc_error *error);

#endif
