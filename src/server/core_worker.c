#include "server/core_worker.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"

struct lmc_core_worker {
    lmc_cache *cache;
    lmc_zmq_transport *transport;
    lmc_status_collector *status;
    lmc_thread thread;
    lmc_lock lock;
    lmc_cond changed;
    bool stopping;
    _Atomic int64_t last_ns;
    _Atomic uint64_t runs;
};

static bool wait_period(lmc_core_worker *worker) {
    int64_t deadline = lmc_now(&lmc_system_clock) + LMC_CORE_PERIOD_NS;
    bool in_time = true;
    lmc_lock_take(&worker->lock);
    while (!worker->stopping && in_time)
        in_time = lmc_cond_wait_until(&worker->changed, &worker->lock, deadline);
    bool go_on = !worker->stopping;
    lmc_lock_drop(&worker->lock);
    return go_on;
}

static void run_worker(void *arg) {
    lmc_core_worker *worker = arg;
    while (wait_period(worker)) {
        lmc_cache_tick(worker->cache);
        lmc_zmq_transport_look(worker->transport);
        atomic_store(&worker->last_ns, lmc_now(&lmc_system_clock));
        atomic_fetch_add(&worker->runs, 1);
        lmc_status_refresh(worker->status);
    }
}

lmc_status lmc_core_worker_create(lmc_cache *cache, lmc_zmq_transport *transport,
                                  lmc_status_collector *status, lmc_core_worker **worker,
                                  lmc_error *error) {
    lmc_core_worker *made = calloc(1, sizeof *made);
    *worker = NULL;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the core worker");
    made->cache = cache;
    made->transport = transport;
    made->status = status;
    lmc_lock_init(&made->lock, LMC_RANK_SERVER, "core worker");
    lmc_cond_init(&made->changed);
    atomic_store(&made->last_ns, lmc_now(&lmc_system_clock));
    lmc_status started = lmc_thread_start(&made->thread, "lmc-core", run_worker, made, error);
    if (started != LMC_OK) {
        lmc_core_worker_destroy(made);
        return started;
    }
    *worker = made;
    return LMC_OK;
}

void lmc_core_worker_destroy(lmc_core_worker *worker) {
    if (worker == NULL)
        return;
    lmc_lock_take(&worker->lock);
    worker->stopping = true;
    lmc_cond_broadcast(&worker->changed);
    lmc_lock_drop(&worker->lock);
    lmc_thread_join(&worker->thread);
    lmc_cond_fini(&worker->changed);
    lmc_lock_fini(&worker->lock);
    free(worker);
}

int64_t lmc_core_worker_last_ns(const lmc_core_worker *worker) {
    return atomic_load(&worker->last_ns);
}

uint64_t lmc_core_worker_runs(const lmc_core_worker *worker) {
    return atomic_load(&worker->runs);
}
