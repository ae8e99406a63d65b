/*
 * metering.c: the server's metrics: what the cache core tells as it happens, and what is read
 * from its parts at a scrape.
 */
#include "base/bytes.h"
#include "base/log.h"
#include "observe/server_metrics.h"
#include "server/state.h"

#define LMC_LOGGER "lmcache.storage"

lmc_status lmc_server_create_metrics(lmc_server *server, lmc_error *error) {
    const lmc_observability_config *observe = &server->config->observability;
    return lmc_server_metrics_create(observe->enabled && observe->metrics_enabled,
                                     &server->metrics, error);
}

/* ---- events of the core ---- */

static void log_lookup(const lmc_server *server, const lmc_lookup_sample *sample) {
    uint64_t chunk = (uint64_t)server->config->mp.chunk_size;
    if (sample->early_exit == NULL || *sample->early_exit == '\0')
        LMC_INFO("Prefetch request completed (L1+L2): %llu/%llu prefix hits",
                 (unsigned long long)(sample->l1_tokens / chunk),
                 (unsigned long long)(sample->requested_tokens / chunk));
    else
        LMC_DEBUG("lookup of model %.*s ended early: %s", LMC_SLICE_ARGS(sample->model),
                  sample->early_exit);
}

static void publish_lookup(const lmc_server *server, const lmc_lookup_sample *sample,
                           lmc_slice request_id) {
    lmc_event *event = lmc_events_begin(server->events, "mp.lookup_prefetch.end", request_id);
    if (event == NULL)
        return;
    lmc_event_put_text(event, "model_name", sample->model);
    lmc_event_put_text(event, "cache_salt", sample->salt);
    lmc_event_put_int(event, "requested_tokens", (int64_t)sample->requested_tokens);
    lmc_event_put_int(event, "hit_tokens", (int64_t)(sample->l1_tokens + sample->l2_tokens));
    lmc_event_put_int(event, "l1_hit_tokens", (int64_t)sample->l1_tokens);
    lmc_event_put_int(event, "l2_hit_tokens", (int64_t)sample->l2_tokens);
    lmc_event_put_int(event, "found_count", (int64_t)(sample->l1_keys + sample->l2_keys));
    lmc_event_put_int(event, "l1_hit_keys", (int64_t)sample->l1_keys);
    lmc_event_put_int(event, "l2_hit_keys", (int64_t)sample->l2_keys);
    lmc_event_put_text(event, "early_exit_reason", lmc_text(sample->early_exit));
    lmc_event_publish(event);
}

static void on_lookup_done(void *arg, lmc_slice model, lmc_slice salt,
                           uint64_t requested_tokens, uint64_t hit_tokens, uint64_t hit_keys,
                           const char *early_exit, lmc_slice request_id) {
    const lmc_server *server = arg;
    lmc_lookup_sample sample = {.model = model,
                                .salt = salt,
                                .requested_tokens = requested_tokens,
                                .l1_tokens = hit_tokens,
                                .l1_keys = hit_keys,
                                .early_exit = early_exit};
    lmc_metrics_lookup_done(server->metrics, &sample);
    log_lookup(server, &sample);
    publish_lookup(server, &sample, request_id);
}

static void on_read_failed(void *arg, lmc_slice model, size_t count, const char *reason) {
    lmc_metrics_l1_read_failed(((const lmc_server *)arg)->metrics, "l1_retrieve", reason, model,
                               count);
}

static void on_committed(void *arg, lmc_slice salt, size_t count) {
    lmc_metrics_l1_written(((const lmc_server *)arg)->metrics, salt, count);
}

static void on_evicted(void *arg, lmc_slice salt, size_t count) {
    lmc_metrics_l1_evicted(((const lmc_server *)arg)->metrics, salt, count);
}

static void on_read(void *arg, lmc_slice salt, size_t count) {
    lmc_metrics_l1_read(((const lmc_server *)arg)->metrics, salt, count);
}

