/*
 * line_splitter.h: a plugin's output as lines that are safe to log.
 *
 * \n, \r\n and a lone \r end a line. A line is trimmed at both ends; bytes that are no UTF-8
 * become U+FFFD, control characters \xNN. At most LMC_PLUGIN_PIECE_MAX bytes wait; a longer
 * line comes in pieces that end in LMC_PLUGIN_CONTINUED. Owned by one thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_LINE_SPLITTER_H
#define LMC_RUNTIME_PLUGIN_LINE_SPLITTER_H

#include "base/bytes.h"

#define LMC_PLUGIN_PIECE_MAX 65536u
#define LMC_PLUGIN_CONTINUED " \xE2\x80\xA6[cont]"
/* Of a piece once it is clean: a byte becomes at most four. */
#define LMC_PLUGIN_TEXT_MAX (4 * LMC_PLUGIN_PIECE_MAX + 16)

typedef struct lmc_line_splitter {
    /* One line or piece, clean; raw is how many of the plugin's bytes it stands for. */
    void (*line)(void *arg, lmc_slice text, size_t raw);
    void *arg;
    lmc_buffer waiting, clean;
    bool after_return; /* the last byte was \r: a \n belongs to it */
    bool begun;        /* part of the current line has been given already */
    bool cut;          /* because it is long */
    size_t extra;      /* bytes of line ends not accounted for yet */
} lmc_line_splitter;

void lmc_line_splitter_init(lmc_line_splitter *splitter,
                            void (*line)(void *arg, lmc_slice text, size_t raw), void *arg);
void lmc_line_splitter_fini(lmc_line_splitter *splitter);

/* LMC_NO_MEMORY: what could not be kept is lost, and the rest goes on. */
lmc_status lmc_line_splitter_feed(lmc_line_splitter *splitter, lmc_slice bytes);
/* Gives what waits, without its line end: after silence, or at the end. */
void lmc_line_splitter_flush(lmc_line_splitter *splitter);

static inline bool lmc_line_splitter_waits(const lmc_line_splitter *splitter) {
    return splitter->waiting.size > 0;
}

#endif
