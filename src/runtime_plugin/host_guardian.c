/* The guardian as a process: started, waited for, and outlived. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime_plugin/environment.h"
#include "runtime_plugin/guardian.h"
#include "runtime_plugin/guardian_watch.h"
#include "runtime_plugin/host_state.h"
#include "runtime_plugin/process_tree.h"

#define LMC_LOGGER "lmcache.plugin"
#define PAUSE_US 5000
#define MET_MAX 4096
#define END_LIMIT_NS (12 * LMC_NS_PER_S)      /* for a guardian that closed its socket */
#define ORPHAN_GRACE_NS (300 * LMC_NS_PER_MS) /* between SIGTERM and SIGKILL */
#define ORPHAN_LIMIT_NS (5 * LMC_NS_PER_S)

/* ---- start ---- */

static int spawn(const char *program, int socket, pid_t *pid) {
    char *const words[] = {(char *)"lmcached", (char *)LMC_GUARDIAN_COMMAND, NULL};
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int number = posix_spawnattr_init(&attributes);
    if (number != 0)
        return number;
    number = posix_spawn_file_actions_init(&actions);
    if (number == 0) {
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        number = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
        if (number == 0)
            number = posix_spawn_file_actions_adddup2(&actions, socket, LMC_GUARDIAN_FD);
        if (number == 0)
            number = posix_spawn(pid, program, &actions, &attributes, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return number;
}

lmc_status lmc_host_launch_guardian(lmc_plugin_host *host, lmc_error *error) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return lmc_error_set_errno(error, LMC_FAILED, errno, "no socket for the guardian");
    /* Should guardian and watcher be killed, what plugins left becomes ours. */
    prctl(PR_GET_CHILD_SUBREAPER, &host->was_subreaper, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int number = spawn("/proc/self/exe", ends[1], &host->watcher);
    close(ends[1]);
    if (number != 0) {
        close(ends[0]);
        host->watcher = 0;
        prctl(PR_SET_CHILD_SUBREAPER, host->was_subreaper, 0, 0, 0);
        return lmc_error_set_errno(error, LMC_FAILED, number, "the guardian cannot be started");
    }
    host->socket = ends[0];
    host->watcher_fd = (int)syscall(SYS_pidfd_open, host->watcher, 0);
    return LMC_OK;
}

/* ---- end ---- */

/* Who is stopped is woken, again and again. */
static int wait_for(pid_t pid, int64_t limit) {
    int wait_status = 0;
    pid_t got;
    while ((got = waitpid(pid, &wait_status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        kill(pid, lmc_now(&lmc_system_clock) > limit ? SIGKILL : SIGCONT);
        usleep(PAUSE_US);
    }
    return got > 0 ? wait_status : 0;
}

/* A guardian whose watcher was killed ends everything, and is our child meanwhile. */
static void await_orphaned(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    pid_t guardian = host->guardian;
    lmc_lock_drop(&host->lock);
    if (guardian > 0)
        wait_for(guardian, lmc_now(&lmc_system_clock) + END_LIMIT_NS);
}

bool lmc_host_reap_guardian(lmc_plugin_host *host, char how[96]) {
    int wait_status = wait_for(host->watcher, lmc_now(&lmc_system_clock) + END_LIMIT_NS);
    if (WIFSIGNALED(wait_status)) {
        snprintf(how, 96, "its watcher, process %d, was killed by signal %d",
                 (int)host->watcher, WTERMSIG(wait_status));
        await_orphaned(host);
    } else if (WEXITSTATUS(wait_status) > LMC_WATCH_KILLED) {
        snprintf(how, 96, "killed by signal %d", WEXITSTATUS(wait_status) - LMC_WATCH_KILLED);
    } else {
        snprintf(how, 96, "exit status %d", WEXITSTATUS(wait_status));
    }
    return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
}

/* ---- the time after its death ---- */

static bool is_known_group(const lmc_plugin_host *host, pid_t group) {
    for (size_t i = 0; i < host->count; i++)
        for (size_t j = 0; j < sizeof host->plugins[i].groups / sizeof(pid_t); j++)
            if (group > 1 && host->plugins[i].groups[j] == group)
                return true;
    return false;
}

static bool is_in(const lmc_process *items, size_t count, pid_t pid) {
    for (size_t i = 0; i < count; i++)
        if (items[i].pid == pid)
            return true;
    return false;
}

/*
 * Keeps what plugins have started. Other children of this process are not our business. What
 * left its group and session and wiped its environment still has its dump filter.
 */
static void keep_orphans(const lmc_plugin_host *host, lmc_processes *all) {
    char mark[96];
    size_t kept = 0;
    unsigned own = 0, filter;
    bool filtered = lmc_process_dump_filter(getpid(), &own);
    snprintf(mark, sizeof mark, LMC_PLUGIN_MARK "=%s:", host->token);
    for (size_t i = 0; i < all->count; i++) {
        const lmc_process *at = &all->items[i];
        if (is_known_group(host, at->group) || is_known_group(host, at->session) ||
            is_in(all->items, kept, at->parent) || lmc_process_is_marked(at->pid, mark) ||
            (filtered && lmc_process_dump_filter(at->pid, &filter) &&
             filter == (own ^ LMC_PLUGIN_DUMP_BITS)))
            all->items[kept++] = *at;
    }
    all->count = kept;
}

/* All that were met; those that became our children must not stay as zombies. */
typedef struct met {
    pid_t pids[MET_MAX];
    size_t count;
} met;

static void meet(met *all, pid_t pid) {
    for (size_t i = 0; i < all->count; i++)
        if (all->pids[i] == pid)
            return;
    if (all->count < MET_MAX)
        all->pids[all->count++] = pid;
}

/* Forgets whom it collects; a process that is not our child yet stays. */
static void collect(met *all) {
    for (size_t i = all->count; i-- > 0;)
        if (waitpid(all->pids[i], NULL, WNOHANG) > 0)
            all->pids[i] = all->pids[--all->count];
}

/* One round; true: nothing is left. */
static bool signal_orphans(const lmc_plugin_host *host, met *all, int number) {
    lmc_processes found;
    size_t living = 0;
    if (lmc_process_descendants(getpid(), &found) != LMC_OK)
        return false;
    keep_orphans(host, &found);
    for (size_t i = 0; i < found.count; i++) {
        meet(all, found.items[i].pid);
        living += !found.items[i].is_zombie;
        if (!found.items[i].is_zombie && number != 0)
            lmc_process_signal(&found.items[i], number);
    }
    if (living > 0 && number == SIGKILL)
        usleep(1000);
    collect(all);
    lmc_processes_fini(&found);
    return living == 0;
}

void lmc_host_end_orphans(lmc_plugin_host *host) {
    int64_t begin = lmc_now(&lmc_system_clock);
    met all = {.count = 0};
    bool gone = signal_orphans(host, &all, SIGTERM);
    while (!gone && lmc_now(&lmc_system_clock) - begin < ORPHAN_GRACE_NS) {
        usleep(PAUSE_US);
        gone = signal_orphans(host, &all, 0);
    }
    while (!gone && lmc_now(&lmc_system_clock) - begin < ORPHAN_LIMIT_NS)
        gone = signal_orphans(host, &all, SIGKILL);
    for (int i = 0; i < 20 && all.count > 0; i++) {
        usleep(PAUSE_US);
        collect(&all);
    }
}

void lmc_host_remove_folder(lmc_plugin_host *host) {
    DIR *folder = host->folder != NULL && host->folder[0] == '/' ? opendir(host->folder) : NULL;
    if (folder == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, "config", strlen("config")) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(host->folder);
}
