/*
 * transport.h: the ZMQ door: a ROUTER, the request loop that owns it, and a monitor of
 * connections.
 *
 * create resolves and binds, so a busy port fails there, but serves nothing yet; start begins
 * to serve; stop ends it: nothing new is taken, calls in flight get the grace, the rest their
 * negative. These and destroy belong to the main thread. destroy comes after the modules have
 * been closed, because a handler may complete a call that long. Everything else: any thread.
 */
#ifndef LMC_TRANSPORT_ZMQ_TRANSPORT_H
#define LMC_TRANSPORT_ZMQ_TRANSPORT_H

#include "dispatch/dispatcher.h"

typedef struct lmc_zmq_transport lmc_zmq_transport;

typedef struct lmc_zmq_options {
    const char *host; /* a name, an address, or "*" */
    uint16_t port;    /* 0: the system chooses, see lmc_zmq_transport_endpoint() */
    /* Bounds in bytes; 0 means the default. */
    size_t max_message_bytes;  /* of one frame: L1 capacity + 64 MiB, at least 1 GiB (D35) */
    size_t in_flight_bytes;    /* payload of requests not answered yet, all peers; 1 GiB */
    size_t unread_peer_bytes;  /* replies one peer has not read; 1 GiB */
    size_t unread_total_bytes; /* replies all peers have not read; 4 GiB */
    size_t reuse_bytes;        /* large reply buffers kept while replies flow; 256 MiB */
    /*
     * A connection has closed and every call that came on it has ended. Called without a lock,
     * on a thread of the transport that may wait, once per connection id seen by a handler. May
     * be NULL.
     */
    void (*connection_closed)(void *arg, uint64_t connection);
    /* For the log line about an operation that nobody handles: which option would change that.
     * Request loop; must not wait. NULL: no hint. May be NULL. */
    const char *(*unserved_hint)(void *arg, const lmc_operation_def *operation);
    void *arg;
} lmc_zmq_options;

lmc_status lmc_zmq_transport_create(const lmc_zmq_options *options, lmc_dispatcher *dispatcher,
                                    lmc_zmq_transport **transport, lmc_error *error);
lmc_status lmc_zmq_transport_start(lmc_zmq_transport *transport, lmc_error *error);
void lmc_zmq_transport_stop(lmc_zmq_transport *transport,
                            int64_t grace_ns);                /* idempotent; accepts NULL */
void lmc_zmq_transport_destroy(lmc_zmq_transport *transport); /* stops first; accepts NULL */

/* "tcp://127.0.0.1:5555", with the port that was bound. */
const char *lmc_zmq_transport_endpoint(const lmc_zmq_transport *transport);

/* When the request loop last came round (monotonic); now, while it has nothing to do. 0: not
 * yet started. A loop that does not come round for a second is not well. */
int64_t lmc_zmq_transport_last_turn_ns(lmc_zmq_transport *transport);

/* Any thread, about once a second until destroy: looks for messages that grow without an end.
 */
void lmc_zmq_transport_look(lmc_zmq_transport *transport);

typedef struct lmc_zmq_stats {
    uint64_t requests;          /* messages read */
    uint64_t replies;           /* messages sent */
    uint64_t short_messages;    /* fewer than two frames, or uid or operation too long */
    uint64_t unknown_operation; /* neither a listed id nor a known name */
    uint64_t no_handler;        /* a known operation that nobody handles */
    uint64_t too_many_frames;   /* more payload frames than any operation has */
    uint64_t shed;              /* large requests refused because too much was in flight */
    uint64_t pauses;            /* times the loop stopped reading for that reason */
    uint64_t unreachable;       /* replies whose peer had gone */
    uint64_t dropped_full;      /* replies to a peer with too many unread messages */
    uint64_t over_unread;       /* large replies to a peer with too many unread bytes */
    uint64_t wakes;             /* messages sent to wake the loop */
    uint64_t connections;       /* connections that sent a message, so far */
    uint64_t connections_open;
    uint64_t in_flight; /* requests not answered yet */
    uint64_t in_flight_bytes;
    uint64_t unread_bytes; /* of large replies */
    uint64_t reuse_bytes;  /* large reply buffers kept */
} lmc_zmq_stats;
void lmc_zmq_transport_stats(lmc_zmq_transport *transport, lmc_zmq_stats *stats);

#endif
