/* What plugins write: read without waiting, within bounds, handed on line by line. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "runtime_plugin/guardian_state.h"

#define READ_MAX 65536
#define SILENCE_NS LMC_NS_PER_S        /* after it an unfinished line is given */
#define TELL_NS LMC_NS_PER_S           /* between two reports of losses */
#define BYTES_PER_S (16.0 * (1 << 20)) /* read per plugin; the rest waits in its pipe */
#define BURST_S 10.0                   /* seconds of lines that may come at once */
#define DRAIN_MAX ((size_t)4 << 20)

/* ---- lines ---- */

static lmc_log_level level_of(const lmc_guarded *p, lmc_slice *text) {
    static const struct {
        char letter;
        lmc_log_level level;
    } prefixes[] = {{'E', LMC_LOG_ERROR},
                    {'W', LMC_LOG_WARNING},
                    {'I', LMC_LOG_INFO},
                    {'D', LMC_LOG_DEBUG}};
    const char *at = text->data;
    if (p->options.level_prefixes != 0 && text->size >= 3 && at[1] == '!' && at[2] == ' ')
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (at[0] == prefixes[i].letter) {
                *text = lmc_slice_of(at + 3, text->size - 3);
                return prefixes[i].level;
            }
    return LMC_LOG_INFO;
}

static bool take_token(lmc_guarded *p) {
    if (p->options.max_lines_per_second == 0)
        return true;
    if (p->line_tokens < 1)
        return false;
    p->line_tokens -= 1;
    return true;
}

static void drop(lmc_guarded *p, size_t raw) {
    p->dropped_lines++;
    p->dropped_bytes += raw;
    if (p->tell_ns == INT64_MAX)
        p->tell_ns = lmc_now(&lmc_system_clock) + TELL_NS;
}

static void take_line(void *arg, lmc_slice text, size_t raw) {
    lmc_capture *capture = arg;
    lmc_guarded *p = capture->plugin;
    lmc_plugin_line line = {.stream = capture->stream, .raw = raw};
    if (!take_token(p)) {
        drop(p, raw);
        return;
    }
    line.level = level_of(p, &text);
    line.text = text;
    if (!lmc_outbox_line(&p->guardian->outbox, p->number, &line))
        drop(p, raw);
}

static void tell_losses(lmc_guarded *p) {
    if (p->dropped_lines > 0)
        lmc_outbox_dropped(&p->guardian->outbox, p->number, p->dropped_lines, p->dropped_bytes);
    p->dropped_lines = p->dropped_bytes = 0;
    p->tell_ns = INT64_MAX;
}

/* ---- rates ---- */

static void refill(lmc_guarded *p, int64_t now) {
    double seconds = (double)(now - p->tokens_ns) / (double)LMC_NS_PER_S;
    double rate = (double)p->options.max_lines_per_second;
    p->tokens_ns = now;
    p->line_tokens += seconds * rate;
    if (p->line_tokens > BURST_S * rate)
        p->line_tokens = BURST_S * rate;
    p->byte_tokens += seconds * BYTES_PER_S;
    if (p->byte_tokens > BYTES_PER_S)
        p->byte_tokens = BYTES_PER_S;
}

bool lmc_capture_may_read(const lmc_guarded *p) { return p->byte_tokens > 0; }

/* ---- pipes ---- */

static void close_capture(lmc_capture *capture) {
    lmc_line_splitter_flush(&capture->splitter);
    lmc_line_splitter_fini(&capture->splitter);
    if (capture->fd >= 0)
        close(capture->fd);
    free(capture);
}

void lmc_capture_close_all(lmc_guarded *p) {
    while (p->captures != NULL) {
        lmc_capture *next = p->captures->next;
        close_capture(p->captures);
        p->captures = next;
    }
    tell_losses(p);
}

void lmc_capture_close_ended(lmc_guarded *p) {
    for (lmc_capture **at = &p->captures; *at != NULL;) {
        lmc_capture *capture = *at;
        if (capture->fd >= 0) {
            at = &capture->next;
            continue;
        }
        *at = capture->next;
        close_capture(capture);
    }
}

/* The oldest goes when too many runs left somebody who holds their pipes. */
static void bound_captures(lmc_guarded *p) {
    size_t count = 0;
    for (lmc_capture *at = p->captures; at != NULL; at = at->next)
        count++;
    if (count < LMC_CAPTURES_MAX)
        return;
    lmc_capture *oldest = p->captures;
    p->captures = oldest->next;
    close_capture(oldest);
}

lmc_status lmc_capture_open(lmc_guarded *p, int stream, int *writing_end, lmc_error *error) {
    int ends[2];
    bound_captures(p);
    lmc_capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(capture);
        return lmc_error_set_errno(error, LMC_FAILED, errno, "no pipe");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end only: the plugin's must wait when full */
    *capture = (lmc_capture){.plugin = p,
                             .fd = ends[0],
                             .stream = stream,
                             .polled_at = SIZE_MAX,
                             .flush_ns = INT64_MAX};
    lmc_line_splitter_init(&capture->splitter, take_line, capture);
    lmc_capture **last = &p->captures;
    while (*last != NULL)
        last = &(*last)->next;
    *last = capture;
    *writing_end = ends[1];
    if (p->tokens_ns == 0) {
        p->tokens_ns = lmc_now(&lmc_system_clock);
        p->line_tokens = BURST_S * (double)p->options.max_lines_per_second;
        p->byte_tokens = BYTES_PER_S;
    }
    return LMC_OK;
}

bool lmc_capture_read(lmc_capture *capture) {
    static char bytes[READ_MAX];
    if (capture->fd < 0)
        return true;
    ssize_t got = read(capture->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0) {
        close(capture->fd);
        capture->fd = -1;
        lmc_line_splitter_flush(&capture->splitter);
        capture->flush_ns = INT64_MAX;
        return true;
    }
    int64_t now = lmc_now(&lmc_system_clock);
    refill(capture->plugin, now);
    capture->plugin->byte_tokens -= (double)got;
    lmc_line_splitter_feed(&capture->splitter, lmc_slice_of(bytes, (size_t)got));
    bool waits = lmc_line_splitter_waits(&capture->splitter);
    capture->flush_ns = waits ? now + SILENCE_NS : INT64_MAX;
    return got < (ssize_t)sizeof bytes;
}

void lmc_capture_drain(lmc_guarded *p) {
    for (lmc_capture *at = p->captures; at != NULL; at = at->next)
        for (size_t pieces = 0; pieces < DRAIN_MAX / READ_MAX && !lmc_capture_read(at);)
            pieces++;
    for (lmc_capture *at = p->captures; at != NULL; at = at->next)
        lmc_line_splitter_flush(&at->splitter);
    tell_losses(p);
    lmc_capture_close_ended(p);
}

/* ---- time ---- */

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t lmc_capture_deadline(const lmc_guarded *p) {
    int64_t when = p->tell_ns;
    for (const lmc_capture *at = p->captures; at != NULL; at = at->next)
        when = sooner(when, at->flush_ns);
    if (p->captures != NULL && !lmc_capture_may_read(p))
        when = sooner(when, p->tokens_ns + LMC_NS_PER_S / 50);
    return when;
}

void lmc_capture_tick(lmc_guarded *p, int64_t now) {
    if (p->captures != NULL && !lmc_capture_may_read(p))
        refill(p, now);
    for (lmc_capture *at = p->captures; at != NULL; at = at->next)
        if (now >= at->flush_ns) {
            lmc_line_splitter_flush(&at->splitter);
            at->flush_ns = INT64_MAX;
        }
    if (now >= p->tell_ns)
        tell_losses(p);
}
