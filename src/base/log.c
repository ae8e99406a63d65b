#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log_line.h"
#include "base/thread.h"

#define LMC_LOGGER "lmcache.log"
#define TARGET STDERR_FILENO
#define QUEUE_BYTES ((size_t)1 << 20)
/* Bytes given to one write: what a pipe takes whole, and at once when poll says that it may. */
#define PIECE ((size_t)4096)
#define POLL_MS 100
/* Between two rounds of writing, so that a busy server's lines do not wake the writer each. */
#define REST_NS (5 * LMC_NS_PER_MS)
/* How long a reader of stderr may stall a stop, and a line that is written directly. */
#define STOP_PATIENCE_NS (2 * LMC_NS_PER_S)
#define DIRECT_PATIENCE_NS (LMC_NS_PER_S / 5)

/* A ring of bytes. Positions only grow; the place is the position modulo QUEUE_BYTES. */
static struct {
    lmc_lock lock;
    lmc_cond queued;    /* there is something to write, or stop */
    lmc_cond written;   /* the writer has moved on */
    char *bytes;        /* NULL: lines are written directly */
    uint64_t head;      /* next byte to queue */
    uint64_t tail;      /* next byte to write */
    uint64_t untold;    /* dropped lines that no line has told of yet */
    int64_t give_up_ns; /* set by stop: when the writer stops trying */
    lmc_thread writer;
    bool ready, idle;
    bool stopping; /* write what there is, then end */
    bool closed;   /* the writer takes no more */
} queue = {
    .lock = {.mutex = PTHREAD_MUTEX_INITIALIZER, .name = "log queue", .rank = LMC_RANK_LOG}};

static _Atomic uint64_t dropped;
static atomic_int coloured = -1; /* unknown */

uint64_t lmc_log_dropped(void) { return atomic_load(&dropped); }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static bool use_colours(void) {
    int known = atomic_load_explicit(&coloured, memory_order_relaxed);
    if (known < 0) {
        known = isatty(TARGET) == 1;
        atomic_store_explicit(&coloured, known, memory_order_relaxed);
    }
    return known == 1;
}

