/*
 * monitor.h: which connections are open, and telling the server when one has closed.
 *
 * libzmq reports accepted and disconnected descriptors on a monitor socket; messages carry the
 * descriptor they came from. A descriptor is reused, so before a new peer is tied to one the
 * pending events are read: what was accepted before the peer's first message is known then.
 *
 * The monitor has a thread, which reads events as they come and makes the connection_closed
 * calls, which may wait. watch, unwatch and report belong to the request loop; create and
 * destroy to the main thread.
 */
#ifndef LMC_TRANSPORT_ZMQ_MONITOR_H
#define LMC_TRANSPORT_ZMQ_MONITOR_H

#include "transport/zmq/peers.h"

typedef struct lmc_zmq_monitor lmc_zmq_monitor;

typedef struct lmc_zmq_monitor_options {
    void *context, *router;
    lmc_zmq_wake *wake; /* gets LMC_ZMQ_ERRAND_CLOSED for each watched peer that went */
    void (*connection_closed)(void *arg, uint64_t connection); /* may be NULL */
    void *arg;
    size_t message_max; /* bytes; no message is longer */
    /* Housekeeping on the monitor's thread: called after an interval once
     * lmc_zmq_monitor_tidy() was called, and again while it returns true. */
    bool (*tidy)(void *arg);
    void *tidy_arg;
    int64_t tidy_ns;
} lmc_zmq_monitor_options;

/* Before the router is bound, so that no connection is missed. */
lmc_status lmc_zmq_monitor_create(const lmc_zmq_monitor_options *options,
                                  lmc_zmq_monitor **monitor, lmc_error *error);
lmc_status lmc_zmq_monitor_start(lmc_zmq_monitor *monitor, lmc_error *error);
/* Ends the thread after it has made the calls reported so far. */
void lmc_zmq_monitor_stop(lmc_zmq_monitor *monitor);
void lmc_zmq_monitor_destroy(lmc_zmq_monitor *monitor); /* after the router was closed */

/*
 * Ties a peer to its descriptor until the CLOSED errand or unwatch. False: that connection has
 * closed already. A peer that was tied to the descriptor before is given back in *before: it is
 * closed, since its descriptor has a new owner.
 */
bool lmc_zmq_monitor_watch(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer, lmc_zmq_peer **before);
/* True when the peer was still tied; no errand comes for it then. */
bool lmc_zmq_monitor_unwatch(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer);
/* Has connection_closed called for the peer, then drops the table's reference. */
void lmc_zmq_monitor_report(lmc_zmq_monitor *monitor, lmc_zmq_peer *peer);
/*
 * Any thread, about once a second: shuts down connections whose message grows without an end,
 * see endless.h. `accounted`: bytes of requests and replies that the door knows of. Returns how
 * many.
 */
size_t lmc_zmq_monitor_end_endless(lmc_zmq_monitor *monitor, size_t accounted);
/* Any thread; cheap when it is due already. */
void lmc_zmq_monitor_tidy(lmc_zmq_monitor *monitor);

#endif
