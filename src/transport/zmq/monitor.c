#include "transport/zmq/monitor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/zmq/endless.h"
#include "transport/zmq/greeting.h"

#define LMC_LOGGER "lmcache.zmq"
#define ENDPOINT "inproc://lmcached.monitor"
#define DESCRIPTORS_MAX (1 << 24)
#define PATIENCE_NS LMC_NS_PER_S /* with those who say nothing that we understand */
#define CROWD 64                 /* so many at a time are clients that all come at once */
#define CROWD_PATIENCE_NS (10 * LMC_NS_PER_S)
#define CROWD_OF_LONGEST 4 /* messages of the longest form may be on their way at a time */

/* What is known of one descriptor. */
typedef struct lmc_zmq_connection {
    bool open;
    lmc_zmq_peer *peer; /* NULL: has sent nothing yet */
    lmc_zmq_greeting greeting;
    lmc_zmq_progress progress;
} lmc_zmq_connection;

struct lmc_zmq_monitor {
    lmc_zmq_monitor_options options;
    lmc_lock lock;                   /* guards events and connections */
    void *events;                    /* PAIR; used by whoever holds the lock */
    lmc_zmq_connection *connections; /* by descriptor */
    int connection_count;
    int greeting_count;      /* of connections, how many may be strangers' */
    int64_t greetings_at_ns; /* when to look at them; 0: not */
    int events_fd;
    int bell; /* eventfd that wakes the thread */
    lmc_zmq_growth growth;
    lmc_mpsc reports;
    _Atomic bool stopping, tidy_due;
    lmc_thread thread;
};

/* ---- events ---- */

static lmc_zmq_connection *connection_of(lmc_zmq_monitor *monitor, int fd) {
    if (fd < 0 || fd >= DESCRIPTORS_MAX)
        return NULL;
    if (fd >= monitor->connection_count) {
        int count = fd + fd / 2 + 64;
        lmc_zmq_connection *grown =
            realloc(monitor->connections, (size_t)count * sizeof *monitor->connections);
        if (grown == NULL)
            return NULL;
        memset(grown + monitor->connection_count, 0,
               (size_t)(count - monitor->connection_count) * sizeof *grown);
        monitor->connections = grown;
        monitor->connection_count = count;
    }
    return &monitor->connections[fd];
}

/* Lock held. A peer that has gone joins the list. */
static void apply(lmc_zmq_monitor *monitor, uint16_t event, int fd, lmc_mpsc_node **gone) {
    lmc_zmq_connection *connection = connection_of(monitor, fd);
    if (connection == NULL)
        return;
    if (connection->peer != NULL) {
        connection->peer->errand.node.next = *gone;
        *gone = &connection->peer->errand.node;
        connection->peer = NULL;
    }
    connection->open = event == ZMQ_EVENT_ACCEPTED;
    connection->progress = (lmc_zmq_progress){0};
    monitor->greeting_count -= connection->greeting.since_ns != 0;
    connection->greeting.since_ns = 0;
    if (connection->open) {
        int64_t now = lmc_now(&lmc_system_clock);
        lmc_zmq_greeting_begin(&connection->greeting, fd, now);
        monitor->greeting_count++;
        if (monitor->greetings_at_ns == 0)
            monitor->greetings_at_ns = now + PATIENCE_NS;
    }
}

/* Lock held. One event: a frame of 16 bits event and 32 bits value, then the address. */
static bool read_event(lmc_zmq_monitor *monitor, lmc_mpsc_node **gone) {
    uint8_t frame[6];
    char address[8]; /* cut off; not needed */
    if (zmq_recv(monitor->events, frame, sizeof frame, ZMQ_DONTWAIT) != sizeof frame)
        return false;
    (void)zmq_recv(monitor->events, address, sizeof address, ZMQ_DONTWAIT);
    uint16_t event;
    int32_t value;
    memcpy(&event, frame, sizeof event);
    memcpy(&value, frame + sizeof event, sizeof value);
    if (event == ZMQ_EVENT_ACCEPTED || event == ZMQ_EVENT_DISCONNECTED)
        apply(monitor, event, value, gone);
    return true;
}

