#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/copy_crew.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "modules/modules.h"
#include "server/limits.h"
#include "server/plugins.h"
#include "server/state.h"
#include "server/stop_signals.h"

#define LMC_LOGGER "lmcache.server"
#define MESSAGE_ROOM (UINT64_C(64) << 20) /* beside a whole L1 in one frame (D35) */
#define MESSAGE_LEAST (UINT64_C(1) << 30)

static void log_notices(const lmc_config *config) {
    for (size_t i = 0; i < config->notice_count; i++)
        LMC_LOG(config->notices[i].level, "%s", config->notices[i].text);
}

/* ---- requests ---- */

static void connection_closed(void *arg, uint64_t connection) {
    const lmc_server *server = arg;
    lmc_cache_connection_closed(server->cache, connection);
}

static const char *unserved_hint(void *arg, const lmc_operation_def *operation) {
    (void)arg;
    return lmc_unserved_reason(operation->name);
}

static lmc_status bind_requests(lmc_server *server, lmc_error *error) {
    const lmc_mp_config *mp = &server->config->mp;
    lmc_pools_options pools = {.normal_threads = (uint32_t)mp->max_cpu_workers,
                               .affinity_threads = (uint32_t)mp->max_gpu_workers};
    uint64_t largest = lmc_l1_capacity(lmc_cache_l1(server->cache)) + MESSAGE_ROOM;
    lmc_zmq_options options = {.host = mp->host,
                               .port = (uint16_t)mp->port,
                               .max_message_bytes =
                                   largest > MESSAGE_LEAST ? largest : MESSAGE_LEAST,
                               .connection_closed = connection_closed,
                               .unserved_hint = unserved_hint,
                               .arg = server};
    lmc_status status = lmc_dispatcher_prepare(server->registry, &server->dispatcher, error);
    if (status == LMC_OK)
        status =
            lmc_zmq_transport_create(&options, server->dispatcher, &server->transport, error);
    if (status == LMC_OK)
        status = lmc_server_run_registrars(server, error);
    if (status == LMC_OK)
        status = lmc_dispatcher_start(server->dispatcher, &pools, error);
    if (status == LMC_OK)
        status = lmc_server_watch_handlers(server, error);
    if (status == LMC_OK) {
        lmc_server_attach_metrics(server);
        lmc_server_attach_plugin_metrics(server);
    }
    return status;
}

static void feed_watchdog(void *arg) {
    const lmc_server *server = arg;
    if (lmc_server_loop_turns(server))
        lmc_notify_watchdog(&server->notify);
}

static lmc_status serve_requests(lmc_server *server, lmc_error *error) {
    lmc_status status = lmc_zmq_transport_start(server->transport, error);
    if (status == LMC_OK)
        status = lmc_core_worker_create(server->cache, server->transport,
                                        lmc_composition_status(server->composition),
                                        &server->worker, error);
    if (status == LMC_OK)
        LMC_INFO("Serving requests on %s", lmc_zmq_transport_endpoint(server->transport));
    return status;
}

/* Beats begin once it is told, as the service manager expects them. */
static lmc_status tell_ready(lmc_server *server, lmc_error *error) {
    char text[200];
    snprintf(text, sizeof text, "serving on %s", lmc_zmq_transport_endpoint(server->transport));
    lmc_notify_ready(&server->notify, text);
    if (server->notify.watchdog_ns == 0)
        return LMC_OK;
    return lmc_timer_start(server->timers, 0, server->notify.watchdog_ns / 3,
                           "systemd-watchdog", feed_watchdog, server, &server->watchdog, error);
}

/* ---- start ---- */

static void name_pool_for_second_signal(const lmc_server *server) {
    char path[300];
    const char *pool = lmc_l1_pool_name(lmc_cache_l1(server->cache));
    snprintf(path, sizeof path, "/dev/shm/%s", pool);
    lmc_stop_signals_set_file(*pool != '\0' ? path : "");
}

static lmc_status start_core(lmc_server *server, lmc_error *error) {
    lmc_status status = lmc_timers_create(&lmc_system_clock, &server->timers, error);
    if (status == LMC_OK)
        status = lmc_copy_crew_start(lmc_copy_crew_size(), error);
    if (status == LMC_OK)
        status = lmc_server_create_metrics(server, error);
    if (status == LMC_OK)
        status = lmc_server_create_cache(server, error);
    if (status == LMC_OK)
        name_pool_for_second_signal(server);
    if (status == LMC_OK)
        status = lmc_server_compose(server, error);
    return status;
}

/* In the order of D3. A stop signal that comes meanwhile ends the start after the current step.
 */
static lmc_status start(lmc_server *server, lmc_error *error) {
    static lmc_status (*const steps[])(lmc_server *, lmc_error *) = {
        lmc_server_bind_http, start_core,           bind_requests,
        serve_requests,       lmc_server_open_http, lmc_server_start_plugins,
        tell_ready,
    };
    lmc_status status = lmc_descriptor_limit_raise(error);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == LMC_OK; i++)
        if (!lmc_stop_signals_pending())
            status = steps[i](server, error);
    return status;
}

static void run_until_stopped(lmc_server *server) {
    lmc_error error = LMC_ERROR_INIT;
    server->exit_status = 1; /* should a module hold up the end of a failed start */
    if (start(server, &error) != LMC_OK) {
        LMC_ERROR("%s", error.text[0] != '\0' ? error.text : "the start failed");
    } else {
        server->exit_status = 0;
        int number = lmc_stop_signals_wait();
        LMC_INFO("Stopping after signal %d", number);
    }
    lmc_server_stop(server);
}

int lmc_server_run(const lmc_config *config, const char *program) {
    static lmc_server server; /* threads of an abandoned stop may still read it */
    lmc_error error = LMC_ERROR_INIT;
    server = (lmc_server){
        .config = config, .program = program, .started_ns = lmc_now(&lmc_system_clock)};
    lmc_heap_keep_large();
    lmc_uuid4(server.boot_id);
    lmc_notify_open(&server.notify);
    if (lmc_log_start(&error) != LMC_OK || lmc_stop_signals_install(&error) != LMC_OK) {
        LMC_ERROR("%s", error.text);
        lmc_log_stop();
        return 1;
    }
    log_notices(config);
    run_until_stopped(&server);
    lmc_stop_signals_remove();
    lmc_log_stop();
    return server.exit_status;
}
