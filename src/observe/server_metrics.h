/*
 * server_metrics.h: the server's metrics as the other rooms count them.
 *
 * Each function counts one kind of event in all the families it belongs to, so that label order
 * and the rules of who counts when are in one place. Any thread; none waits or allocates for
 * labels that were seen before. A NULL registry counts nothing. Texts are borrowed for the
 * call.
 */
#ifndef LMC_OBSERVE_SERVER_METRICS_H
#define LMC_OBSERVE_SERVER_METRICS_H

#include "observe/families.h"

/* enabled false (--disable-metrics, --disable-observability): a registry without families,
 * whose scrape tells of the process only. */
lmc_status lmc_server_metrics_create(bool enabled, lmc_metrics **metrics, lmc_error *error);
/* The whole text of GET /metrics, appended; LMC_NO_MEMORY. instance_id is that of /config. */
lmc_status lmc_server_metrics_write(lmc_metrics *metrics, const char *instance_id,
                                    lmc_buffer *out);

/* What a family shows at a scrape: see lmc_family_collect(). */
void lmc_metrics_collect(lmc_metrics *metrics, lmc_family_id family,
                         void (*collect)(void *arg, lmc_samples *samples), void *arg);
/* As lmc_samples_add(), for families with one label, or none (value NULL). */
void lmc_samples_add_text(lmc_samples *samples, const char *label_value, double value);

/* ---- lookups ---- */

typedef struct lmc_lookup_sample {
    lmc_slice model, salt;
    uint64_t requested_tokens;     /* whole chunks */
    uint64_t l1_tokens, l2_tokens; /* the hit: what L1 alone could serve, what L2 added */
    uint64_t l1_keys, l2_keys;
    const char *early_exit; /* NULL or "": none; else the reason, and only requests count */
} lmc_lookup_sample;
void lmc_metrics_lookup_done(lmc_metrics *metrics, const lmc_lookup_sample *sample);

/* ---- L1 ---- */

void lmc_metrics_l1_read(lmc_metrics *metrics, lmc_slice salt, uint64_t objects);
void lmc_metrics_l1_written(lmc_metrics *metrics, lmc_slice salt, uint64_t objects);
void lmc_metrics_l1_evicted(lmc_metrics *metrics, lmc_slice salt, uint64_t objects);
void lmc_metrics_l1_eviction_tick(lmc_metrics *metrics, bool triggered);
/* during: "l1_store" or "l2_prefetch" */
void lmc_metrics_l1_no_memory(lmc_metrics *metrics, const char *during, lmc_slice model,
                              uint64_t objects);
/* during: "l1_retrieve" or "l2_store"; reason: "not_found" or "write_locked" */
void lmc_metrics_l1_read_failed(lmc_metrics *metrics, const char *during, const char *reason,
                                lmc_slice model, uint64_t objects);

/* The state of L1 at a scrape. Called without a lock; must not wait long. */
typedef struct lmc_l1_usage {
    uint64_t used, capacity, staging, supplied; /* bytes */
} lmc_l1_usage;
typedef struct lmc_l1_source {
    void (*read)(void *arg, lmc_l1_usage *usage);
    void *arg;
} lmc_l1_source;
/* The source must outlive the registry, or be taken away with NULL. */
void lmc_metrics_l1_source(lmc_metrics *metrics, const lmc_l1_source *source);

/* ---- transfers ---- */

typedef enum lmc_transfer_direction {
    LMC_TRANSFER_STORE,
    LMC_TRANSFER_RETRIEVE
} lmc_transfer_direction;
void lmc_metrics_transfer_submitted(lmc_metrics *metrics, lmc_transfer_direction direction,
                                    const char *device);
/* Also when it failed, so that the difference is what is in flight. */
void lmc_metrics_transfer_finished(lmc_metrics *metrics, lmc_transfer_direction direction,
                                   const char *device);
/* One measured copy; nothing is recorded without bytes or time. */
void lmc_metrics_transfer_speed(lmc_metrics *metrics, lmc_transfer_direction direction,
                                int64_t engine_id, const char *device, lmc_slice model,
                                uint64_t bytes, int64_t elapsed_ns);
void lmc_metrics_chunks_loaded(lmc_metrics *metrics, int64_t worker_id, lmc_slice model,
                               lmc_slice salt, uint64_t chunks);

/* ---- the rest ---- */

void lmc_metrics_timeout(lmc_metrics *metrics, const char *exception_type);
/* Any other counter with one label, or none (label_value NULL). */
void lmc_metrics_count(lmc_metrics *metrics, lmc_family_id family, const char *label_value,
                       uint64_t by);

#endif