/* Bytes written; 0: the reader stalls; -1: nobody reads any more. */
static ssize_t try_write(const char *data, size_t size) {
    struct pollfd target = {.fd = TARGET, .events = POLLOUT};
    int ready = poll(&target, 1, POLL_MS);
    if (ready == 0 || (ready < 0 && errno == EINTR))
        return 0;
    if (ready < 0 || (target.revents & POLLNVAL) != 0)
        return -1;
    ssize_t sent = write(TARGET, data, smaller(size, PIECE));
    if (sent < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    return sent;
}

static void write_directly(const char *line, size_t size) {
    int64_t give_up = lmc_now(&lmc_system_clock) + DIRECT_PATIENCE_NS;
    while (size > 0) {
        ssize_t sent = try_write(line, size);
        if (sent < 0 || (sent == 0 && lmc_now(&lmc_system_clock) >= give_up)) {
            atomic_fetch_add(&dropped, 1);
            return;
        }
        line += sent;
        size -= (size_t)sent;
    }
}

/* --- The queue; its lock is held. --- */

static size_t waiting(void) { return (size_t)(queue.head - queue.tail); }

static bool enqueue(const char *line, size_t size) {
    if (size > QUEUE_BYTES - waiting())
        return false;
    size_t at = (size_t)(queue.head % QUEUE_BYTES);
    size_t first = smaller(size, QUEUE_BYTES - at);
    memcpy(queue.bytes + at, line, first);
    memcpy(queue.bytes, line + first, size - first);
    queue.head += size;
    return true;
}

/* Whole lines that fit one write, if there is one; else a part of a long line. */
static size_t copy_piece(char out[PIECE]) {
    size_t size = smaller(waiting(), PIECE);
    size_t at = (size_t)(queue.tail % QUEUE_BYTES);
    size_t first = smaller(size, QUEUE_BYTES - at);
    memcpy(out, queue.bytes + at, first);
    memcpy(out + first, queue.bytes, size - first);
    const char *end = memrchr(out, '\n', size);
    return end != NULL ? (size_t)(end - out) + 1 : size;
}

static void discard_waiting(void) {
    uint64_t lines = 0;
    for (; queue.tail < queue.head; queue.tail++)
        lines += queue.bytes[queue.tail % QUEUE_BYTES] == '\n';
    atomic_fetch_add(&dropped, lines);
}

__attribute__((format(printf, 3, 4))) static size_t
compose(char *out, const lmc_log_source *source, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int64_t wall = lmc_system_clock.wall_ns(&lmc_system_clock);
    size_t size = lmc_log_compose(out, use_colours(), wall, source, format, args);
    va_end(args);
    return size;
}

/* Tells how many lines were dropped, as soon as there is room for saying so. */
static void tell_dropped(void) {
    char line[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX];
    lmc_log_source source = {LMC_LOG_WARNING, LMC_LOGGER, __FILE_NAME__, __LINE__};
    size_t size =
        compose(line, &source, "%llu log lines were dropped: stderr is read too slowly",
                (unsigned long long)queue.untold);
    if (enqueue(line, size))
        queue.untold = 0;
}

/* The lock is not held while writing. */
static void write_piece(void) {
    char piece[PIECE];
    size_t size = copy_piece(piece);
    lmc_lock_drop(&queue.lock);
    ssize_t sent = try_write(piece, size);
    lmc_lock_take(&queue.lock);
    bool late = queue.stopping && lmc_now(&lmc_system_clock) >= queue.give_up_ns;
    if (sent > 0)
        queue.tail += (uint64_t)sent;
    else if (sent < 0 || late)
        discard_waiting();
    lmc_cond_broadcast(&queue.written);
}

static void rest(void) {
    int64_t until = lmc_now(&lmc_system_clock) + REST_NS;
    while (!queue.stopping && waiting() < QUEUE_BYTES / 2 &&
           lmc_cond_wait_until(&queue.queued, &queue.lock, until)) {
    }
}

static void run_writer(void *arg) {
    bool rested = true;
    (void)arg;
    lmc_lock_take(&queue.lock);
    for (;;) {
        if (queue.untold > 0 && waiting() < QUEUE_BYTES / 2)
            tell_dropped();
        if (waiting() > 0) {
            write_piece();
            rested = false;
        } else if (queue.stopping) {
            break;
        } else if (!rested) {
            rest();
            rested = true;
        } else {
            queue.idle = true;
            lmc_cond_wait(&queue.queued, &queue.lock);
            queue.idle = false;
        }
    }
    queue.closed = true;
    lmc_cond_broadcast(&queue.written);
    lmc_lock_drop(&queue.lock);
}

lmc_status lmc_log_start(lmc_error *error) {
    char *bytes = malloc(QUEUE_BYTES);
    if (bytes == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the log queue");
    atomic_store(&coloured, -1);
    lmc_lock_take(&queue.lock);
    bool running = queue.bytes != NULL;
    if (!running) {
        if (!queue.ready) {
            lmc_cond_init(&queue.queued);
            lmc_cond_init(&queue.written);
            queue.ready = true;
        }
        queue.bytes = bytes;
        queue.head = queue.tail = queue.untold = 0;
        queue.stopping = queue.closed = queue.idle = false;
    }
    lmc_lock_drop(&queue.lock);
    if (running) {
        free(bytes);
        return lmc_error_set(error, LMC_BUSY, "the log is started already");
    }
    lmc_status status = lmc_thread_start(&queue.writer, "lmc-log", run_writer, NULL, error);
    if (status != LMC_OK) {
        lmc_lock_take(&queue.lock);
        size_t size = waiting();
        queue.bytes = NULL;
        lmc_lock_drop(&queue.lock);
        write_directly(bytes, size); /* lines of other threads from in between */
        free(bytes);
    }
    return status;
}

void lmc_log_stop(void) {
    lmc_lock_take(&queue.lock);
    bool running = queue.bytes != NULL && !queue.stopping;
    if (running) {
        queue.stopping = true;
        queue.give_up_ns = lmc_now(&lmc_system_clock) + STOP_PATIENCE_NS;
        lmc_cond_signal(&queue.queued);
    }
    lmc_lock_drop(&queue.lock);
    if (!running)
        return;
    lmc_thread_join(&queue.writer);
    lmc_lock_take(&queue.lock);
    char *bytes = queue.bytes;
    queue.bytes = NULL;
    lmc_lock_drop(&queue.lock);
    free(bytes);
}

void lmc_log_flush(void) {
    lmc_lock_take(&queue.lock);
    uint64_t until = queue.head;
    int64_t give_up = lmc_now(&lmc_system_clock) + STOP_PATIENCE_NS;
    while (queue.bytes != NULL && !queue.closed && queue.tail < until) {
        if (!lmc_cond_wait_until(&queue.written, &queue.lock, give_up))
            break;
    }
    lmc_lock_drop(&queue.lock);
}

/* False: nobody drains the queue, the line has to be written directly. */
static bool hand_over(const char *line, size_t size) {
    lmc_lock_take(&queue.lock);
    bool running = queue.bytes != NULL && !queue.closed;
    if (running && !enqueue(line, size)) {
        atomic_fetch_add(&dropped, 1);
        queue.untold++;
    }
    bool wake = running && (queue.idle || waiting() >= QUEUE_BYTES / 2);
    if (wake)
        queue.idle = false;
    lmc_lock_drop(&queue.lock);
    if (wake)
        lmc_cond_signal(&queue.queued);
    return running;
}

void lmc_log_write(lmc_log_level level, const char *logger, const char *file, int line,
                   const char *format, ...) {
    int kept_errno = errno;
    char text[LMC_LOG_LINE_MAX + LMC_LOG_FRAME_MAX];
    lmc_log_source source = {level, logger, file, line};
    int64_t wall = lmc_system_clock.wall_ns(&lmc_system_clock);
    va_list args;
    va_start(args, format);
    size_t size = lmc_log_compose(text, use_colours(), wall, &source, format, args);
    va_end(args);
    if (!hand_over(text, size))
        write_directly(text, size);
    errno = kept_errno;
}

/* As hand_over(), for text that may wait in half of the queue only. */
static bool offer(const char *line, size_t size, bool *running) {
    lmc_lock_take(&queue.lock);
    *running = queue.bytes != NULL && !queue.closed;
    bool taken = *running && waiting() + size <= QUEUE_BYTES / 2 && enqueue(line, size);
    bool wake = taken && queue.idle;
    if (wake)
        queue.idle = false;
    lmc_lock_drop(&queue.lock);
    if (wake)
        lmc_cond_signal(&queue.queued);
    return taken;
}

bool lmc_log_offer(const char *logger, lmc_log_level level, const char *file, int line,
                   const char *prefix, lmc_slice text) {
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_log_source source = {level, logger, file, line};
    int64_t wall = lmc_system_clock.wall_ns(&lmc_system_clock);
    bool running = true, taken = false;
    lmc_log_compose_text(&out, use_colours(), wall, &source, prefix, text);
    if (!out.failed) {
        taken = offer(out.data, out.size, &running);
        if (!running) {
            write_directly(out.data, out.size);
            taken = true;
        }
    }
    lmc_buffer_fini(&out);
    return taken;
}
