#include "runtime_plugin/wire.h"

#include <stdlib.h>

const char *lmc_plugin_state_name(lmc_plugin_state state) {
    static const char *const names[LMC_PLUGIN_STATES] = {"STARTING", "RUNNING", "BACKOFF",
                                                         "FATAL",    "EXITED",  "STOPPING"};
    return (unsigned)state < LMC_PLUGIN_STATES ? names[state] : "FATAL";
}

/* ---- numbers ---- */

static void put_le(unsigned char *out, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_le(const unsigned char *in, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

/* ---- frames ---- */

lmc_status lmc_wire_next(lmc_slice bytes, size_t limit, lmc_wire_frame *frame, size_t *used) {
    const unsigned char *head = bytes.data;
    *used = 0;
    if (bytes.size > 0 && head[0] != LMC_WIRE_VERSION)
        return LMC_MALFORMED;
    if (bytes.size < LMC_WIRE_HEAD)
        return LMC_AGAIN;
    size_t size = get_le(head + 4, 4);
    if (size > limit)
        return LMC_MALFORMED;
    if (bytes.size - LMC_WIRE_HEAD < size)
        return LMC_AGAIN;
    frame->type = head[1];
    frame->plugin = (uint16_t)get_le(head + 2, 2);
    frame->body = lmc_slice_of(head + LMC_WIRE_HEAD, size);
    *used = LMC_WIRE_HEAD + size;
    return LMC_OK;
}

size_t lmc_wire_begin(lmc_buffer *out, lmc_wire_type type, uint16_t plugin) {
    unsigned char head[LMC_WIRE_HEAD] = {LMC_WIRE_VERSION, (unsigned char)type};
    size_t begin = out->size;
    put_le(head + 2, plugin, 2);
    lmc_buffer_append(out, head, sizeof head);
    return begin;
}

void lmc_wire_end(lmc_buffer *out, size_t begin) {
    if (!out->failed)
        put_le((unsigned char *)out->data + begin + 4, out->size - begin - LMC_WIRE_HEAD, 4);
    else
        out->size = begin; /* half a frame would spoil those after it */
}

/* ---- fields ---- */

void lmc_wire_put_int(lmc_buffer *out, int64_t value) {
    unsigned char bytes[8];
    put_le(bytes, (uint64_t)value, sizeof bytes);
    lmc_buffer_append(out, bytes, sizeof bytes);
}

void lmc_wire_put_text(lmc_buffer *out, lmc_slice text) {
    lmc_wire_put_int(out, (int64_t)text.size);
    lmc_buffer_append(out, text.data, text.size);
}

lmc_wire_reader lmc_wire_read(const lmc_wire_frame *frame) {
    const unsigned char *at = frame->body.data;
    return (lmc_wire_reader){.at = at, .end = at + frame->body.size};
}

int64_t lmc_wire_get_int(lmc_wire_reader *reader) {
    if (reader->failed || reader->end - reader->at < 8) {
        reader->failed = true;
        return 0;
    }
    int64_t value = (int64_t)get_le(reader->at, 8);
    reader->at += 8;
    return value;
}

int64_t lmc_wire_get_within(lmc_wire_reader *reader, int64_t low, int64_t high) {
    int64_t value = lmc_wire_get_int(reader);
    if (value >= low && value <= high)
        return value;
    reader->failed = true;
    return low;
}

lmc_slice lmc_wire_get_text(lmc_wire_reader *reader) {
    int64_t size = lmc_wire_get_int(reader);
    if (reader->failed || size < 0 || size > reader->end - reader->at) {
        reader->failed = true;
        return (lmc_slice){"", 0};
    }
    lmc_slice text = lmc_slice_of(reader->at, (size_t)size);
    reader->at += size;
    return text;
}

char *lmc_wire_get_string(lmc_wire_reader *reader) {
    lmc_slice text = lmc_wire_get_text(reader);
    char *copy = NULL;
    if (!reader->failed && memchr(text.data, '\0', text.size) == NULL)
        copy = strndup(text.data, text.size);
    if (copy == NULL)
        reader->failed = true;
    return copy;
}

bool lmc_wire_done(const lmc_wire_reader *reader) {
    return !reader->failed && reader->at == reader->end;
}

/* ---- reports ---- */

void lmc_wire_put_report(lmc_buffer *out, uint16_t plugin, const lmc_plugin_report *report) {
    size_t begin = lmc_wire_begin(out, LMC_WIRE_STATE, plugin);
    lmc_wire_put_int(out, report->state);
    lmc_wire_put_int(out, report->pid);
    lmc_wire_put_int(out, report->exit_code);
    lmc_wire_put_int(out, report->restarts);
    lmc_wire_put_int(out, report->started_ns);
    lmc_wire_end(out, begin);
}

bool lmc_wire_get_report(const lmc_wire_frame *frame, lmc_plugin_report *report) {
    lmc_wire_reader reader = lmc_wire_read(frame);
    report->state = (lmc_plugin_state)lmc_wire_get_within(&reader, 0, LMC_PLUGIN_STATES - 1);
    report->pid = lmc_wire_get_within(&reader, 0, INT32_MAX);
    report->exit_code = lmc_wire_get_int(&reader);
    report->restarts = lmc_wire_get_within(&reader, 0, INT64_MAX);
    report->started_ns = lmc_wire_get_int(&reader);
    return lmc_wire_done(&reader);
}

/* ---- options ---- */

void lmc_wire_put_options(lmc_buffer *out, const lmc_plugin_options *o) {
    const int64_t numbers[] = {o->restart,        o->max_restarts,        o->ready_fd,
                               o->memory_mb,      o->cpu_seconds,         o->open_files,
                               o->nice,           o->no_new_privs,        o->split_stderr,
                               o->level_prefixes, o->max_lines_per_second};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        lmc_wire_put_int(out, numbers[i]);
    lmc_wire_put_text(out, lmc_text(o->user));
}

void lmc_wire_get_options(lmc_wire_reader *reader, lmc_plugin_options *o) {
    int64_t *const numbers[] = {&o->restart,        &o->max_restarts,        &o->ready_fd,
                                &o->memory_mb,      &o->cpu_seconds,         &o->open_files,
                                &o->nice,           &o->no_new_privs,        &o->split_stderr,
                                &o->level_prefixes, &o->max_lines_per_second};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = lmc_wire_get_int(reader);
    lmc_slice user = lmc_wire_get_text(reader);
    reader->failed |= user.size >= sizeof o->user;
    memset(o->user, 0, sizeof o->user);
    if (!reader->failed)
        memcpy(o->user, user.data, user.size);
}

/* ---- lists ---- */

void lmc_wire_put_strings(lmc_buffer *out, char *const *strings, size_t count) {
    lmc_wire_put_int(out, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        lmc_wire_put_text(out, lmc_text(strings[i]));
}

char **lmc_wire_get_strings(lmc_wire_reader *reader, size_t most) {
    size_t count = (size_t)lmc_wire_get_within(reader, 0, (int64_t)most);
    if (reader->failed)
        return NULL;
    char **strings = calloc(count + 1, sizeof *strings);
    if (strings == NULL)
        reader->failed = true;
    for (size_t i = 0; i < count && !reader->failed; i++)
        strings[i] = lmc_wire_get_string(reader);
    if (reader->failed) {
        lmc_wire_free_strings(strings);
        return NULL;
    }
    return strings;
}

void lmc_wire_free_strings(char **strings) {
    for (size_t i = 0; strings != NULL && strings[i] != NULL; i++)
        free(strings[i]);
    free(strings);
}
