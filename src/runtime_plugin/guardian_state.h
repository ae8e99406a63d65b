/*
 * guardian_state.h: what the guardian's files share. Private to them; its one thread owns all.
 */
#ifndef LMC_RUNTIME_PLUGIN_GUARDIAN_STATE_H
#define LMC_RUNTIME_PLUGIN_GUARDIAN_STATE_H

#include <poll.h>
#include <sys/types.h>

#include "runtime_plugin/environment.h"
#include "runtime_plugin/line_splitter.h"
#include "runtime_plugin/outbox.h"
#include "runtime_plugin/process_tree.h"
#include "runtime_plugin/supervisor.h"

#define LMC_CAPTURES_MAX 8 /* pipes of one plugin that something still holds open */

struct lmc_guarded;

/* One pipe that a plugin, or what it left behind, writes to. */
typedef struct lmc_capture {
    struct lmc_guarded *plugin;
    int fd;
    int stream;       /* 1 or 2 */
    size_t polled_at; /* its place in this turn's poll(); SIZE_MAX: none */
    lmc_line_splitter splitter;
    int64_t flush_ns; /* when an unfinished line is given; INT64_MAX: there is none */
    struct lmc_capture *next;
} lmc_capture;

typedef struct lmc_guarded {
    struct lmc_guardian *guardian;
    uint16_t number;
    char *path, *tag;
    char **words, **assignments;
    lmc_plugin_options options;
    lmc_supervisor supervisor;
    char *user_config; /* the configuration file of another user; NULL: none */
    pid_t pid;         /* 0: no process */
    pid_t group;       /* of the last run; 0: never started */
    int outcome_fd;    /* of a start that is under way; -1: none */
    int ready_fd;      /* -1: none */
    bool launch_failed, told_kill;
    int64_t look_ns; /* when to look whether a stopped run is gone; INT64_MAX: never */
    int looks;       /* since its process ended */
    lmc_capture *captures;
    double line_tokens, byte_tokens;
    int64_t tokens_ns;
    uint64_t dropped_lines, dropped_bytes; /* not told yet */
    int64_t tell_ns;                       /* when to tell; INT64_MAX: nothing to tell */
    lmc_plugin_report report, told;
} lmc_guarded;

typedef struct lmc_guardian {
    int socket, signals, null_fd;
    pid_t watcher; /* our parent */
    lmc_buffer inbox;
    lmc_outbox outbox;
    lmc_guarded **plugins; /* by number */
    size_t count;
    lmc_plugin_settings settings;
    char *config, *role, *token; /* of settings */
    char *folder, *config_file;  /* NULL: none */
    int64_t grace_ns;
    int64_t full_ns;  /* since when the outbox has been full; INT64_MAX: it is not */
    int64_t end_ns;   /* while ending: when what is left is killed; INT64_MAX: not ending */
    int64_t nudge_ns; /* while ending: when what is left is asked again */
    bool settled, ending, nudged, killed, finished;
    struct pollfd *polled;
    size_t polled_capacity;
} lmc_guardian;

/* ---- guardian_commands.c ---- */

/* Reads what the server sent. False: it is gone. */
bool lmc_guardian_listen(lmc_guardian *g);

/* ---- guardian_plugins.c ---- */

void lmc_guarded_obey(lmc_guarded *p, lmc_plugin_order order);
void lmc_guarded_outcome(lmc_guarded *p); /* how a start went */
void lmc_guarded_ready(lmc_guarded *p);   /* something on ready_fd */
void lmc_guarded_exited(lmc_guarded *p, int wait_status);
void lmc_guarded_tick(lmc_guarded *p, int64_t now);
int64_t lmc_guarded_deadline(const lmc_guarded *p);
void lmc_guarded_report(lmc_guarded *p); /* tells the server what has changed */
/* Whether a process of an ended run is alive. */
bool lmc_guarded_left(lmc_guarded *p);
void lmc_guarded_destroy(lmc_guarded *p);

/* ---- guardian_output.c ---- */

lmc_status lmc_capture_open(lmc_guarded *p, int stream, int *writing_end, lmc_error *error);
/* Reads what is there, a bounded part of it; true: there is nothing more now. */
bool lmc_capture_read(lmc_capture *capture);
void lmc_capture_tick(lmc_guarded *p, int64_t now);
int64_t lmc_capture_deadline(const lmc_guarded *p);
bool lmc_capture_may_read(const lmc_guarded *p);
/* Reads all that is there and tells losses: before an exit is told. */
void lmc_capture_drain(lmc_guarded *p);
void lmc_capture_close_ended(lmc_guarded *p); /* frees those whose pipe is closed */
void lmc_capture_close_all(lmc_guarded *p);

/* ---- guardian_end.c ---- */

void lmc_guardian_begin_end(lmc_guardian *g);
void lmc_guardian_tick_end(lmc_guardian *g, int64_t now);
/* The server is dead: everything goes, quickly. */
void lmc_guardian_end_all(lmc_guardian *g);
/* Collects what has died; true: there is no child, so no descendant, any more. */
bool lmc_guardian_reap(lmc_guardian *g);

/* ---- guardian_files.c ---- */

void lmc_guardian_write_config(lmc_guardian *g);
/* A copy that another user may read; NULL: none could be made. */
char *lmc_guardian_config_for(lmc_guardian *g, uint16_t number, const char *user);
void lmc_guardian_remove_files(lmc_guardian *g);

#endif
