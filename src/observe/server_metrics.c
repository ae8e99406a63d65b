#include "observe/server_metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "observe/process_metrics.h"

#define L1_TAG "_default"
#define L1_BACKEND "dram"
#define INTEGER_TEXT 24

static void collect_log_drops(void *arg, lmc_samples *samples) {
    (void)arg;
    lmc_samples_add(samples, NULL, (double)lmc_log_dropped());
}

lmc_status lmc_server_metrics_create(bool enabled, lmc_metrics **metrics, lmc_error *error) {
    size_t count = enabled ? (size_t)LMC_FAMILY_COUNT : 0;
    lmc_status status = lmc_metrics_create(lmc_server_families, count, metrics, error);
    if (status != LMC_OK)
        return status;
    lmc_slice version = lmc_text(LMC_VERSION);
    lmc_gauge_set(lmc_gauge_of(lmc_metrics_family(*metrics, LMC_M_BUILD_INFO), &version), 1);
    lmc_metrics_collect(*metrics, LMC_M_LOG_DROPPED, collect_log_drops, NULL);
    return LMC_OK;
}

lmc_status lmc_server_metrics_write(lmc_metrics *metrics, const char *instance_id,
                                    lmc_buffer *out) {
    lmc_process_metrics_write(out, instance_id);
    return lmc_metrics_write(metrics, out);
}

void lmc_metrics_collect(lmc_metrics *metrics, lmc_family_id family,
                         void (*collect)(void *arg, lmc_samples *samples), void *arg) {
    lmc_family_collect(lmc_metrics_family(metrics, family), collect, arg);
}

void lmc_samples_add_text(lmc_samples *samples, const char *label_value, double value) {
    lmc_slice text = lmc_text(label_value);
    lmc_samples_add(samples, &text, value);
}

static void count(lmc_metrics *metrics, lmc_family_id family, const lmc_slice *values,
                  uint64_t by) {
    lmc_counter_add(lmc_counter_of(lmc_metrics_family(metrics, family), values), by);
}

void lmc_metrics_count(lmc_metrics *metrics, lmc_family_id family, const char *label_value,
                       uint64_t by) {
    lmc_slice text = lmc_text(label_value);
    count(metrics, family, &text, by);
}

/* --- Lookups. --- */

void lmc_metrics_lookup_done(lmc_metrics *metrics, const lmc_lookup_sample *sample) {
    bool early = sample->early_exit != NULL && sample->early_exit[0] != '\0';
    const lmc_slice labels[] = {sample->model, sample->salt, lmc_text(sample->early_exit)};
    const struct {
        lmc_family_id family;
        uint64_t by;
    } counters[] = {
        {LMC_M_LOOKUP_REQUESTED_TOKENS, sample->requested_tokens},
        {LMC_M_LOOKUP_HIT_TOKENS, sample->l1_tokens + sample->l2_tokens},
        {LMC_M_LOOKUP_HIT_L1_TOKENS, sample->l1_tokens},
        {LMC_M_LOOKUP_HIT_L2_TOKENS, sample->l2_tokens},
        {LMC_M_LOOKUP_HIT_L1_KEYS, sample->l1_keys},
        {LMC_M_LOOKUP_HIT_L2_KEYS, sample->l2_keys},
    };
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        count(metrics, counters[i].family, labels, early ? 0 : counters[i].by);
    count(metrics, LMC_M_LOOKUPS, labels, 1);
    if (early)
        count(metrics, LMC_M_LOOKUP_EARLY_EXIT, labels, 1);
}

/* --- L1. --- */

static void count_l1(lmc_metrics *metrics, lmc_family_id family, lmc_slice salt, uint64_t by) {
    const lmc_slice labels[] = {salt, lmc_text(L1_TAG)};
    count(metrics, family, labels, by);
}

void lmc_metrics_l1_read(lmc_metrics *metrics, lmc_slice salt, uint64_t objects) {
    count_l1(metrics, LMC_M_L1_READ, salt, objects);
}

void lmc_metrics_l1_written(lmc_metrics *metrics, lmc_slice salt, uint64_t objects) {
    count_l1(metrics, LMC_M_L1_WRITE, salt, objects);
}

void lmc_metrics_l1_evicted(lmc_metrics *metrics, lmc_slice salt, uint64_t objects) {
    count_l1(metrics, LMC_M_L1_EVICTED, salt, objects);
}

void lmc_metrics_l1_eviction_tick(lmc_metrics *metrics, bool triggered) {
    count(metrics, LMC_M_L1_EVICTION_TICKS, NULL, 1);
    if (triggered)
        count(metrics, LMC_M_L1_EVICTION_TRIGGERED, NULL, 1);
}

