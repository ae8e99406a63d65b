#include "runtime_plugin/guardian_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime_plugin/guardian_state.h"

#define TELL_MS 100 /* how often a guardian is told of the server's death */
#define TELLINGS 20 /* until one that does not end is killed: it hangs, or is being traced */

/* Only 0 to 2 stay open: nobody may take the server for alive because of us. */
static int forget_descriptors(const sigset_t *watched) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i <= STDERR_FILENO; i++)
        dup2(fd, i);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    return signalfd(-1, watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* What a watcher is called after its guardian. */
static int exit_status_of(int wait_status) {
    if (WIFSIGNALED(wait_status))
        return LMC_WATCH_KILLED + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

/* The guardian may be stopped. */
static void tell_of_death(pid_t guardian, int telling) {
    kill(guardian, telling < TELLINGS ? SIGTERM : SIGKILL);
    kill(guardian, SIGCONT);
}

/* Until the guardian is dead, or was told to be in vain; returns how it died. */
static int await_guardian(int signals, pid_t server, pid_t guardian) {
    struct signalfd_siginfo info;
    int wait_status = 0;
    for (int tellings = 0;;) {
        pid_t got = waitpid(guardian, &wait_status, WNOHANG);
        if (got == guardian || (got < 0 && errno == ECHILD))
            return wait_status;
        bool orphaned = getppid() != server;
        if (tellings > TELLINGS + 1)
            return 0;
        if (orphaned)
            tell_of_death(guardian, tellings++);
        struct pollfd polled = {.fd = signals, .events = POLLIN};
        poll(&polled, 1, orphaned ? TELL_MS : -1);
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            ;
    }
}

__attribute__((noreturn)) static void watch_over(pid_t server, pid_t guardian,
                                                 const sigset_t *watched) {
    lmc_guardian left = {.signals = forget_descriptors(watched)};
    prctl(PR_SET_NAME, "lmcached-watch");
    int wait_status = await_guardian(left.signals, server, guardian);
    lmc_guardian_end_all(&left);
    _exit(exit_status_of(wait_status));
}

bool lmc_guardian_divide(pid_t *watcher) {
    pid_t server = getppid();
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGCONT);
    *watcher = getpid();
    setsid(); /* neither the terminal nor a signal to the server's group is ours */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0) != 0) /* even when stopped */
        return false;
    pid_t guardian = fork();
    if (guardian > 0)
        watch_over(server, guardian, &watched);
    return guardian == 0;
}
