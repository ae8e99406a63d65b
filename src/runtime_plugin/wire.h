/*
 * wire.h: the messages between a server and its guardian.
 *
 * A stream of frames: version, type, the plugin's number, size, then fields in a fixed order,
 * little-endian. Both ends are this program, but neither trusts the other's bytes: sizes and
 * counts are checked before anything is allocated, and a frame that does not decode ends the
 * conversation. Readers borrow from the frame. One thread per end.
 */
#ifndef LMC_RUNTIME_PLUGIN_WIRE_H
#define LMC_RUNTIME_PLUGIN_WIRE_H

#include "base/bytes.h"
#include "runtime_plugin/options.h"

#define LMC_WIRE_VERSION 1
#define LMC_WIRE_HEAD 8
#define LMC_WIRE_TO_GUARDIAN_MAX (64u << 20) /* the configuration is in one message */
#define LMC_WIRE_TO_SERVER_MAX (1u << 20)
#define LMC_WIRE_PLUGINS_MAX 4096u

typedef enum lmc_wire_type {
    /* to the guardian */
    LMC_WIRE_SETTINGS = 1, /* first and once */
    LMC_WIRE_START,        /* a new plugin, or one that has ended, with its command */
    LMC_WIRE_STOP,
    LMC_WIRE_RESTART, /* as START; stops it first when it runs */
    LMC_WIRE_END,     /* stop everything, then end */
    /* to the server */
    LMC_WIRE_READY = 65, /* process number; the folder of configuration files, "" if none */
    LMC_WIRE_STATE,
    LMC_WIRE_LOG,     /* level, text */
    LMC_WIRE_LINE,    /* stream, level, raw size, text */
    LMC_WIRE_DROPPED, /* lines, bytes */
    LMC_WIRE_ENDED,   /* everything is stopped */
} lmc_wire_type;

typedef struct lmc_wire_frame {
    uint8_t type;
    uint16_t plugin;
    lmc_slice body;
} lmc_wire_frame;

/*
 * Takes the next frame off the front of `bytes`. LMC_AGAIN: it is not whole yet; *used is 0.
 * LMC_MALFORMED: unknown version, or larger than `limit`.
 */
lmc_status lmc_wire_next(lmc_slice bytes, size_t limit, lmc_wire_frame *frame, size_t *used);

/* ---- writing: begin, fields, end; a failed buffer tells of missing memory ---- */

size_t lmc_wire_begin(lmc_buffer *out, lmc_wire_type type, uint16_t plugin);
void lmc_wire_end(lmc_buffer *out, size_t begin);
void lmc_wire_put_int(lmc_buffer *out, int64_t value);
void lmc_wire_put_text(lmc_buffer *out, lmc_slice text);

/* ---- reading: fields in order; done tells once whether all were there ---- */

typedef struct lmc_wire_reader {
    const unsigned char *at, *end;
    bool failed;
} lmc_wire_reader;

lmc_wire_reader lmc_wire_read(const lmc_wire_frame *frame);
int64_t lmc_wire_get_int(lmc_wire_reader *reader);
int64_t lmc_wire_get_within(lmc_wire_reader *reader, int64_t low, int64_t high);
lmc_slice lmc_wire_get_text(lmc_wire_reader *reader);
/* A copy for the C library; NULL with failed set when it contains NUL or memory is out. */
char *lmc_wire_get_string(lmc_wire_reader *reader);
bool lmc_wire_done(const lmc_wire_reader *reader);

/* ---- messages of several fields ---- */

/* How a plugin is: the body of LMC_WIRE_STATE. */
typedef enum lmc_plugin_state {
    LMC_PLUGIN_STARTING,
    LMC_PLUGIN_RUNNING,
    LMC_PLUGIN_BACKOFF,
    LMC_PLUGIN_FATAL,
    LMC_PLUGIN_EXITED,
    LMC_PLUGIN_STOPPING,
} lmc_plugin_state;
#define LMC_PLUGIN_STATES 6
const char *lmc_plugin_state_name(lmc_plugin_state state); /* "RUNNING" */

typedef struct lmc_plugin_report {
    lmc_plugin_state state;
    int64_t pid;       /* 0: no process */
    int64_t exit_code; /* -n: killed by signal n; LMC_PLUGIN_UNSET: it has not ended yet */
    int64_t restarts, started_ns; /* monotonic; 0: never started */
} lmc_plugin_report;

void lmc_wire_put_report(lmc_buffer *out, uint16_t plugin, const lmc_plugin_report *report);
bool lmc_wire_get_report(const lmc_wire_frame *frame, lmc_plugin_report *report);

void lmc_wire_put_options(lmc_buffer *out, const lmc_plugin_options *options);
void lmc_wire_get_options(lmc_wire_reader *reader, lmc_plugin_options *options);

void lmc_wire_put_strings(lmc_buffer *out, char *const *strings, size_t count);
/* A list that ends in NULL, to be given back with lmc_wire_free_strings(); NULL: failed. */
char **lmc_wire_get_strings(lmc_wire_reader *reader, size_t most);
void lmc_wire_free_strings(char **strings);

#endif
