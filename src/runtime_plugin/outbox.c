#include "runtime_plugin/outbox.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

void lmc_outbox_fini(lmc_outbox *outbox) { lmc_buffer_fini(&outbox->bytes); }

/* What was sent leaves the front once it is worth the move. */
static void compact(lmc_outbox *outbox) {
    lmc_buffer *bytes = &outbox->bytes;
    if (outbox->sent == bytes->size) {
        if (bytes->capacity > 2 * LMC_OUTBOX_LINES_MAX)
            lmc_buffer_fini(bytes);
        else
            lmc_buffer_clear(bytes);
        outbox->sent = 0;
    } else if (outbox->sent > bytes->size / 2) {
        memmove(bytes->data, bytes->data + outbox->sent, bytes->size - outbox->sent);
        bytes->size -= outbox->sent;
        outbox->sent = 0;
    }
}

void lmc_outbox_flush(lmc_outbox *outbox) {
    while (lmc_outbox_waits(outbox)) {
        ssize_t sent = send(outbox->fd, outbox->bytes.data + outbox->sent,
                            outbox->bytes.size - outbox->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            outbox->broken = errno != EAGAIN;
            break;
        }
        outbox->sent += (size_t)sent;
    }
    compact(outbox);
}

/* A message that found no memory is lost; those after it are not. */
static void finish(lmc_outbox *outbox, size_t begin) {
    lmc_wire_end(&outbox->bytes, begin);
    outbox->bytes.failed = false;
}

void lmc_outbox_ready(lmc_outbox *outbox, const char *folder) {
    size_t begin = lmc_wire_begin(&outbox->bytes, LMC_WIRE_READY, 0);
    lmc_wire_put_int(&outbox->bytes, getpid());
    lmc_wire_put_text(&outbox->bytes, lmc_text(folder));
    finish(outbox, begin);
}

void lmc_outbox_ended(lmc_outbox *outbox) {
    size_t begin = lmc_wire_begin(&outbox->bytes, LMC_WIRE_ENDED, 0);
    finish(outbox, begin);
}

void lmc_outbox_report(lmc_outbox *outbox, uint16_t plugin, const lmc_plugin_report *report) {
    lmc_wire_put_report(&outbox->bytes, plugin, report);
    outbox->bytes.failed = false;
}

void lmc_outbox_log(lmc_outbox *outbox, uint16_t plugin, lmc_log_level level,
                    const char *format, ...) {
    lmc_buffer text = LMC_BUFFER_INIT;
    va_list args;
    va_start(args, format);
    lmc_buffer_vprintf(&text, format, args);
    va_end(args);
    size_t begin = lmc_wire_begin(&outbox->bytes, LMC_WIRE_LOG, plugin);
    lmc_wire_put_int(&outbox->bytes, level);
    lmc_wire_put_text(&outbox->bytes, lmc_slice_of(text.data, text.size));
    outbox->bytes.failed |= text.failed;
    finish(outbox, begin);
    lmc_buffer_fini(&text);
}

void lmc_outbox_dropped(lmc_outbox *outbox, uint16_t plugin, uint64_t lines, uint64_t bytes) {
    size_t begin = lmc_wire_begin(&outbox->bytes, LMC_WIRE_DROPPED, plugin);
    lmc_wire_put_int(&outbox->bytes, (int64_t)lines);
    lmc_wire_put_int(&outbox->bytes, (int64_t)bytes);
    finish(outbox, begin);
}

bool lmc_outbox_line(lmc_outbox *outbox, uint16_t plugin, const lmc_plugin_line *line) {
    lmc_buffer *bytes = &outbox->bytes;
    if (bytes->size - outbox->sent + line->text.size > LMC_OUTBOX_LINES_MAX)
        lmc_outbox_flush(outbox);
    if (bytes->size - outbox->sent + line->text.size > LMC_OUTBOX_LINES_MAX)
        return false;
    size_t begin = lmc_wire_begin(bytes, LMC_WIRE_LINE, plugin);
    lmc_wire_put_int(bytes, line->stream);
    lmc_wire_put_int(bytes, line->level);
    lmc_wire_put_int(bytes, (int64_t)line->raw);
    lmc_wire_put_text(bytes, line->text);
    bool taken = !bytes->failed;
    finish(outbox, begin);
    return taken;
}
