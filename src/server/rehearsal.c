#include "server/rehearsal.h"

#include <sched.h>
#include <stdlib.h>

#include "base/error.h"
#include "server/rehearsal_door.h"
#include "server/state.h"

#define HANDLER_LIMIT_NS (5 * LMC_NS_PER_S)

struct lmc_rehearsal {
    lmc_server server;
    lmc_config config;
    lmc_module_spec *specs;
    lmc_rehearsed_exchange *exchanges; /* all that were made; the handler may still have one */
};

/* ---- open ---- */

static lmc_status name_modules(lmc_rehearsal *r, const lmc_rehearsal_options *options) {
    r->specs = calloc(options->path_count + 1, sizeof *r->specs);
    if (r->specs == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < options->path_count; i++) {
        bool last = i + 1 == options->path_count;
        const char *config = last && options->config != NULL ? options->config : "{}";
        r->specs[i].module_path = (char *)(uintptr_t)options->paths[i];
        r->specs[i].config = (char *)(uintptr_t)config;
        r->specs[i].factory_name = (char *)(uintptr_t)(last ? options->factory : NULL);
    }
    r->config.mp.server_modules = r->specs;
    r->config.mp.server_module_count = options->path_count;
    return LMC_OK;
}

static lmc_status configure(lmc_rehearsal *r, const lmc_rehearsal_options *options,
                            lmc_error *error) {
    static const char *const words[] = {"--l1-size-gb",
                                        "0.03125",
                                        "--eviction-policy",
                                        "LRU",
                                        "--no-http",
                                        "--max-cpu-workers",
                                        "4",
                                        "--worker-reap-timeout-seconds",
                                        "0"};
    lmc_status status = lmc_config_parse(&r->config, (int)(sizeof words / sizeof words[0]),
                                         (char *const *)(uintptr_t)words, NULL, error);
    return status == LMC_OK ? name_modules(r, options) : status;
}

static lmc_status build(lmc_rehearsal *r, const lmc_rehearsal_options *options,
                        lmc_error *error) {
    lmc_server *server = &r->server;
    lmc_pools_options pools = {.normal_threads = 4, .affinity_threads = 2};
    lmc_status status = configure(r, options, error);
    server->config = &r->config;
    server->exit_status = 1;
    server->is_rehearsal = true;
    server->last_class = options->last;
    if (status == LMC_OK)
        status = lmc_timers_create(&lmc_system_clock, &server->timers, error);
    if (status == LMC_OK)
        status = lmc_server_create_metrics(server, error);
    if (status == LMC_OK)
        status = lmc_server_create_cache(server, error);
    if (status == LMC_OK)
        status = lmc_server_compose(server, error);
    if (status == LMC_OK)
        status = lmc_server_run_registrars(server, error);
    if (status == LMC_OK)
        status = lmc_dispatcher_prepare(server->registry, &server->dispatcher, error);
    if (status == LMC_OK)
        status = lmc_dispatcher_start(server->dispatcher, &pools, error);
    return status;
}

