/*
 * echo_floor: what a ROUTER can do at best, to put beside the server's figures.
 *
 * One thread that blocks in receive, looks at nothing, and sends back uid, operation and, if
 * asked to, a result of a given size. High-water marks 0, one I/O thread. As the echo it
 * answers small requests; as the sink it takes the very frames of an operation and answers with
 * a reply of the same size; large results come from a ready buffer. Linked with the server's
 * libraries it is the bare program that start-up time and memory are compared with.
 *
 * Prints its endpoint on the first line; ends with SIGTERM or, if asked to, with its input.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define OWN_FROM ((size_t)512) /* larger results are lent, not copied */

typedef struct floor_options {
    const char *endpoint;
    bool has_result, keep_heap, until_eof;
    unsigned char *result;
    size_t result_size;
} floor_options;

static const char usage[] =
    "usage: echo_floor [--endpoint tcp://127.0.0.1:*] [--result HEX | --result-size BYTES]\n"
    "                  [--keep-heap] [--until-eof]\n"
    "  without a result the reply has two frames\n"
    "  --keep-heap  large frames stay in the allocator, as in the server\n"
    "  --until-eof  end when standard input is closed\n";

static void take_hex(floor_options *options, const char *text) {
    options->result_size = strlen(text) / 2;
    options->result = malloc(options->result_size + 1);
    for (size_t i = 0; options->result != NULL && i < options->result_size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        options->result[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
}

static void take_size(floor_options *options, const char *text) {
    options->result_size = strtoull(text, NULL, 10);
    options->result = malloc(options->result_size + 1);
    if (options->result != NULL)
        memset(options->result, 0xa5, options->result_size);
}

static bool parse(floor_options *options, int count, char **words) {
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        if (strcmp(words[i], "--keep-heap") == 0) {
            options->keep_heap = true;
        } else if (strcmp(words[i], "--until-eof") == 0) {
            options->until_eof = true;
        } else if (value == NULL) {
            return false;
        } else if (strcmp(words[i], "--endpoint") == 0) {
            options->endpoint = words[++i];
        } else if (strcmp(words[i], "--result") == 0) {
            take_hex(options, words[++i]);
            options->has_result = true;
        } else if (strcmp(words[i], "--result-size") == 0) {
            take_size(options, words[++i]);
            options->has_result = true;
        } else {
            return false;
        }
    }
    return !options->has_result || options->result != NULL;
}

static void keep(void *data, void *hint) {
    (void)data;
    (void)hint;
}

static int make_result(const floor_options *options, zmq_msg_t *result) {
    if (options->result_size > OWN_FROM)
        return zmq_msg_init_data(result, options->result, options->result_size, keep, NULL);
    if (zmq_msg_init_size(result, options->result_size) != 0)
        return -1;
    memcpy(zmq_msg_data(result), options->result, options->result_size);
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

static void serve(void *router, const floor_options *options) {
    zmq_msg_t head[3], result;
    for (int i = 0; i < 3; i++)
        zmq_msg_init(&head[i]);
    while (receive(router, head)) {
        zmq_msg_send(&head[0], router, ZMQ_SNDMORE);
        zmq_msg_send(&head[1], router, ZMQ_SNDMORE);
        zmq_msg_send(&head[2], router, options->has_result ? ZMQ_SNDMORE : 0);
        if (options->has_result && make_result(options, &result) == 0 &&
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
    if (options.keep_heap) {
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 256 << 20);
    }
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
