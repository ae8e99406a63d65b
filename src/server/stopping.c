#include <unistd.h>

#include "base/copy_crew.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "server/plugins.h"
#include "server/state.h"
#include "server/stop_signals.h"

#define LMC_LOGGER "lmcache.server"
#define STOP_LIMIT_NS (25 * LMC_NS_PER_S)
#define GRACE_NS LMC_NS_PER_S               /* of calls in flight */
#define HANDLER_LIMIT_NS (5 * LMC_NS_PER_S) /* for handlers to return after that */

void lmc_server_end_now(void *arg) {
    const lmc_server *server = arg;
    lmc_server_unlink_pool(server);
    LMC_INFO("LMCache HTTP server stopped");
    lmc_log_flush();
    _exit(server->exit_status);
}

/* ---- the limit of the whole stop ---- */

typedef struct stop_limit {
    const lmc_server *server;
    lmc_lock lock;
    lmc_cond changed;
    lmc_thread thread;
    bool done;
} stop_limit;

static void watch_stop(void *arg) {
    stop_limit *limit = arg;
    int64_t deadline = lmc_now(&lmc_system_clock) + STOP_LIMIT_NS;
    bool in_time = true;
    lmc_lock_take(&limit->lock);
    while (!limit->done && in_time)
        in_time = lmc_cond_wait_until(&limit->changed, &limit->lock, deadline);
    bool done = limit->done;
    lmc_lock_drop(&limit->lock);
    if (done)
        return;
    LMC_ERROR("the stop takes longer than %d s; what is left is abandoned",
              (int)(STOP_LIMIT_NS / LMC_NS_PER_S));
    lmc_server_end_now((void *)(uintptr_t)limit->server);
}

static void limit_begin(stop_limit *limit, const lmc_server *server) {
    lmc_error error = LMC_ERROR_INIT;
    *limit = (stop_limit){.server = server};
    lmc_lock_init(&limit->lock, LMC_RANK_SERVER, "stop limit");
    lmc_cond_init(&limit->changed);
    if (lmc_thread_start(&limit->thread, "lmc-stop-limit", watch_stop, limit, &error) != LMC_OK)
        LMC_WARNING("the stop has no time limit: %s", error.text);
}

static void limit_end(stop_limit *limit) {
    lmc_lock_take(&limit->lock);
    limit->done = true;
    lmc_cond_broadcast(&limit->changed);
    lmc_lock_drop(&limit->lock);
    lmc_thread_join(&limit->thread);
    lmc_cond_fini(&limit->changed);
    lmc_lock_fini(&limit->lock);
}

/* ---- the steps ---- */

/* No request is taken any more, and every handler has returned. */
static void stop_requests(lmc_server *server) {
    if (server->watchdog != NULL)
        lmc_timer_cancel(server->watchdog);
    server->watchdog = NULL;
    lmc_timer_cancel(server->handler_watch);
    server->handler_watch = NULL;
    if (server->transport != NULL)
        lmc_zmq_transport_stop(server->transport, GRACE_NS);
    int64_t deadline = lmc_now(&lmc_system_clock) + HANDLER_LIMIT_NS;
    if (server->dispatcher != NULL &&
        lmc_pools_stop(server->dispatcher->pools, deadline) != LMC_OK)
        lmc_server_end_now(server); /* a handler still runs: nothing it uses may go */
    lmc_core_worker_destroy(server->worker);
    server->worker = NULL;
}

/* The core answers calls that still wait in it, so the transport goes after it. */
static void destroy_core(lmc_server *server) {
    lmc_cache_destroy(server->cache);
    server->cache = NULL;
    lmc_zmq_transport_destroy(server->transport);
    lmc_dispatcher_destroy(server->dispatcher);
    lmc_registry_destroy(server->registry);
    lmc_server_destroy_modules(server);
    lmc_copy_crew_stop();
    lmc_timers_destroy(server->timers);
    lmc_server_destroy_http(server);
    lmc_server_destroy_metrics(server);
    lmc_late_metrics_destroy(server->late_metrics);
    lmc_server_destroy_plugins(server);
}

void lmc_server_stop(lmc_server *server) {
    stop_limit limit;
    bool has_started = server->http != NULL; /* not when its port was taken */
    atomic_store(&server->stopping, true);
    lmc_notify_stopping(&server->notify);
    limit_begin(&limit, server);
    lmc_server_close_http(server);
    lmc_server_stop_plugins(server);
    stop_requests(server);
    lmc_server_close_modules(server);
    if (lmc_server_http_is_stuck(server))
        lmc_server_end_now(server);
    destroy_core(server);
    limit_end(&limit);
    lmc_notify_close(&server->notify);
    if (has_started)
        LMC_INFO("LMCache HTTP server stopped");
}