void lmc_metrics_l1_no_memory(lmc_metrics *metrics, const char *during, lmc_slice model,
                              uint64_t objects) {
    const lmc_slice labels[] = {lmc_text(during), model};
    count(metrics, LMC_M_L1_ALLOCATION_FAILURE, labels, objects);
}

void lmc_metrics_l1_read_failed(lmc_metrics *metrics, const char *during, const char *reason,
                                lmc_slice model, uint64_t objects) {
    const lmc_slice labels[] = {lmc_text(during), lmc_text(reason), model};
    count(metrics, LMC_M_L1_READ_FAILURE, labels, objects);
}

static void add_l1_sample(lmc_samples *samples, double value) {
    const lmc_slice labels[] = {lmc_text(L1_TAG), lmc_text(L1_BACKEND)};
    lmc_samples_add(samples, labels, value);
}

static lmc_l1_usage read_l1(const lmc_l1_source *source) {
    lmc_l1_usage usage = {0};
    source->read(source->arg, &usage);
    return usage;
}

static void collect_l1_used(void *arg, lmc_samples *samples) {
    add_l1_sample(samples, (double)read_l1(arg).used);
}

static void collect_l1_staging(void *arg, lmc_samples *samples) {
    add_l1_sample(samples, (double)read_l1(arg).staging);
}

static void collect_l1_supplied(void *arg, lmc_samples *samples) {
    add_l1_sample(samples, (double)read_l1(arg).supplied);
}

static void collect_l1_ratio(void *arg, lmc_samples *samples) {
    lmc_l1_usage usage = read_l1(arg);
    double ratio = usage.capacity > 0 ? (double)usage.used / (double)usage.capacity : 0;
    add_l1_sample(samples, ratio);
}

void lmc_metrics_l1_source(lmc_metrics *metrics, const lmc_l1_source *source) {
    bool on = source != NULL;
    void *arg = (void *)source;
    lmc_metrics_collect(metrics, LMC_M_L1_MEMORY_USAGE, on ? collect_l1_used : NULL, arg);
    lmc_metrics_collect(metrics, LMC_M_L1_STAGING, on ? collect_l1_staging : NULL, arg);
    lmc_metrics_collect(metrics, LMC_M_L1_SUPPLIED, on ? collect_l1_supplied : NULL, arg);
    lmc_metrics_collect(metrics, LMC_M_L1_USAGE_RATIO, on ? collect_l1_ratio : NULL, arg);
}

/* --- Transfers. --- */

void lmc_metrics_transfer_submitted(lmc_metrics *metrics, lmc_transfer_direction direction,
                                    const char *device) {
    bool store = direction == LMC_TRANSFER_STORE;
    lmc_metrics_count(metrics, store ? LMC_M_SUBMITTED_STORES : LMC_M_SUBMITTED_RETRIEVES,
                      device, 1);
}

void lmc_metrics_transfer_finished(lmc_metrics *metrics, lmc_transfer_direction direction,
                                   const char *device) {
    bool store = direction == LMC_TRANSFER_STORE;
    lmc_metrics_count(metrics, store ? LMC_M_FINISHED_STORES : LMC_M_FINISHED_RETRIEVES, device,
                      1);
}

static lmc_slice integer_text(int64_t value, char text[INTEGER_TEXT]) {
    return lmc_slice_of(text, (size_t)snprintf(text, INTEGER_TEXT, "%" PRId64, value));
}

void lmc_metrics_transfer_speed(lmc_metrics *metrics, lmc_transfer_direction direction,
                                int64_t engine_id, const char *device, lmc_slice model,
                                uint64_t bytes, int64_t elapsed_ns) {
    if (bytes == 0 || elapsed_ns <= 0)
        return;
    char engine[INTEGER_TEXT];
    const lmc_slice labels[] = {integer_text(engine_id, engine), lmc_text(device), model};
    bool store = direction == LMC_TRANSFER_STORE;
    lmc_family_id id = store ? LMC_M_STORE_THROUGHPUT : LMC_M_LOAD_THROUGHPUT;
    /* Bytes per nanosecond are GB per second. */
    lmc_histogram_observe(lmc_histogram_of(lmc_metrics_family(metrics, id), labels),
                          (double)bytes / (double)elapsed_ns);
}

void lmc_metrics_chunks_loaded(lmc_metrics *metrics, int64_t worker_id, lmc_slice model,
                               lmc_slice salt, uint64_t chunks) {
    char worker[INTEGER_TEXT];
    const lmc_slice labels[] = {integer_text(worker_id, worker), model, salt};
    count(metrics, LMC_M_CHUNKS_LOADED, labels, chunks);
}

void lmc_metrics_timeout(lmc_metrics *metrics, const char *exception_type) {
    lmc_metrics_count(metrics, LMC_M_TIMEOUTS, exception_type, 1);
}
