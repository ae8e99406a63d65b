#include "base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void lmc_json_start(lmc_json_writer *writer, lmc_buffer *out, lmc_json_layout layout,
                    lmc_json_escapes escapes) {
    writer->out = out;
    writer->layout = layout;
    writer->escapes = escapes;
    writer->depth = 0;
    writer->misused = false;
    writer->named = false;
    writer->levels[0].object = false;
    writer->levels[0].filled = false;
}

lmc_status lmc_json_finish(lmc_json_writer *writer) {
    if (writer->misused || writer->depth != 0 || !writer->levels[0].filled)
        return LMC_INVALID;
    return writer->out->failed ? LMC_NO_MEMORY : LMC_OK;
}

static void new_line(lmc_json_writer *writer) {
    lmc_buffer_char(writer->out, '\n');
    for (int i = 0; i < writer->depth; i++)
        lmc_buffer_append(writer->out, "  ", 2);
}

/* What goes between the last value of this level and the next. */
static void separate(lmc_json_writer *writer) {
    bool filled = writer->levels[writer->depth].filled;
    writer->levels[writer->depth].filled = true;
    if (writer->depth == 0) {
        writer->misused |= filled;
        return;
    }
    if (filled)
        lmc_buffer_char(writer->out, ',');
    if (writer->layout == LMC_JSON_INDENTED)
        new_line(writer);
    else if (filled && writer->layout == LMC_JSON_SPACED)
        lmc_buffer_char(writer->out, ' ');
}

static void before_value(lmc_json_writer *writer) {
    if (writer->levels[writer->depth].object) {
        writer->misused |= !writer->named;
        writer->named = false;
    } else {
        separate(writer);
    }
}

static void begin(lmc_json_writer *writer, bool object) {
    before_value(writer);
    if (writer->misused || writer->depth == LMC_JSON_DEPTH_MAX) {
        writer->misused = true;
        return;
    }
    lmc_buffer_char(writer->out, object ? '{' : '[');
    writer->depth++;
    writer->levels[writer->depth].object = object;
    writer->levels[writer->depth].filled = false;
}

static void end(lmc_json_writer *writer, bool object) {
    int depth = writer->depth;
    if (writer->misused || depth == 0 || writer->levels[depth].object != object ||
        writer->named) {
        writer->misused = true;
        return;
    }
    writer->depth--;
    if (writer->levels[depth].filled && writer->layout == LMC_JSON_INDENTED)
        new_line(writer);
    lmc_buffer_char(writer->out, object ? '}' : ']');
}

void lmc_json_object_begin(lmc_json_writer *writer) { begin(writer, true); }
void lmc_json_object_end(lmc_json_writer *writer) { end(writer, true); }
void lmc_json_list_begin(lmc_json_writer *writer) { begin(writer, false); }
void lmc_json_list_end(lmc_json_writer *writer) { end(writer, false); }

/* --- Text. --- */

static uint32_t decode(const unsigned char *at, size_t length) {
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t point = at[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (at[i] & 0x3F);
    return point;
}

static void put_point(lmc_buffer *out, uint32_t point) {
    if (point >= 0x10000) {
        point -= 0x10000;
        lmc_buffer_printf(out, "\\u%04x\\u%04x", 0xD800 + (point >> 10),
                          0xDC00 + (point & 0x3FF));
    } else {
        lmc_buffer_printf(out, "\\u%04x", point);
    }
}

/* The two-character escape of a byte, or 0. */
static char short_escape(unsigned char c) {
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    default:
        return 0;
    }
}

/* Length of the run from at that goes out unchanged. */
static size_t plain_run(const lmc_json_writer *writer, const unsigned char *at, size_t left) {
    size_t run = 0;
    while (run < left) {
        unsigned char c = at[run];
        size_t length = 1;
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        if (c >= 0x80) {
            length = lmc_utf8_length(at + run, left - run);
            if (length == 0 || writer->escapes == LMC_JSON_ASCII)
                break;
        } else if (c == 0x7F && writer->escapes == LMC_JSON_ASCII) {
            break;
        }
        run += length;
    }
    return run;
}

