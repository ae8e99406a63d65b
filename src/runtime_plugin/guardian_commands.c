/* What the server asks of its guardian. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "runtime_plugin/guardian_state.h"

#define READ_MAX 65536
#define WORDS_MAX 64

/* ---- settings ---- */

static bool take_settings(lmc_guardian *g, const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    if (g->settled)
        return false;
    g->grace_ns = lmc_wire_get_within(&r, 0, INT64_MAX / 4);
    g->settings.worker_count = lmc_wire_get_int(&r);
    g->settings.worker_id = lmc_wire_get_int(&r);
    g->role = lmc_wire_get_string(&r);
    g->token = lmc_wire_get_string(&r);
    g->config = lmc_wire_get_string(&r);
    if (!lmc_wire_done(&r))
        return false;
    g->settings.role = g->role;
    g->settings.mark = g->token;
    g->settings.config = g->config;
    g->settled = true;
    lmc_guardian_write_config(g);
    lmc_outbox_ready(&g->outbox, g->folder != NULL ? g->folder : "");
    return true;
}

/* ---- plugins ---- */

static lmc_guarded *find(lmc_guardian *g, uint16_t number) {
    return number < g->count ? g->plugins[number] : NULL;
}

static bool make_room(lmc_guardian *g, uint16_t number) {
    if (number >= LMC_WIRE_PLUGINS_MAX)
        return false;
    if (number < g->count)
        return true;
    size_t count = (size_t)number + 1;
    lmc_guarded **plugins = realloc(g->plugins, count * sizeof *plugins);
    if (plugins == NULL)
        return false;
    for (size_t i = g->count; i < count; i++)
        plugins[i] = NULL;
    g->plugins = plugins;
    g->count = count;
    return true;
}

static lmc_guarded *add(lmc_guardian *g, uint16_t number) {
    lmc_guarded *p = make_room(g, number) ? calloc(1, sizeof *p) : NULL;
    if (p == NULL)
        return NULL;
    p->guardian = g;
    p->number = number;
    p->outcome_fd = p->ready_fd = -1;
    p->look_ns = p->tell_ns = INT64_MAX;
    p->report.exit_code = LMC_PLUGIN_UNSET;
    p->told.pid = -1; /* so that the first report is told */
    g->plugins[number] = p;
    return p;
}

/* The command of the next start; the plugin keeps it for starts after that. */
static bool take_command(lmc_guarded *p, lmc_wire_reader *r, bool is_new) {
    lmc_plugin_options options;
    char *path = lmc_wire_get_string(r), *tag = lmc_wire_get_string(r);
    lmc_wire_get_options(r, &options);
    char **words = lmc_wire_get_strings(r, WORDS_MAX);
    char **assignments = lmc_wire_get_strings(r, WORDS_MAX);
    bool fine = lmc_wire_done(r) && words != NULL && words[0] != NULL;
    if (fine) {
        lmc_wire_free_strings(p->words);
        lmc_wire_free_strings(p->assignments);
        free(p->path);
        free(p->tag);
        p->words = words;
        p->assignments = assignments;
        p->path = path;
        p->tag = tag;
        p->options = options;
    } else {
        lmc_wire_free_strings(words);
        lmc_wire_free_strings(assignments);
        free(path);
        free(tag);
    }
    if (fine && is_new)
        lmc_supervisor_init(&p->supervisor, &options, p->guardian->grace_ns,
                            (uint64_t)lmc_now(&lmc_system_clock) * (p->number + 1u));
    return fine;
}

static bool start(lmc_guardian *g, const lmc_wire_frame *frame) {
    lmc_wire_reader r = lmc_wire_read(frame);
    lmc_guarded *p = find(g, frame->plugin);
    int64_t now = lmc_now(&lmc_system_clock);
    bool is_new = p == NULL;
    if (is_new && (p = add(g, frame->plugin)) == NULL)
        return false;
    if (!take_command(p, &r, is_new)) {
        if (is_new) {
            g->plugins[frame->plugin] = NULL;
            lmc_guarded_destroy(p);
        }
        return false;
    }
    if (g->ending)
        return true;
    p->told.pid = -1; /* an answer is due even if nothing changes */
    bool again = frame->type == LMC_WIRE_RESTART && !is_new;
    lmc_guarded_obey(p, again ? lmc_supervisor_restart(&p->supervisor, lmc_guarded_left(p), now)
                              : lmc_supervisor_start(&p->supervisor, now));
    return true;
}

static bool stop(lmc_guardian *g, const lmc_wire_frame *frame) {
    lmc_guarded *p = find(g, frame->plugin);
    if (p == NULL)
        return false;
    int64_t now = lmc_now(&lmc_system_clock);
    p->told.pid = -1;
    if (!g->ending)
        lmc_guarded_obey(p, lmc_supervisor_stop(&p->supervisor, lmc_guarded_left(p), now));
    return true;
}

/* ---- frames ---- */

static bool take(lmc_guardian *g, const lmc_wire_frame *frame) {
    if (frame->type == LMC_WIRE_SETTINGS)
        return take_settings(g, frame);
    if (!g->settled)
        return false;
    switch (frame->type) {
    case LMC_WIRE_START:
    case LMC_WIRE_RESTART:
        return start(g, frame);
    case LMC_WIRE_STOP:
        return stop(g, frame);
    case LMC_WIRE_END:
        lmc_guardian_begin_end(g);
        return true;
    default:
        return false;
    }
}

static bool take_all(lmc_guardian *g) {
    size_t at = 0, used = 0;
    lmc_status status;
    lmc_wire_frame frame;
    while ((status = lmc_wire_next(lmc_slice_of(g->inbox.data + at, g->inbox.size - at),
                                   LMC_WIRE_TO_GUARDIAN_MAX, &frame, &used)) == LMC_OK) {
        if (!take(g, &frame))
            return false;
        at += used;
    }
    if (at > 0) {
        memmove(g->inbox.data, g->inbox.data + at, g->inbox.size - at);
        g->inbox.size -= at;
    }
    if (g->inbox.size == 0 && g->inbox.capacity > READ_MAX)
        lmc_buffer_fini(&g->inbox);
    return status == LMC_AGAIN;
}

bool lmc_guardian_listen(lmc_guardian *g) {
    static char bytes[READ_MAX];
    ssize_t got = recv(g->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return false;
    lmc_buffer_append(&g->inbox, bytes, (size_t)got);
    return !g->inbox.failed && take_all(g);
}
