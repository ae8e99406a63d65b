/*
 * log_line.h: one log line as bytes, from its parts. Used by log.c and its tests only.
 *
 * Pure but for the clock and the time zone; any thread may call it.
 */
#ifndef LMC_BASE_LOG_LINE_H
#define LMC_BASE_LOG_LINE_H

#include "base/bytes.h"
#include "base/log.h"

/* Room for the frame around a message: time, level, colours, file and logger. */
#define LMC_LOG_FRAME_MAX 512

typedef struct lmc_log_source {
    lmc_log_level level;
    const char *logger;
    const char *file;
    int line;
} lmc_log_source;

/* Writes a line that ends in a newline to out and returns its length. */
size_t lmc_log_compose(char out[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX], bool colour,
                       int64_t wall_ns, const lmc_log_source *source, const char *format,
                       va_list args) __attribute__((format(printf, 5, 0)));

/* The same for a message of any length, prefix and text one after the other. */
void lmc_log_compose_text(lmc_buffer *out, bool colour, int64_t wall_ns,
                          const lmc_log_source *source, const char *prefix, lmc_slice text);

#endif
