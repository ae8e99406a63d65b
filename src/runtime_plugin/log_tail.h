/*
 * log_tail.h: the last lines of one plugin, for `plugins logs`.
 *
 * Bounded in bytes; the oldest lines go. The caller's lock guards it.
 */
#ifndef LMC_RUNTIME_PLUGIN_LOG_TAIL_H
#define LMC_RUNTIME_PLUGIN_LOG_TAIL_H

#include "base/bytes.h"
#include "base/log.h"

#define LMC_LOG_TAIL_BYTES ((size_t)128 << 10)

typedef struct lmc_tail_line {
    struct lmc_tail_line *next;
    uint64_t sequence; /* 1 for the first line of the plugin */
    int64_t wall_ns;
    int stream; /* 1 or 2 */
    lmc_log_level level;
    size_t size;
    char text[];
} lmc_tail_line;

typedef struct lmc_log_tail {
    lmc_tail_line *first, *last;
    uint64_t sequence; /* of the last line */
    size_t bytes;
} lmc_log_tail;

/* Without memory the line is missing; the sequence counts it. */
void lmc_log_tail_add(lmc_log_tail *tail, int stream, lmc_log_level level, int64_t wall_ns,
                      lmc_slice text);
void lmc_log_tail_fini(lmc_log_tail *tail);

/* A copy of the lines after `after`, the newest `most` of them, linked; free() each. */
lmc_tail_line *lmc_log_tail_copy(const lmc_log_tail *tail, uint64_t after, size_t most);
void lmc_tail_lines_free(lmc_tail_line *lines);

#endif
