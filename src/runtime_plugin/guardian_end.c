/* How everything ends: in order, when the server asks, or at once, when it is dead. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime_plugin/guardian_state.h"

#define ORPHAN_GRACE_NS (300 * LMC_NS_PER_MS)
#define ORPHAN_LIMIT_NS (10 * LMC_NS_PER_S) /* some wait for a disk that never answers */
#define KILL_ROUNDS 50                      /* without a pause between them */
#define NUDGE_NS (LMC_NS_PER_S / 4)
#define KILL_AGAIN_NS (10 * LMC_NS_PER_MS)

/* ---- reaping ---- */

static lmc_guarded *of_process(lmc_guardian *g, pid_t pid) {
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL && g->plugins[i]->pid == pid)
            return g->plugins[i];
    return NULL;
}

/* A process that was just being forked may have missed the signal to its group. While the dead
 * leader is not collected, the group's number is its own. */
static void signal_group_again(const lmc_guarded *p) {
    if (p->supervisor.state == LMC_PLUGIN_STOPPING)
        kill(-p->group, SIGTERM);
}

bool lmc_guardian_reap(lmc_guardian *g) {
    for (;;) {
        siginfo_t dead = {0};
        int wait_status = 0;
        if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) != 0) {
            if (errno == EINTR)
                continue;
            return true; /* no child at all */
        }
        if (dead.si_pid == 0)
            return false;
        lmc_guarded *p = of_process(g, dead.si_pid);
        if (p != NULL)
            signal_group_again(p);
        waitpid(dead.si_pid, &wait_status, 0);
        if (p != NULL)
            lmc_guarded_exited(p, wait_status);
    }
}

/* ---- signals to all ---- */

static bool is_plugin_group(const lmc_guardian *g, pid_t group) {
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL && g->plugins[i]->pid > 0 && g->plugins[i]->group == group)
            return true;
    return false;
}

/* What no living plugin's group has, one by one. */
static void signal_left(lmc_guardian *g, int number) {
    lmc_processes all;
    if (lmc_process_descendants(getpid(), &all) != LMC_OK)
        return;
    for (size_t i = 0; i < all.count; i++)
        if (!all.items[i].is_zombie && !is_plugin_group(g, all.items[i].group))
            lmc_process_signal(&all.items[i], number);
    lmc_processes_fini(&all);
}

/* Plugins' groups at one blow, then everything else. */
static void signal_all(lmc_guardian *g, int number) {
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL && g->plugins[i]->pid > 0)
            kill(-g->plugins[i]->group, number);
    signal_left(g, number);
}

/* Again and again, since what is killed may have forked meanwhile. True: all are gone. */
static bool kill_rounds(lmc_guardian *g) {
    for (int round = 0; round < KILL_ROUNDS; round++) {
        if (lmc_guardian_reap(g))
            return true;
        signal_all(g, SIGKILL);
    }
    return lmc_guardian_reap(g);
}

/* ---- in order ---- */

void lmc_guardian_begin_end(lmc_guardian *g) {
    int64_t now = lmc_now(&lmc_system_clock);
    if (g->ending)
        return;
    g->ending = true;
    g->end_ns = now + g->grace_ns;
    g->nudge_ns = now + NUDGE_NS;
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL)
            lmc_supervisor_stop(&g->plugins[i]->supervisor, false, now);
    signal_all(g, SIGTERM);
    signal_all(g, SIGCONT);
}

static void tell_kill(lmc_guardian *g) {
    double grace = (double)g->grace_ns / (double)LMC_NS_PER_S;
    bool any = false;
    for (size_t i = 0; i < g->count; i++)
        if (g->plugins[i] != NULL && g->plugins[i]->pid > 0) {
            any = true;
            lmc_outbox_log(&g->outbox, g->plugins[i]->number, LMC_LOG_WARNING,
                           "Runtime plugin %s did not end within %g s of SIGTERM; killing it",
                           g->plugins[i]->tag, grace);
        }
    if (!any)
        lmc_outbox_log(&g->outbox, 0, LMC_LOG_WARNING,
                       "Processes that runtime plugins left behind did not end within %g s of "
                       "SIGTERM; killing them",
                       grace);
}

void lmc_guardian_tick_end(lmc_guardian *g, int64_t now) {
    if (!g->ending)
        return;
    bool gone = lmc_guardian_reap(g);
    if (!gone && now >= g->end_ns) {
        if (!g->killed)
            tell_kill(g);
        g->killed = true;
        gone = kill_rounds(g);
        g->end_ns = now + KILL_AGAIN_NS;
    }
    if (!gone && !g->killed && now >= g->nudge_ns) {
        signal_left(g, SIGTERM); /* a shell that was just forking loses the first one */
        g->nudge_ns = g->nudged ? INT64_MAX : now + 3 * NUDGE_NS;
        g->nudged = true;
    }
    g->finished = gone;
}

/* ---- at once ---- */

/* Waits for a child's death, at most this long. */
static void wait_a_little(const lmc_guardian *g, int ms) {
    struct signalfd_siginfo info;
    struct pollfd death = {.fd = g->signals, .events = POLLIN};
    if (poll(&death, 1, ms) > 0 && read(g->signals, &info, sizeof info) < 0)
        usleep(1000);
}

void lmc_guardian_end_all(lmc_guardian *g) {
    int64_t begin = lmc_now(&lmc_system_clock);
    g->ending = true;
    g->outbox.broken = true;
    signal_all(g, SIGTERM);
    signal_all(g, SIGCONT);
    while (!lmc_guardian_reap(g) && lmc_now(&lmc_system_clock) - begin < ORPHAN_GRACE_NS)
        wait_a_little(g, 20);
    while (!kill_rounds(g) && lmc_now(&lmc_system_clock) - begin < ORPHAN_LIMIT_NS)
        wait_a_little(g, 5);
}