/* Lock held. Looks at those whose time is over, and notes when to look again. */
static void check_greetings(lmc_zmq_monitor *monitor, int64_t now) {
    int64_t patience = monitor->greeting_count > CROWD ? CROWD_PATIENCE_NS : PATIENCE_NS;
    int64_t next = 0;
    for (int fd = 0; fd < monitor->connection_count && monitor->greeting_count > 0; fd++) {
        lmc_zmq_connection *connection = &monitor->connections[fd];
        int64_t since = connection->greeting.since_ns;
        if (since == 0)
            continue;
        int64_t due = since + patience;
        bool known = connection->peer != NULL;
        if (known)
            connection->greeting.since_ns = 0;
        if (known || (due <= now && lmc_zmq_greeting_check(&connection->greeting, fd)))
            monitor->greeting_count--;
        else if (next == 0 || due < next)
            next = due;
    }
    monitor->greetings_at_ns = next != 0 && next <= now ? now + PATIENCE_NS : next;
}

static void send_gone(lmc_zmq_monitor *monitor, lmc_mpsc_node *gone) {
    while (gone != NULL) {
        lmc_mpsc_node *next = gone->next;
        lmc_zmq_wake_push(monitor->options.wake, (lmc_zmq_errand *)gone, LMC_ZMQ_ERRAND_CLOSED);
        gone = next;
    }
}

/* Returns when there are greetings to look at; 0: none. */
static int64_t read_events(lmc_zmq_monitor *monitor) {
    lmc_mpsc_node *gone = NULL;
    lmc_lock_take(&monitor->lock);
    while (read_event(monitor, &gone)) {
    }
    int64_t now = lmc_now(&lmc_system_clock);
    if (monitor->greetings_at_ns != 0 && monitor->greetings_at_ns <= now)
        check_greetings(monitor, now);
    int64_t greetings_at = monitor->greetings_at_ns;
    lmc_lock_drop(&monitor->lock);
    send_gone(monitor, gone);
    return greetings_at;
}

/* ---- messages without an end ---- */

static uint32_t messages_of(const lmc_zmq_connection *connection) {
    const lmc_zmq_peer *peer = connection->peer;
    return peer != NULL ? atomic_load_explicit(&peer->messages, memory_order_relaxed) : 0;
}

/* What is known of all messages that have not ended. */
typedef struct unended {
    uint64_t bytes;
    bool suspect; /* there is a large one */
} unended;

/* Lock held. */
static unended look_at_progress(lmc_zmq_monitor *monitor) {
    unended found = {0};
    for (int fd = 0; fd < monitor->connection_count; fd++) {
        lmc_zmq_connection *connection = &monitor->connections[fd];
        if (!connection->open)
            continue;
        found.bytes +=
            lmc_zmq_progress_look(&connection->progress, fd, messages_of(connection));
        found.suspect |= connection->progress.large;
    }
    return found;
}

/* Lock held. Those with more than `most`. libzmq sees the end and frees what it has. */
static size_t shut_stalled(lmc_zmq_monitor *monitor, uint64_t most) {
    size_t count = 0;
    for (int fd = 0; fd < monitor->connection_count; fd++) {
        lmc_zmq_connection *connection = &monitor->connections[fd];
        lmc_zmq_progress *progress = &connection->progress;
        if (!connection->open || !progress->stalled || progress->unended <= most)
            continue;
        progress->stalled = false;
        count += shutdown(fd, SHUT_RDWR) == 0;
    }
    return count;
}

/* Lock held. */
static size_t end_endless(lmc_zmq_monitor *monitor, size_t accounted) {
    uint64_t longest = monitor->options.message_max;
    unended found = look_at_progress(monitor);
    if (!found.suspect) {
        lmc_zmq_growth_accept(&monitor->growth);
        return 0;
    }
    bool strange = found.bytes / CROWD_OF_LONGEST > longest ||
                   lmc_zmq_growth_is_strange(&monitor->growth, accounted + 2 * found.bytes);
    size_t count = shut_stalled(monitor, strange ? 0 : longest);
    if (count > 0) /* whatever stays was not theirs, and is no reason to shut others down */
        lmc_zmq_growth_accept(&monitor->growth);
    return count;
}

