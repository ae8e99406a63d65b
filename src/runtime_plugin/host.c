#include "runtime_plugin/host.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/host_state.h"

#define LMC_LOGGER "lmcache.plugin"
#define STOP_ROOM_NS (3 * LMC_NS_PER_S) /* beside the grace, for a guardian to end */

/* ---- start ---- */

static lmc_status create(lmc_plugin_host **out, int64_t grace_ns, lmc_error *error) {
    lmc_plugin_host *host = calloc(1, sizeof *host);
    if (host == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for runtime plugins");
    lmc_lock_init(&host->lock, LMC_RANK_PLUGINS, "runtime plugins");
    lmc_cond_init(&host->changed);
    host->grace_ns = grace_ns;
    host->tell_ns = INT64_MAX;
    host->socket = -1;
    host->watcher_fd = -1;
    host->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    host->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lmc_uuid4(host->token);
    *out = host;
    if (host->wake_fd < 0 || host->idle_fd < 0)
        return lmc_error_set(error, LMC_FAILED, "no descriptor for runtime plugins");
    return LMC_OK;
}

static void put_settings(lmc_plugin_host *host, const lmc_plugin_host_options *options) {
    lmc_buffer *out = &host->outbox;
    size_t begin = lmc_wire_begin(out, LMC_WIRE_SETTINGS, 0);
    lmc_wire_put_int(out, options->grace_ns);
    lmc_wire_put_int(out, options->worker_count);
    lmc_wire_put_int(out, options->worker_id);
    lmc_wire_put_text(out, lmc_text(options->role != NULL ? options->role : ""));
    lmc_wire_put_text(out, lmc_text(host->token));
    lmc_wire_put_text(out, lmc_text(options->config));
    lmc_wire_end(out, begin);
}

static void make_idle(lmc_plugin_host *host) {
    uint64_t one = 1;
    ssize_t sent = write(host->idle_fd, &one, sizeof one);
    (void)sent;
}

/* Asks the guardian to start one; a file that cannot run is logged. */
static void put_first_start(lmc_plugin_host *host, size_t number) {
    lmc_hosted *p = &host->plugins[number];
    lmc_plugin_command command;
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_plugin_command_find(&command, p->path, getenv("PATH"), &error) == LMC_OK) {
        p->known = true;
        lmc_host_put_start(host, number, LMC_WIRE_START, &command);
    } else {
        LMC_ERROR("Failed to launch plugin %s: %s", p->path, error.text);
        p->report.state = LMC_PLUGIN_FATAL;
    }
    lmc_plugin_command_fini(&command);
}

static lmc_status start(lmc_plugin_host *host, const lmc_plugin_host_options *options,
                        lmc_error *error) {
    bool any = false;
    put_settings(host, options);
    for (size_t i = 0; i < host->count; i++) {
        put_first_start(host, i);
        any = any || host->plugins[i].known;
    }
    if (host->outbox.failed)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for runtime plugins");
    if (!any)
        make_idle(host);
    lmc_status status = lmc_host_launch_guardian(host, error);
    if (status != LMC_OK)
        return status;
    host->alive = true;
    status = lmc_thread_start(&host->thread, "lmc-plugins", lmc_host_talk, host, error);
    if (status != LMC_OK) {
        char how[96];
        close(host->socket);
        host->socket = -1;
        lmc_host_reap_guardian(host, how);
        host->alive = false;
    }
    return status;
}

lmc_status lmc_plugin_host_start(const lmc_plugin_host_options *options, lmc_plugin_host **out,
                                 lmc_error *error) {
    lmc_plugin_host *host = NULL;
    lmc_status status = create(&host, options->grace_ns, error);
    if (status == LMC_OK)
        status = lmc_host_fill_table(host, options, error);
    if (status == LMC_OK && host->count > 0)
        status = start(host, options, error);
    else if (status == LMC_OK)
        make_idle(host);
    if (status != LMC_OK) {
        lmc_plugin_host_destroy(host);
        host = NULL;
    }
    *out = host;
    return status;
}

