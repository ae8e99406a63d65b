/*
 * echo_floor: what a ROUTER can do at best, to put beside the server's figures.
 *
 * One thread that blocks in receive and sends back uid, operation and, for the operations it is
 * told, a result of a given size. High-water marks 0, one I/O thread, the server's allocator
 * settings. With small requests it is the echo. With the very frames of an operation, of which
 * it touches none, it is the sink; large results come from a ready buffer. Linked with the
 * server's libraries it is the bare program that start-up time and memory are compared with.
 *
 * Prints its endpoint on the first line; ends with SIGTERM or, if asked to, with its input.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/heap.h"

#define OWN_FROM ((size_t)512) /* larger results are lent, not copied */

typedef struct floor_reply {
    bool has_result;
    size_t size;
} floor_reply;

typedef struct floor_options {
    const char *endpoint;
    bool until_eof;
    floor_reply replies[256]; /* by the first byte of the operation frame */
    unsigned char *result;    /* ready, as long as the longest */
} floor_options;

static const char usage[] =
    "usage: echo_floor [--endpoint tcp://127.0.0.1:*] [--reply BYTE=SIZE|none]...\n"
    "                  [--until-eof]\n"
    "  --reply      size of the result for operations whose frame begins with this byte\n"
    "               (hexadecimal); without it, or none, the reply has two frames\n"
    "  --until-eof  end when standard input is closed\n";

static bool take_reply(floor_options *options, const char *text) {
    char *end;
    unsigned long operation = strtoul(text, &end, 16);
    if (operation > 255 || *end != '=')
        return false;
    if (strcmp(end + 1, "none") == 0)
        return true;
    options->replies[operation] = (floor_reply){true, strtoull(end + 1, &end, 10)};
    return *end == '\0';
}

static bool make_ready(floor_options *options) {
    size_t longest = 0;
    for (size_t i = 0; i < 256; i++) {
        if (options->replies[i].size > longest)
            longest = options->replies[i].size;
    }
    options->result = malloc(longest + 1);
    if (options->result != NULL)
        memset(options->result, 0xa5, longest + 1);
    return options->result != NULL;
}

static bool parse(floor_options *options, int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(words[i], "--until-eof") == 0) {
            options->until_eof = true;
        } else if (value == NULL) {
            return false;
        } else if (strcmp(words[i], "--endpoint") == 0) {
            options->endpoint = words[++i];
        } else if (strcmp(words[i], "--reply") == 0) {
            if (!take_reply(options, words[++i]))
                return false;
        } else {
            return false;
        }
    }
    return make_ready(options);
}

static void keep(void *data, void *hint) {
    (void)data;
    (void)hint;
}

static int make_result(const floor_options *options, size_t size, zmq_msg_t *result) {
    if (size > OWN_FROM)
        return zmq_msg_init_data(result, options->result, size, keep, NULL);
    if (zmq_msg_init_size(result, size) != 0)
        return -1;
    memcpy(zmq_msg_data(result), options->result, size);
    return 0;
}

/* Takes uid and operation, drops the payload. False: the socket has ended. */
static bool receive(void *router, zmq_msg_t head[3]) {
    for (int i = 0; i < 3; i++) {
        if (zmq_msg_recv(&head[i], router, 0) < 0)
            return false;
        if (!zmq_msg_more(&head[i]) && i < 2)
            return true;
    }
    zmq_msg_t rest;
    zmq_msg_init(&rest);
    bool more = zmq_msg_more(&head[2]);
    while (more && zmq_msg_recv(&rest, router, 0) >= 0)
        more = zmq_msg_more(&rest);
    zmq_msg_close(&rest);
    return true;
}

static const floor_reply *reply_for(const floor_options *options, zmq_msg_t *operation) {
    static const floor_reply none;
    const unsigned char *bytes = zmq_msg_data(operation);
    return zmq_msg_size(operation) > 0 ? &options->replies[bytes[0]] : &none;
}

static void serve(void *router, const floor_options *options) {
    zmq_msg_t head[3], result;
    for (int i = 0; i < 3; i++)
        zmq_msg_init(&head[i]);
    while (receive(router, head)) {
        const floor_reply *reply = reply_for(options, &head[2]);
        zmq_msg_send(&head[0], router, ZMQ_SNDMORE);
        zmq_msg_send(&head[1], router, ZMQ_SNDMORE);
        zmq_msg_send(&head[2], router, reply->has_result ? ZMQ_SNDMORE : 0);
        if (reply->has_result && make_result(options, reply->size, &result) == 0 &&
            zmq_msg_send(&result, router, 0) < 0)
            zmq_msg_close(&result);
    }
    for (int i = 0; i < 3; i++)
        zmq_msg_close(&head[i]);
}

static void *end_with_input(void *context) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    zmq_ctx_shutdown(context);
    return NULL;
}

int main(int count, char **words) {
    floor_options options = {.endpoint = "tcp://127.0.0.1:*"};
    int unlimited = 0, none = 0;
    char endpoint[256];
    size_t size = sizeof endpoint;
    if (!parse(&options, count, words)) {
        fputs(usage, stderr);
        return 2;
    }
    lmc_heap_keep_large();
    void *context = zmq_ctx_new();
    void *router = zmq_socket(context, ZMQ_ROUTER);
    zmq_setsockopt(router, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(router, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(router, ZMQ_LINGER, &none, sizeof none);
    if (zmq_bind(router, options.endpoint) != 0 ||
        zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0) {
        fprintf(stderr, "echo_floor: %s: %s\n", options.endpoint, zmq_strerror(zmq_errno()));
        return 1;
    }
    printf("%s\n", endpoint);
    fflush(stdout);
    pthread_t watcher;
    if (options.until_eof && pthread_create(&watcher, NULL, end_with_input, context) == 0)
        pthread_detach(watcher);
    serve(router, &options);
    zmq_close(router);
    zmq_ctx_term(context);
    free(options.result);
    return 0;
}
