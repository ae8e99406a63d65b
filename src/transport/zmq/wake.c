#include "transport/zmq/wake.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.zmq"
#define ENDPOINT "inproc://lmcached.request-loop"

typedef enum lmc_zmq_sleep { AWAKE, IN_RECEIVE, IN_PAUSE } lmc_zmq_sleep;

lmc_status lmc_zmq_wake_init(lmc_zmq_wake *wake, void *context, void *router,
                             lmc_error *error) {
    int no_linger = 0;
    memset(wake, 0, sizeof *wake);
    lmc_lock_init(&wake->lock, LMC_RANK_TRANSPORT, "zmq wake");
    lmc_cond_init(&wake->cond);
    wake->id[0] = 'w';
    lmc_status status = lmc_random(wake->id + 1, sizeof wake->id - 1);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "no random bytes");
    wake->dealer = zmq_socket(context, ZMQ_DEALER);
    if (wake->dealer == NULL || zmq_bind(router, ENDPOINT) != 0 ||
        zmq_setsockopt(wake->dealer, ZMQ_ROUTING_ID, wake->id, sizeof wake->id) != 0 ||
        zmq_setsockopt(wake->dealer, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
        zmq_connect(wake->dealer, ENDPOINT) != 0)
        return lmc_error_set(error, LMC_FAILED, "the request loop's wake-up socket: %s",
                             zmq_strerror(zmq_errno()));
    return LMC_OK;
}

void lmc_zmq_wake_fini(lmc_zmq_wake *wake) {
    if (wake->dealer != NULL)
        zmq_close(wake->dealer);
    wake->dealer = NULL;
    lmc_cond_fini(&wake->cond);
    lmc_lock_fini(&wake->lock);
}

static void wake_receiver(lmc_zmq_wake *wake) {
    lmc_lock_take(&wake->lock);
    int rc = zmq_send(wake->dealer, "", 0, ZMQ_DONTWAIT);
    int error = rc < 0 ? zmq_errno() : 0;
    lmc_lock_drop(&wake->lock);
    atomic_fetch_add_explicit(&wake->sent, 1, memory_order_relaxed);
    if (error != 0)
        LMC_ERROR("cannot wake the request loop: %s", zmq_strerror(error));
}

static void end_pause(lmc_zmq_wake *wake) {
    lmc_lock_take(&wake->lock);
    lmc_cond_signal(&wake->cond);
    lmc_lock_drop(&wake->lock);
}

/*
 * Either the pusher sees that the loop sleeps, or the loop sees the errand before it sleeps:
 * push and exchange here, store and load in lmc_zmq_wake_sleep() are sequentially consistent.
 * The exchange makes one pusher per sleep the one that wakes.
 */
void lmc_zmq_wake_add(lmc_zmq_wake *wake, lmc_zmq_errand *errand, lmc_zmq_errand_kind kind) {
    errand->kind = kind;
    lmc_mpsc_push(&wake->errands, &errand->node);
}

void lmc_zmq_wake_tell(lmc_zmq_wake *wake) {
    if (atomic_load(&wake->asleep) == AWAKE)
        return;
    switch (atomic_exchange(&wake->asleep, AWAKE)) {
    case IN_RECEIVE:
        wake_receiver(wake);
        break;
    case IN_PAUSE:
        end_pause(wake);
        break;
    default:
        break;
    }
}

void lmc_zmq_wake_push(lmc_zmq_wake *wake, lmc_zmq_errand *errand, lmc_zmq_errand_kind kind) {
    lmc_zmq_wake_add(wake, errand, kind);
    lmc_zmq_wake_tell(wake);
}

lmc_zmq_errand *lmc_zmq_wake_take(lmc_zmq_wake *wake) {
    if (lmc_mpsc_is_empty(&wake->errands))
        return NULL;
    return (lmc_zmq_errand *)lmc_mpsc_take_all(&wake->errands);
}

static bool nothing_to_do(lmc_zmq_wake *wake) {
    return atomic_load(&wake->errands.top) == NULL;
}

bool lmc_zmq_wake_sleep(lmc_zmq_wake *wake) {
    atomic_store(&wake->asleep, IN_RECEIVE);
    if (nothing_to_do(wake))
        return true;
    atomic_store(&wake->asleep, AWAKE);
    return false;
}

void lmc_zmq_wake_up(lmc_zmq_wake *wake) {
    atomic_store_explicit(&wake->asleep, AWAKE, memory_order_relaxed);
}

void lmc_zmq_wake_pause(lmc_zmq_wake *wake, int64_t deadline_ns) {
    lmc_lock_take(&wake->lock);
    atomic_store(&wake->asleep, IN_PAUSE);
    bool in_time = true;
    while (nothing_to_do(wake) && in_time)
        in_time = lmc_cond_wait_until(&wake->cond, &wake->lock, deadline_ns);
    atomic_store(&wake->asleep, AWAKE);
    lmc_lock_drop(&wake->lock);
}

bool lmc_zmq_wake_is_asleep(lmc_zmq_wake *wake) {
    return atomic_load_explicit(&wake->asleep, memory_order_relaxed) == IN_RECEIVE;
}

bool lmc_zmq_wake_is_mine(const lmc_zmq_wake *wake, const void *id, size_t size) {
    return size == sizeof wake->id && memcmp(id, wake->id, size) == 0;
}