/* ---- stop ---- */

/* True: the thread is at its end. */
static bool wait_finished(lmc_plugin_host *host, int64_t deadline) {
    bool in_time = true;
    lmc_lock_take(&host->lock);
    while (!host->finished && in_time)
        in_time = lmc_cond_wait_until(&host->changed, &host->lock, deadline);
    bool finished = host->finished;
    lmc_lock_drop(&host->lock);
    return finished;
}

/* One that has not even said who it is ends with its watcher. */
static pid_t guardian_or_watcher(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    pid_t pid = host->guardian > 0 ? host->guardian : host->watcher;
    lmc_lock_drop(&host->lock);
    return pid;
}

/* Who is stopped cannot end. */
static void let_both_run(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    if (host->alive) {
        kill(host->watcher, SIGCONT);
        kill(host->guardian > 0 ? host->guardian : host->watcher, SIGCONT);
    }
    lmc_lock_drop(&host->lock);
}

void lmc_plugin_host_stop(lmc_plugin_host *host) {
    if (!host->thread.started)
        return;
    lmc_lock_take(&host->lock);
    host->stopping = true;
    lmc_wire_end(&host->outbox, lmc_wire_begin(&host->outbox, LMC_WIRE_END, 0));
    lmc_lock_drop(&host->lock);
    lmc_host_wake(host);
    let_both_run(host);
    if (!wait_finished(host, lmc_now(&lmc_system_clock) + host->grace_ns + STOP_ROOM_NS))
        kill(guardian_or_watcher(host), SIGKILL);
    lmc_thread_join(&host->thread);
    prctl(PR_SET_CHILD_SUBREAPER, host->was_subreaper, 0, 0, 0);
}

static void hosted_fini(lmc_hosted *p) {
    free(p->path);
    free(p->tag);
    lmc_log_tail_fini(&p->tail);
}

void lmc_plugin_host_destroy(lmc_plugin_host *host) {
    if (host == NULL)
        return;
    lmc_plugin_host_stop(host);
    for (size_t i = 0; i < host->count; i++)
        hosted_fini(&host->plugins[i]);
    free(host->plugins);
    free(host->folder);
    lmc_buffer_fini(&host->inbox);
    lmc_buffer_fini(&host->sending);
    lmc_buffer_fini(&host->outbox);
    if (host->watcher_fd >= 0)
        close(host->watcher_fd);
    if (host->wake_fd >= 0)
        close(host->wake_fd);
    if (host->idle_fd >= 0)
        close(host->idle_fd);
    lmc_cond_fini(&host->changed);
    lmc_lock_fini(&host->lock);
    free(host);
}

/* ---- questions ---- */

lmc_plugin_row *lmc_plugin_host_rows(lmc_plugin_host *host, size_t *count) {
    lmc_plugin_row *rows = host->count > 0 ? calloc(host->count, sizeof *rows) : NULL;
    *count = rows != NULL ? host->count : 0;
    lmc_lock_take(&host->lock);
    for (size_t i = 0; i < *count; i++) {
        const lmc_hosted *p = &host->plugins[i];
        rows[i] = (lmc_plugin_row){.name = p->tag,
                                   .path = p->path,
                                   .restart = lmc_plugin_policy_name(p->options.restart),
                                   .split_stderr = p->options.split_stderr != 0,
                                   .report = p->report,
                                   .lines = p->lines,
                                   .stderr_lines = p->stderr_lines,
                                   .bytes = p->bytes,
                                   .dropped_lines = p->dropped_lines};
    }
    lmc_lock_drop(&host->lock);
    return rows;
}

int64_t lmc_plugin_host_guardian(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    int64_t pid = host->alive ? host->guardian : 0;
    lmc_lock_drop(&host->lock);
    return pid;
}

