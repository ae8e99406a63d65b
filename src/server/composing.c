/*
 * composing.c: the server's modules, built in and from outside, from load to close.
 */
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "server/state.h"
#include "transport/zmq/side_context.h"

#define LMC_LOGGER "lmcache.module"
#define SIDE_CONTEXT_NS LMC_NS_PER_S /* for sockets of modules that are closing */
#define WATCH_NS LMC_NS_PER_S

static lmc_slice config_for(void *arg, const char *class_name) {
    return lmc_outside_modules_config(&((lmc_server *)arg)->outside, class_name);
}

static const char *origin_of(void *arg, const char *class_name) {
    return lmc_outside_modules_origin(&((lmc_server *)arg)->outside, class_name);
}

static void closing(void *arg, const char *class_name) {
    const lmc_pyhost *host = ((lmc_server *)arg)->outside.python.host;
    if (host != NULL)
        host->closing(class_name);
}

/* ---- what modules in Python may ask ---- */

static lmc_context *context_of(void *arg) {
    lmc_server *server = arg;
    return server->context.config != NULL ? &server->context : NULL;
}
static bool handlers_are_known(const lmc_server *server) {
    return atomic_load_explicit(&server->handlers_known, memory_order_acquire);
}
static lmc_registry *registry_of(void *arg) {
    return handlers_are_known(arg) ? ((lmc_server *)arg)->registry : NULL;
}
static lmc_dispatcher *dispatcher_of(void *arg) {
    return handlers_are_known(arg) ? ((lmc_server *)arg)->dispatcher : NULL;
}
static lmc_composition *composition_of(void *arg) { return ((lmc_server *)arg)->composition; }

/* ---- building ---- */

static bool has_outside(const lmc_server *server) {
    return server->outside.class_count > server->outside.built_in_count;
}

/* What is there only for modules from outside. */
static lmc_status prepare_outside(lmc_server *server, lmc_error *error) {
    const lmc_observability_config *observe = &server->config->observability;
    lmc_python_world world = {.arg = server,
                              .context = context_of,
                              .registry = registry_of,
                              .dispatcher = dispatcher_of,
                              .composition = composition_of,
                              .storage_status = lmc_server_storage_status,
                              .reuse = server->is_rehearsal};
    lmc_status status = lmc_outside_modules_load(&server->outside, server->config, &world,
                                                 server->last_class, error);
    if (status != LMC_OK || !has_outside(server))
        return status;
    if (observe->enabled && observe->metrics_enabled)
        server->late_metrics = lmc_late_metrics_create();
    return lmc_config_render(server->config, LMC_CONFIG_HTTP, &server->config_text);
}

static lmc_status prepare_context(lmc_server *server, lmc_error *error) {
    const lmc_observability_config *observe = &server->config->observability;
    lmc_status status = LMC_OK;
    if (observe->enabled)
        status = lmc_events_create((size_t)observe->max_queue_size, &server->events, error);
    if (status != LMC_OK)
        return status;
    lmc_server_watch_events(server);
    server->context = (lmc_context){
        .config = server->config,
        .cache = server->cache,
        .metrics = server->metrics,
        .clock = &lmc_system_clock,
        .timers = server->timers,
        .liveness = lmc_liveness_create(),
        .unknown_ids = lmc_unknown_ids_create(LMC_UNKNOWN_IDS_MAX),
        .events = server->events,
        .routes = server->routes = lmc_routes_create(),
        .late_metrics = server->late_metrics,
        .config_text = lmc_slice_of(server->config_text.data, server->config_text.size)};
    if (server->routes == NULL || server->context.liveness == NULL ||
        server->context.unknown_ids == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    return LMC_OK;
}

lmc_status lmc_server_compose(lmc_server *server, lmc_error *error) {
    lmc_status status = prepare_outside(server, error);
    if (status == LMC_OK)
        status = prepare_context(server, error);
    if (status != LMC_OK)
        return status;
    lmc_composition_options options = {.classes = server->outside.classes,
                                       .class_count = server->outside.class_count,
                                       .built_in_count = server->outside.built_in_count,
                                       .context = &server->context,
                                       .config_for = config_for,
                                       .origin_of = origin_of,
                                       .closing = closing,
                                       .take_over = lmc_server_end_now,
                                       .arg = server};
    status = lmc_composition_create(&options, &server->composition, error);
    if (status == LMC_OK)
        status = lmc_registry_create(&server->registry, error);
    if (status == LMC_OK)
        status = lmc_composition_register(server->composition, server->registry, error);
    if (status == LMC_OK)
        lmc_server_publish_capacity(server);
    return status;
}

lmc_status lmc_server_run_registrars(lmc_server *server, lmc_error *error) {
    if (server->outside.python.host != NULL)
        server->outside.python.host->composed();
    lmc_status status = lmc_composition_register_zmq(server->composition, server->registry,
                                                     lmc_zmq_side_context, NULL, error);
    if (status == LMC_OK)
        status = lmc_registry_check(server->registry, error);
    if (status == LMC_OK)
        lmc_registry_freeze(server->registry);
    atomic_store_explicit(&server->handlers_known, status == LMC_OK, memory_order_release);
    return status;
}

/* ---- handlers that run for long ---- */

static void tell_slow(void *arg, const lmc_slow_handler *slow) {
    (void)arg;
    LMC_WARNING("%s: the handler of '%s' has been running for %.1f s (pool %s)",
                slow->account->owner, slow->what,
                (double)slow->running_ns / (double)LMC_NS_PER_S, slow->pool);
}

static void watch_handlers(void *arg) {
    const lmc_server *server = arg;
    lmc_pools_watch(
        server->dispatcher->pools,
        &(lmc_pools_watch_options){.limit_ns = LMC_SLOW_CALL_NS, .visit = tell_slow});
}

lmc_status lmc_server_watch_handlers(lmc_server *server, lmc_error *error) {
    if (!has_outside(server))
        return LMC_OK;
    return lmc_timer_start(server->timers, WATCH_NS, WATCH_NS, "slow-handlers", watch_handlers,
                           server, &server->handler_watch, error);
}

/* ---- the end ---- */

void lmc_server_close_modules(lmc_server *server) {
    if (server->composition != NULL)
        lmc_composition_close(server->composition);
    else
        lmc_events_stop(server->events, LMC_CLOSE_LIMIT_NS);
    if (!lmc_python_host_finish(&server->outside.python))
        lmc_server_end_now(server); /* its threads still run: nothing they use may go */
    atomic_store(&server->handlers_known, false);
    lmc_zmq_side_context_end(SIDE_CONTEXT_NS);
    lmc_liveness_destroy(server->context.liveness);
    lmc_unknown_ids_destroy(server->context.unknown_ids);
}

void lmc_server_destroy_modules(lmc_server *server) {
    lmc_composition_destroy(server->composition);
    server->composition = NULL;
    lmc_events_destroy(server->events);
    lmc_routes_destroy(server->routes);
    lmc_outside_modules_fini(&server->outside);
    lmc_buffer_fini(&server->config_text);
}