size_t lmc_zmq_monitor_end_endless(lmc_zmq_monitor *monitor, size_t accounted) {
    lmc_mpsc_node *gone = NULL;
    size_t count = 0;
    lmc_lock_take(&monitor->lock);
    bool large = lmc_zmq_growth_is_large(&monitor->growth);
    if (large) {
        while (read_event(monitor, &gone)) {
        }
        count = end_endless(monitor, accounted);
    }
    lmc_lock_drop(&monitor->lock);
    send_gone(monitor, gone);
    if (large)
        lmc_zmq_monitor_tidy(monitor);
    return count;
}

/* ---- the request loop's side ---- */

bool lmc_zmq_monitor_watch(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer,
                           lmc_zmq_peer **before) {
    lmc_mpsc_node *gone = NULL;
    bool open = true;
    *before = NULL;
    if (peer->fd < 0)
        return true;
    lmc_lock_take(&monitor->lock);
    while (read_event(monitor, &gone)) {
    }
    lmc_zmq_connection *connection = connection_of(monitor, peer->fd);
    if (connection != NULL) {
        open = connection->open;
        *before = connection->peer;
        connection->peer = open ? peer : NULL;
    }
    lmc_lock_drop(&monitor->lock);
    send_gone(monitor, gone);
    return open;
}

bool lmc_zmq_monitor_unwatch(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer) {
    lmc_lock_take(&monitor->lock);
    bool tied = peer->fd >= 0 && peer->fd < monitor->connection_count &&
                monitor->connections[peer->fd].peer == peer;
    if (tied)
        monitor->connections[peer->fd].peer = NULL;
    lmc_lock_drop(&monitor->lock);
    return tied;
}

