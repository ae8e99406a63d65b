#include "transport/zmq/loop.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.zmq"
#define PAUSE_NS (LMC_NS_PER_S / 2)       /* then large requests are refused instead */
#define STOP_TURN_NS (10 * LMC_NS_PER_MS) /* how often a stopping loop looks around */
#define MESSAGES_PER_LOOK 64              /* read in a row while stopping */
#define FLUSH_EVERY 64                    /* messages in a row before pools are woken */
#define QUIET_TURNS 2                     /* without a message: none is on its way any more */

static _Thread_local const lmc_zmq_transport *here;

bool lmc_zmq_loop_is_here(const lmc_zmq_transport *transport) { return here == transport; }

/* ---- peers ---- */

static void report_if_done(lmc_zmq_transport *transport, lmc_zmq_peer *peer) {
    if (!peer->closed || peer->calls > 0)
        return;
    lmc_zmq_peers_remove(&transport->peers, peer);
    lmc_zmq_monitor_report(transport->monitor, peer);
}

void lmc_zmq_loop_close_peer(lmc_zmq_transport *transport, lmc_zmq_peer *peer) {
    if (peer->closed)
        return;
    peer->closed = true;
    lmc_zmq_add(transport, LMC_ZMQ_CONNECTIONS_OPEN, (uint64_t)-1);
    if (atomic_load_explicit(&peer->unread, memory_order_relaxed) > 0)
        lmc_zmq_note_large(transport); /* libzmq drops what it had for the peer */
    report_if_done(transport, peer);
}

void lmc_zmq_loop_release_peer(lmc_zmq_transport *transport, lmc_zmq_peer *peer) {
    peer->calls--;
    report_if_done(transport, peer);
}

/* ---- errands ---- */

static void do_errand(lmc_zmq_transport *transport, lmc_zmq_errand *errand) {
    switch (errand->kind) {
    case LMC_ZMQ_ERRAND_FINISHED:
        lmc_zmq_request_settle(
            (lmc_zmq_request *)((char *)errand - offsetof(lmc_zmq_request, errand)));
        break;
    case LMC_ZMQ_ERRAND_RUN:
        lmc_exchange_run(
            &((lmc_zmq_request *)((char *)errand - offsetof(lmc_zmq_request, errand)))->x);
        break;
    case LMC_ZMQ_ERRAND_CLOSED:
        lmc_zmq_loop_close_peer(transport, (lmc_zmq_peer *)errand);
        break;
    case LMC_ZMQ_ERRAND_STOP:
        transport->stopping = true;
        break;
    }
}

bool lmc_zmq_loop_do_errands(lmc_zmq_transport *transport) {
    lmc_zmq_errand *errand = lmc_zmq_wake_take(&transport->wake);
    bool some = errand != NULL;
    while (errand != NULL) {
        lmc_zmq_errand *next = lmc_zmq_errand_next(errand);
        do_errand(transport, errand);
        errand = next;
    }
    return some;
}

/* ---- the loop ---- */

/* Coarse time: a stamp per turn must cost nothing. */
static void stamp(lmc_zmq_transport *transport) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    atomic_store_explicit(&transport->last_turn_ns,
                          (int64_t)now.tv_sec * LMC_NS_PER_S + now.tv_nsec,
                          memory_order_relaxed);
}

/*
 * While too much is in flight the loop does not read, so that clients wait instead of the
 * server growing; but not for long, because nobody's ping may wait. After that large requests
 * are refused until there is room again.
 */
static bool may_read(lmc_zmq_transport *transport) {
    if (lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT_BYTES) <
        transport->options.in_flight_bytes) {
        transport->paused_until_ns = 0;
        return true;
    }
    int64_t now = lmc_now(&lmc_system_clock);
    if (transport->paused_until_ns == 0) {
        transport->paused_until_ns = now + PAUSE_NS;
        lmc_zmq_add(transport, LMC_ZMQ_PAUSES, 1);
    }
    return now >= transport->paused_until_ns;
}

/*
 * While requests are out, somebody may soon have something for the loop, and looking whether
 * there is a message before it counts as asleep saves him the wake-up. Otherwise that look
 * would only be one more system call before the sleep.
 */
static void receive_or_sleep(lmc_zmq_transport *transport) {
    if (transport->in_flight != NULL && lmc_zmq_receive(transport, ZMQ_DONTWAIT)) {
        /* Those that run at once may go on for ever; what was queued must not wait for an end.
         */
        if (++transport->since_flush % FLUSH_EVERY == 0)
            lmc_dispatch_flush(transport->dispatcher);
        return;
    }
    lmc_dispatch_flush(transport->dispatcher);
    if (!lmc_zmq_wake_sleep(&transport->wake))
        return;
    lmc_zmq_receive(transport, 0);
}

static void serve(lmc_zmq_transport *transport) {
    while (!transport->stopping) {
        stamp(transport);
        lmc_zmq_loop_do_errands(transport);
        if (transport->stopping)
            break;
        if (may_read(transport)) {
            receive_or_sleep(transport);
        } else {
            lmc_dispatch_flush(transport->dispatcher);
            lmc_zmq_wake_pause(&transport->wake, transport->paused_until_ns);
        }
    }
}

/* ---- stop ---- */

/* What arrives during the stop is answered too: most of it with its negative. */
static bool take_arrived(lmc_zmq_transport *transport) {
    int count = 0;
    while (count < MESSAGES_PER_LOOK && lmc_zmq_receive(transport, ZMQ_DONTWAIT))
        count++;
    return count > 0;
}

static bool is_waiting(const lmc_zmq_request *request) {
    for (; request != NULL; request = request->following) {
        if (!request->abandoned)
            return true;
    }
    return false;
}

/* Until every call has ended and clients have been silent for some turns. */
static void wait_for_calls(lmc_zmq_transport *transport, int64_t deadline_ns, int turns) {
    int64_t now;
    for (int quiet = 0; (now = lmc_now(&lmc_system_clock)) < deadline_ns;) {
        quiet = take_arrived(transport) ? 0 : quiet + 1;
        if (quiet > turns && !is_waiting(transport->in_flight))
            return;
        int64_t look = now + (quiet > 0 ? STOP_TURN_NS : 0);
        lmc_dispatch_flush(transport->dispatcher);
        lmc_zmq_wake_pause(&transport->wake, look < deadline_ns ? look : deadline_ns);
        lmc_zmq_loop_do_errands(transport);
        stamp(transport);
    }
}

static void wind_down(lmc_zmq_transport *transport) {
    /* Nothing is unbound: that would end the connections made there. */
    wait_for_calls(transport, lmc_now(&lmc_system_clock) + transport->grace_ns, QUIET_TURNS);
    lmc_dispatch_refuse_queued(transport->dispatcher);
    lmc_zmq_loop_do_errands(transport);
    lmc_zmq_requests_abandon(transport);
    /* A request that was being completed just now. */
    wait_for_calls(transport, lmc_now(&lmc_system_clock) + STOP_TURN_NS, 0);
    uint64_t left = lmc_zmq_counted(transport, LMC_ZMQ_IN_FLIGHT);
    if (left > 0)
        LMC_INFO("%llu requests had not ended when the request transport stopped",
                 (unsigned long long)left);
}

void lmc_zmq_loop_run(void *arg) {
    lmc_zmq_transport *transport = arg;
    here = transport;
    lmc_thread_short_slices(true);
    serve(transport);
    wind_down(transport);
    here = NULL;
}
