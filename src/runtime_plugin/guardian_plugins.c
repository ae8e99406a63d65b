/* One plugin under the guardian: started, watched, signalled. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/child.h"
#include "runtime_plugin/guardian_state.h"

#define LOOK_NS (LMC_NS_PER_S / 20)
/* At these looks what outlived its leader hears SIGTERM again: a shell that was just forking
 * loses the first one. */
#define NUDGE_FIRST 5
#define NUDGE_LAST 20

static double seconds(int64_t ns) { return (double)ns / (double)LMC_NS_PER_S; }

/* ---- what belongs to a plugin ---- */

static void mark_of(const lmc_guarded *p, lmc_buffer *mark) {
    lmc_buffer_printf(mark, "%s:%u:", p->guardian->settings.mark, p->number);
}

static bool is_listed_parent(const lmc_process *owned, size_t count, pid_t parent) {
    for (size_t i = 0; i < count; i++)
        if (owned[i].pid == parent)
            return true;
    return false;
}

/* Keeps in `all` what belongs to the plugin: its process, its group and session, what carries
 * its mark, and all that descends from these. */
static void keep_owned(const lmc_guarded *p, lmc_processes *all) {
    lmc_buffer mark = LMC_BUFFER_INIT;
    size_t kept = 0;
    mark_of(p, &mark);
    for (size_t i = 0; i < all->count; i++) {
        const lmc_process *at = &all->items[i];
        if (!at->is_zombie &&
            (at->pid == p->pid || at->group == p->group || at->session == p->group ||
             is_listed_parent(all->items, kept, at->parent) ||
             (!mark.failed && lmc_process_is_marked(at->pid, mark.data))))
            all->items[kept++] = *at;
    }
    all->count = kept;
    lmc_buffer_fini(&mark);
}

static void owned_by(const lmc_guarded *p, lmc_processes *owned) {
    *owned = (lmc_processes){0};
    if (p->group != 0 && lmc_process_descendants(getpid(), owned) == LMC_OK)
        keep_owned(p, owned);
}

bool lmc_guarded_left(lmc_guarded *p) {
    lmc_processes owned;
    owned_by(p, &owned);
    bool left = owned.count > 0;
    lmc_processes_fini(&owned);
    return left;
}

/* The group at one blow while its number cannot be another's, then whoever left the group. */
static void signal_all(const lmc_guarded *p, int number) {
    lmc_processes owned;
    if (p->pid > 0)
        kill(-p->group, number);
    owned_by(p, &owned);
    for (size_t i = 0; i < owned.count; i++)
        if (p->pid <= 0 || owned.items[i].group != p->group)
            lmc_process_signal(&owned.items[i], number);
    lmc_processes_fini(&owned);
}

/* ---- start ---- */

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void failed_launch(lmc_guarded *p, const char *reason) {
    lmc_outbox_log(&p->guardian->outbox, p->number, LMC_LOG_ERROR,
                   "Failed to launch plugin %s: %s", p->path, reason);
}

/* The environment of this plugin, in settings of its own. */
static lmc_status build_environment(lmc_guarded *p, lmc_plugin_environment *environment) {
    lmc_guardian *g = p->guardian;
    lmc_plugin_settings settings = g->settings;
    lmc_buffer mark = LMC_BUFFER_INIT;
    mark_of(p, &mark);
    if (p->options.user[0] != '\0' && p->user_config == NULL)
        p->user_config = lmc_guardian_config_for(g, p->number, p->options.user);
    if (p->options.user[0] != '\0')
        settings.config_file = p->user_config;
    settings.mark = mark.failed ? "" : mark.data;
    int ready = p->options.ready_fd != 0 ? LMC_CHILD_READY_FD : -1;
    lmc_status status =
        lmc_plugin_environment_build(environment, environ, &settings, p->assignments, ready);
    lmc_buffer_fini(&mark);
    return status;
}

typedef struct pipes {
    int output, errors, ready;
} pipes;

static lmc_status open_pipes(lmc_guarded *p, pipes *writing, lmc_error *error) {
    *writing = (pipes){-1, -1, -1};
    lmc_status status = lmc_capture_open(p, 1, &writing->output, error);
    if (status == LMC_OK && p->options.split_stderr != 0)
        status = lmc_capture_open(p, 2, &writing->errors, error);
    if (status == LMC_OK && p->options.ready_fd != 0) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
            return lmc_error_set_errno(error, LMC_FAILED, errno, "no pipe");
        close_fd(&p->ready_fd);
        p->ready_fd = ends[0];
        writing->ready = ends[1];
    }
    return status;
}

