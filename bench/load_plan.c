#include "load_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char plan_usage[] =
    "usage: load --endpoint tcp://HOST:PORT --op FRAME [--frame FRAME]... [--op ...]...\n"
    "            [--connections 1] [--outstanding 1] [--seconds 2] [--warmup 0.3]\n"
    "            [--label TEXT] [--json]\n"
    "  A cycle is the requests in order, each sent when the one before was answered; every\n"
    "  connection keeps `outstanding` cycles going. FRAME is hexadecimal, or @FILE for the "
    "bytes\n"
    "  of a file. Eight percent signs in a frame are replaced by digits that differ per "
    "cycle.\n";

static size_t find_mark(const plan_frame *frame) {
    const unsigned char *at = memmem(frame->data, frame->size, PLAN_MARK, PLAN_MARK_SIZE);
    return at != NULL ? (size_t)(at - frame->data) : frame->size;
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
    frame->mark = ok ? find_mark(frame) : 0;
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
