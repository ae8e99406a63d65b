#include "transport/zmq/transport.h"

#include <stdlib.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "transport/zmq/endpoint.h"
#include "transport/zmq/loop.h"

#define LMC_LOGGER "lmcache.zmq"
#define GIB ((size_t)1 << 30)
#define HEADS_MAX ((size_t)1 << 20) /* of a message, beside its one large frame */
#define REPLIES_MAX 100000 /* unread per peer; never 0, which would be unlimited (D35) */
#define REQUESTS_MAX 1000  /* not read yet per peer; more wait at the client */
#define HANDSHAKE_MS 10000 /* for all of it; strangers are shown out sooner (greeting.h) */
#define FLUSH_MS 500       /* at the end, for replies not sent yet */
#define BACKLOG 1024
#define TIDY_NS (2 * LMC_NS_PER_S)
#define LIBRARY_THREADS 2 /* libzmq's I/O thread and reaper */

/* ---- create ---- */

static void apply_defaults(lmc_zmq_options *options) {
    if (options->max_message_bytes == 0)
        options->max_message_bytes = GIB;
    if (options->in_flight_bytes == 0)
        options->in_flight_bytes = GIB;
    if (options->unread_peer_bytes == 0)
        options->unread_peer_bytes = GIB;
    if (options->unread_total_bytes == 0)
        options->unread_total_bytes = 4 * GIB;
    if (options->reuse_bytes == 0)
        options->reuse_bytes = GIB / 4;
}