static void log_no_memory(lmc_slice model, size_t count) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    if (lmc_log_allow(&limit, &suppressed))
        LMC_WARNING("No more memory for L1: %zu chunk%s of model %.*s not stored%s", count,
                    count == 1 ? "" : "s", LMC_SLICE_ARGS(model),
                    lmc_log_more(suppressed).text);
}

static void on_no_memory(void *arg, lmc_slice model, size_t count) {
    log_no_memory(model, count);
    lmc_metrics_l1_no_memory(((const lmc_server *)arg)->metrics, "l1_store", model, count);
}

static void on_eviction_tick(void *arg, bool triggered) {
    lmc_event *event = lmc_events_begin(((const lmc_server *)arg)->events,
                                        "l1.eviction.loop_tick", (lmc_slice){0});
    lmc_event_put_int(event, "triggered", triggered);
    lmc_event_publish(event);
    lmc_metrics_l1_eviction_tick(((const lmc_server *)arg)->metrics, triggered);
}

lmc_cache_observer lmc_server_observer(lmc_server *server) {
    return (lmc_cache_observer){.arg = server,
                                .l1 = {.arg = server,
                                       .interest = &server->interest,
                                       .saw = lmc_server_saw,
                                       .committed = on_committed,
                                       .evicted = on_evicted,
                                       .read = on_read,
                                       .no_memory = on_no_memory,
                                       .eviction_tick = on_eviction_tick},
                                .lookup_done = on_lookup_done,
                                .read_failed = on_read_failed};
}

/* ---- values at a scrape ---- */

static void read_l1(void *arg, lmc_l1_usage *usage) {
    const lmc_server *server = arg;
    lmc_l1_report report;
    lmc_l1_report_get(lmc_cache_l1(server->cache), &report);
    *usage = (lmc_l1_usage){.used = report.used_bytes,
                            .capacity = report.capacity_bytes,
                            .staging = report.staging_bytes,
                            .supplied = report.supplied_bytes};
}

static void collect_jobs(void *arg, lmc_samples *samples) {
    const lmc_server *server = arg;
    lmc_samples_add_text(samples, NULL, (double)lmc_cache_active_jobs(server->cache));
}

static void collect_sessions(void *arg, lmc_samples *samples) {
    const lmc_server *server = arg;
    lmc_samples_add_text(samples, NULL, (double)lmc_cache_active_sessions(server->cache));
}

static void collect_instances(void *arg, lmc_samples *samples) {
    const lmc_server *server = arg;
    lmc_samples_add_text(
        samples, "engine_driven",
        (double)lmc_cache_instance_count(server->cache, LMC_TRANSFER_ENGINE_DRIVEN));
    lmc_samples_add_text(
        samples, "lmcache_driven",
        (double)lmc_cache_instance_count(server->cache, LMC_TRANSFER_LMCACHE_DRIVEN));
}

static void collect_build(void *arg, lmc_samples *samples) {
    (void)arg;
    lmc_samples_add_text(samples, LMC_VERSION, 1);
}

static lmc_zmq_stats stats_of(void *arg) {
    const lmc_server *server = arg;
    lmc_zmq_stats stats;
    lmc_zmq_transport_stats(server->transport, &stats);
    return stats;
}

/* Families without labels that show one member of the transport's statistics. */
#define COLLECT_STAT(name, member)                                         \
    static void name(void *arg, lmc_samples *samples) {                    \
        lmc_samples_add_text(samples, NULL, (double)stats_of(arg).member); \
    }
COLLECT_STAT(collect_requests, requests)
COLLECT_STAT(collect_replies, replies)
COLLECT_STAT(collect_shed, shed)
COLLECT_STAT(collect_unread_bytes, unread_bytes)
COLLECT_STAT(collect_in_flight, in_flight)
COLLECT_STAT(collect_bytes_in_flight, in_flight_bytes)
COLLECT_STAT(collect_connections, connections)
COLLECT_STAT(collect_open_connections, connections_open)

