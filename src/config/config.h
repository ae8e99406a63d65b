/*
 * config.h: what the server was asked to do, as plain structs, one per section of GET /config.
 *
 * Filled once by lmc_config_parse() on the main thread, before any other thread starts; read
 * only afterwards, so any thread may read it. A lmc_config owns every string and list in it and
 * gives them back in lmc_config_fini(). Texts are terminated and never NULL unless the comment
 * says so. Values here are effective: environment and defaults are applied, the L1 list is
 * built, the instance id is chosen, and every option has passed its checks.
 */
#ifndef LMC_CONFIG_CONFIG_H
#define LMC_CONFIG_CONFIG_H

#include <lmcached/types.h>

#include "base/bytes.h"
#include "base/log.h"

#define LMC_CONFIG_UNSET INT64_MIN /* an optional integer that was not given; null in JSON */

typedef struct lmc_text_list {
    char **items;
    size_t count;
} lmc_text_list;

/* One module of --server-module. */
typedef struct lmc_module_spec {
    char *module_path;
    char *factory_name; /* NULL: not given */
    char *config;       /* the JSON object, as the text it came in; "{}" when not given */
} lmc_module_spec;

/* A shared object, by a '/' or ".so" at its end; everything else is a dotted path of Python. */
bool lmc_module_path_is_native(const char *path);

/* One --l2-adapter that passed the common checks. */
typedef struct lmc_adapter_spec {
    char *type;
    char *affinity_tag;
    char *json; /* the whole object, as the text it came in */
} lmc_adapter_spec;

typedef struct lmc_eviction_config {
    char *eviction_policy;    /* "LRU" or "noop" */
    double trigger_watermark; /* part of the capacity at which eviction starts */
    double eviction_ratio;    /* part of the capacity that one round frees */
    bool extra_logging_enabled;
    double extra_logging_interval; /* seconds */
} lmc_eviction_config;

typedef struct lmc_l1_memory_config {
    int64_t size_in_bytes;
    bool use_lazy;
    int64_t init_size_in_bytes;
    int64_t align_bytes; /* a power of two */
    char *shm_name;      /* "": no shared memory; as given, not normalised (storage.md 3.2) */
    bool use_hugepages;
    char *devdax_path; /* NULL: none */
    int64_t devdax_size_in_bytes;
} lmc_l1_memory_config;

typedef struct lmc_l1_gds_config {
    char *file_location; /* NULL: no GDS L1; the whole object is null in JSON */
    bool use_direct_io;
    char *backend;
} lmc_l1_gds_config;

typedef struct lmc_l1_manager_config {
    lmc_l1_memory_config memory_config;
    lmc_l1_gds_config gds_l1_config;
    int64_t write_ttl_seconds;
    int64_t read_ttl_seconds;
    char *tag;
    lmc_eviction_config eviction;
} lmc_l1_manager_config;

typedef struct lmc_runtime_plugin_config {
    lmc_text_list locations;
    char *extra_config; /* the JSON object, as the text it came in; "{}" when not given */
} lmc_runtime_plugin_config;

typedef struct lmc_p2p_config {
    char *advertise_url; /* "": peer-to-peer is off */
    char *listen_url;
    double lookup_timeout; /* seconds */
    double load_timeout;   /* seconds */
    char *transfer_engine;
} lmc_p2p_config;

/* Accepted and not used (cli-config.md 2.2). */
typedef struct lmc_p2p_rdma_flags {
    char *device;
    int64_t port;
    int64_t gid_index;
    char *gid_indices;
    int64_t queue_depth;
    int64_t handshake_timeout_ms;
} lmc_p2p_rdma_flags;

typedef struct lmc_mp_config {
    char *host;
    int64_t port;
    char *transport; /* "zmq" */
    int64_t chunk_size;
    int64_t null_block_id;
    int64_t max_workers;
    int64_t max_gpu_workers; /* threads of the affinity pool */
    int64_t max_cpu_workers; /* threads of the normal pool */
    int64_t grpc_server_workers;
    char *hash_algorithm; /* "blake3" */
    char *engine_type;    /* "default" */
    bool separate_object_groups;
    bool enable_segmented_prefix;
    bool enable_dedup_content;
    char *supported_transfer_mode; /* "auto" or "engine_driven" */
    bool isolated_ipc;
    lmc_runtime_plugin_config runtime_plugin_config;
    lmc_p2p_config p2p_config;
    char *shm_name; /* as given; L1 follows its own memory_config.shm_name */
    lmc_text_list script_allowed_imports;
    bool run_script_api_enabled;
    char *instance_id;
    double worker_reap_timeout_seconds; /* 0: workers are not reaped */
    double worker_registration_grace_seconds;
    lmc_text_list enable;
    lmc_module_spec *server_modules;
    size_t server_module_count;
    lmc_text_list server_module_flags; /* the texts of --server-module, material of the above */

    lmc_p2p_rdma_flags p2p_rdma;
    double session_ttl_seconds; /* 600 s, from last use; no flag, not in GET /config (D25) */

    /* Our own options (D11). */
    uint32_t shm_mode; /* permission bits of the shared memory segment */
    double session_lease_seconds;
    double disconnect_lease_seconds; /* 0: off */
    double runtime_plugin_stop_grace_seconds;
    char *runtime_plugin_secrets; /* "mask" or "pass" */
    char *python_interpreter;     /* "": that of VIRTUAL_ENV, or of the Python host */
    bool plugin_control;      /* start, stop, restart and logs of runtime plugins over HTTP */
    int64_t grpc_port;        /* LMC_CONFIG_UNSET: none */
    char *grpc_tls_cert_file; /* NULL: none */
    char *grpc_tls_key_file;  /* NULL: none */
    char *grpc_tls_client_ca_file; /* NULL: none */
} lmc_mp_config;

