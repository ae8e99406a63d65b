#include "runtime_plugin/log_tail.h"

#include <stdlib.h>

static lmc_tail_line *make_line(lmc_slice text) {
    lmc_tail_line *line = malloc(sizeof *line + text.size);
    if (line == NULL)
        return NULL;
    *line = (lmc_tail_line){.size = text.size};
    if (text.size > 0)
        memcpy(line->text, text.data, text.size);
    return line;
}

static void append(lmc_log_tail *tail, lmc_tail_line *line) {
    if (tail->last != NULL)
        tail->last->next = line;
    else
        tail->first = line;
    tail->last = line;
}

void lmc_log_tail_add(lmc_log_tail *tail, int stream, lmc_log_level level, int64_t wall_ns,
                      lmc_slice text) {
    lmc_tail_line *line = make_line(text);
    tail->sequence++;
    if (line == NULL)
        return;
    line->sequence = tail->sequence;
    line->wall_ns = wall_ns;
    line->stream = stream;
    line->level = level;
    append(tail, line);
    tail->bytes += sizeof *line + text.size;
    while (tail->bytes > LMC_LOG_TAIL_BYTES && tail->first != tail->last) {
        lmc_tail_line *oldest = tail->first;
        tail->first = oldest->next;
        tail->bytes -= sizeof *oldest + oldest->size;
        free(oldest);
    }
}

void lmc_tail_lines_free(lmc_tail_line *lines) {
    while (lines != NULL) {
        lmc_tail_line *next = lines->next;
        free(lines);
        lines = next;
    }
}

void lmc_log_tail_fini(lmc_log_tail *tail) {
    lmc_tail_lines_free(tail->first);
    *tail = (lmc_log_tail){0};
}

lmc_tail_line *lmc_log_tail_copy(const lmc_log_tail *tail, uint64_t after, size_t most) {
    lmc_log_tail copy = {0};
    size_t count = 0;
    for (const lmc_tail_line *at = tail->first; at != NULL; at = at->next)
        count += at->sequence > after;
    for (const lmc_tail_line *at = tail->first; at != NULL; at = at->next) {
        if (at->sequence <= after || count-- > most)
            continue;
        lmc_tail_line *line = make_line(lmc_slice_of(at->text, at->size));
        if (line == NULL)
            break;
        line->sequence = at->sequence;
        line->wall_ns = at->wall_ns;
        line->stream = at->stream;
        line->level = at->level;
        append(&copy, line);
    }
    return copy.first;
}
