#include "observe/families.h"

/* What is known of label values beforehand. The empty salt is the one of every client without.
 */
#define NO_SALT ""
#define ONE_L1 "_default"
#define DEVICES "cpu"

#define COUNTER(family, text, ...) \
    .name = (family), .type = LMC_COUNTER, .help = (text), __VA_ARGS__
#define GAUGE(family, text, ...) \
    .name = (family), .type = LMC_GAUGE, .help = (text), __VA_ARGS__
#define HISTOGRAM(family, text, ...) \
    .name = (family), .type = LMC_HISTOGRAM, .help = (text), __VA_ARGS__

#define PLAIN .labels = {NULL}
#define BY_SALT .labels = {"cache_salt"}, .known = {NO_SALT}
#define BY_SALT_AND_L1 .labels = {"cache_salt", "l1_tag"}, .known = {NO_SALT, ONE_L1}
#define BY_MODEL_AND_SALT .labels = {"model_name", "cache_salt"}
#define BY_DEVICE .labels = {"device"}, .known = {DEVICES}
#define BY_L1 .labels = {"l1_tag"}, .known = {ONE_L1}
#define BY_L1_AND_BACKEND .labels = {"l1_tag", "backend"}, .known = {ONE_L1, "dram"}
#define BY_L2 .labels = {"l2_name"}
#define BY_L2_ADAPTER .labels = {"l2_name", "adapter_index"}
#define BY_INSTANCE .labels = {"instance_id", "model_name"}
#define BY_ENGINE .labels = {"engine_id", "device", "model_name"}
#define BY_PLUGIN .labels = {"plugin"}
#define BY_POOL .labels = {"pool"}, .known = {"normal|affinity"}

#define BY_MODULE .labels = {"module"}

static const double call_edges[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001,
                                    0.0025,  0.005,    0.01,    0.025,  0.05,    0.1,    0.25,
                                    0.5,     1,        2.5,     5,      10,      30,     60};

