#include "server/stop_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define PATH_MAX_BYTES 512

/* Handlers have no argument, so this state is the process's. */
static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t received; /* the first signal, 0: none yet */
static char file_path[PATH_MAX_BYTES];
static pid_t owner; /* a child that a module forks has the handlers, too */

/* The child ends as one without handlers does, and what it shares with the server stays. */
static void end_child(int number) {
    signal(number, SIG_DFL);
    raise(number); /* delivered when the handler returns */
}

static void on_stop_signal(int number) {
    int saved = errno;
    if (getpid() != owner) {
        end_child(number);
        errno = saved;
        return;
    }
    if (received != 0) {
        if (file_path[0] != '\0')
            unlink(file_path);
        _exit(128 + number);
    }
    received = number;
    unsigned char byte = (unsigned char)number;
    ssize_t written = write(pipe_fds[1], &byte, 1);
    (void)written; /* the pipe is empty: one byte fits */
    errno = saved;
}

/* A reader that has gone is seen by the write that fails; unlike SIG_IGN, children do not
 * inherit a handler. */
static void on_broken_pipe(int number) { (void)number; }

static bool set_handler(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    return sigaction(number, &action, NULL) == 0;
}

/* A mask and ignored signals outlive an exec: whoever started this process may have blocked
 * what ends it, or ignore SIGCHLD, and then nobody could wait for children. */
static bool forget_inherited(void) {
    sigset_t none;
    sigemptyset(&none);
    return set_handler(SIGCHLD, SIG_DFL) && pthread_sigmask(SIG_SETMASK, &none, NULL) == 0;
}

lmc_status lmc_stop_signals_install(lmc_error *error) {
    received = 0;
    owner = getpid();
    file_path[0] = '\0';
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return lmc_error_set_errno(error, LMC_FAILED, errno, "no pipe for stop signals");
    if (set_handler(SIGTERM, on_stop_signal) && set_handler(SIGINT, on_stop_signal) &&
        set_handler(SIGPIPE, on_broken_pipe) && forget_inherited())
        return LMC_OK;
    int number = errno;
    lmc_stop_signals_remove();
    return lmc_error_set_errno(error, LMC_FAILED, number, "no handler for stop signals");
}

void lmc_stop_signals_remove(void) {
    set_handler(SIGTERM, SIG_DFL);
    set_handler(SIGINT, SIG_DFL);
    for (int i = 0; i < 2; i++) {
        if (pipe_fds[i] >= 0)
            close(pipe_fds[i]);
        pipe_fds[i] = -1;
    }
}

void lmc_stop_signals_set_file(const char *path) {
    snprintf(file_path, sizeof file_path, "%s", strlen(path) < sizeof file_path ? path : "");
}

int lmc_stop_signals_wait(void) {
    unsigned char byte = 0;
    struct pollfd readable = {.fd = pipe_fds[0], .events = POLLIN};
    while (poll(&readable, 1, -1) <= 0 || read(pipe_fds[0], &byte, 1) <= 0)
        ;
    return byte;
}

int lmc_stop_signals_fd(void) { return pipe_fds[0]; }

bool lmc_stop_signals_pending(void) { return received != 0; }
