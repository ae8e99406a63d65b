#include "load_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char plan_usage[] =
    "usage: load --endpoint tcp://HOST:PORT --op FRAME [--frame FRAME]... [--op ...]...\n"
    "            [--connections 1] [--outstanding 1] [--seconds 2] [--warmup 0.3]\n"
    "            [--pause-us 0] [--cycles 0] [--label TEXT] [--json]\n"
    "A cycle is the requests in order, each sent when the one before was answered; every\n"
    "connection keeps `outstanding` cycles going. FRAME is hexadecimal, or @FILE for the\n"
    "bytes of a file. In a frame these are replaced before it is sent:\n"
    "  %%%%%%%%    eight hexadecimal digits that differ per cycle\n"
    "  0xce ####   a MessagePack integer of 32 bits that differs per cycle\n"
    "  0xce @@@@   the same, with the index of the connection\n"
    "--cycles ends the run after so many, without warming up.\n";

#define DIGITS 8

static const struct {
    const char *text;
    size_t size, offset; /* of what is replaced */
} mark_forms[] = {
    [MARK_DIGITS] = {"%%%%%%%%", 8, 0},
    [MARK_CYCLE] = {"\xce####", 5, 1},
    [MARK_CONNECTION] = {"\xce@@@@", 5, 1},
};

static void find_marks(plan_frame *frame) {
    for (plan_mark_kind kind = MARK_DIGITS; kind <= MARK_CONNECTION; kind++) {
        const unsigned char *from = frame->data, *end = frame->data + frame->size, *at;
        while (frame->mark_count < PLAN_MARKS_MAX &&
               (at = memmem(from, (size_t)(end - from), mark_forms[kind].text,
                            mark_forms[kind].size)) != NULL) {
            size_t offset = (size_t)(at - frame->data) + mark_forms[kind].offset;
            frame->marks[frame->mark_count++] = (plan_mark){kind, offset};
            from = at + mark_forms[kind].size;
        }
    }
}

static void put_integer(unsigned char *out, uint32_t value) {
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (24 - 8 * i));
}

void plan_fill_marks(const plan_frame *frame, unsigned char *copy, uint32_t cycle,
                     uint32_t connection) {
    for (size_t i = 0; i < frame->mark_count; i++) {
        unsigned char *at = copy + frame->marks[i].at;
        char digits[DIGITS + 1];
        switch (frame->marks[i].kind) {
        case MARK_DIGITS:
            snprintf(digits, sizeof digits, "%08x", (unsigned)cycle);
            memcpy(at, digits, DIGITS);
            break;
        case MARK_CYCLE:
            put_integer(at, cycle);
            break;
        case MARK_CONNECTION:
            put_integer(at, connection);
            break;
        }
    }
}

static bool read_file(plan_frame *frame, const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size >= 0) {
        rewind(file);
        frame->size = (size_t)size;
        frame->data = malloc(frame->size + 1);
    }
    bool ok = frame->data != NULL && fread(frame->data, 1, frame->size, file) == frame->size;
    if (file != NULL)
        fclose(file);
    if (!ok)
        fprintf(stderr, "load: cannot read %s\n", path);
    return ok;
}

static bool read_hex(plan_frame *frame, const char *text) {
    frame->size = strlen(text) / 2;
    frame->data = malloc(frame->size + 1);
    if (frame->data == NULL || strlen(text) % 2 != 0)
        return false;
    for (size_t i = 0; i < frame->size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        char *end;
        frame->data[i] = (unsigned char)strtoul(pair, &end, 16);
        if (*end != '\0')
            return false;
    }
    return true;
}

static bool add_frame(plan_request *request, const char *text) {
    if (request->frame_count == PLAN_FRAMES_MAX)
        return false;
    plan_frame *frame = &request->frames[request->frame_count++];
    bool ok = text[0] == '@' ? read_file(frame, text + 1) : read_hex(frame, text);
    if (ok)
        find_marks(frame);
    return ok;
}

static bool add_request(load_plan *plan, const char *text) {
    if (plan->request_count == PLAN_REQUESTS_MAX)
        return false;
    plan_request *request = &plan->requests[plan->request_count++];
    request->label = text;
    return add_frame(request, text);
}

static bool take(load_plan *plan, const char *name, const char *value) {
    if (strcmp(name, "--endpoint") == 0)
        plan->endpoint = value;
    else if (strcmp(name, "--label") == 0)
        plan->label = value;
    else if (strcmp(name, "--connections") == 0)
        plan->connections = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--outstanding") == 0)
        plan->outstanding = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--seconds") == 0)
        plan->seconds = strtod(value, NULL);
    else if (strcmp(name, "--warmup") == 0)
        plan->warmup = strtod(value, NULL);
    else if (strcmp(name, "--pause-us") == 0)
        plan->pause_us = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--cycles") == 0)
        plan->cycles = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--op") == 0)
        return add_request(plan, value);
    else if (strcmp(name, "--frame") == 0 && plan->request_count > 0)
        return add_frame(&plan->requests[plan->request_count - 1], value);
    else
        return false;
    return true;
}

bool plan_parse(load_plan *made, int count, char **words) {
    *made = (load_plan){
        .label = "", .connections = 1, .outstanding = 1, .seconds = 2.0, .warmup = 0.3};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--json") == 0)
            made->json = true;
        else if (i + 1 >= count || !take(made, words[i], words[i + 1]))
            return false;
        else
            i++;
    }
    return made->endpoint != NULL && made->request_count > 0 && made->connections > 0 &&
           made->connections <= 1024 && made->outstanding > 0 && made->outstanding <= 65536 &&
           made->seconds > 0 && made->warmup >= 0;
}

void plan_free(load_plan *plan) {
    for (size_t i = 0; i < plan->request_count; i++) {
        for (size_t k = 0; k < plan->requests[i].frame_count; k++)
            free(plan->requests[i].frames[k].data);
    }
}
