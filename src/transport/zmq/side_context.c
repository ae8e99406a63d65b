#include "transport/zmq/side_context.h"

#include <stdlib.h>
#include <zmq.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"

#define LMC_LOGGER "lmcache.zmq"

static void *side_context;

void *lmc_zmq_side_context(void *unused) {
    (void)unused;
    if (side_context == NULL)
        side_context = zmq_ctx_new();
    return side_context;
}

typedef struct ending {
    lmc_lock lock;
    lmc_cond changed;
    bool ended, abandoned;
    lmc_thread thread;
} ending;

static void free_ending(ending *e) {
    lmc_cond_fini(&e->changed);
    lmc_lock_fini(&e->lock);
    free(e);
}

/* Terminating waits for sockets, so it has a thread of its own. */
static void terminate(void *arg) {
    ending *e = arg;
    zmq_ctx_term(side_context);
    lmc_lock_take(&e->lock);
    e->ended = true;
    lmc_cond_signal(&e->changed);
    lmc_lock_drop(&e->lock);
}

void lmc_zmq_side_context_end(int64_t wait_ns) {
    lmc_error error = LMC_ERROR_INIT;
    ending *e = side_context != NULL ? calloc(1, sizeof *e) : NULL;
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    bool in_time = true;
    if (e == NULL)
        return;
    lmc_lock_init(&e->lock, LMC_RANK_TRANSPORT, "side context");
    lmc_cond_init(&e->changed);
    if (lmc_thread_start(&e->thread, "lmc-side-zmq", terminate, e, &error) != LMC_OK) {
        free_ending(e);
        return;
    }
    lmc_lock_take(&e->lock);
    while (!e->ended && in_time)
        in_time = lmc_cond_wait_until(&e->changed, &e->lock, deadline);
    bool ended = e->ended;
    lmc_lock_drop(&e->lock);
    if (!ended) {
        LMC_WARNING("a module has left ZMQ sockets open");
        return; /* the thread may still use e */
    }
    lmc_thread_join(&e->thread);
    free_ending(e);
    side_context = NULL;
}
