#include <errno.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/zmq/loop.h"

#define LMC_LOGGER "lmcache.zmq"
#define HEAD_FRAME_MAX ((size_t)256) /* uid and operation, which are sent back */
#define WARN_LIMITED(...)                \
    do {                                 \
        static lmc_log_limit limit;      \
        if (lmc_log_allow(&limit, NULL)) \
            LMC_WARNING(__VA_ARGS__);    \
    } while (0)

/* ---- reading a message ---- */

/* Parts of a message come together: after the first, receiving never waits. */
static bool read_part(lmc_zmq_transport *transport, zmq_msg_t *part, int flags) {
    int rc;
    do
        rc = zmq_msg_recv(part, transport->router, flags);
    while (rc < 0 && zmq_errno() == EINTR);
    return rc >= 0;
}

/* Reads and drops the rest of a message with too many parts. */
static void skip_rest(lmc_zmq_transport *transport) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (read_part(transport, &part, ZMQ_DONTWAIT) && zmq_msg_more(&part)) {
    }
    zmq_msg_close(&part);
}

typedef enum lmc_zmq_shape { NOTHING, WAKE, TOO_SHORT, TOO_LONG, WELL_FORMED } lmc_zmq_shape;

static lmc_zmq_shape read_payload(lmc_zmq_transport *transport, lmc_zmq_request *request) {
    zmq_msg_t *last = &request->operation;
    while (zmq_msg_more(last)) {
        if (request->frame_count == LMC_FRAMES_MAX) {
            skip_rest(transport);
            return TOO_LONG;
        }
        last = &request->frames[request->frame_count++];
        if (!read_part(transport, last, ZMQ_DONTWAIT))
            return TOO_SHORT;
        request->weight += zmq_msg_size(last);
    }
    return WELL_FORMED;
}

static lmc_zmq_shape read_message(lmc_zmq_transport *transport, lmc_zmq_request *request,
                                  int flags) {
    bool some = read_part(transport, &request->id, flags);
    lmc_zmq_wake_up(&transport->wake); /* no longer asleep, if it was */
    if (!some)
        return NOTHING;
    if (!zmq_msg_more(&request->id) || !read_part(transport, &request->uid, ZMQ_DONTWAIT))
        return TOO_SHORT;
    if (!zmq_msg_more(&request->uid))
        return lmc_zmq_wake_is_mine(&transport->wake, zmq_msg_data(&request->id),
                                    zmq_msg_size(&request->id))
                   ? WAKE
                   : TOO_SHORT;
    if (!read_part(transport, &request->operation, ZMQ_DONTWAIT))
        return TOO_SHORT;
    lmc_zmq_shape shape = read_payload(transport, request);
    bool head_fits = zmq_msg_size(&request->uid) <= HEAD_FRAME_MAX &&
                     zmq_msg_size(&request->operation) <= HEAD_FRAME_MAX;
    return head_fits ? shape : TOO_SHORT;
}

/* ---- whom it is from ---- */

static lmc_zmq_peer *add_peer(lmc_zmq_transport *transport, const void *id, size_t size,
                              int fd) {
    lmc_zmq_peer *peer = lmc_zmq_peers_add(&transport->peers, id, size, fd);
    if (peer == NULL)
        return NULL;
    lmc_zmq_add(transport, LMC_ZMQ_CONNECTIONS, 1);
    lmc_zmq_add(transport, LMC_ZMQ_CONNECTIONS_OPEN, 1);
    lmc_zmq_peer *before;
    bool open = lmc_zmq_monitor_watch(transport->monitor, peer, &before);
    if (before != NULL)
        lmc_zmq_loop_close_peer(transport, before);
    peer->calls++; /* until the request at hand has its own share */
    if (!open)
        lmc_zmq_loop_close_peer(transport, peer);
    return peer;
}

static lmc_zmq_peer *look_up_peer(lmc_zmq_transport *transport, zmq_msg_t *message) {
    const void *id = zmq_msg_data(message);
    size_t size = zmq_msg_size(message);
    lmc_zmq_peer *peer = lmc_zmq_peers_find(&transport->peers, id, size);
    if (peer != NULL &&
        (lmc_zmq_id_is_generated(id, size) || peer->fd == zmq_msg_get(message, ZMQ_SRCFD))) {
        peer->calls++;
        return peer;
    }
    /* A new connection, perhaps of a client that keeps its identity when it reconnects. */
    bool tied = peer != NULL && lmc_zmq_monitor_unwatch(transport->monitor, peer);
    lmc_zmq_peer *added = add_peer(transport, id, size, zmq_msg_get(message, ZMQ_SRCFD));
    if (tied)
        lmc_zmq_loop_close_peer(transport, peer);
    return added;
}

