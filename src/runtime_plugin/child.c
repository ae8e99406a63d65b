#include "runtime_plugin/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/process_tree.h"

#define OUTCOME_FD_MIN 10

/* What did not work, told over the outcome pipe. */
typedef enum failure {
    FAILED_DESCRIPTORS,
    FAILED_USER,
    FAILED_LIMITS,
    FAILED_NICE,
    FAILED_PRIVILEGES,
    FAILED_PROGRAM,
} failure;

typedef struct told {
    int what, number;
} told;

/* ---- in the child ---- */

__attribute__((noreturn)) static void give_up(int outcome, failure what) {
    told message = {(int)what, errno};
    ssize_t sent = write(outcome, &message, sizeof message);
    _exit(sent == (ssize_t)sizeof message ? 127 : 126);
}

static void reset_signals(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&action.sa_mask);
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool place_descriptors(const lmc_child_plan *plan) {
    if (dup2(plan->input, 0) < 0 || dup2(plan->output, 1) < 0 || dup2(plan->errors, 2) < 0)
        return false;
    int keep = 3;
    if (plan->ready >= 0) {
        if (dup2(plan->ready, LMC_CHILD_READY_FD) < 0)
            return false;
        keep = LMC_CHILD_READY_FD + 1;
    }
    return close_range((unsigned)keep, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
}

static bool limit(int resource, int64_t value, int64_t unit) {
    if (value == LMC_PLUGIN_UNSET)
        return true;
    struct rlimit both = {(rlim_t)(value * unit), (rlim_t)(value * unit)};
    if (resource == RLIMIT_CPU)
        both.rlim_max += 5; /* between SIGXCPU and SIGKILL */
    return setrlimit((__rlimit_resource_t)resource, &both) == 0;
}

static bool be_nice(int64_t by) {
    if (by == LMC_PLUGIN_UNSET)
        return true;
    errno = 0;
    return nice((int)by) != -1 || errno == 0;
}

static bool take_groups(const struct passwd *user) {
    return setgid(user->pw_gid) == 0 && initgroups(user->pw_name, user->pw_gid) == 0;
}

/* What needs privileges comes before they go. */
static void restrict_child(const lmc_plugin_options *options, int outcome) {
    const struct passwd *user = NULL;
    if (options->user[0] != '\0') {
        errno = 0;
        user = getpwnam(options->user);
        if (user == NULL && errno == 0)
            errno = ENOENT;
        if (user == NULL || !take_groups(user))
            give_up(outcome, FAILED_USER);
    }
    if (!be_nice(options->nice))
        give_up(outcome, FAILED_NICE);
    if (!limit(RLIMIT_AS, options->memory_mb, INT64_C(1) << 20) ||
        !limit(RLIMIT_CPU, options->cpu_seconds, 1) ||
        !limit(RLIMIT_NOFILE, options->open_files, 1))
        give_up(outcome, FAILED_LIMITS);
    if (user != NULL && setuid(user->pw_uid) != 0)
        give_up(outcome, FAILED_USER);
    if (options->no_new_privs != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        give_up(outcome, FAILED_PRIVILEGES);
}

/* A change of user takes the death signal away, so it comes last. */
static void die_with(pid_t guardian) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != guardian)
        _exit(126);
}

__attribute__((noreturn)) static void become(const lmc_child_plan *plan, pid_t guardian,
                                             int outcome) {
    die_with(guardian);
    setpgid(0, 0);
    reset_signals();
    lmc_process_flip_dump_bits();
    int moved = fcntl(outcome, F_DUPFD_CLOEXEC, OUTCOME_FD_MIN);
    if (moved < 0 || !place_descriptors(plan))
        give_up(moved < 0 ? outcome : moved, FAILED_DESCRIPTORS);
    restrict_child(plan->options, moved);
    die_with(guardian);
    execve(plan->words[0], plan->words, plan->environment);
    give_up(moved, FAILED_PROGRAM);
}

/* ---- in the guardian ---- */

pid_t lmc_child_start(const lmc_child_plan *plan, int *outcome, lmc_error *error) {
    int ends[2];
    pid_t guardian = getpid();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        lmc_error_set_errno(error, LMC_FAILED, errno, "no pipe");
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        become(plan, guardian, ends[1]);
    int number = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        lmc_error_set_errno(error, LMC_FAILED, number, "no process");
        return -1;
    }
    setpgid(pid, pid); /* so that it is done when we go on, whoever comes first */
    *outcome = ends[0];
    return pid;
}

static const char *describe(int what) {
    switch (what) {
    case FAILED_DESCRIPTORS:
        return "its descriptors cannot be set up";
    case FAILED_LIMITS:
        return "its limits cannot be set";
    case FAILED_NICE:
        return "its priority cannot be set";
    case FAILED_PRIVILEGES:
        return "no_new_privs cannot be set";
    default:
        return "its interpreter cannot be executed";
    }
}

lmc_status lmc_child_outcome(int *outcome, const char *user, lmc_error *error) {
    told message = {0};
    ssize_t got = read(*outcome, &message, sizeof message);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return LMC_AGAIN;
    close(*outcome);
    *outcome = -1;
    if (got != (ssize_t)sizeof message)
        return LMC_OK; /* closed by exec */
    if (message.what == FAILED_USER && message.number == ENOENT)
        return lmc_error_set(error, LMC_FAILED, "there is no user %s", user);
    if (message.what == FAILED_USER)
        return lmc_error_set_errno(error, LMC_FAILED, message.number,
                                   "it cannot become user %s", user);
    return lmc_error_set_errno(error, LMC_FAILED, message.number, "%s", describe(message.what));
}
