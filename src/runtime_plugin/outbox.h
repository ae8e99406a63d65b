/*
 * outbox.h: what the guardian has to tell the server, sent without ever waiting.
 *
 * Lines are taken while there is room for them; everything else always, since there is little
 * of it. Owned by the guardian's thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_OUTBOX_H
#define LMC_RUNTIME_PLUGIN_OUTBOX_H

#include "base/log.h"
#include "runtime_plugin/wire.h"

#define LMC_OUTBOX_LINES_MAX ((size_t)1 << 20)

typedef struct lmc_outbox {
    int fd; /* borrowed, not blocking */
    lmc_buffer bytes;
    size_t sent; /* of bytes */
    bool broken; /* nobody reads any more */
} lmc_outbox;

void lmc_outbox_fini(lmc_outbox *outbox);
void lmc_outbox_flush(lmc_outbox *outbox);
static inline bool lmc_outbox_waits(const lmc_outbox *outbox) {
    return outbox->bytes.size > outbox->sent && !outbox->broken;
}

void lmc_outbox_ready(lmc_outbox *outbox, const char *folder);
void lmc_outbox_report(lmc_outbox *outbox, uint16_t plugin, const lmc_plugin_report *report);
void lmc_outbox_log(lmc_outbox *outbox, uint16_t plugin, lmc_log_level level,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void lmc_outbox_dropped(lmc_outbox *outbox, uint16_t plugin, uint64_t lines, uint64_t bytes);
void lmc_outbox_ended(lmc_outbox *outbox);

typedef struct lmc_plugin_line {
    int stream; /* 1: standard output or both, 2: standard error */
    lmc_log_level level;
    size_t raw; /* the plugin's bytes it stands for */
    lmc_slice text;
} lmc_plugin_line;
/* False: there is no room, and the caller counts the loss. */
bool lmc_outbox_line(lmc_outbox *outbox, uint16_t plugin, const lmc_plugin_line *line);

#endif
