#include "runtime_plugin/line_splitter.h"

#define REPLACEMENT "\xEF\xBF\xBD"

void lmc_line_splitter_init(lmc_line_splitter *splitter,
                            void (*line)(void *arg, lmc_slice text, size_t raw), void *arg) {
    *splitter = (lmc_line_splitter){.line = line, .arg = arg};
}

void lmc_line_splitter_fini(lmc_line_splitter *splitter) {
    lmc_buffer_fini(&splitter->waiting);
    lmc_buffer_fini(&splitter->clean);
}

/* ---- one line ---- */

static bool is_blank(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

/* Controls as terminals take them: C0, DEL, and C1 in its two bytes. */
static bool is_plain(const unsigned char *at, size_t length) {
    if (length == 1)
        return *at >= 0x20 && *at != 0x7F;
    return !(length == 2 && at[0] == 0xC2 && at[1] < 0xA0);
}

static void escape(lmc_buffer *out, const unsigned char *at, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        char text[4] = {'\\', 'x', digits[at[i] >> 4], digits[at[i] & 15]};
        lmc_buffer_append(out, text, sizeof text);
    }
}

static void clean(lmc_buffer *out, const unsigned char *at, const unsigned char *end) {
    while (at < end) {
        const unsigned char *from = at;
        size_t length = 0;
        while (at < end && (length = lmc_utf8_length(at, (size_t)(end - at))) > 0 &&
               is_plain(at, length))
            at += length;
        lmc_buffer_append(out, from, (size_t)(at - from));
        if (at == end)
            break;
        if (length == 0)
            lmc_buffer_text(out, REPLACEMENT);
        else
            escape(out, at, length);
        at += length > 0 ? length : 1;
    }
}

/* Gives the first `size` bytes that wait. */
static void give(lmc_line_splitter *splitter, size_t size, bool whole) {
    const char *data = size > 0 ? splitter->waiting.data : "";
    const unsigned char *from = (const unsigned char *)data, *end = from + size;
    lmc_buffer *out = &splitter->clean;
    if (!splitter->cut)
        while (from < end && is_blank(*from))
            from++;
    if (whole)
        while (end > from && is_blank(end[-1]))
            end--;
    lmc_buffer_clear(out);
    out->failed = false;
    clean(out, from, end);
    if (!whole)
        lmc_buffer_text(out, LMC_PLUGIN_CONTINUED);
    splitter->line(splitter->arg, lmc_slice_of(out->data != NULL ? out->data : "", out->size),
                   size + splitter->extra);
    splitter->extra = 0;
}

/* ---- the stream ---- */

/* How many of the waiting bytes are whole characters; bytes that are none count as whole. */
static size_t whole_characters(const lmc_buffer *waiting) {
    const unsigned char *bytes = (const unsigned char *)waiting->data;
    size_t size = waiting->size, back = 0;
    while (back < 3 && back + 1 < size && (bytes[size - 1 - back] & 0xC0) == 0x80)
        back++;
    unsigned char lead = bytes[size - 1 - back];
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return length > back + 1 ? size - back - 1 : size;
}

static void give_piece(lmc_line_splitter *splitter) {
    lmc_buffer *waiting = &splitter->waiting;
    size_t size = whole_characters(waiting), left = waiting->size - size;
    give(splitter, size, false);
    memmove(waiting->data, waiting->data + size, left);
    waiting->size = left;
    splitter->begun = splitter->cut = true;
}

static void end_line(lmc_line_splitter *splitter) {
    /* What was given before its line end came is not followed by an empty line. */
    if (splitter->waiting.size > 0 || !splitter->begun)
        give(splitter, splitter->waiting.size, true);
    lmc_buffer_clear(&splitter->waiting);
    splitter->begun = splitter->cut = false;
}

static lmc_status keep(lmc_line_splitter *splitter, const char *from, size_t size) {
    lmc_buffer *waiting = &splitter->waiting;
    while (size > 0) {
        if (waiting->size >= LMC_PLUGIN_PIECE_MAX)
            give_piece(splitter);
        size_t room = LMC_PLUGIN_PIECE_MAX - waiting->size;
        size_t part = size < room ? size : room;
        lmc_buffer_append(waiting, from, part);
        if (waiting->failed) {
            waiting->failed = false;
            return LMC_NO_MEMORY;
        }
        from += part;
        size -= part;
    }
    return LMC_OK;
}

lmc_status lmc_line_splitter_feed(lmc_line_splitter *splitter, lmc_slice bytes) {
    const char *at = bytes.data, *end = at + bytes.size;
    lmc_status status = LMC_OK;
    while (at < end) {
        if (splitter->after_return && *at == '\n') {
            splitter->extra++;
            at++;
            splitter->after_return = false;
            continue;
        }
        splitter->after_return = false;
        const char *from = at;
        while (at < end && *at != '\n' && *at != '\r')
            at++;
        if (at > from && keep(splitter, from, (size_t)(at - from)) != LMC_OK)
            status = LMC_NO_MEMORY;
        if (at == end)
            break;
        splitter->after_return = *at++ == '\r';
        splitter->extra++;
        end_line(splitter);
    }
    return status;
}

void lmc_line_splitter_flush(lmc_line_splitter *splitter) {
    if (splitter->waiting.size == 0)
        return;
    give(splitter, splitter->waiting.size, true);
    lmc_buffer_clear(&splitter->waiting);
    splitter->begun = true;
    splitter->cut = false;
}
