#include "observe/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "observe/registry.h"

#define LMC_LOGGER "lmcache.metrics"
#define DEFAULT_SERIES_MAX 512
#define DEFAULT_HISTOGRAM_SERIES_MAX 64
#define KEY_MAX (LMC_LABELS_MAX * (LMC_LABEL_VALUE_MAX + sizeof(uint32_t)))
#define CACHE_LINE ((size_t)64)

const double lmc_default_edges[] = {
    0,  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,  1,    2.5,  5,
    10, 25,    50,     75,    100,  250,   500,  750, 1000, 2500, 5000, 7500, 10000,
};
const size_t lmc_default_edge_count = sizeof lmc_default_edges / sizeof lmc_default_edges[0];

/* --- Series. --- */

typedef struct series_key {
    size_t size;
    uint64_t hash;
    char bytes[KEY_MAX];
} series_key;

/* False: some value is too long for a series of its own. */
static bool make_key(const lmc_family *family, const lmc_slice *values, series_key *key) {
    key->size = 0;
    for (size_t i = 0; i < family->label_count; i++) {
        if (values[i].size > LMC_LABEL_VALUE_MAX)
            return false;
        uint32_t size = (uint32_t)values[i].size;
        memcpy(key->bytes + key->size, &size, sizeof size);
        key->size += sizeof size;
        if (size > 0)
            memcpy(key->bytes + key->size, values[i].data, size);
        key->size += size;
    }
    key->hash = lmc_hash_keyed(&family->metrics->seed, key->bytes, key->size);
    return true;
}

static lmc_series *find_series(lmc_family *family, const series_key *key) {
    lmc_series *series = atomic_load_explicit(&family->chains[key->hash % LMC_SERIES_CHAINS],
                                              memory_order_acquire);
    while (series != NULL) {
        if (series->hash == key->hash && series->key_size == key->size &&
            memcmp(series->key, key->bytes, key->size) == 0)
            return series;
        series = atomic_load_explicit(&series->in_chain, memory_order_acquire);
    }
    return NULL;
}

static void free_series(const lmc_family *family, lmc_series *series) {
    if (series == NULL)
        return;
    if (family->spec->type == LMC_HISTOGRAM)
        free(series->value.histogram);
    free(series->labels);
    free(series);
}

static lmc_histogram *make_histogram(const lmc_family_spec *spec) {
    const double *edges = spec->edges != NULL ? spec->edges : lmc_default_edges;
    size_t count = spec->edges != NULL ? spec->edge_count : lmc_default_edge_count;
    lmc_histogram *histogram =
        calloc(1, sizeof *histogram + (count + 1) * sizeof histogram->buckets[0]);
    if (histogram != NULL) {
        histogram->edges = edges;
        histogram->edge_count = count;
    }
    return histogram;
}

static lmc_series *make_series(const lmc_family *family, const lmc_slice *values,
                               const series_key *key) {
    size_t size = (sizeof(lmc_series) + key->size + CACHE_LINE - 1) & ~(CACHE_LINE - 1);
    lmc_series *series = aligned_alloc(CACHE_LINE, size);
    if (series == NULL)
        return NULL;
    memset(series, 0, size);
    series->hash = key->hash;
    series->key_size = key->size;
    memcpy(series->key, key->bytes, key->size);
    lmc_buffer labels = LMC_BUFFER_INIT;
    lmc_labels_write(&labels, family->spec, values);
    series->labels = lmc_buffer_take(&labels);
    bool made = series->labels != NULL;
    if (made && family->spec->type == LMC_HISTOGRAM)
        made = (series->value.histogram = make_histogram(family->spec)) != NULL;
    if (!made) {
        free_series(family, series);
        return NULL;
    }
    return series;
}

/* Lists the series; the lock is held, or nobody else knows the family yet. */
static void append_series(lmc_family *family, lmc_series *series) {
    if (family->last == NULL)
        atomic_store_explicit(&family->first, series, memory_order_release);
    else
        atomic_store_explicit(&family->last->next, series, memory_order_release);
    family->last = series;
}

