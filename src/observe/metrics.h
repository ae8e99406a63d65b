/*
 * metrics.h: families of counters, gauges and histograms, and their text form for a scrape.
 *
 * A family is declared once, from a constant description, and shown with HELP and TYPE from the
 * first scrape on. A series is one combination of label values; its handle is got once, or per
 * event, and stays valid as long as the registry. Counting is one atomic addition, getting a
 * handle is a search without a lock, and only a series' first appearance takes one.
 *
 * Label values come from peers, so the series of a family are bounded: what is beyond the
 * bound, or has a value longer than LMC_LABEL_VALUE_MAX, counts in one series whose values are
 * "other", and one WARNING says so.
 *
 * The registry owns families and series and borrows their descriptions. create and destroy on
 * one thread; everything else from any. A NULL registry, family or series is accepted and
 * counts nothing, so callers need no test for metrics being off.
 */
#ifndef LMC_OBSERVE_METRICS_H
#define LMC_OBSERVE_METRICS_H

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"

#define LMC_LABELS_MAX 4
#define LMC_LABEL_VALUE_MAX 256 /* bytes */

typedef enum lmc_metric_type { LMC_COUNTER, LMC_GAUGE, LMC_HISTOGRAM } lmc_metric_type;

/* Constant. Every name is a valid Prometheus name; a counter's ends in _total. */
typedef struct lmc_family_spec {
    const char *name;
    lmc_metric_type type;
    const char *help;
    const char *labels[LMC_LABELS_MAX]; /* NULL ends the list */
    /*
     * Values of labels[i] known beforehand, separated by '|' ("" is the one empty value); NULL:
     * none. When all labels have some, their series exist from the start.
     */
    const char *known[LMC_LABELS_MAX];
    const double *edges; /* histogram: ascending upper bounds without +Inf; NULL: the default */
    size_t edge_count;
    size_t series_max; /* 0: the default (512; histogram 64) */
} lmc_family_spec;

/* Upstream's edges, and finer ones below 5. */
extern const double lmc_default_edges[];
extern const size_t lmc_default_edge_count;

typedef struct lmc_metrics lmc_metrics;
typedef struct lmc_family lmc_family;

/* Declares `count` families; their place in the table is their index. */
lmc_status lmc_metrics_create(const lmc_family_spec *specs, size_t count, lmc_metrics **metrics,
                              lmc_error *error);
void lmc_metrics_destroy(lmc_metrics *metrics);                     /* NULL is allowed */
lmc_family *lmc_metrics_family(lmc_metrics *metrics, size_t index); /* NULL: none there */

/* Appends to `out` the whole text of a scrape but for process metrics; LMC_NO_MEMORY. */
lmc_status lmc_metrics_write(lmc_metrics *metrics, lmc_buffer *out);
/* Sets counters and histograms to 0; gauges and collected values stay. */
void lmc_metrics_reset(lmc_metrics *metrics);

/* ---- series ---- */

typedef struct lmc_counter {
    _Atomic uint64_t value;
} lmc_counter;

typedef struct lmc_gauge {
    _Atomic uint64_t bits; /* of a double */
} lmc_gauge;

typedef struct lmc_histogram lmc_histogram;

/*
 * The series of a family with these label values, one per label in the order of the description
 * (NULL without labels), created when it is new. NULL only if family is NULL.
 */
lmc_counter *lmc_counter_of(lmc_family *family, const lmc_slice *values);
lmc_gauge *lmc_gauge_of(lmc_family *family, const lmc_slice *values);
lmc_histogram *lmc_histogram_of(lmc_family *family, const lmc_slice *values);

static inline void lmc_counter_add(lmc_counter *counter, uint64_t by) {
    if (counter != NULL)
        atomic_fetch_add_explicit(&counter->value, by, memory_order_relaxed);
}

static inline uint64_t lmc_counter_value(lmc_counter *counter) {
    return counter != NULL ? atomic_load_explicit(&counter->value, memory_order_relaxed) : 0;
}

static inline void lmc_gauge_set(lmc_gauge *gauge, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (gauge != NULL)
        atomic_store_explicit(&gauge->bits, bits, memory_order_relaxed);
}

static inline double lmc_gauge_value(lmc_gauge *gauge) {
    uint64_t bits =
        gauge != NULL ? atomic_load_explicit(&gauge->bits, memory_order_relaxed) : 0;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void lmc_gauge_add(lmc_gauge *gauge, double by);
void lmc_histogram_observe(lmc_histogram *histogram, double sample); /* NaN is ignored */

/* ---- values asked for at a scrape ---- */

typedef struct lmc_samples lmc_samples;

/* Gives one value to the scrape in progress; label values as for lmc_counter_of(). */
void lmc_samples_add(lmc_samples *samples, const lmc_slice *values, double value);

/*
 * From now on the series of this counter or gauge family are what `collect` gives at each
 * scrape, each label combination once, on the scraping thread and without a lock held. One
 * collector per family; NULL removes it, and on return it is not running and never runs again
 * (so never call that from a collector, or with a lock held that one takes).
 */
void lmc_family_collect(lmc_family *family, void (*collect)(void *arg, lmc_samples *samples),
                        void *arg);

#endif