const lmc_family_spec lmc_server_families[LMC_FAMILY_COUNT] = {
    [LMC_M_L1_READ] = {COUNTER("lmcache_mp_l1_read_chunks_total",
                               "Objects read from L1 (read finished)", BY_SALT_AND_L1)},
    [LMC_M_L1_WRITE] = {COUNTER("lmcache_mp_l1_write_chunks_total",
                                "Objects whose write to L1 finished", BY_SALT_AND_L1)},
    [LMC_M_L1_EVICTED] = {COUNTER("lmcache_mp_l1_evicted_chunks_total",
                                  "Objects evicted or deleted from L1", BY_SALT_AND_L1)},
    [LMC_M_L1_EVICTION_TICKS] = {COUNTER("lmcache_mp_l1_eviction_loop_ticks_total",
                                         "Iterations of the L1 eviction loop", PLAIN)},
    [LMC_M_L1_EVICTION_TRIGGERED] = {COUNTER(
        "lmcache_mp_l1_eviction_loop_triggered_total",
        "Iterations of the L1 eviction loop that found usage at or above the watermark",
        PLAIN)},
    [LMC_M_L1_ALLOCATION_FAILURE] = {COUNTER(
        "lmcache_mp_l1_allocation_failure_chunks_total",
        "Objects that got no memory in L1 although everything evictable was evicted",
        .labels = {"during", "model_name"}, .known = {"l1_store|l2_prefetch"})},
    [LMC_M_L1_READ_FAILURE] = {COUNTER(
        "lmcache_mp_l1_read_failure_chunks_total",
        "Objects that could not be reserved for reading after a lookup had found them",
        .labels = {"during", "reason", "model_name"},
        .known = {"l2_store|l1_retrieve", "not_found|write_locked"})},
    [LMC_M_L1_MEMORY_USAGE] = {GAUGE("lmcache_mp_l1_memory_usage_bytes", "Bytes of L1 in use",
                                     BY_L1_AND_BACKEND)},
    [LMC_M_L1_USAGE_RATIO] = {GAUGE("lmcache_mp_l1_usage_ratio",
                                    "Used share of the L1 capacity", BY_L1_AND_BACKEND)},
    [LMC_M_L1_STAGING] = {GAUGE("lmcache_mp_l1_staging_bytes",
                                "Bytes of L1 in writes that are not committed yet",
                                BY_L1_AND_BACKEND)},
    [LMC_M_L1_CHUNK_LIFETIME] = {HISTOGRAM("lmcache_mp_l1_chunk_lifetime_seconds",
                                           "Time from write to eviction of sampled objects",
                                           BY_L1)},
    [LMC_M_L1_CHUNK_IDLE_BEFORE_EVICT] = {HISTOGRAM(
        "lmcache_mp_l1_chunk_idle_before_evict_seconds",
        "Time from last access to eviction of sampled objects", BY_L1)},
    [LMC_M_L1_CHUNK_REUSE_GAP] = {HISTOGRAM("lmcache_mp_l1_chunk_reuse_gap_seconds",
                                            "Time between accesses of sampled objects", BY_L1)},
    [LMC_M_L1_CHUNK_EVICT_REUSE_GAP] = {HISTOGRAM(
        "lmcache_mp_l1_chunk_evict_reuse_gap_seconds",
        "Time from eviction to the next request for a sampled object, at most 300 s", BY_L1)},
    [LMC_M_REAL_REUSE_GAP_SECONDS] = {HISTOGRAM(
        "lmcache_mp_real_reuse_gap_seconds",
        "Time since the last access, on reads of sampled objects", BY_SALT)},
    [LMC_M_REAL_REUSE_GAP_OBJECTS] = {HISTOGRAM(
        "lmcache_mp_real_reuse_gap_objects_chunks",
        "Accesses to other objects since the last access, on reads of sampled objects",
        BY_SALT)},

    [LMC_M_L2_STORE_SUBMITTED] = {COUNTER("lmcache_mp_l2_store_submitted_requests_total",
                                          "Store tasks given to L2 adapters", PLAIN)},
    [LMC_M_L2_STORE_SUBMITTED_OBJECTS] = {COUNTER(
        "lmcache_mp_l2_store_submitted_objects_chunks_total",
        "Objects in store tasks given to L2 adapters", BY_SALT)},
    [LMC_M_L2_STORE_COMPLETED] = {COUNTER("lmcache_mp_l2_store_completed_requests_total",
                                          "Store tasks that L2 adapters finished", BY_L2)},
    [LMC_M_L2_STORE_COMPLETED_OBJECTS] = {COUNTER(
        "lmcache_mp_l2_store_completed_objects_chunks_total", "Objects stored in L2", BY_SALT)},
    [LMC_M_L2_PREFETCH_LOOKUP] = {COUNTER("lmcache_mp_l2_prefetch_lookup_requests_total",
                                          "Lookups in L2 for a prefetch", PLAIN)},
    [LMC_M_L2_PREFETCH_LOOKUP_OBJECTS] = {COUNTER(
        "lmcache_mp_l2_prefetch_lookup_objects_chunks_total",
        "Objects looked up in L2 for a prefetch", BY_SALT)},
    [LMC_M_L2_PREFETCH_LOAD_SUBMITTED] = {COUNTER(
        "lmcache_mp_l2_prefetch_load_submitted_requests_total",
        "Load tasks given to L2 adapters for a prefetch", PLAIN)},
    [LMC_M_L2_PREFETCH_LOAD_SUBMITTED_OBJECTS] = {COUNTER(
        "lmcache_mp_l2_prefetch_load_submitted_objects_chunks_total",
        "Objects in load tasks given to L2 adapters for a prefetch", BY_SALT)},
    [LMC_M_L2_PREFETCH_LOAD_COMPLETED] = {COUNTER(
        "lmcache_mp_l2_prefetch_load_completed_chunks_total",
        "Objects loaded from L2 by prefetches", BY_SALT)},
    [LMC_M_L2_LOAD_COMPLETED] = {COUNTER("lmcache_mp_l2_load_completed_requests_total",
                                         "Load tasks that L2 adapters finished", BY_L2)},
    [LMC_M_L2_EVICTED_OBJECTS] = {COUNTER("lmcache_mp_l2_evicted_objects_chunks_total",
                                          "Objects evicted from L2", BY_SALT)},
    [LMC_M_L2_PREFETCH_HIT] = {COUNTER("lmcache_mp_l2_prefetch_hit_chunks_total",
                                       "Objects of the prefix that L2 lookups found", PLAIN)},
    [LMC_M_L2_PREFETCH_FAILURE] = {COUNTER("lmcache_mp_l2_prefetch_failure_chunks_total",
                                           "Objects found in L2 that did not get into L1",
                                           .labels = {"reason", "model_name"},
                                           .known = {"l1_oom|not_found"})},
    [LMC_M_L2_USAGE] = {GAUGE("lmcache_mp_l2_usage_bytes", "Bytes that an L2 adapter keeps",
                              BY_L2)},
    [LMC_M_L2_INFLIGHT_STORES] = {GAUGE("lmcache_mp_num_inflight_l2_stores",
                                        "Store tasks in flight in an L2 adapter",
                                        BY_L2_ADAPTER)},
    [LMC_M_L2_INFLIGHT_LOADS] = {GAUGE("lmcache_mp_num_inflight_l2_loads",
                                       "Load tasks in flight in an L2 adapter", BY_L2_ADAPTER)},
    [LMC_M_L2_INFLIGHT_LOAD_MEMORY] = {GAUGE("lmcache_mp_inflight_load_memory_usage_bytes",
                                             "Bytes of L1 held by load tasks in flight",
                                             BY_L2_ADAPTER)},
    [LMC_M_L2_STORE_THROUGHPUT] = {HISTOGRAM("lmcache_mp_l2_store_throughput_GB_per_second",
                                             "Bytes written per second of a store task, in GB",
                                             BY_L2)},
    [LMC_M_L2_LOAD_THROUGHPUT] = {HISTOGRAM("lmcache_mp_l2_load_throughput_GB_per_second",
                                            "Bytes read per second of a load task, in GB",
                                            BY_L2)},

    [LMC_M_LOOKUP_REQUESTED_TOKENS] = {COUNTER("lmcache_mp_lookup_requested_tokens_total",
                                               "Tokens asked for in lookups, in whole chunks",
                                               BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_HIT_TOKENS] = {COUNTER("lmcache_mp_lookup_hit_tokens_total",
                                         "Tokens of the prefixes that lookups found",
                                         BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_HIT_L1_TOKENS] = {COUNTER("lmcache_mp_lookup_hit_l1_tokens_total",
                                            "Found tokens that L1 alone could serve",
                                            BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_HIT_L2_TOKENS] = {COUNTER("lmcache_mp_lookup_hit_l2_tokens_total",
                                            "Found tokens that L2 added", BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_HIT_L1_KEYS] = {COUNTER("lmcache_mp_lookup_hit_l1_keys_total",
                                          "Found objects that were in L1", BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_HIT_L2_KEYS] = {COUNTER("lmcache_mp_lookup_hit_l2_keys_total",
                                          "Found objects that were loaded from L2",
                                          BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUPS] = {COUNTER("lmcache_mp_lookups_requests_total", "Completed lookups",
                               BY_MODEL_AND_SALT)},
    [LMC_M_LOOKUP_EARLY_EXIT] = {COUNTER(
        "lmcache_mp_lookup_early_exit_requests_total",
        "Lookups that ended before anything was searched",
        .labels = {"model_name", "cache_salt", "reason"},
        .known = {NULL, NULL, "no_gpu_context|empty_chunk_hashes|no_group_layout_descs"})},
    [LMC_M_ACTIVE_PREFETCH_JOBS] = {GAUGE("lmcache_mp_active_prefetch_jobs",
                                          "Lookups and prefetches in flight", PLAIN)},
    [LMC_M_CHUNKS_LOADED] = {COUNTER("lmcache_mp_num_chunks_loaded_total",
                                     "Chunks that retrieves delivered",
                                     .labels = {"worker_id", "model_name", "cache_salt"})},
    [LMC_M_SUBMITTED_STORES] = {COUNTER("lmcache_mp_num_submitted_stores_total",
                                        "Store transfers begun", BY_DEVICE)},
    [LMC_M_FINISHED_STORES] = {COUNTER("lmcache_mp_num_finished_stores_total",
                                       "Store transfers ended, failed ones included",
                                       BY_DEVICE)},
    [LMC_M_SUBMITTED_RETRIEVES] = {COUNTER("lmcache_mp_num_submitted_retrieves_total",
                                           "Retrieve transfers begun", BY_DEVICE)},
    [LMC_M_FINISHED_RETRIEVES] = {COUNTER("lmcache_mp_num_finished_retrieves_total",
                                          "Retrieve transfers ended, failed ones included",
                                          BY_DEVICE)},
    [LMC_M_STORE_THROUGHPUT] = {HISTOGRAM(
        "lmcache_mp_l0_l1_store_throughput_GB_per_second",
        "Bytes per second of copies from the engine to L1, in GB", BY_ENGINE)},
    [LMC_M_LOAD_THROUGHPUT] = {HISTOGRAM(
        "lmcache_mp_l0_l1_load_throughput_GB_per_second",
        "Bytes per second of copies from L1 to the engine, in GB", BY_ENGINE)},
    [LMC_M_L0_BLOCK_LIFETIME] = {HISTOGRAM("lmcache_mp_l0_block_lifetime_seconds",
                                           "Lifetime of the engine's blocks", BY_INSTANCE)},
    [LMC_M_L0_BLOCK_IDLE_BEFORE_EVICT] = {HISTOGRAM(
        "lmcache_mp_l0_block_idle_before_evict_seconds",
        "Time from last use to eviction of the engine's blocks", BY_INSTANCE)},
    [LMC_M_L0_BLOCK_REUSE_GAP] = {HISTOGRAM("lmcache_mp_l0_block_reuse_gap_seconds",
                                            "Time between uses of the engine's blocks",
                                            BY_INSTANCE)},

    [LMC_M_TIMEOUTS] = {COUNTER("lmcache_mp_timeouts_total", "Internal timeouts",
                                .labels = {"exception_type"})},
    [LMC_M_EVENTS_DROPPED] = {COUNTER("lmcache_mp_event_bus_dropped_events_total",
                                      "Events dropped because the event queue was full",
                                      PLAIN)},
    [LMC_M_SUBSCRIBER_EXCEPTIONS] = {COUNTER("lmcache_mp_event_bus_subscriber_exceptions_total",
                                             "Failures of event subscribers",
                                             .labels = {"subscriber_name"})},
    [LMC_M_EVENT_QUEUE_DEPTH] = {GAUGE("lmcache_mp_event_bus_queue_depth",
                                       "Events waiting in the event queue", PLAIN)},
    [LMC_M_EVENT_DRAIN_LAG] = {GAUGE("lmcache_mp_event_bus_drain_lag_seconds",
                                     "Age of the event that was delivered last", PLAIN)},

    [LMC_M_BUILD_INFO] = {GAUGE("lmcached_build_info", "The version that runs; always 1",
                                .labels = {"version"}, .known = {LMC_VERSION})},
    [LMC_M_LOG_DROPPED] = {COUNTER("lmcached_log_dropped_lines_total",
                                   "Log lines dropped because stderr was read too slowly",
                                   PLAIN)},
    [LMC_M_L1_SUPPLIED] = {GAUGE("lmcached_l1_supplied_bytes",
                                 "Bytes of L1 that have memory so far, used or free",
                                 BY_L1_AND_BACKEND)},
    [LMC_M_REQUESTS] = {COUNTER("lmcached_requests_total",
                                "Messages read from the request socket", PLAIN)},
    [LMC_M_REPLIES] = {COUNTER("lmcached_replies_total", "Replies sent on the request socket",
                               PLAIN)},
    [LMC_M_SILENT_REQUESTS] = {COUNTER(
        "lmcached_silent_requests_total",
        "Requests without an answer, because none can be told from their bytes or none exists",
        .labels = {"reason"},
        .known = {"too_few_frames|too_many_frames|unknown_operation|no_handler|malformed|"
                  "no_negative"})},
    [LMC_M_HANDLER_FAILURES] = {COUNTER("lmcached_handler_failures_total",
                                        "Requests that failed, by what their client was told",
                                        .labels = {"answer"}, .known = {"negative|none"})},
    [LMC_M_SHED_REQUESTS] = {COUNTER(
        "lmcached_shed_requests_total",
        "Large requests refused because too many bytes were in flight", PLAIN)},
    [LMC_M_REPLIES_DROPPED] = {COUNTER(
        "lmcached_replies_dropped_total", "Replies dropped before they were sent",
        .labels = {"reason"}, .known = {"unread_messages|unread_bytes|peer_gone"})},
    [LMC_M_UNREAD_REPLY_BYTES] = {GAUGE(
        "lmcached_unread_reply_bytes", "Bytes held for large replies that no peer has read yet",
        PLAIN)},
    [LMC_M_REQUESTS_IN_FLIGHT] = {GAUGE("lmcached_requests_in_flight",
                                        "Requests that are not answered yet", PLAIN)},
    [LMC_M_REQUEST_BYTES_IN_FLIGHT] = {GAUGE("lmcached_request_bytes_in_flight",
                                             "Payload bytes of requests not answered yet",
                                             PLAIN)},
    [LMC_M_CONNECTIONS] = {COUNTER("lmcached_connections_total",
                                   "Connections that have sent a message", PLAIN)},
    [LMC_M_OPEN_CONNECTIONS] = {GAUGE("lmcached_open_connections",
                                      "Connections that have sent a message and are open",
                                      PLAIN)},
    [LMC_M_POOL_QUEUE_DEPTH] = {GAUGE("lmcached_pool_queue_depth",
                                      "Requests waiting for a thread of a handler pool",
                                      BY_POOL)},
    [LMC_M_POOL_BUSY_THREADS] = {GAUGE("lmcached_pool_busy_threads",
                                       "Threads of a handler pool inside a handler", BY_POOL)},
    [LMC_M_POOL_THREADS] = {GAUGE("lmcached_pool_threads", "Threads of a handler pool",
                                  BY_POOL)},
    [LMC_M_ACTIVE_SESSIONS] = {GAUGE("lmcached_active_sessions", "Sessions that are open",
                                     PLAIN)},
    [LMC_M_REGISTERED_INSTANCES] = {GAUGE(
        "lmcached_registered_instances", "Registered engine instances",
        .labels = {"transfer_mode"}, .known = {"engine_driven|lmcache_driven"})},
    [LMC_M_PLUGIN_STATE] = {GAUGE("lmcached_plugin_state",
                                  "The state a runtime plugin is in; always 1",
                                  .labels = {"plugin", "state"})},
    [LMC_M_PLUGIN_PID] = {GAUGE("lmcached_plugin_pid",
                                "Process of a runtime plugin; 0 when it does not run",
                                BY_PLUGIN)},
    [LMC_M_PLUGIN_RESTARTS] = {COUNTER("lmcached_plugin_restarts_total",
                                       "Starts of a runtime plugin after the first",
                                       BY_PLUGIN)},
    [LMC_M_PLUGIN_EXIT_CODE] = {GAUGE(
        "lmcached_plugin_last_exit_code",
        "How a runtime plugin ended last; -n when signal n killed it", BY_PLUGIN)},
    [LMC_M_PLUGIN_UPTIME] = {GAUGE("lmcached_plugin_uptime_seconds",
                                   "How long a runtime plugin has been running", BY_PLUGIN)},
    [LMC_M_PLUGIN_LINES] = {COUNTER("lmcached_plugin_lines_total",
                                    "Lines that a runtime plugin wrote and that were taken",
                                    BY_PLUGIN)},
    [LMC_M_PLUGIN_BYTES] = {COUNTER("lmcached_plugin_bytes_total",
                                    "Bytes that a runtime plugin wrote", BY_PLUGIN)},
    [LMC_M_PLUGIN_DROPPED] = {COUNTER("lmcached_plugin_dropped_lines_total",
                                      "Lines of a runtime plugin that did not get into the log",
                                      BY_PLUGIN)},
    [LMC_M_MODULE_CALLS] = {COUNTER("lmcached_server_module_calls_total",
                                    "Calls that handlers of a module were given", BY_MODULE)},
    [LMC_M_MODULE_ERRORS] = {COUNTER("lmcached_server_module_errors_total",
                                     "Calls that a module failed", BY_MODULE)},
    [LMC_M_MODULE_SLOW_CALLS] = {COUNTER("lmcached_server_module_slow_calls_total",
                                         "Calls that a module had for more than a second",
                                         BY_MODULE)},
    [LMC_M_MODULE_CALLS_IN_FLIGHT] = {GAUGE(
        "lmcached_server_module_calls_in_flight",
        "Calls that a module from outside has and has not completed", BY_MODULE)},
    [LMC_M_MODULE_CALL_SECONDS] = {HISTOGRAM(
        "lmcached_server_module_call_seconds",
        "Time from the start of a module's handler on a pool to the call's completion",
        BY_MODULE, .edges = call_edges,
        .edge_count = sizeof call_edges / sizeof call_edges[0])},
};
