/*
 * registry.h: inside of the metrics registry, shared by the files of this room that write a
 * scrape.
 */
#ifndef LMC_OBSERVE_REGISTRY_H
#define LMC_OBSERVE_REGISTRY_H

#include "base/hash.h"
#include "base/lock.h"
#include "observe/metrics.h"

#define LMC_SERIES_CHAINS 64

struct lmc_histogram {
    size_t edge_count;
    const double *edges;
    _Atomic uint64_t sum_bits;  /* of a double */
    _Atomic uint64_t buckets[]; /* edge_count + 1, not cumulative */
};

/*
 * Published by a release store into `next` or a chain, never moved or freed before the
 * registry, so readers follow both without a lock. Each series is padded to its own cache line
 * by its allocation.
 */
typedef struct lmc_series {
    union {
        lmc_counter counter;
        lmc_gauge gauge;
        lmc_histogram *histogram;
    } value;
    struct lmc_series *_Atomic next;     /* in order of creation */
    struct lmc_series *_Atomic in_chain; /* same hash chain */
    uint64_t hash;
    char *labels; /* as text, a="b",c="d"; "" without labels */
    size_t key_size;
    char key[]; /* the values, each after its size */
} lmc_series;

struct lmc_family {
    lmc_metrics *metrics;
    const lmc_family_spec *spec;
    size_t label_count, series_max;
    lmc_series *_Atomic first;
    lmc_series *_Atomic chains[LMC_SERIES_CHAINS];
    lmc_series *last; /* from here on under the registry's lock */
    size_t series_count;
    lmc_series *other;  /* for what is beyond the bound; found always, listed once used */
    atomic_bool listed; /* other */
    atomic_bool full;
    atomic_bool warned;
    void (*collect)(void *arg, lmc_samples *samples);
    void *collect_arg;
    unsigned collecting; /* scrapes inside collect */
};

struct lmc_metrics {
    lmc_lock lock;
    lmc_cond collected; /* a collector has returned */
    lmc_hash_seed seed;
    size_t family_count;
    lmc_family *families;
};

/* Escaped for use between quotes. */
void lmc_label_value_write(lmc_buffer *out, lmc_slice value);
/* The labels of a series as text, without braces. */
void lmc_labels_write(lmc_buffer *out, const lmc_family_spec *spec, const lmc_slice *values);

#endif
