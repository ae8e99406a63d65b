#include "runtime_plugin/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/guardian_state.h"
#include "runtime_plugin/guardian_watch.h"

#define LAST_WORDS_NS (LMC_NS_PER_S) /* for what is still to be sent at the end */
#define BEHIND_NS LMC_NS_PER_S       /* how long output waits for the server */
#define DESCRIPTORS_MIN 10           /* ours are above those that a child has */

/* ---- setting up ---- */

static int high_fd(int fd) {
    if (fd < 0)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS_MIN);
    close(fd);
    return moved;
}

/* 0 to 2 must be open, so that nothing of ours gets these numbers. */
static bool fill_standard_fds(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    return fd >= 0;
}

static void set_signals(sigset_t *watched) {
    static const int kept_off[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGUSR1,
                                   SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
    for (size_t i = 0; i < sizeof kept_off / sizeof kept_off[0]; i++)
        signal(kept_off[i], SIG_IGN);
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    sigaddset(watched, SIGTERM); /* a death, or somebody's wish that is not ours */
    sigaddset(watched, SIGCONT); /* the watcher's death, which so wakes one that is stopped */
    sigprocmask(SIG_SETMASK, watched, NULL);
}

static bool set_up(lmc_guardian *g) {
    sigset_t watched;
    int type = 0;
    socklen_t size = sizeof type;
    if (!fill_standard_fds() ||
        getsockopt(LMC_GUARDIAN_FD, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        return false;
    set_signals(&watched);
    if (!lmc_guardian_divide(&g->watcher))
        return false;
    g->socket = high_fd(LMC_GUARDIAN_FD);
    close_range(LMC_GUARDIAN_FD, DESCRIPTORS_MIN - 1, 0);
    close_range((unsigned)g->socket + 1, ~0u, 0);
    g->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* takes the lowest number, 3 */
    g->signals = high_fd(signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
    g->outbox.fd = g->socket;
    setsid();
    prctl(PR_SET_NAME, "lmcached-guard");
    return g->socket >= 0 && g->signals >= 0 && g->null_fd >= 0 &&
           prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0) == 0 && getppid() == g->watcher;
}

/* ---- the loop ---- */

static bool more_room(lmc_guardian *g, size_t count) {
    if (count < g->polled_capacity)
        return true;
    size_t capacity = 2 * count + 16;
    struct pollfd *polled = realloc(g->polled, capacity * sizeof *polled);
    if (polled == NULL)
        return false;
    g->polled = polled;
    g->polled_capacity = capacity;
    return true;
}

static void watch(lmc_guardian *g, size_t *count, int fd, short events) {
    if (fd >= 0 && more_room(g, *count))
        g->polled[(*count)++] = (struct pollfd){.fd = fd, .events = events};
}

/* While the server is behind, output waits in its pipes; but no plugin waits for ever. */
static bool output_waits(lmc_guardian *g) {
    bool full = g->outbox.bytes.size - g->outbox.sent > LMC_OUTBOX_LINES_MAX / 2;
    int64_t now = lmc_now(&lmc_system_clock);
    if (!full || g->ending)
        g->full_ns = INT64_MAX;
    else if (g->full_ns == INT64_MAX)
        g->full_ns = now;
    return g->full_ns != INT64_MAX && now - g->full_ns < BEHIND_NS;
}

static size_t watch_all(lmc_guardian *g) {
    bool waits = output_waits(g);
    size_t count = 0;
    watch(g, &count, g->socket, (short)(POLLIN | (lmc_outbox_waits(&g->outbox) ? POLLOUT : 0)));
    watch(g, &count, g->signals, POLLIN);
    for (size_t i = 0; i < g->count; i++) {
        lmc_guarded *p = g->plugins[i];
        if (p == NULL)
            continue;
        watch(g, &count, p->outcome_fd, POLLIN);
        watch(g, &count, p->ready_fd, POLLIN);
        for (lmc_capture *at = p->captures; at != NULL; at = at->next) {
            at->polled_at = !waits && lmc_capture_may_read(p) && at->fd >= 0 ? count : SIZE_MAX;
            if (at->polled_at != SIZE_MAX)
                watch(g, &count, at->fd, POLLIN);
        }
    }
    return count;
}

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

static int patience(const lmc_guardian *g) {
    int64_t when = g->ending ? sooner(g->end_ns, g->nudge_ns) : INT64_MAX;
    if (g->full_ns != INT64_MAX)
        when = sooner(when, g->full_ns + BEHIND_NS);
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL)
            when = sooner(when, lmc_guarded_deadline(g->plugins[i]));
    if (when == INT64_MAX)
        return -1;
    int64_t ms = (when - lmc_now(&lmc_system_clock) + LMC_NS_PER_MS - 1) / LMC_NS_PER_MS;
    return ms < 0 ? 0 : ms > 3600000 ? 3600000 : (int)ms;
}

/*
 * False: the server is dead, which the watcher tells by SIGTERM, or the watcher is. (Somebody
 * that the server forked may still hold its end of the socket.) A SIGTERM of anybody else is
 * somebody's wish, and not ours.
 */
static bool take_signals(lmc_guardian *g) {
    struct signalfd_siginfo info;
    bool told = false;
    while (read(g->signals, &info, sizeof info) == (ssize_t)sizeof info)
        told |= info.ssi_signo == SIGTERM && info.ssi_pid == (uint32_t)g->watcher;
    lmc_guardian_reap(g);
    return !told && getppid() == g->watcher;
}

static void serve_plugins(lmc_guardian *g, size_t polled) {
    int64_t now = lmc_now(&lmc_system_clock);
    for (size_t i = 0; i < g->count; i++) {
        lmc_guarded *p = g->plugins[i];
        if (p == NULL)
            continue;
        if (p->outcome_fd >= 0)
            lmc_guarded_outcome(p);
        if (p->ready_fd >= 0)
            lmc_guarded_ready(p);
        for (lmc_capture *at = p->captures; at != NULL; at = at->next)
            if (at->polled_at < polled && g->polled[at->polled_at].revents != 0)
                lmc_capture_read(at);
        lmc_capture_close_ended(p);
        lmc_guarded_tick(p, now);
        lmc_guarded_report(p);
    }
    lmc_guardian_tick_end(g, now);
}

/* False: the server is gone. */
static bool turn(lmc_guardian *g) {
    size_t count = watch_all(g);
    if (poll(g->polled, count, patience(g)) < 0 && errno != EINTR)
        return false;
    if (g->polled[0].revents != 0 && !lmc_guardian_listen(g))
        return false;
    if (!take_signals(g))
        return false;
    serve_plugins(g, count);
    lmc_outbox_flush(&g->outbox);
    return !g->outbox.broken;
}

/* ---- the end ---- */

static void say_goodbye(lmc_guardian *g) {
    int64_t limit = lmc_now(&lmc_system_clock) + LAST_WORDS_NS;
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL) {
            lmc_capture_drain(g->plugins[i]);
            lmc_guarded_report(g->plugins[i]);
        }
    lmc_outbox_ended(&g->outbox);
    for (lmc_outbox_flush(&g->outbox);
         lmc_outbox_waits(&g->outbox) && lmc_now(&lmc_system_clock) < limit;
         lmc_outbox_flush(&g->outbox)) {
        struct pollfd room = {.fd = g->socket, .events = POLLOUT};
        poll(&room, 1, 100);
    }
}

static void tear_down(lmc_guardian *g) {
    lmc_guardian_remove_files(g);
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL)
            lmc_guarded_destroy(g->plugins[i]);
    free(g->plugins);
    free(g->polled);
    free(g->config);
    free(g->role);
    free(g->token);
    lmc_outbox_fini(&g->outbox);
    lmc_buffer_fini(&g->inbox);
}

int lmc_plugin_guardian_main(void) {
    lmc_guardian g = {.socket = -1,
                      .signals = -1,
                      .null_fd = -1,
                      .end_ns = INT64_MAX,
                      .nudge_ns = INT64_MAX,
                      .full_ns = INT64_MAX};
    if (!set_up(&g) || !more_room(&g, 64)) {
        static const char text[] = "plugin-guardian is started by the server only\n";
        ssize_t told = write(STDERR_FILENO, text, sizeof text - 1);
        (void)told;
        return 2;
    }
    while (!g.finished && turn(&g))
        ;
    if (g.finished)
        say_goodbye(&g);
    else
        lmc_guardian_end_all(&g);
    tear_down(&g);
    if (getppid() == g.watcher)
        kill(g.watcher, SIGCONT); /* which may be stopped, and shall see our end */
    return 0;
}