lmc_status lmc_rehearsal_open(const lmc_rehearsal_options *options, lmc_rehearsal **rehearsal,
                              lmc_error *error) {
    lmc_rehearsal *r = calloc(1, sizeof *r);
    *rehearsal = NULL;
    if (r == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory");
    lmc_status status = build(r, options, error);
    if (status == LMC_OK)
        *rehearsal = r;
    else
        lmc_rehearsal_close(r);
    return status;
}

/* ---- calls ---- */

static lmc_status start_call(lmc_rehearsal *r, const lmc_operation_def *operation,
                             const void *request, lmc_rehearsed_exchange **made) {
    const lmc_handler *handler = lmc_registry_find(r->server.registry, operation);
    if (handler == NULL)
        return LMC_NOT_FOUND;
    *made = lmc_rehearsed_exchange_create(r->server.dispatcher, request);
    if (*made == NULL)
        return LMC_NO_MEMORY;
    (*made)->following = r->exchanges;
    r->exchanges = *made;
    lmc_exchange_begin(&(*made)->x, operation, handler, &(*made)->peer);
    lmc_dispatch(&(*made)->x);
    return LMC_OK;
}

static void await(lmc_rehearsal *r, lmc_rehearsed_exchange **exchanges, size_t count,
                  int64_t wait_ns) {
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    for (size_t i = 0; i < count; i++) {
        while (!atomic_load(&exchanges[i]->finished) && lmc_now(&lmc_system_clock) < deadline) {
            if (!lmc_rehearsed_exchange_turn(exchanges[i]))
                sched_yield();
        }
        if (atomic_load(&exchanges[i]->finished))
            lmc_dispatch_ended(r->server.dispatcher, &exchanges[i]->x);
    }
}

lmc_status lmc_rehearsal_call(lmc_rehearsal *r, const char *operation, const void *request,
                              size_t count, int64_t wait_ns, lmc_rehearsed_call *results) {
    const lmc_operation_def *def = lmc_operation_by_name(lmc_text(operation));
    lmc_rehearsed_exchange **exchanges = calloc(count + 1, sizeof(lmc_rehearsed_exchange *));
    lmc_status status = LMC_OK;
    size_t started = 0;
    if (exchanges == NULL)
        return LMC_NO_MEMORY;
    for (; started < count && status == LMC_OK; started += status == LMC_OK)
        status = def != NULL ? start_call(r, def, request, &exchanges[started]) : LMC_NOT_FOUND;
    lmc_dispatch_flush(r->server.dispatcher);
    await(r, exchanges, started, wait_ns);
    for (size_t i = 0; i < started; i++)
        lmc_rehearsed_exchange_result(exchanges[i], &results[i]);
    free(exchanges);
    return status;
}

void lmc_rehearsed_call_fini(lmc_rehearsed_call *call) { lmc_buffer_fini(&call->text); }

void lmc_rehearsal_each(const lmc_rehearsal *r,
                        void (*visit)(void *arg, const lmc_module_row *row), void *arg) {
    lmc_composition_each(r->server.composition, visit, arg);
}

uint64_t lmc_rehearsal_doubles(const lmc_rehearsal *r) {
    return lmc_dispatch_counted(r->server.dispatcher, LMC_COUNT_TWICE);
}

/* ---- the rest of what a server does with modules ---- */

lmc_status lmc_rehearsal_status(lmc_rehearsal *r, lmc_buffer *out) {
    return lmc_status_collect(lmc_composition_status(r->server.composition),
                              lmc_server_report_core, &r->server, out);
}

void lmc_rehearsal_touch(lmc_rehearsal *r, int64_t instance_id) {
    lmc_liveness_touch(r->server.context.liveness, instance_id);
}

void lmc_rehearsal_reap(lmc_rehearsal *r, int64_t timeout_ns, int64_t grace_ns) {
    lmc_liveness_scan(r->server.context.liveness, timeout_ns, grace_ns);
}

int64_t lmc_rehearsal_tracked(lmc_rehearsal *r) {
    return lmc_liveness_tracked(r->server.context.liveness);
}

uint64_t lmc_rehearsal_open_objects(lmc_rehearsal *r) {
    lmc_l1_report report;
    lmc_l1_report_get(lmc_cache_l1(r->server.cache), &report);
    return report.read_locked_count;
}

/* ---- close ---- */

static void free_exchanges(lmc_rehearsal *r) {
    while (r->exchanges != NULL) {
        lmc_rehearsed_exchange *exchange = r->exchanges;
        r->exchanges = exchange->following;
        lmc_rehearsed_exchange_destroy(exchange);
    }
}

bool lmc_rehearsal_close(lmc_rehearsal *r) {
    if (r == NULL)
        return true;
    lmc_server *server = &r->server;
    int64_t deadline = lmc_now(&lmc_system_clock) + HANDLER_LIMIT_NS;
    if (server->dispatcher != NULL &&
        lmc_pools_stop(server->dispatcher->pools, deadline) != LMC_OK)
        return false;
    lmc_server_close_modules(server);
    lmc_cache_destroy(server->cache);
    free_exchanges(r);
    lmc_dispatcher_destroy(server->dispatcher);
    lmc_registry_destroy(server->registry);
    lmc_server_destroy_modules(server);
    lmc_timers_destroy(server->timers);
    lmc_server_destroy_metrics(server);
    lmc_late_metrics_destroy(server->late_metrics);
    r->config.mp.server_modules = NULL;
    r->config.mp.server_module_count = 0;
    lmc_config_fini(&r->config);
    free(r->specs);
    free(r);
    return true;
}