/* One character that does not go out unchanged; returns how many bytes it was. */
static size_t put_special(const lmc_json_writer *writer, const unsigned char *at, size_t left) {
    char letter = short_escape(at[0]);
    if (letter != 0) {
        lmc_buffer_char(writer->out, '\\');
        lmc_buffer_char(writer->out, letter);
        return 1;
    }
    size_t length = lmc_utf8_length(at, left);
    if (length > 0)
        put_point(writer->out, decode(at, length));
    else if (writer->escapes == LMC_JSON_ASCII)
        put_point(writer->out, 0xFFFD);
    else
        lmc_buffer_text(writer->out, "\xEF\xBF\xBD");
    return length > 0 ? length : 1;
}

static void put_text(const lmc_json_writer *writer, lmc_slice text) {
    const unsigned char *at = text.data;
    size_t left = text.size;
    lmc_buffer_char(writer->out, '"');
    while (left > 0) {
        size_t done = plain_run(writer, at, left);
        if (done > 0)
            lmc_buffer_append(writer->out, at, done);
        else
            done = put_special(writer, at, left);
        at += done;
        left -= done;
    }
    lmc_buffer_char(writer->out, '"');
}

void lmc_json_name_slice(lmc_json_writer *writer, lmc_slice name) {
    if (!writer->levels[writer->depth].object || writer->named) {
        writer->misused = true;
        return;
    }
    separate(writer);
    put_text(writer, name);
    lmc_buffer_char(writer->out, ':');
    if (writer->layout != LMC_JSON_COMPACT)
        lmc_buffer_char(writer->out, ' ');
    writer->named = true;
}

void lmc_json_name(lmc_json_writer *writer, const char *name) {
    lmc_json_name_slice(writer, lmc_text(name));
}

/* --- Values. --- */

void lmc_json_raw(lmc_json_writer *writer, lmc_slice json) {
    before_value(writer);
    lmc_buffer_append(writer->out, json.data, json.size);
}

void lmc_json_null(lmc_json_writer *writer) { lmc_json_raw(writer, lmc_text("null")); }

void lmc_json_bool(lmc_json_writer *writer, bool value) {
    lmc_json_raw(writer, lmc_text(value ? "true" : "false"));
}

void lmc_json_int(lmc_json_writer *writer, int64_t value) {
    before_value(writer);
    lmc_buffer_printf(writer->out, "%" PRId64, value);
}

void lmc_json_uint(lmc_json_writer *writer, uint64_t value) {
    before_value(writer);
    lmc_buffer_printf(writer->out, "%" PRIu64, value);
}

void lmc_json_real(lmc_json_writer *writer, double value) {
    if (!isfinite(value)) {
        lmc_json_null(writer);
        return;
    }
    char digits[LMC_REAL_TEXT_MAX];
    size_t size = lmc_real_text(value, digits);
    lmc_json_raw(writer, lmc_slice_of(digits, size));
}

void lmc_json_text(lmc_json_writer *writer, const char *text) {
    if (text == NULL)
        lmc_json_null(writer);
    else
        lmc_json_slice(writer, lmc_text(text));
}

void lmc_json_slice(lmc_json_writer *writer, lmc_slice text) {
    before_value(writer);
    put_text(writer, text);
}

void lmc_json_member_null(lmc_json_writer *writer, const char *name) {
    lmc_json_name(writer, name);
    lmc_json_null(writer);
}

void lmc_json_member_bool(lmc_json_writer *writer, const char *name, bool value) {
    lmc_json_name(writer, name);
    lmc_json_bool(writer, value);
}

void lmc_json_member_int(lmc_json_writer *writer, const char *name, int64_t value) {
    lmc_json_name(writer, name);
    lmc_json_int(writer, value);
}

void lmc_json_member_uint(lmc_json_writer *writer, const char *name, uint64_t value) {
    lmc_json_name(writer, name);
    lmc_json_uint(writer, value);
}

void lmc_json_member_real(lmc_json_writer *writer, const char *name, double value) {
    lmc_json_name(writer, name);
    lmc_json_real(writer, value);
}

void lmc_json_member_text(lmc_json_writer *writer, const char *name, const char *text) {
    lmc_json_name(writer, name);
    lmc_json_text(writer, text);
}

void lmc_json_member_slice(lmc_json_writer *writer, const char *name, lmc_slice text) {
    lmc_json_name(writer, name);
    lmc_json_slice(writer, text);
}

void lmc_json_member_raw(lmc_json_writer *writer, const char *name, lmc_slice json) {
    lmc_json_name(writer, name);
    lmc_json_raw(writer, json);
}