static pid_t start_child(lmc_guarded *p, lmc_error *error) {
    lmc_plugin_environment environment = {0};
    pipes writing;
    pid_t pid = -1;
    if (open_pipes(p, &writing, error) == LMC_OK) {
        if (build_environment(p, &environment) != LMC_OK)
            lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
        else
            pid = lmc_child_start(&(lmc_child_plan){.words = p->words,
                                                    .environment = environment.strings,
                                                    .options = &p->options,
                                                    .input = p->guardian->null_fd,
                                                    .output = writing.output,
                                                    .errors = writing.errors >= 0
                                                                  ? writing.errors
                                                                  : writing.output,
                                                    .ready = writing.ready},
                                  &p->outcome_fd, error);
    }
    lmc_plugin_environment_fini(&environment);
    close_fd(&writing.output);
    close_fd(&writing.errors);
    close_fd(&writing.ready);
    return pid;
}

static void after_exit(lmc_guarded *p, bool failed);

static void spawn(lmc_guarded *p) {
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_guarded_left(p))
        signal_all(p, SIGKILL); /* of the run before; two at a time are one too many */
    p->launch_failed = p->told_kill = false;
    p->look_ns = INT64_MAX;
    pid_t pid = start_child(p, &error);
    if (pid > 0) {
        p->pid = p->group = pid;
        p->report.started_ns = p->supervisor.started_ns;
        return;
    }
    close_fd(&p->ready_fd);
    p->launch_failed = true;
    failed_launch(p, error.text);
    after_exit(p, true);
}

void lmc_guarded_outcome(lmc_guarded *p) {
    lmc_error error = LMC_ERROR_INIT;
    lmc_buffer interpreter = LMC_BUFFER_INIT;
    lmc_status status = lmc_child_outcome(&p->outcome_fd, p->options.user, &error);
    if (status == LMC_AGAIN)
        return;
    if (status != LMC_OK) {
        p->launch_failed = true;
        failed_launch(p, error.text);
        return;
    }
    for (size_t i = 0; p->words[i] != NULL && p->words[i + 1] != NULL; i++)
        lmc_buffer_printf(&interpreter, "%s%s", i > 0 ? " " : "", p->words[i]);
    lmc_outbox_log(&p->guardian->outbox, p->number, LMC_LOG_INFO,
                   "Launched runtime plugin: %s with %s", p->path,
                   interpreter.data != NULL ? interpreter.data : "?");
    lmc_buffer_fini(&interpreter);
}