static lmc_zmq_peer *find_peer(lmc_zmq_transport *transport, zmq_msg_t *message) {
    lmc_zmq_peer *peer = look_up_peer(transport, message);
    if (peer == NULL)
        return NULL;
    uint32_t messages = atomic_load_explicit(&peer->messages, memory_order_relaxed);
    atomic_store_explicit(&peer->messages, messages + 1, memory_order_relaxed);
    return peer;
}

/* ---- what it asks for ---- */

static void warn_no_handler(lmc_zmq_transport *transport, const lmc_operation_def *operation) {
    static lmc_log_limit limit;
    const char *hint = NULL;
    lmc_zmq_add(transport, LMC_ZMQ_NO_HANDLER, 1);
    if (!lmc_log_allow(&limit, NULL))
        return;
    if (transport->options.unserved_hint != NULL)
        hint = transport->options.unserved_hint(transport->options.arg, operation);
    LMC_WARNING("No handler registered for operation %s%s%s; request not answered",
                operation->name, hint != NULL ? ": " : "", hint != NULL ? hint : "");
}

static void warn_unknown(lmc_zmq_transport *transport, lmc_slice frame) {
    static lmc_log_limit limit;
    lmc_error error;
    lmc_zmq_add(transport, LMC_ZMQ_UNKNOWN_OPERATION, 1);
    if (!lmc_log_allow(&limit, NULL))
        return;
    lmc_error_clear(&error);
    lmc_zmq_read_operation(frame, &error);
    LMC_WARNING("request not answered: %s", error.text);
}

/* Large ones are refused first, then all that would have to be queued. */
static bool must_shed(const lmc_zmq_transport *transport, const lmc_zmq_request *request,
                      const lmc_handler *handler) {
    uint64_t most = transport->options.in_flight_bytes;
    if (request->weight < LMC_ZMQ_LARGE)
        most += most / 4;
    return lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT_BYTES) >= most &&
           (request->weight >= LMC_ZMQ_LARGE || handler->place != LMC_PLACE_INLINE);
}

static void start(lmc_zmq_transport *transport, lmc_zmq_request *request,
                  const lmc_operation_def *operation, const lmc_handler *handler) {
    lmc_zmq_peer *peer = find_peer(transport, &request->id);
    request->peer = peer;
    if (peer == NULL) {
        WARN_LIMITED("no memory for another connection; request not answered");
        lmc_zmq_request_put(request);
        return;
    }
    if (request->weight >= LMC_ZMQ_LARGE)
        lmc_zmq_note_large(transport);
    if (transport->stopping && operation->negative != LMC_NEGATIVE_NONE) {
        lmc_zmq_request_refuse(request, operation, LMC_CLOSED);
    } else if (must_shed(transport, request, handler)) {
        lmc_zmq_add(transport, LMC_ZMQ_SHED, 1);
        lmc_zmq_request_refuse(request, operation, LMC_BUSY);
    } else {
        lmc_zmq_request_begin(request, operation, handler);
    }
    lmc_zmq_loop_release_peer(transport, peer);
}

static void take_request(lmc_zmq_transport *transport, lmc_zmq_request *request) {
    lmc_slice frame =
        lmc_slice_of(zmq_msg_data(&request->operation), zmq_msg_size(&request->operation));
    const lmc_operation_def *operation = lmc_zmq_read_operation(frame, NULL);
    const lmc_handler *handler =
        operation != NULL ? lmc_registry_find(transport->dispatcher->registry, operation)
                          : NULL;
    if (handler != NULL) {
        start(transport, request, operation, handler);
        return;
    }
    if (operation == NULL)
        warn_unknown(transport, frame);
    else
        warn_no_handler(transport, operation);
    lmc_zmq_request_put(request);
}

static void take_message(lmc_zmq_transport *transport, lmc_zmq_request *request,
                         lmc_zmq_shape shape) {
    if (shape != NOTHING && shape != WAKE)
        lmc_zmq_add(transport, LMC_ZMQ_REQUESTS, 1);
    switch (shape) {
    case WELL_FORMED:
        take_request(transport, request);
        return;
    case TOO_SHORT:
        lmc_zmq_add(transport, LMC_ZMQ_SHORT_MESSAGES, 1);
        WARN_LIMITED("request not answered: it has no uid and operation frame of a sane size");
        break;
    case TOO_LONG:
        lmc_zmq_add(transport, LMC_ZMQ_TOO_MANY_FRAMES, 1);
        WARN_LIMITED("request not answered: it has more frames than any operation");
        break;
    default:
        break;
    }
    lmc_zmq_request_put(request);
}

bool lmc_zmq_receive(lmc_zmq_transport *transport, int flags) {
    lmc_zmq_request *request = lmc_zmq_request_take(transport);
    if (request == NULL) {
        /* Leave the message where it is; memory may come back with the next completion. */
        WARN_LIMITED("no memory to read a request");
        lmc_zmq_wake_up(&transport->wake);
        return false;
    }
    lmc_zmq_shape shape = read_message(transport, request, flags);
    take_message(transport, request, shape);
    return shape != NOTHING;
}
