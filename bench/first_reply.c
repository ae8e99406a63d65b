/*
 * first_reply: starts a program and measures the time until it answers its first noop, then how
 * much memory it has once it has settled.
 *
 * The client is there before the program is and tries to connect every millisecond. Prints one
 * JSON object. The program is ended with SIGTERM.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define PATIENCE_MS 20000
#define RETRY_MS 1

extern char **environ;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void sleep_for(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static void *open_client(void *context, const char *endpoint) {
    int retry = RETRY_MS, none = 0, patience = PATIENCE_MS;
    void *client = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(client, ZMQ_RECONNECT_IVL, &retry, sizeof retry);
    zmq_setsockopt(client, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(client, ZMQ_RCVTIMEO, &patience, sizeof patience);
    return zmq_connect(client, endpoint) == 0 ? client : NULL;
}

static bool ask_noop(void *client) {
    static const unsigned char uid = 0, noop = 24;
    unsigned char reply[64];
    int more = 1;
    size_t size = sizeof more;
    if (zmq_send(client, &uid, 1, ZMQ_SNDMORE) < 0 || zmq_send(client, &noop, 1, 0) < 0)
        return false;
    while (more) {
        if (zmq_recv(client, reply, sizeof reply, 0) < 0)
            return false;
        zmq_getsockopt(client, ZMQ_RCVMORE, &more, &size);
    }
    return true;
}

static pid_t start(char **words) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawn(&pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        return pid;
    fprintf(stderr, "first_reply: %s: %s\n", words[0], strerror(error));
    return -1;
}

static long read_kib(pid_t pid, const char *name) {
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtol(line + strlen(name), NULL, 10);
    }
    if (file != NULL)
        (void)fclose(file);
    return kib;
}

static bool measure(void *client, char **words, double settle) {
    double began = now_ms();
    pid_t pid = start(words);
    if (pid < 0)
        return false;
    bool answered = ask_noop(client);
    double took = now_ms() - began;
    sleep_for(answered ? settle : 0);
    if (answered)
        printf("{\"first_reply_ms\": %.3f, \"anonymous_kib\": %ld, \"file_kib\": %ld, "
               "\"shared_kib\": %ld}\n",
               took, read_kib(pid, "RssAnon:"), read_kib(pid, "RssFile:"),
               read_kib(pid, "RssShmem:"));
    else
        fprintf(stderr, "first_reply: %s does not answer\n", words[0]);
    kill(pid, SIGTERM);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return answered;
}

int main(int count, char **words) {
    if (count < 4) {
        fputs("usage: first_reply ENDPOINT SETTLE_SECONDS PROGRAM [ARGUMENT]...\n", stderr);
        return 2;
    }
    void *context = zmq_ctx_new();
    void *client = open_client(context, words[1]);
    bool ok = client != NULL && measure(client, words + 3, strtod(words[2], NULL));
    if (client != NULL)
        zmq_close(client);
    zmq_ctx_term(context);
    return ok ? 0 : 1;
}