int64_t lmc_plugin_host_watcher(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    int64_t pid = host->alive ? host->watcher : 0;
    lmc_lock_drop(&host->lock);
    return pid;
}

int lmc_plugin_host_idle_fd(const lmc_plugin_host *host) { return host->idle_fd; }

bool lmc_plugin_host_all_well(lmc_plugin_host *host) {
    bool well = true;
    lmc_lock_take(&host->lock);
    for (size_t i = 0; i < host->count; i++)
        well = well && host->plugins[i].report.state == LMC_PLUGIN_EXITED &&
               host->plugins[i].report.exit_code == 0;
    lmc_lock_drop(&host->lock);
    return well;
}

/* ---- control ---- */

static lmc_status find(const lmc_plugin_host *host, lmc_slice name, size_t *number) {
    for (size_t i = 0; i < host->count; i++)
        if (lmc_slice_is(name, host->plugins[i].tag) ||
            lmc_slice_is(name, host->plugins[i].path)) {
            *number = i;
            return LMC_OK;
        }
    return LMC_NOT_FOUND;
}

static lmc_status put_command(lmc_plugin_host *host, size_t number, lmc_plugin_action action,
                              const lmc_plugin_command *command) {
    lmc_hosted *p = &host->plugins[number];
    bool asked = true;
    lmc_lock_take(&host->lock);
    lmc_status status = host->alive && !host->stopping ? LMC_OK : LMC_CLOSED;
    if (status == LMC_OK && action != LMC_PLUGIN_STOP) {
        lmc_host_put_start(host, number,
                           action == LMC_PLUGIN_START ? LMC_WIRE_START : LMC_WIRE_RESTART,
                           command);
        p->known = true;
    } else if (status == LMC_OK && p->known) {
        lmc_wire_end(&host->outbox,
                     lmc_wire_begin(&host->outbox, LMC_WIRE_STOP, (uint16_t)number));
    } else {
        asked = false;
    }
    if (host->outbox.failed)
        status = LMC_NO_MEMORY;
    if (asked &&
        status == LMC_OK) /* until the guardian tells, so that nobody takes old for new */
        p->report.state = action == LMC_PLUGIN_STOP ? LMC_PLUGIN_STOPPING : LMC_PLUGIN_STARTING;
    host->outbox.failed = false;
    lmc_lock_drop(&host->lock);
    lmc_host_wake(host);
    return status;
}

lmc_status lmc_plugin_host_control(lmc_plugin_host *host, lmc_slice name,
                                   lmc_plugin_action action, lmc_error *error) {
    size_t number = 0;
    lmc_plugin_command command = {0};
    if (find(host, name, &number) != LMC_OK)
        return lmc_error_set(error, LMC_NOT_FOUND, "there is no runtime plugin %.*s",
                             LMC_SLICE_ARGS(name));
    lmc_status status = LMC_OK;
    if (action != LMC_PLUGIN_STOP)
        status = lmc_plugin_command_find(&command, host->plugins[number].path, getenv("PATH"),
                                         error);
    if (status == LMC_OK)
        status = put_command(host, number, action, &command);
    lmc_plugin_command_fini(&command);
    if (status == LMC_CLOSED)
        lmc_error_set(error, status, "the guardian of the runtime plugins is gone");
    return status;
}

lmc_status lmc_plugin_host_logs(lmc_plugin_host *host, lmc_slice name, uint64_t after,
                                size_t most, lmc_tail_line **lines, uint64_t *next) {
    size_t number = 0;
    if (find(host, name, &number) != LMC_OK)
        return LMC_NOT_FOUND;
    lmc_lock_take(&host->lock);
    *lines = lmc_log_tail_copy(&host->plugins[number].tail, after, most);
    *next = host->plugins[number].tail.sequence;
    lmc_lock_drop(&host->lock);
    return LMC_OK;
}