static lmc_status set_router_options(lmc_zmq_transport *transport, lmc_error *error) {
    const struct {
        int option, value;
    } ints[] = {{ZMQ_SNDHWM, REPLIES_MAX},    {ZMQ_RCVHWM, REQUESTS_MAX},
                {ZMQ_ROUTER_MANDATORY, 1},    {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
                {ZMQ_LINGER, FLUSH_MS},       {ZMQ_BACKLOG, BACKLOG},
                {ZMQ_TCP_KEEPALIVE, 1}, /* a host that vanished closes no connection */
                {ZMQ_TCP_KEEPALIVE_IDLE, 60}, {ZMQ_TCP_KEEPALIVE_INTVL, 10},
                {ZMQ_TCP_KEEPALIVE_CNT, 3}};
    int64_t largest = (int64_t)transport->options.max_message_bytes;
    int rc = zmq_setsockopt(transport->router, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    for (size_t i = 0; rc == 0 && i < sizeof ints / sizeof ints[0]; i++)
        rc = zmq_setsockopt(transport->router, ints[i].option, &ints[i].value, sizeof(int));
    if (rc != 0)
        return lmc_error_set(error, LMC_FAILED, "an option of the request socket: %s",
                             zmq_strerror(zmq_errno()));
    return LMC_OK;
}

static bool tidy(void *arg) {
    lmc_zmq_transport *transport = arg;
    bool busy = atomic_exchange(&transport->large_traffic, false);
    busy |= lmc_zmq_replies_tidy(&transport->replies);
    if (!busy)
        lmc_heap_trim(); /* what frames left behind in the allocator */
    return busy;
}

static void note_much(void *transport) { lmc_zmq_note_large(transport); }

static lmc_status open_monitor(lmc_zmq_transport *transport, lmc_error *error) {
    lmc_zmq_monitor_options options = {
        .context = transport->context,
        .router = transport->router,
        .wake = &transport->wake,
        .connection_closed = transport->options.connection_closed,
        .arg = transport->options.arg,
        .message_max = transport->options.max_message_bytes + HEADS_MAX,
        .tidy = tidy,
        .tidy_arg = transport,
        .tidy_ns = TIDY_NS,
    };
    lmc_status status = lmc_zmq_monitor_create(&options, &transport->monitor, error);
    if (status == LMC_OK)
        lmc_zmq_replies_notify(&transport->replies, note_much, transport);
    return status;
}

static void pass_gate(void *arg) {
    lmc_lock *gate = arg;
    lmc_lock_take(gate);
    lmc_lock_drop(gate);
}

/* libzmq aborts when it cannot start its threads; so what stands in their way is found out by
 * starting as many, all at a time. */
static lmc_status check_room_for_threads(lmc_error *error) {
    lmc_lock gate;
    lmc_thread threads[LIBRARY_THREADS] = {0};
    lmc_status status = LMC_OK;
    lmc_lock_init(&gate, LMC_RANK_TRANSPORT, "zmq gate");
    lmc_lock_take(&gate);
    for (size_t i = 0; i < LIBRARY_THREADS && status == LMC_OK; i++)
        status = lmc_thread_start(&threads[i], "ZMQ", pass_gate, &gate, error);
    lmc_lock_drop(&gate);
    for (size_t i = 0; i < LIBRARY_THREADS; i++)
        lmc_thread_join(&threads[i]);
    lmc_lock_fini(&gate);
    return status;
}

static lmc_status open_router(lmc_zmq_transport *transport, lmc_error *error) {
    if (check_room_for_threads(error) != LMC_OK)
        return LMC_FAILED;
    transport->context = zmq_ctx_new();
    lmc_thread_short_slices(true); /* for libzmq's threads, which the first socket starts */
    if (transport->context != NULL)
        transport->router = zmq_socket(transport->context, ZMQ_ROUTER);
    lmc_thread_short_slices(false);
    if (transport->router == NULL)
        return lmc_error_set(error, LMC_FAILED, "the request socket: %s",
                             zmq_strerror(zmq_errno()));
    lmc_status status = set_router_options(transport, error);
    if (status == LMC_OK)
        status =
            lmc_zmq_wake_init(&transport->wake, transport->context, transport->router, error);
    if (status == LMC_OK)
        status = open_monitor(transport, error);
    if (status == LMC_OK)
        status =
            lmc_zmq_bind(transport->router, transport->options.host, transport->options.port,
                         transport->endpoint, sizeof transport->endpoint, error);
    return status;
}

lmc_status lmc_zmq_transport_create(const lmc_zmq_options *options, lmc_dispatcher *dispatcher,
                                    lmc_zmq_transport **transport, lmc_error *error) {
    lmc_zmq_transport *made = calloc(1, sizeof *made);
    *transport = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the request transport");
    made->options = *options;
    made->dispatcher = dispatcher;
    apply_defaults(&made->options);
    made->replies.peer_max = made->options.unread_peer_bytes;
    made->replies.total_max = made->options.unread_total_bytes;
    made->replies.reuse_max = made->options.reuse_bytes;
    lmc_zmq_replies_init(&made->replies);
    lmc_status status = lmc_zmq_peers_init(&made->peers, error);
    if (status == LMC_OK)
        status = open_router(made, error);
    if (status != LMC_OK) {
        lmc_zmq_transport_destroy(made);
        *transport = NULL;
    }
    return status;
}

/* ---- start and stop ---- */

lmc_status lmc_zmq_transport_start(lmc_zmq_transport *transport, lmc_error *error) {
    lmc_status status = lmc_zmq_monitor_start(transport->monitor, error);
    if (status == LMC_OK)
        status = lmc_thread_start(&transport->thread, "lmc-requests", lmc_zmq_loop_run,
                                  transport, error);
    transport->started = status == LMC_OK;
    return status;
}

void lmc_zmq_transport_stop(lmc_zmq_transport *transport, int64_t grace_ns) {
    if (transport == NULL || transport->stopped)
        return;
    transport->stopped = true;
    if (transport->started) {
        transport->grace_ns = grace_ns;
        lmc_zmq_wake_push(&transport->wake, &transport->stop, LMC_ZMQ_ERRAND_STOP);
        lmc_thread_join(&transport->thread);
    }
    if (transport->monitor != NULL)
        lmc_zmq_monitor_stop(transport->monitor);
    if (transport->router != NULL)
        zmq_close(transport->router); /* replies not sent yet have the linger time */
    transport->router = NULL;
}

static void close_sockets(lmc_zmq_transport *transport) {
    lmc_zmq_replies_notify(&transport->replies, NULL, NULL);
    lmc_zmq_monitor_destroy(transport->monitor);
    lmc_zmq_wake_fini(&transport->wake);
    if (transport->context != NULL)
        zmq_ctx_term(transport->context);
}

/* What a call that its handler never completed is left with: the handler may still do so. */
static lmc_zmq_transport *left_behind;

void lmc_zmq_transport_destroy(lmc_zmq_transport *transport) {
    if (transport == NULL)
        return;
    lmc_zmq_transport_stop(transport, 0);
    lmc_zmq_loop_do_errands(transport);
    close_sockets(transport);
    lmc_zmq_requests_free(transport);
    if (transport->in_flight != NULL) {
        left_behind = transport;
        return;
    }
    lmc_zmq_peers_fini(&transport->peers);
    lmc_zmq_replies_fini(&transport->replies);
    free(transport);
}

void lmc_zmq_transport_look(lmc_zmq_transport *transport) {
    uint64_t accounted = lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT_BYTES) +
                         atomic_load_explicit(&transport->replies.unread, memory_order_relaxed);
    size_t count = lmc_zmq_monitor_end_endless(transport->monitor, (size_t)accounted);
    if (count > 0)
        LMC_WARNING("memory was running full of messages that do not end: %zu connections shut "
                    "down",
                    count);
}

/* ---- reports ---- */

const char *lmc_zmq_transport_endpoint(const lmc_zmq_transport *transport) {
    return transport->endpoint;
}

int64_t lmc_zmq_transport_last_turn_ns(lmc_zmq_transport *transport) {
    int64_t last = atomic_load_explicit(&transport->last_turn_ns, memory_order_relaxed);
    if (last != 0 && lmc_zmq_wake_is_asleep(&transport->wake))
        return lmc_now(&lmc_system_clock);
    return last;
}

void lmc_zmq_transport_stats(lmc_zmq_transport *transport, lmc_zmq_stats *stats) {
    *stats = (lmc_zmq_stats){
        .requests = lmc_zmq_counted(transport, LMC_ZMQ_REQUESTS),
        .replies = lmc_zmq_counted(transport, LMC_ZMQ_REPLIES),
        .short_messages = lmc_zmq_counted(transport, LMC_ZMQ_SHORT_MESSAGES),
        .unknown_operation = lmc_zmq_counted(transport, LMC_ZMQ_UNKNOWN_OPERATION),
        .no_handler = lmc_zmq_counted(transport, LMC_ZMQ_NO_HANDLER),
        .too_many_frames = lmc_zmq_counted(transport, LMC_ZMQ_TOO_MANY_FRAMES),
        .shed = lmc_zmq_counted(transport, LMC_ZMQ_SHED),
        .pauses = lmc_zmq_counted(transport, LMC_ZMQ_PAUSES),
        .unreachable = lmc_zmq_counted(transport, LMC_ZMQ_UNREACHABLE),
        .dropped_full = lmc_zmq_counted(transport, LMC_ZMQ_DROPPED_FULL),
        .over_unread = lmc_zmq_counted(transport, LMC_ZMQ_OVER_UNREAD),
        .wakes = atomic_load_explicit(&transport->wake.sent, memory_order_relaxed),
        .connections = lmc_zmq_counted(transport, LMC_ZMQ_CONNECTIONS),
        .connections_open = lmc_zmq_counted(transport, LMC_ZMQ_CONNECTIONS_OPEN),
        .in_flight = lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT),
        .in_flight_bytes = lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT_BYTES),
        .unread_bytes = atomic_load_explicit(&transport->replies.unread, memory_order_relaxed),
        .reuse_bytes = lmc_zmq_replies_kept(&transport->replies),
    };
}