void lmc_guarded_ready(lmc_guarded *p) {
    char bytes[256];
    ssize_t got = read(p->ready_fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool line = got > 0 && memchr(bytes, '\n', (size_t)got) != NULL;
    if (line && p->supervisor.state == LMC_PLUGIN_STARTING) {
        lmc_supervisor_ready(&p->supervisor);
        lmc_outbox_log(&p->guardian->outbox, p->number, LMC_LOG_INFO,
                       "Runtime plugin %s is ready", p->tag);
    }
    if (line || got <= 0)
        close_fd(&p->ready_fd);
}

/* ---- orders ---- */

void lmc_guarded_obey(lmc_guarded *p, lmc_plugin_order order) {
    switch (order) {
    case LMC_ORDER_SPAWN:
        spawn(p);
        break;
    case LMC_ORDER_TERM:
        signal_all(p, SIGTERM);
        signal_all(p, SIGCONT); /* one that is stopped hears nothing else */
        p->look_ns = lmc_now(&lmc_system_clock);
        break;
    case LMC_ORDER_KILL:
        if (!p->told_kill)
            lmc_outbox_log(&p->guardian->outbox, p->number, LMC_LOG_WARNING,
                           "Runtime plugin %s did not end within %g s of SIGTERM; killing it",
                           p->tag, seconds(p->supervisor.grace_ns));
        p->told_kill = true;
        signal_all(p, SIGKILL);
        break;
    case LMC_ORDER_NOTHING:
        break;
    }
}

/* ---- exit ---- */

static int code_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? -WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void tell_plan(lmc_guarded *p) {
    const lmc_supervisor *s = &p->supervisor;
    lmc_outbox *outbox = &p->guardian->outbox;
    char of[32] = "";
    if (s->max_restarts > 0)
        snprintf(of, sizeof of, " of %lld", (long long)s->max_restarts);
    if (s->state == LMC_PLUGIN_BACKOFF)
        lmc_outbox_log(outbox, p->number, LMC_LOG_WARNING,
                       "Runtime plugin %s is started again in %.1f s (restart %lld%s)", p->tag,
                       seconds(s->deadline_ns - lmc_now(&lmc_system_clock)),
                       (long long)s->in_a_row, of);
    else if (s->state == LMC_PLUGIN_FATAL)
        lmc_outbox_log(outbox, p->number, LMC_LOG_ERROR,
                       "Runtime plugin %s is given up after %lld restarts in a row", p->tag,
                       (long long)s->in_a_row);
}

static void after_exit(lmc_guarded *p, bool failed) {
    lmc_supervisor *s = &p->supervisor;
    if (p->launch_failed && s->policy == LMC_PLUGIN_NEVER && s->state != LMC_PLUGIN_STOPPING) {
        lmc_supervisor_unable(s);
        return;
    }
    lmc_supervisor_exited(s, failed, lmc_now(&lmc_system_clock));
    tell_plan(p);
    if (s->state == LMC_PLUGIN_BACKOFF)
        signal_all(p, SIGTERM); /* what the run has left behind goes before the next */
}

void lmc_guarded_exited(lmc_guarded *p, int wait_status) {
    int code = code_of(wait_status);
    if (p->outcome_fd >= 0)
        lmc_guarded_outcome(p);
    close_fd(&p->outcome_fd);
    if (p->ready_fd >= 0)
        lmc_guarded_ready(p);
    close_fd(&p->ready_fd);
    p->pid = 0;
    lmc_capture_drain(p);
    if (!p->launch_failed) {
        p->report.exit_code = code;
        lmc_outbox_log(&p->guardian->outbox, p->number, LMC_LOG_INFO,
                       "Runtime plugin %s exited with code %d", p->tag, code);
    }
    after_exit(p, code != 0);
    p->look_ns = lmc_now(&lmc_system_clock);
    p->looks = 0;
    if (p->guardian->ending) /* what is left is looked for once, for all plugins */
        lmc_supervisor_emptied(&p->supervisor, p->look_ns);
}

/* ---- time ---- */

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t lmc_guarded_deadline(const lmc_guarded *p) {
    if (p->guardian->ending)
        return lmc_capture_deadline(p);
    int64_t when = sooner(lmc_supervisor_deadline(&p->supervisor), lmc_capture_deadline(p));
    bool looks = p->supervisor.state == LMC_PLUGIN_STOPPING && p->pid == 0;
    return looks ? sooner(when, p->look_ns) : when;
}

static void look(lmc_guarded *p, int64_t now) {
    if (p->supervisor.state != LMC_PLUGIN_STOPPING || p->pid != 0 || now < p->look_ns)
        return;
    p->look_ns = now + LOOK_NS;
    if (lmc_guarded_left(p)) {
        p->looks++;
        if (p->looks == NUDGE_FIRST || p->looks == NUDGE_LAST)
            signal_all(p, SIGTERM);
        return;
    }
    p->group = 0;
    lmc_guarded_obey(p, lmc_supervisor_emptied(&p->supervisor, now));
}

void lmc_guarded_tick(lmc_guarded *p, int64_t now) {
    lmc_capture_tick(p, now);
    if (p->guardian->ending)
        return;
    lmc_guarded_obey(p, lmc_supervisor_tick(&p->supervisor, now));
    look(p, now);
}

void lmc_guarded_report(lmc_guarded *p) {
    lmc_plugin_report *r = &p->report;
    r->state = p->supervisor.state;
    r->pid = p->pid;
    r->restarts = p->supervisor.restarts;
    if (r->state == p->told.state && r->pid == p->told.pid &&
        r->exit_code == p->told.exit_code && r->restarts == p->told.restarts &&
        r->started_ns == p->told.started_ns)
        return;
    lmc_outbox_report(&p->guardian->outbox, p->number, r);
    p->told = *r;
}

void lmc_guarded_destroy(lmc_guarded *p) {
    lmc_capture_close_all(p);
    close_fd(&p->outcome_fd);
    close_fd(&p->ready_fd);
    lmc_wire_free_strings(p->words);
    lmc_wire_free_strings(p->assignments);
    free(p->user_config);
    free(p->path);
    free(p->tag);
    free(p);
}