static void add_to_chain(lmc_family *family, lmc_series *series) {
    lmc_series *_Atomic *chain = &family->chains[series->hash % LMC_SERIES_CHAINS];
    atomic_store_explicit(&series->in_chain, atomic_load_explicit(chain, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(chain, series, memory_order_release);
}

static lmc_series *list_other(lmc_family *family) {
    if (atomic_load_explicit(&family->listed, memory_order_acquire))
        return family->other;
    lmc_lock_take(&family->metrics->lock);
    if (!family->listed)
        append_series(family, family->other);
    atomic_store_explicit(&family->listed, true, memory_order_release);
    lmc_lock_drop(&family->metrics->lock);
    return family->other;
}

static lmc_series *overflow(lmc_family *family) {
    if (!atomic_exchange_explicit(&family->warned, true, memory_order_relaxed))
        LMC_WARNING("Metric %s has too many label values (more than %zu series, or a value of "
                    "more than %d bytes): the rest counts as \"other\"",
                    family->spec->name, family->series_max, LMC_LABEL_VALUE_MAX);
    return list_other(family);
}

static lmc_series *add_series(lmc_family *family, const lmc_slice *values,
                              const series_key *key) {
    if (atomic_load_explicit(&family->full, memory_order_relaxed))
        return overflow(family);
    lmc_series *fresh = make_series(family, values, key);
    lmc_lock_take(&family->metrics->lock);
    lmc_series *series = find_series(family, key);
    bool full = family->series_count >= family->series_max;
    if (series == NULL && fresh != NULL && !full) {
        append_series(family, fresh);
        add_to_chain(family, fresh);
        family->series_count++;
        series = fresh;
        fresh = NULL;
    }
    atomic_store_explicit(&family->full, full, memory_order_relaxed);
    lmc_lock_drop(&family->metrics->lock);
    free_series(family, fresh);
    return series != NULL ? series : overflow(family);
}

static lmc_series *series_of(lmc_family *family, const lmc_slice *values) {
    if (family == NULL)
        return NULL;
    series_key key;
    if (!make_key(family, values, &key))
        return overflow(family);
    lmc_series *series = find_series(family, &key);
    if (series == NULL)
        return add_series(family, values, &key);
    return series == family->other ? list_other(family) : series;
}

lmc_counter *lmc_counter_of(lmc_family *family, const lmc_slice *values) {
    lmc_series *series = series_of(family, values);
    return series != NULL ? &series->value.counter : NULL;
}

lmc_gauge *lmc_gauge_of(lmc_family *family, const lmc_slice *values) {
    lmc_series *series = series_of(family, values);
    return series != NULL ? &series->value.gauge : NULL;
}

lmc_histogram *lmc_histogram_of(lmc_family *family, const lmc_slice *values) {
    lmc_series *series = series_of(family, values);
    return series != NULL ? series->value.histogram : NULL;
}

static void add_to_double(_Atomic uint64_t *bits, double by) {
    uint64_t seen = atomic_load_explicit(bits, memory_order_relaxed), wanted;
    do {
        double value;
        memcpy(&value, &seen, sizeof value);
        value += by;
        memcpy(&wanted, &value, sizeof wanted);
    } while (!atomic_compare_exchange_weak_explicit(bits, &seen, wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
}

void lmc_gauge_add(lmc_gauge *gauge, double by) {
    if (gauge != NULL)
        add_to_double(&gauge->bits, by);
}

void lmc_histogram_observe(lmc_histogram *histogram, double sample) {
    if (histogram == NULL || isnan(sample))
        return;
    size_t low = 0, high = histogram->edge_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sample <= histogram->edges[middle])
            high = middle;
        else
            low = middle + 1;
    }
    atomic_fetch_add_explicit(&histogram->buckets[low], 1, memory_order_relaxed);
    add_to_double(&histogram->sum_bits, sample);
}

/* --- Families. --- */

static size_t count_labels(const lmc_family_spec *spec) {
    size_t count = 0;
    while (count < LMC_LABELS_MAX && spec->labels[count] != NULL)
        count++;
    return count;
}

static size_t count_values(const char *list) {
    size_t count = list != NULL;
    for (; list != NULL && *list != '\0'; list++)
        count += *list == '|';
    return count;
}

/* The index-th value of a list that is separated by '|' and has so many. */
static lmc_slice known_value(const char *list, size_t index) {
    for (; index > 0; index--)
        list += strcspn(list, "|") + 1;
    return lmc_slice_of(list, strcspn(list, "|"));
}

static bool add_known(lmc_family *family, const lmc_slice *values) {
    series_key key;
    make_key(family, values, &key);
    lmc_series *series = make_series(family, values, &key);
    if (series == NULL)
        return false;
    append_series(family, series);
    add_to_chain(family, series);
    family->series_count++;
    return true;
}

/* Adds the series of all combinations of known values, the last label running fastest. */
static bool add_all_known(lmc_family *family) {
    const lmc_family_spec *spec = family->spec;
    lmc_slice values[LMC_LABELS_MAX];
    size_t combinations = 1;
    for (size_t i = 0; i < family->label_count; i++)
        combinations *= count_values(spec->known[i]);
    for (size_t at = 0; at < combinations; at++) {
        size_t rest = at;
        for (size_t i = family->label_count; i-- > 0;) {
            size_t count = count_values(spec->known[i]);
            values[i] = known_value(spec->known[i], rest % count);
            rest /= count;
        }
        if (!add_known(family, values))
            return false;
    }
    return true;
}

static bool init_family(lmc_metrics *metrics, lmc_family *family, const lmc_family_spec *spec) {
    family->metrics = metrics;
    family->spec = spec;
    family->label_count = count_labels(spec);
    family->series_max = spec->series_max;
    if (family->series_max == 0 && spec->type == LMC_HISTOGRAM)
        family->series_max = DEFAULT_HISTOGRAM_SERIES_MAX;
    else if (family->series_max == 0)
        family->series_max = DEFAULT_SERIES_MAX;

    if (!add_all_known(family))
        return false;
    if (family->label_count == 0) {
        family->other = family->first;
        family->listed = true;
        return true;
    }
    lmc_slice values[LMC_LABELS_MAX];
    for (size_t i = 0; i < family->label_count; i++)
        values[i] = lmc_text("other");
    series_key key;
    make_key(family, values, &key);
    family->other = make_series(family, values, &key);
    if (family->other != NULL)
        add_to_chain(family, family->other);
    return family->other != NULL;
}

static void fini_family(lmc_family *family) {
    /* None is counted before the array of families is there, which the analyser cannot see. */
    if (!family->listed) /* NOLINT(clang-analyzer-core.NullDereference) */
        free_series(family, family->other);
    lmc_series *series = family->first;
    while (series != NULL) {
        lmc_series *next = series->next;
        free_series(family, series);
        series = next;
    }
}

lmc_status lmc_metrics_create(const lmc_family_spec *specs, size_t count, lmc_metrics **metrics,
                              lmc_error *error) {
    lmc_metrics *made = calloc(1, sizeof *made);
    if (made == NULL)
        goto no_memory;
    lmc_lock_init(&made->lock, LMC_RANK_METRICS, "metrics");
    lmc_cond_init(&made->collected);
    lmc_hash_seed_init(&made->seed);
    made->families = calloc(count > 0 ? count : 1, sizeof made->families[0]);
    if (made->families == NULL)
        goto no_memory;
    while (made->family_count < count) {
        lmc_family *family = &made->families[made->family_count];
        made->family_count++;
        if (!init_family(made, family, &specs[family - made->families]))
            goto no_memory;
    }
    *metrics = made;
    return LMC_OK;
no_memory:
    lmc_metrics_destroy(made);
    return lmc_error_set(error, LMC_NO_MEMORY, "no memory for metrics");
}

void lmc_metrics_destroy(lmc_metrics *metrics) {
    if (metrics == NULL)
        return;
    for (size_t i = 0; i < metrics->family_count; i++)
        fini_family(&metrics->families[i]);
    free(metrics->families);
    lmc_cond_fini(&metrics->collected);
    lmc_lock_fini(&metrics->lock);
    free(metrics);
}

lmc_family *lmc_metrics_family(lmc_metrics *metrics, size_t index) {
    bool there = metrics != NULL && index < metrics->family_count;
    return there ? &metrics->families[index] : NULL;
}

static void reset_series(const lmc_family *family, lmc_series *series) {
    if (family->spec->type == LMC_COUNTER) {
        atomic_store(&series->value.counter.value, 0);
    } else if (family->spec->type == LMC_HISTOGRAM) {
        lmc_histogram *histogram = series->value.histogram;
        for (size_t i = 0; i <= histogram->edge_count; i++)
            atomic_store(&histogram->buckets[i], 0);
        atomic_store(&histogram->sum_bits, 0);
    }
}

void lmc_metrics_reset(lmc_metrics *metrics) {
    for (size_t i = 0; metrics != NULL && i < metrics->family_count; i++) {
        lmc_family *family = &metrics->families[i];
        for (lmc_series *s = atomic_load(&family->first); s != NULL; s = atomic_load(&s->next))
            reset_series(family, s);
    }
}

void lmc_family_collect(lmc_family *family, void (*collect)(void *arg, lmc_samples *samples),
                        void *arg) {
    if (family == NULL)
        return;
    lmc_metrics *metrics = family->metrics;
    lmc_lock_take(&metrics->lock);
    family->collect = collect;
    family->collect_arg = arg;
    while (family->collecting > 0)
        lmc_cond_wait(&metrics->collected, &metrics->lock);
    lmc_lock_drop(&metrics->lock);
}
