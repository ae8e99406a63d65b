/* The host's thread: sends what is asked for, logs and notes what the guardian tells. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/discovery.h"
#include "runtime_plugin/host_state.h"

#define LMC_LOGGER "lmcache.plugin"
#define READ_MAX 65536
#define LAST_READS 1000 /* of what a guardian said before its watcher died */
#define TELL_NS LMC_NS_PER_S
#define LOG_WAIT_MS 250

void lmc_host_wake(lmc_plugin_host *host) {
    uint64_t one = 1;
    ssize_t sent = write(host->wake_fd, &one, sizeof one);
    (void)sent; /* full: it is awake already */
}

static void make_readable(int fd) {
    uint64_t one = 1;
    ssize_t sent = write(fd, &one, sizeof one);
    (void)sent;
}

/* ---- to the guardian ---- */

void lmc_host_put_start(lmc_plugin_host *host, size_t number, lmc_wire_type type,
                        const lmc_plugin_command *command) {
    const lmc_hosted *p = &host->plugins[number];
    lmc_buffer *out = &host->outbox;
    size_t begin = lmc_wire_begin(out, type, (uint16_t)number);
    lmc_wire_put_text(out, lmc_text(p->path));
    lmc_wire_put_text(out, lmc_text(p->tag));
    lmc_wire_put_options(out, &p->options);
    lmc_wire_put_strings(out, command->words, command->count);
    lmc_wire_put_strings(out, command->assignments, command->assignment_count);
    lmc_wire_end(out, begin);
}

static void take_outbox(lmc_plugin_host *host) {
    lmc_lock_take(&host->lock);
    lmc_buffer_append(&host->sending, host->outbox.data, host->outbox.size);
    if (!host->sending.failed)
        lmc_buffer_clear(&host->outbox);
    host->outbox.failed = host->sending.failed = false;
    lmc_lock_drop(&host->lock);
}

