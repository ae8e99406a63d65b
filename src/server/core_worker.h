/*
 * core_worker.h: the thread that keeps the cache core's time, about once per second.
 *
 * It runs the core's tick (leases, sessions, eviction), has the request transport look at its
 * memory, then asks the modules how they are, so that readiness has an answer without waiting.
 * create and destroy: main thread; the rest: any.
 */
#ifndef LMC_SERVER_CORE_WORKER_H
#define LMC_SERVER_CORE_WORKER_H

#include "cache/cache.h"
#include "module/status.h"
#include "transport/zmq/transport.h"

#define LMC_CORE_PERIOD_NS LMC_NS_PER_S

typedef struct lmc_core_worker lmc_core_worker;

lmc_status lmc_core_worker_create(lmc_cache *cache, lmc_zmq_transport *transport,
                                  lmc_status_collector *status, lmc_core_worker **worker,
                                  lmc_error *error);
void lmc_core_worker_destroy(
    lmc_core_worker *worker); /* waits for a running tick; accepts NULL */

int64_t lmc_core_worker_last_ns(const lmc_core_worker *worker); /* monotonic; 0: never ran */
uint64_t lmc_core_worker_runs(const lmc_core_worker *worker);

#endif