static void collect_silent(void *arg, lmc_samples *samples) {
    const lmc_server *server = arg;
    lmc_zmq_stats stats = stats_of(arg);
    lmc_dispatcher *dispatcher = server->dispatcher;
    lmc_samples_add_text(samples, "too_few_frames", (double)stats.short_messages);
    lmc_samples_add_text(samples, "too_many_frames", (double)stats.too_many_frames);
    lmc_samples_add_text(samples, "unknown_operation", (double)stats.unknown_operation);
    lmc_samples_add_text(samples, "no_handler", (double)stats.no_handler);
    lmc_samples_add_text(samples, "malformed",
                         (double)lmc_dispatch_counted(dispatcher, LMC_COUNT_MALFORMED));
    lmc_samples_add_text(samples, "no_negative",
                         (double)lmc_dispatch_counted(dispatcher, LMC_COUNT_UNANSWERED));
}

static void collect_failures(void *arg, lmc_samples *samples) {
    const lmc_server *server = arg;
    lmc_dispatcher *dispatcher = server->dispatcher;
    lmc_samples_add_text(samples, "negative",
                         (double)lmc_dispatch_counted(dispatcher, LMC_COUNT_NEGATIVE));
    lmc_samples_add_text(samples, "none",
                         (double)lmc_dispatch_counted(dispatcher, LMC_COUNT_UNANSWERED));
}

static void collect_dropped(void *arg, lmc_samples *samples) {
    lmc_zmq_stats stats = stats_of(arg);
    lmc_samples_add_text(samples, "unread_messages", (double)stats.dropped_full);
    lmc_samples_add_text(samples, "unread_bytes", (double)stats.over_unread);
    lmc_samples_add_text(samples, "peer_gone", (double)stats.unreachable);
}

static void add_queue(void *arg, const lmc_pool_report *pool) {
    lmc_samples_add_text(arg, pool->name, (double)pool->queued);
}

static void add_busy(void *arg, const lmc_pool_report *pool) {
    lmc_samples_add_text(arg, pool->name, (double)pool->busy);
}

static void add_threads(void *arg, const lmc_pool_report *pool) {
    lmc_samples_add_text(arg, pool->name, (double)pool->threads);
}

static void collect_queue(void *arg, lmc_samples *samples) {
    lmc_pools_each(((const lmc_server *)arg)->dispatcher->pools, add_queue, samples);
}

static void collect_busy(void *arg, lmc_samples *samples) {
    lmc_pools_each(((const lmc_server *)arg)->dispatcher->pools, add_busy, samples);
}

static void collect_threads(void *arg, lmc_samples *samples) {
    lmc_pools_each(((const lmc_server *)arg)->dispatcher->pools, add_threads, samples);
}

/* ---- modules and events ---- */

static void add_calls(void *arg, const lmc_module_row *row) {
    lmc_samples_add_text(arg, row->name, (double)atomic_load(&row->account->calls));
}

static void add_errors(void *arg, const lmc_module_row *row) {
    lmc_samples_add_text(arg, row->name, (double)atomic_load(&row->account->errors));
}

static void add_slow(void *arg, const lmc_module_row *row) {
    lmc_samples_add_text(arg, row->name, (double)atomic_load(&row->account->slow));
}

static void add_in_flight(void *arg, const lmc_module_row *row) {
    if (row->account->outside)
        lmc_samples_add_text(arg, row->name, (double)atomic_load(&row->account->in_flight));
}

static void collect_calls(void *arg, lmc_samples *samples) {
    lmc_composition_each(((const lmc_server *)arg)->composition, add_calls, samples);
}

static void collect_errors(void *arg, lmc_samples *samples) {
    lmc_composition_each(((const lmc_server *)arg)->composition, add_errors, samples);
}

