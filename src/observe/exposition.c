/* The text form of a scrape: Prometheus exposition format 0.0.4. */
#include <inttypes.h>
#include <math.h>

#include "base/json_writer.h"
#include "base/lock.h"
#include "observe/registry.h"

/* Largest double below which every integer is exact. */
#define EXACT_INTEGERS 9007199254740992.0

struct lmc_samples {
    lmc_buffer *out;
    const lmc_family_spec *spec;
};

/* Escaped, and with U+FFFD for what is not UTF-8, because one bad label spoils the whole
 * scrape. */
static void put_escaped(lmc_buffer *out, lmc_slice text, bool quoted) {
    const char *at = text.data;
    size_t left = text.size;
    while (left > 0) {
        size_t length = lmc_utf8_length(at, left);
        if (length == 0)
            lmc_buffer_text(out, "\xEF\xBF\xBD");
        else if (*at == '\\' || (quoted && *at == '"'))
            lmc_buffer_printf(out, "\\%c", *at);
        else if (*at == '\n')
            lmc_buffer_text(out, "\\n");
        else
            lmc_buffer_append(out, at, length);
        length = length > 0 ? length : 1;
        at += length;
        left -= length;
    }
}

void lmc_label_value_write(lmc_buffer *out, lmc_slice value) { put_escaped(out, value, true); }

void lmc_labels_write(lmc_buffer *out, const lmc_family_spec *spec, const lmc_slice *values) {
    for (size_t i = 0; i < LMC_LABELS_MAX && spec->labels[i] != NULL; i++) {
        lmc_buffer_printf(out, "%s%s=\"", i > 0 ? "," : "", spec->labels[i]);
        lmc_label_value_write(out, values[i]);
        lmc_buffer_char(out, '"');
    }
}

static void put_number(lmc_buffer *out, double value) {
    if (isnan(value)) {
        lmc_buffer_text(out, "NaN\n");
    } else if (isinf(value)) {
        lmc_buffer_text(out, value > 0 ? "+Inf\n" : "-Inf\n");
    } else if (value > -EXACT_INTEGERS && value < EXACT_INTEGERS &&
               value == (double)(int64_t)value) {
        lmc_buffer_printf(out, "%" PRId64 "\n", (int64_t)value);
    } else {
        char digits[LMC_REAL_TEXT_MAX];
        lmc_buffer_append(out, digits, lmc_real_text(value, digits));
        lmc_buffer_char(out, '\n');
    }
}

static void put_head(lmc_buffer *out, const lmc_family_spec *spec) {
    static const char *const types[] = {"counter", "gauge", "histogram"};
    lmc_buffer_printf(out, "# HELP %s ", spec->name);
    put_escaped(out, lmc_text(spec->help), false);
    lmc_buffer_printf(out, "\n# TYPE %s %s\n", spec->name, types[spec->type]);
}

static void put_name(lmc_buffer *out, const char *name, const char *labels) {
    lmc_buffer_text(out, name);
    if (labels[0] != '\0')
        lmc_buffer_printf(out, "{%s}", labels);
    lmc_buffer_char(out, ' ');
}

static double double_of(_Atomic uint64_t *bits) {
    uint64_t seen = atomic_load_explicit(bits, memory_order_relaxed);
    double value;
    memcpy(&value, &seen, sizeof value);
    return value;
}

static void put_histogram(lmc_buffer *out, const char *name, const lmc_series *series) {
    lmc_histogram *histogram = series->value.histogram;
    const char *comma = series->labels[0] != '\0' ? "," : "";
    uint64_t total = 0;
    for (size_t i = 0; i <= histogram->edge_count; i++) {
        char edge[LMC_REAL_TEXT_MAX] = "+Inf";
        if (i < histogram->edge_count)
            lmc_real_text(histogram->edges[i], edge);
        total += atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        lmc_buffer_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, series->labels,
                          comma, edge, total);
    }
    const char *open = series->labels[0] != '\0' ? "{" : "";
    const char *close = series->labels[0] != '\0' ? "}" : "";
    lmc_buffer_printf(out, "%s_sum%s%s%s ", name, open, series->labels, close);
    put_number(out, double_of(&histogram->sum_bits));
    lmc_buffer_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, series->labels, close,
                      total);
}

static void put_series(lmc_buffer *out, const lmc_family_spec *spec, lmc_series *series) {
    switch (spec->type) {
    case LMC_COUNTER:
        put_name(out, spec->name, series->labels);
        lmc_buffer_printf(out, "%" PRIu64 "\n", lmc_counter_value(&series->value.counter));
        break;
    case LMC_GAUGE:
        put_name(out, spec->name, series->labels);
        put_number(out, lmc_gauge_value(&series->value.gauge));
        break;
    case LMC_HISTOGRAM:
        put_histogram(out, spec->name, series);
        break;
    }
}

void lmc_samples_add(lmc_samples *samples, const lmc_slice *values, double value) {
    lmc_buffer_text(samples->out, samples->spec->name);
    if (samples->spec->labels[0] != NULL) {
        lmc_buffer_char(samples->out, '{');
        lmc_labels_write(samples->out, samples->spec, values);
        lmc_buffer_char(samples->out, '}');
    }
    lmc_buffer_char(samples->out, ' ');
    put_number(samples->out, value);
}

/* False: the family has no collector. */
static bool put_collected(lmc_buffer *out, lmc_family *family) {
    lmc_metrics *metrics = family->metrics;
    lmc_lock_take(&metrics->lock);
    void (*collect)(void *arg, lmc_samples *samples) = family->collect;
    void *arg = family->collect_arg;
    family->collecting += collect != NULL;
    lmc_lock_drop(&metrics->lock);
    if (collect == NULL)
        return false;
    lmc_samples samples = {out, family->spec};
    collect(arg, &samples);
    lmc_lock_take(&metrics->lock);
    family->collecting--;
    lmc_cond_broadcast(&metrics->collected);
    lmc_lock_drop(&metrics->lock);
    return true;
}

lmc_status lmc_metrics_write(lmc_metrics *metrics, lmc_buffer *out) {
    for (size_t i = 0; metrics != NULL && i < metrics->family_count; i++) {
        lmc_family *family = &metrics->families[i];
        put_head(out, family->spec);
        if (put_collected(out, family))
            continue;
        lmc_series *series = atomic_load_explicit(&family->first, memory_order_acquire);
        while (series != NULL) {
            put_series(out, family->spec, series);
            series = atomic_load_explicit(&series->next, memory_order_acquire);
        }
    }
    return out->failed ? LMC_NO_MEMORY : LMC_OK;
}
