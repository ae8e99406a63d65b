#include "base/log_line.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define CUT "..."
#define STAMP_SIZE 40

static const char *colour_of(lmc_log_level level) {
    if (level >= LMC_LOG_CRITICAL)
        return "\x1b[31;1m";
    if (level >= LMC_LOG_ERROR)
        return "\x1b[31;20m";
    if (level >= LMC_LOG_WARNING)
        return "\x1b[33;20m";
    return level >= LMC_LOG_INFO ? "\x1b[32;20m" : "\x1b[1m";
}

/* Broken-down local time costs more than the rest of a line, so each thread keeps its second.
 */
static const char *stamp_of(time_t second) {
    static _Thread_local time_t kept_second = -1;
    static _Thread_local char kept[STAMP_SIZE];
    if (second != kept_second) {
        struct tm local = {0};
        localtime_r(&second, &local);
        strftime(kept, sizeof kept, "%Y-%m-%d %H:%M:%S", &local);
        kept_second = second;
    }
    return kept;
}

static bool is_control(unsigned char c) { return c < 0x20 || c == 0x7F; }

/* Length of the text without a last character that was cut in two. */
static size_t whole_characters(const char *text, size_t size) {
    size_t back = 0;
    while (back < 3 && back < size && ((unsigned char)text[size - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back == size)
        return size;
    unsigned char lead = (unsigned char)text[size - 1 - back];
    size_t expected = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return expected > back + 1 ? size - back - 1 : size;
}

/* Appends text with control characters escaped; at most `limit` bytes, cut with dots. */
static size_t escape(char *out, size_t limit, const char *text, bool cut) {
    static const char digits[] = "0123456789abcdef";
    size_t room = limit - strlen(CUT), used = 0;
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        size_t need = is_control(c) ? 4 : 1;
        if (used + need > room) {
            cut = true;
            break;
        }
        if (need == 4) {
            out[used] = '\\';
            out[used + 1] = 'x';
            out[used + 2] = digits[c >> 4];
            out[used + 3] = digits[c & 15];
        } else {
            out[used] = (char)c;
        }
        used += need;
    }
    if (cut) {
        used = whole_characters(out, used);
        memcpy(out + used, CUT, strlen(CUT)); /* NOLINT(bugprone-not-null-terminated-result) */
        used += strlen(CUT);
    }
    return used;
}

static size_t put_head(char *out, bool colour, int64_t wall_ns, const lmc_log_source *source) {
    return (size_t)snprintf(out, LMC_LOG_FRAME_MAX / 2, "%s[%s,%03d] LMCache %s:%s ",
                            colour ? colour_of(source->level) : "",
                            stamp_of((time_t)(wall_ns / LMC_NS_PER_S)),
                            (int)(wall_ns % LMC_NS_PER_S / LMC_NS_PER_MS),
                            lmc_log_level_name(source->level), colour ? "\x1b[0m" : "");
}

static size_t put_tail(char *out, bool colour, const lmc_log_source *source) {
    char place[LMC_LOG_FRAME_MAX / 4];
    snprintf(place, sizeof place, "(%.48s:%d:%.48s)", source->file, source->line,
             source->logger);
    size_t used = (size_t)snprintf(out, 16, "%s", colour ? " \x1b[3m" : " ");
    used += escape(out + used, sizeof place, place, false);
    return used + (size_t)snprintf(out + used, 16, "%s\n", colour ? "\x1b[0m" : "");
}

static void escape_all(lmc_buffer *out, lmc_slice text) {
    const char *at = text.data, *end = at + text.size;
    while (at < end) {
        const char *plain = at;
        while (at < end && !is_control((unsigned char)*at))
            at++;
        lmc_buffer_append(out, plain, (size_t)(at - plain));
        if (at < end)
            lmc_buffer_printf(out, "\\x%02x", (unsigned char)*at++);
    }
}

size_t lmc_log_compose(char out[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX], bool colour,
                       int64_t wall_ns, const lmc_log_source *source, const char *format,
                       va_list args) {
    char message[LMC_LOG_LINE_MAX];
    int wanted = vsnprintf(message, sizeof message, format, args);
    if (wanted < 0)
        snprintf(message, sizeof message, "%s", "(message cannot be formatted)");
    bool cut = wanted >= (int)sizeof message;

    size_t used = put_head(out, colour, wall_ns, source);
    used += escape(out + used, LMC_LOG_LINE_MAX, message, cut);
    return used + put_tail(out + used, colour, source);
}

void lmc_log_compose_text(lmc_buffer *out, bool colour, int64_t wall_ns,
                          const lmc_log_source *source, const char *prefix, lmc_slice text) {
    size_t room = LMC_LOG_FRAME_MAX + 4 * (strlen(prefix) + text.size);
    if (!lmc_buffer_reserve(out, room))
        return;
    out->size += put_head(out->data + out->size, colour, wall_ns, source);
    escape_all(out, lmc_text(prefix));
    escape_all(out, text);
    if (lmc_buffer_reserve(out, LMC_LOG_FRAME_MAX))
        out->size += put_tail(out->data + out->size, colour, source);
}