static void collect_slow(void *arg, lmc_samples *samples) {
    lmc_composition_each(((const lmc_server *)arg)->composition, add_slow, samples);
}

static void collect_calls_in_flight(void *arg, lmc_samples *samples) {
    lmc_composition_each(((const lmc_server *)arg)->composition, add_in_flight, samples);
}

static lmc_events_report events_of(const lmc_server *server) {
    lmc_events_report report;
    lmc_events_report_get(server->events, &report);
    return report;
}

static void collect_events_dropped(void *arg, lmc_samples *samples) {
    lmc_samples_add_text(samples, NULL, (double)events_of(arg).dropped);
}

static void add_failures(void *arg, const char *owner, uint64_t failures) {
    lmc_samples_add_text(arg, owner, (double)failures);
}

static void collect_subscriber_failures(void *arg, lmc_samples *samples) {
    lmc_events_each_owner(((const lmc_server *)arg)->events, add_failures, samples);
}

static void collect_events_queued(void *arg, lmc_samples *samples) {
    lmc_samples_add_text(samples, NULL, (double)events_of(arg).queued);
}

static void collect_events_lag(void *arg, lmc_samples *samples) {
    lmc_samples_add_text(samples, NULL, (double)events_of(arg).lag_ns / (double)LMC_NS_PER_S);
}

static const struct {
    lmc_family_id family;
    void (*collect)(void *arg, lmc_samples *samples);
} collectors[] = {
    {LMC_M_ACTIVE_PREFETCH_JOBS, collect_jobs},
    {LMC_M_ACTIVE_SESSIONS, collect_sessions},
    {LMC_M_REGISTERED_INSTANCES, collect_instances},
    {LMC_M_BUILD_INFO, collect_build},
    {LMC_M_REQUESTS, collect_requests},
    {LMC_M_REPLIES, collect_replies},
    {LMC_M_SHED_REQUESTS, collect_shed},
    {LMC_M_UNREAD_REPLY_BYTES, collect_unread_bytes},
    {LMC_M_REQUESTS_IN_FLIGHT, collect_in_flight},
    {LMC_M_REQUEST_BYTES_IN_FLIGHT, collect_bytes_in_flight},
    {LMC_M_CONNECTIONS, collect_connections},
    {LMC_M_OPEN_CONNECTIONS, collect_open_connections},
    {LMC_M_SILENT_REQUESTS, collect_silent},
    {LMC_M_HANDLER_FAILURES, collect_failures},
    {LMC_M_REPLIES_DROPPED, collect_dropped},
    {LMC_M_POOL_QUEUE_DEPTH, collect_queue},
    {LMC_M_POOL_BUSY_THREADS, collect_busy},
    {LMC_M_POOL_THREADS, collect_threads},
    {LMC_M_MODULE_CALLS, collect_calls},
    {LMC_M_MODULE_ERRORS, collect_errors},
    {LMC_M_MODULE_SLOW_CALLS, collect_slow},
    {LMC_M_MODULE_CALLS_IN_FLIGHT, collect_calls_in_flight},
    {LMC_M_EVENTS_DROPPED, collect_events_dropped},
    {LMC_M_SUBSCRIBER_EXCEPTIONS, collect_subscriber_failures},
    {LMC_M_EVENT_QUEUE_DEPTH, collect_events_queued},
    {LMC_M_EVENT_DRAIN_LAG, collect_events_lag},
};

void lmc_server_attach_metrics(lmc_server *server) {
    server->l1_source = (lmc_l1_source){read_l1, server};
    lmc_metrics_l1_source(server->metrics, &server->l1_source);
    for (size_t i = 0; i < sizeof collectors / sizeof collectors[0]; i++)
        lmc_metrics_collect(server->metrics, collectors[i].family, collectors[i].collect,
                            server);
}

void lmc_server_destroy_metrics(lmc_server *server) {
    lmc_metrics_destroy(server->metrics);
    server->metrics = NULL;
}