/* False: nobody reads any more. */
static bool send_some(lmc_plugin_host *host) {
    take_outbox(host);
    while (host->sent < host->sending.size) {
        ssize_t sent = send(host->socket, host->sending.data + host->sent,
                            host->sending.size - host->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        host->sent += (size_t)sent;
    }
    lmc_buffer_fini(&host->sending);
    host->sent = 0;
    return true;
}

/* ---- lines ---- */

static void tell_losses(lmc_plugin_host *host) {
    host->tell_ns = INT64_MAX;
    for (size_t i = 0; i < host->count; i++) {
        lmc_hosted *p = &host->plugins[i];
        if (p->untold > 0)
            LMC_WARNING("[%s] %llu lines dropped", p->tag, (unsigned long long)p->untold);
        p->untold = 0;
    }
}

static void lose(lmc_plugin_host *host, lmc_hosted *p, uint64_t lines) {
    p->untold += lines;
    if (host->tell_ns == INT64_MAX)
        host->tell_ns = lmc_now(&lmc_system_clock) + TELL_NS;
    lmc_lock_take(&host->lock);
    p->dropped_lines += lines;
    lmc_lock_drop(&host->lock);
}

/* A burst waits for the log a little; a log that stands still is not waited for again. */
static bool offer(lmc_plugin_host *host, lmc_log_level level, const char *prefix,
                  lmc_slice text) {
    for (int ms = 0;; ms++) {
        if (lmc_log_offer(LMC_LOGGER, level, __FILE_NAME__, __LINE__, prefix, text)) {
            host->log_stalls = false;
            return true;
        }
        if (host->log_stalls || ms == LOG_WAIT_MS)
            break;
        usleep(1000);
    }
    host->log_stalls = true;
    return false;
}

static void log_line(lmc_plugin_host *host, lmc_hosted *p, lmc_log_level level,
                     lmc_slice text) {
    lmc_buffer prefix = LMC_BUFFER_INIT;
    if (!lmc_log_enabled(level, LMC_LOGGER))
        return;
    lmc_buffer_printf(&prefix, "[%s] ", p->tag);
    if (prefix.failed || !offer(host, level, prefix.data, text))
        lose(host, p, 1);
    lmc_buffer_fini(&prefix);
}

static bool take_line(lmc_plugin_host *host, lmc_hosted *p, const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    int stream = (int)lmc_wire_get_within(&r, 1, 2);
    lmc_log_level level =
        (lmc_log_level)lmc_wire_get_within(&r, LMC_LOG_DEBUG, LMC_LOG_CRITICAL);
    int64_t raw = lmc_wire_get_within(&r, 0, INT32_MAX);
    lmc_slice text = lmc_wire_get_text(&r);
    if (!lmc_wire_done(&r))
        return false;
    int64_t wall = lmc_system_clock.wall_ns(&lmc_system_clock);
    lmc_lock_take(&host->lock);
    p->lines++;
    p->stderr_lines += stream == 2;
    p->bytes += (uint64_t)raw;
    lmc_log_tail_add(&p->tail, stream, level, wall, text);
    lmc_lock_drop(&host->lock);
    log_line(host, p, level, text);
    return true;
}

static bool take_dropped(lmc_plugin_host *host, lmc_hosted *p, const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    int64_t lines = lmc_wire_get_within(&r, 0, INT64_MAX);
    int64_t bytes = lmc_wire_get_within(&r, 0, INT64_MAX);
    if (!lmc_wire_done(&r))
        return false;
    lose(host, p, (uint64_t)lines);
    lmc_lock_take(&host->lock);
    p->bytes += (uint64_t)bytes;
    lmc_lock_drop(&host->lock);
    tell_losses(host);
    return true;
}

/* ---- states ---- */

static bool is_final(const lmc_plugin_report *report) {
    return report->state == LMC_PLUGIN_EXITED || report->state == LMC_PLUGIN_FATAL;
}

static void note_group(lmc_hosted *p, pid_t pid) {
    size_t last = (p->group_at + 3) % 4;
    if (pid == 0 || p->groups[last] == pid)
        return;
    p->groups[p->group_at] = pid;
    p->group_at = (p->group_at + 1) % 4;
}

static bool take_state(lmc_plugin_host *host, lmc_hosted *p, const lmc_wire_frame *frame) {
    lmc_plugin_report report;
    bool all = true;
    if (!lmc_wire_get_report(frame, &report))
        return false;
    note_group(p, (pid_t)report.pid);
    lmc_lock_take(&host->lock);
    p->report = report;
    for (size_t i = 0; i < host->count; i++)
        all = all && is_final(&host->plugins[i].report);
    lmc_cond_broadcast(&host->changed);
    lmc_lock_drop(&host->lock);
    if (all)
        make_readable(host->idle_fd);
    return true;
}

/* ---- from the guardian ---- */

static bool take_log(const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    lmc_log_level level =
        (lmc_log_level)lmc_wire_get_within(&r, LMC_LOG_DEBUG, LMC_LOG_CRITICAL);
    lmc_slice text = lmc_wire_get_text(&r);
    if (lmc_wire_done(&r))
        LMC_LOG(level, "%.*s", LMC_SLICE_ARGS(text));
    return lmc_wire_done(&r);
}

static bool take_ready(lmc_plugin_host *host, const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    pid_t guardian = (pid_t)lmc_wire_get_within(&r, 1, INT32_MAX);
    free(host->folder);
    host->folder = lmc_wire_get_string(&r);
    lmc_lock_take(&host->lock);
    host->guardian = guardian;
    lmc_lock_drop(&host->lock);
    return lmc_wire_done(&r);
}

static bool take(lmc_plugin_host *host, const lmc_wire_frame *frame) {
    lmc_hosted *p = frame->plugin < host->count ? &host->plugins[frame->plugin] : NULL;
    switch (frame->type) {
    case LMC_WIRE_READY:
        return take_ready(host, frame);
    case LMC_WIRE_LOG:
        return take_log(frame);
    case LMC_WIRE_STATE:
        return p != NULL && take_state(host, p, frame);
    case LMC_WIRE_LINE:
        return p != NULL && take_line(host, p, frame);
    case LMC_WIRE_DROPPED:
        return p != NULL && take_dropped(host, p, frame);
    case LMC_WIRE_ENDED:
        host->has_ended = true;
        return true;
    default:
        return false;
    }
}

static bool take_all(lmc_plugin_host *host) {
    size_t at = 0, used = 0;
    lmc_status status;
    lmc_wire_frame frame;
    lmc_buffer *inbox = &host->inbox;
    while ((status = lmc_wire_next(lmc_slice_of(inbox->data + at, inbox->size - at),
                                   LMC_WIRE_TO_SERVER_MAX, &frame, &used)) == LMC_OK) {
        if (!take(host, &frame))
            return false;
        at += used;
    }
    if (at > 0) {
        memmove(inbox->data, inbox->data + at, inbox->size - at);
        inbox->size -= at;
    }
    return status == LMC_AGAIN;
}

/* False: the guardian is gone, or talks nonsense. */
static bool receive(lmc_plugin_host *host) {
    char bytes[READ_MAX];
    ssize_t got = recv(host->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return false;
    lmc_buffer_append(&host->inbox, bytes, (size_t)got);
    return !host->inbox.failed && take_all(host);
}

/* ---- the thread ---- */

static int patience(const lmc_plugin_host *host) {
    if (host->tell_ns == INT64_MAX)
        return -1;
    int64_t ms = (host->tell_ns - lmc_now(&lmc_system_clock)) / LMC_NS_PER_MS + 1;
    return ms < 0 ? 0 : (int)ms;
}

/* The guardian has said what it says before an end in order; a stopped one never will. */
static bool hear_last_words(lmc_plugin_host *host) {
    struct pollfd more = {.fd = host->socket, .events = POLLIN};
    for (int i = 0; i < LAST_READS && poll(&more, 1, 0) > 0 && receive(host); i++)
        ;
    return false;
}

static bool turn(lmc_plugin_host *host) {
    uint64_t count;
    if (!send_some(host))
        return receive(host); /* what it said before it went */
    struct pollfd polled[] = {
        {.fd = host->socket,
         .events = (short)(POLLIN | (host->sending.size > 0 ? POLLOUT : 0))},
        {.fd = host->wake_fd, .events = POLLIN},
        {.fd = host->watcher_fd, .events = POLLIN}};
    poll(polled, 3, patience(host));
    if (polled[1].revents != 0 && read(host->wake_fd, &count, sizeof count) < 0)
        count = 0;
    if (lmc_now(&lmc_system_clock) >= host->tell_ns)
        tell_losses(host);
    if (polled[2].revents != 0)
        return hear_last_words(host);
    return polled[0].revents == 0 || receive(host);
}

static void bury(lmc_plugin_host *host) {
    char how[96] = "";
    close(host->socket); /* a guardian that only talks nonsense ends everything now */
    host->socket = -1;
    bool fine = lmc_host_reap_guardian(host, how);
    if (!host->has_ended || !fine) {
        LMC_ERROR("The guardian of the runtime plugins (process %d) is gone: %s. The plugins "
                  "are ended; the server goes on without them",
                  (int)(host->guardian > 0 ? host->guardian : host->watcher), how);
        lmc_host_end_orphans(host);
    }
    lmc_host_remove_folder(host);
    tell_losses(host);
    lmc_lock_take(&host->lock);
    for (size_t i = 0; i < host->count; i++) {
        lmc_plugin_report *report = &host->plugins[i].report;
        if (!is_final(report))
            report->state = host->has_ended ? LMC_PLUGIN_EXITED : LMC_PLUGIN_FATAL;
        report->pid = 0;
    }
    host->alive = false;
    host->finished = true;
    lmc_cond_broadcast(&host->changed);
    lmc_lock_drop(&host->lock);
    make_readable(host->idle_fd);
}

void lmc_host_talk(void *arg) {
    lmc_plugin_host *host = arg;
    while (turn(host))
        ;
    bury(host);
}
