/*
 * lmc-codec-probe: the codecs as a filter, so that other implementations can judge them.
 *
 * Reads commands, one a line, and answers each with one line: "ok" and results in hexadecimal,
 * or the name of the status. Bytes are hexadecimal, "-" when there are none.
 *
 *   zmq OPERATION FRAME...        request frames, decoded and encoded again
 *   zmq-pb OPERATION FRAME...     the same as a protobuf message
 *   reply OPERATION FRAME         a result frame, decoded and encoded again
 *   reply-pb OPERATION FRAME      the same as a protobuf message
 *   pb MESSAGE BYTES              a protobuf message, decoded and encoded again
 *   pb-zmq OPERATION BYTES        a protobuf request as frames
 *   pb-reply OPERATION BYTES      a protobuf reply as a result frame
 *   tensors DTYPE SHAPE BYTES...  tensors of one shape ("2,4") as a pickle
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "pickle/tensors.h"
#include "rpc/rpc.h"

#define WORDS_MAX 64

typedef struct command {
    lmc_arena arena;
    char *words[WORDS_MAX];
    size_t count;
    const lmc_operation_def *operation;
} command;

static void *allocate(command *c, size_t size) {
    void *memory = lmc_arena_zalloc(&c->arena, size);
    if (memory == NULL)
        exit(1);
    return memory;
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

static lmc_slice bytes_of(command *c, size_t word) {
    const char *hex = word < c->count ? c->words[word] : "-";
    size_t size = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    uint8_t *bytes = allocate(c, size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return lmc_slice_of(bytes, size);
}

static void print_bytes(lmc_slice bytes) {
    const uint8_t *data = bytes.data;
    fputs(bytes.size == 0 ? " -" : " ", stdout);
    for (size_t i = 0; i < bytes.size; i++)
        printf("%02x", data[i]);
}

static void print_all(lmc_status status, const lmc_slice *results, size_t count) {
    fputs(lmc_status_name(status), stdout);
    for (size_t i = 0; status == LMC_OK && i < count; i++)
        print_bytes(results[i]);
    putchar('\n');
}

static lmc_status read_frames(command *c, void **request) {
    lmc_slice frames[WORDS_MAX];
    lmc_operation_def operation = *c->operation;
    operation.counts_tokens = false;
    for (size_t i = 2; i < c->count; i++)
        frames[i - 2] = bytes_of(c, i);
    *request = allocate(c, operation.request_size);
    return lmc_zmq_decode_request(&operation, frames, c->count - 2, &c->arena, *request, NULL);
}

static void print_frames(command *c, lmc_status status, const void *request) {
    lmc_slice frames[LMC_FRAMES_MAX];
    size_t count = 0;
    if (status == LMC_OK)
        status = lmc_zmq_encode_request(c->operation, request, &c->arena, frames, &count);
    print_all(status, frames, count);
}

static void print_message(command *c, lmc_status status, const lmc_message_def *message,
                          const void *value) {
    lmc_slice bytes = {0};
    if (status == LMC_OK)
        status = lmc_pb_encode(message, value, &c->arena, &bytes);
    print_all(status, &bytes, 1);
}

static void print_reply(command *c, lmc_status status, const void *reply) {
    bool has_frame;
    size_t size = 0;
    if (status == LMC_OK)
        status = lmc_zmq_reply_size(c->operation, reply, LMC_OK, &has_frame, &size);
    lmc_slice frame = {allocate(c, size), size};
    if (status == LMC_OK && size > 0)
        lmc_zmq_write_reply(c->operation, reply, (void *)(uintptr_t)frame.data, size);
    print_all(status, &frame, 1);
}

static void run_zmq(command *c) {
    void *request;
    lmc_status status = read_frames(c, &request);
    print_frames(c, status, request);
}

static void run_zmq_pb(command *c) {
    void *request;
    lmc_status status = read_frames(c, &request);
    print_message(c, status, c->operation->request, request);
}

static lmc_status read_reply(command *c, void **reply) {
    *reply = allocate(c, c->operation->reply_size);
    return lmc_zmq_decode_reply(c->operation, bytes_of(c, 2), &c->arena, *reply, NULL);
}

static void run_reply(command *c) {
    void *reply;
    lmc_status status = read_reply(c, &reply);
    print_reply(c, status, reply);
}

static void run_reply_pb(command *c) {
    void *reply;
    lmc_status status = read_reply(c, &reply);
    print_message(c, status, c->operation->reply, reply);
}

static void run_pb(command *c) {
    const lmc_message_def *message = lmc_message_by_name(c->words[1]);
    if (message == NULL) {
        print_all(LMC_NOT_FOUND, NULL, 0);
        return;
    }
    void *value = allocate(c, lmc_message_size(message));
    lmc_status status = lmc_pb_decode(message, bytes_of(c, 2), &c->arena, value, NULL);
    print_message(c, status, message, value);
}

static void run_pb_zmq(command *c) {
    void *request = allocate(c, c->operation->request_size);
    lmc_status status =
        lmc_pb_decode(c->operation->request, bytes_of(c, 2), &c->arena, request, NULL);
    print_frames(c, status, request);
}

static void run_pb_reply(command *c) {
    void *reply = allocate(c, c->operation->reply_size);
    lmc_status status =
        lmc_pb_decode(c->operation->reply, bytes_of(c, 2), &c->arena, reply, NULL);
    print_reply(c, status, reply);
}

static void run_tensors(command *c) {
    lmc_tensor tensors[WORDS_MAX] = {0};
    lmc_tensor_list lists[WORDS_MAX];
    size_t count = 0;
    for (size_t word = 3; word < c->count; word++, count++) {
        lmc_tensor *tensor = &tensors[count];
        tensor->dtype = lmc_text(c->words[1]);
        tensor->item_size = lmc_tensor_item_size(tensor->dtype);
        tensor->storage = bytes_of(c, word);
        for (char *at = c->words[2]; *at != '\0' && tensor->rank < LMC_TENSOR_RANK_MAX;) {
            tensor->shape[tensor->rank++] = strtoll(at, &at, 10);
            at += *at == ',';
        }
        lists[count] = (lmc_tensor_list){tensor, 1};
    }
    lmc_tensor_lists all = {lists, count, false};
    lmc_pieces pieces = {0};
    lmc_buffer joined = LMC_BUFFER_INIT;
    lmc_status status = lmc_tensors_write(&all, &c->arena, &pieces);
    for (size_t i = 0; i < pieces.count; i++)
        lmc_buffer_append(&joined, pieces.items[i].data, pieces.items[i].size);
    lmc_slice pickle = {joined.data, joined.size};
    print_all(status, &pickle, 1);
    lmc_buffer_fini(&joined);
}

static const struct {
    const char *name;
    bool names_operation;
    void (*run)(command *c);
} commands[] = {
    {"zmq", true, run_zmq},
    {"zmq-pb", true, run_zmq_pb},
    {"reply", true, run_reply},
    {"reply-pb", true, run_reply_pb},
    {"pb", false, run_pb},
    {"pb-zmq", true, run_pb_zmq},
    {"pb-reply", true, run_pb_reply},
    {"tensors", false, run_tensors},
};

static void run(char *line) {
    command c = {.count = 0};
    char *rest = line;
    for (char *word; c.count < WORDS_MAX && (word = strsep(&rest, " \n")) != NULL;)
        if (*word != '\0')
            c.words[c.count++] = word;
    lmc_arena_init(&c.arena, 0);
    for (size_t i = 0; c.count >= 2 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(c.words[0], commands[i].name) != 0)
            continue;
        c.operation = lmc_operation_by_name(lmc_text(c.words[1]));
        if (commands[i].names_operation && c.operation == NULL)
            print_all(LMC_NOT_FOUND, NULL, 0);
        else
            commands[i].run(&c);
    }
    lmc_arena_fini(&c.arena);
    fflush(stdout);
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0)
        run(line);
    free(line);
    return 0;
}