static void ring(lmc_zmq_monitor *monitor) {
    uint64_t one = 1;
    if (write(monitor->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        LMC_ERROR("cannot wake the connection monitor: %s", strerror(errno));
}

void lmc_zmq_monitor_report(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer) {
    if (lmc_mpsc_push(&monitor->reports, &peer->errand.node))
        ring(monitor);
}

void lmc_zmq_monitor_tidy(lmc_zmq_monitor *monitor) {
    if (atomic_load_explicit(&monitor->tidy_due, memory_order_relaxed))
        return;
    if (!atomic_exchange(&monitor->tidy_due, true))
        ring(monitor);
}

/* ---- the thread ---- */

static void make_reports(lmc_zmq_monitor *monitor) {
    lmc_mpsc_node *node = lmc_mpsc_take_all(&monitor->reports);
    while (node != NULL) {
        lmc_zmq_peer *peer = (lmc_zmq_peer *)node;
        node = node->next;
        if (monitor->options.connection_closed != NULL) {
            lmc_lock_assert_none();
            monitor->options.connection_closed(monitor->options.arg, peer->peer.id);
        }
        lmc_zmq_peer_drop(peer);
    }
}

static void hush(lmc_zmq_monitor *monitor) {
    uint64_t count;
    (void)!read(monitor->bell, &count, sizeof count);
}

/* Waits for events, the bell, or a time; 0: none. */
static void wait_for_work(lmc_zmq_monitor *monitor, int64_t until) {
    struct pollfd fds[] = {{.fd = monitor->events_fd, .events = POLLIN},
                           {.fd = monitor->bell, .events = POLLIN}};
    int timeout = -1;
    if (until > 0) {
        int64_t left = until - lmc_now(&lmc_system_clock);
        timeout = left > 0 ? (int)(left / LMC_NS_PER_MS) + 1 : 0;
    }
    poll(fds, 2, timeout);
    if ((fds[1].revents & POLLIN) != 0)
        hush(monitor);
}

/* When to tidy next; 0: not until asked. */
static int64_t tidy_if_due(lmc_zmq_monitor *monitor, int64_t tidy_at) {
    if (!atomic_load_explicit(&monitor->tidy_due, memory_order_relaxed))
        return 0;
    int64_t now = lmc_now(&lmc_system_clock);
    if (tidy_at == 0)
        return now + monitor->options.tidy_ns;
    if (now < tidy_at)
        return tidy_at;
    atomic_store(&monitor->tidy_due, false);
    if (!monitor->options.tidy(monitor->options.tidy_arg))
        return 0;
    atomic_store(&monitor->tidy_due, true);
    return now + monitor->options.tidy_ns;
}

static void watch_connections(void *arg) {
    lmc_zmq_monitor *monitor = arg;
    int64_t tidy_at = 0;
    while (!atomic_load(&monitor->stopping)) {
        int64_t greetings_at = read_events(monitor);
        make_reports(monitor);
        tidy_at = tidy_if_due(monitor, tidy_at);
        bool greetings_first = tidy_at == 0 || (greetings_at != 0 && greetings_at < tidy_at);
        wait_for_work(monitor, greetings_first ? greetings_at : tidy_at);
    }
    make_reports(monitor);
}

/* ---- start and stop ---- */

static lmc_status open_events(lmc_zmq_monitor *monitor, lmc_error *error) {
    int unlimited = 0, none = 0;
    size_t size = sizeof monitor->events_fd;
    void *context = monitor->options.context;
    /* Unlimited, because libzmq's I/O thread would wait for room. */
    monitor->events = zmq_socket(context, ZMQ_PAIR);
    if (monitor->events == NULL ||
        zmq_socket_monitor(monitor->options.router, ENDPOINT,
                           ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_setsockopt(monitor->events, ZMQ_RCVHWM, &unlimited, sizeof unlimited) != 0 ||
        zmq_setsockopt(monitor->events, ZMQ_LINGER, &none, sizeof none) != 0 ||
        zmq_connect(monitor->events, ENDPOINT) != 0 ||
        zmq_getsockopt(monitor->events, ZMQ_FD, &monitor->events_fd, &size) != 0)
        return lmc_error_set(error, LMC_FAILED, "the connection monitor: %s",
                             zmq_strerror(zmq_errno()));
    return LMC_OK;
}

lmc_status lmc_zmq_monitor_create(const lmc_zmq_monitor_options *options,
                                  lmc_zmq_monitor **monitor, lmc_error *error) {
    lmc_zmq_monitor *made = calloc(1, sizeof *made);
    *monitor = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the connection monitor");
    made->options = *options;
    lmc_zmq_growth_accept(&made->growth);
    lmc_lock_init(&made->lock, LMC_RANK_TRANSPORT, "zmq monitor");
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lmc_status status = LMC_OK;
    if (made->bell < 0)
        status = lmc_error_set_errno(error, LMC_FAILED, errno, "the connection monitor");
    if (status == LMC_OK)
        status = open_events(made, error);
    if (status != LMC_OK) {
        lmc_zmq_monitor_destroy(made);
        *monitor = NULL;
    }
    return status;
}

lmc_status lmc_zmq_monitor_start(lmc_zmq_monitor *monitor, lmc_error *error) {
    return lmc_thread_start(&monitor->thread, "lmc-zmq-monitor", watch_connections, monitor,
                            error);
}

void lmc_zmq_monitor_stop(lmc_zmq_monitor *monitor) {
    atomic_store(&monitor->stopping, true);
    ring(monitor);
    lmc_thread_join(&monitor->thread);
    monitor->options.connection_closed = NULL; /* its receiver may be gone soon */
}

void lmc_zmq_monitor_destroy(lmc_zmq_monitor *monitor) {
    if (monitor == NULL)
        return;
    make_reports(monitor);
    if (monitor->events != NULL)
        zmq_close(monitor->events);
    if (monitor->bell >= 0)
        close(monitor->bell);
    lmc_lock_fini(&monitor->lock);
    free(monitor->connections);
    free(monitor);
}