typedef struct lmc_hash_log_config {
    char *output_dir; /* "": off */
    int64_t rotation_interval_sec;
    int64_t rotation_max_size;
    int64_t max_files;
} lmc_hash_log_config;

/* The legacy L1 flags as given. They are only the material of l1_managers. */
typedef struct lmc_l1_flags {
    double size_gb; /* NaN: not given */
    bool use_lazy;
    int64_t init_size_gb;
    int64_t align_bytes;
    bool use_hugepages;
    char *devdax_path; /* NULL: not given */
    int64_t write_ttl_seconds;
    int64_t read_ttl_seconds;
    char *gds_path; /* NULL: not given */
    bool gds_use_direct_io;
    char *gds_backend;
    lmc_text_list managers; /* the texts of --l1-manager */
    lmc_text_list adapters; /* the texts of --l2-adapter */
} lmc_l1_flags;

typedef struct lmc_storage_config {
    lmc_eviction_config eviction_config; /* element 0's, in the --l1-manager form */
    lmc_adapter_spec *adapters;
    size_t adapter_count;
    char *store_policy;
    char *prefetch_policy;
    int64_t prefetch_max_in_flight;
    double prefetch_load_timeout; /* seconds; NaN: none */
    int64_t periodic_notifier_interval_ms;
    lmc_l1_manager_config *l1_managers; /* at least one */
    size_t l1_manager_count;
    lmc_l1_flags flags;
} lmc_storage_config;

typedef struct lmc_observability_config {
    bool enabled;
    int64_t max_queue_size;
    bool metrics_enabled;
    bool grpc_metrics_disabled; /* null in JSON unless set, then false (D24) */
    bool logging_enabled;       /* event-driven log lines only, never the server's own log */
    bool tracing_enabled;
    char *otlp_endpoint;     /* NULL: none */
    int64_t prometheus_port; /* used with --no-http only */
    double metrics_sample_rate;
    lmc_hash_log_config lookup_hash_log;
    bool gc_monitor_enabled;
    double gc_monitor_min_pause_ms;
    int64_t gc_monitor_top_objects;
    bool extra_logging_enabled;
    double extra_logging_interval; /* seconds */
    char *trace_level;             /* NULL: none */
    char *trace_output;            /* NULL: none */
} lmc_observability_config;

typedef struct lmc_http_settings {
    char *http_host;
    int64_t http_port;
    bool enable_l1_cache_download;
    int64_t l1_cache_download_max_size_bytes;
    int64_t l1_cache_download_max_concurrency;
    bool no_http;          /* ours: no HTTP port; /metrics on prometheus_port (D15) */
    char *http_token_file; /* ours; NULL: none */
} lmc_http_settings;

typedef struct lmc_coordinator_config {
    char *url;                 /* "": no registration */
    char *advertise_ip;        /* "": the outbound address of the host */
    double heartbeat_interval; /* seconds */
    bool event_reporting;
    double event_flush_interval; /* seconds */
    double blend_timeout;        /* seconds */
    int64_t blend_match_concurrency;
} lmc_coordinator_config;

/* A line for the log that parsing gave rise to: a deprecated spelling, an option without
 * effect. */
typedef struct lmc_config_notice {
    lmc_log_level level;
    char *text;
} lmc_config_notice;

typedef struct lmc_config {
    lmc_mp_config mp;
    lmc_storage_config storage_manager;
    lmc_observability_config observability;
    lmc_http_settings http;
    lmc_coordinator_config coordinator;
    bool check_config; /* ours: print the effective configuration instead of starting */
    lmc_config_notice *notices;
    size_t notice_count;
} lmc_config;

/* Where values other than flags come from. NULL in lmc_config_parse() means the process's own.
 */
typedef struct lmc_config_world {
    const char *(*get_variable)(void *arg, const char *name); /* NULL: not set */
    void *arg;
    const char *free_hugepages_path; /* a file that holds the number of free 2 MiB pages */
} lmc_config_world;

/*
 * Fills *config, which need not be initialised, from the words after `server`. Afterwards,
 * however it went, lmc_config_fini() is due. LMC_OK         ready; the caller logs the notices
 *   LMC_DECLINED   --help was asked for; see lmc_config_help()
 *   LMC_MALFORMED  the command line is wrong: the text goes after "error: ", exit status 2
 *   LMC_INVALID    the configuration is rejected: the text is for the log, exit status 1
 *   LMC_NO_MEMORY  exit status 1
 */
lmc_status lmc_config_parse(lmc_config *config, int count, char *const *words,
                            const lmc_config_world *world, lmc_error *error);
void lmc_config_fini(lmc_config *config); /* also of a zeroed config */

/* The text of --help, and the usage line alone, for a program called like `lmcached server`. */
void lmc_config_help(lmc_buffer *out, const char *program);
void lmc_config_usage(lmc_buffer *out, const char *program);

typedef enum lmc_config_form {
    LMC_CONFIG_HTTP,   /* GET /config: indented, UTF-8 as it is, every secret masked */
    LMC_CONFIG_PLUGIN, /* LMCACHE_RUNTIME_PLUGIN_CONFIG: one line, ASCII, cli-config.md 5 */
} lmc_config_form;

/* Appends the configuration as JSON. LMC_NO_MEMORY is the only failure. */
lmc_status lmc_config_render(const lmc_config *config, lmc_config_form form, lmc_buffer *out);

#endif
