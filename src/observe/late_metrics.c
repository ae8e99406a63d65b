#include "observe/late_metrics.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/lock.h"

#define NAME_MAX_BYTES 200

/* A family is a registry of its own, because a registry's table does not grow. */
struct lmc_metric {
    lmc_family_spec spec;
    char *name, *help, *label; /* what the spec points to */
    lmc_metrics *registry;
    lmc_family *family;
    struct lmc_metric *_Atomic next;
};

struct lmc_late_metrics {
    lmc_lock lock;
    lmc_metric *_Atomic first;
    lmc_metric *last;
};

lmc_late_metrics *lmc_late_metrics_create(void) {
    lmc_late_metrics *set = calloc(1, sizeof *set);
    if (set != NULL)
        lmc_lock_init(&set->lock, LMC_RANK_EVENTS, "late metrics");
    return set;
}

static void free_metric(lmc_metric *metric) {
    lmc_metrics_destroy(metric->registry);
    free(metric->name);
    free(metric->help);
    free(metric->label);
    free(metric);
}

void lmc_late_metrics_destroy(lmc_late_metrics *set) {
    if (set == NULL)
        return;
    for (lmc_metric *metric = set->first; metric != NULL;) {
        lmc_metric *next = metric->next;
        free_metric(metric);
        metric = next;
    }
    lmc_lock_fini(&set->lock);
    free(set);
}

/* ---- declaring ---- */

static bool is_name(const char *text) {
    size_t size = text != NULL ? strlen(text) : 0;
    if (size == 0 || size > NAME_MAX_BYTES || isdigit((unsigned char)text[0]))
        return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
           size;
}

static char *full_name(lmc_metric_type type, const char *prefix, const char *name) {
    size_t size = strlen(name);
    bool total = size > 6 && strcmp(name + size - 6, "_total") == 0;
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_buffer_printf(&text, "%s_%s%s", prefix, name,
                      type == LMC_COUNTER && !total ? "_total" : "");
    return lmc_buffer_take(&text);
}

static lmc_metric *make_metric(lmc_metric_type type, char *name, const char *help,
                               const char *label) {
    lmc_metric *metric = calloc(1, sizeof *metric);
    if (metric == NULL) {
        free(name);
        return NULL;
    }
    metric->name = name;
    metric->help = strdup(help != NULL ? help : "");
    metric->label = label != NULL ? strdup(label) : NULL;
    metric->spec = (lmc_family_spec){
        .name = name, .type = type, .help = metric->help, .labels = {metric->label}};
    bool complete = metric->help != NULL && (label == NULL || metric->label != NULL);
    if (complete && lmc_metrics_create(&metric->spec, 1, &metric->registry, NULL) == LMC_OK) {
        metric->family = lmc_metrics_family(metric->registry, 0);
        return metric;
    }
    free_metric(metric);
    return NULL;
}

static lmc_metric *find_metric(lmc_late_metrics *set, const char *name) {
    for (lmc_metric *m = atomic_load(&set->first); m != NULL; m = atomic_load(&m->next))
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

static bool same_labels(const lmc_metric *metric, const char *label) {
    if (metric->label == NULL || label == NULL)
        return metric->label == label;
    return strcmp(metric->label, label) == 0;
}

/* Takes `made` in unless there is one of its name, which is returned then. */
static lmc_metric *enter(lmc_late_metrics *set, lmc_metric *made) {
    lmc_lock_take(&set->lock);
    lmc_metric *there = find_metric(set, made->name);
    if (there == NULL) {
        if (set->last == NULL)
            atomic_store(&set->first, made);
        else
            atomic_store(&set->last->next, made);
        set->last = made;
    }
    lmc_lock_drop(&set->lock);
    if (there != NULL)
        free_metric(made);
    return there != NULL ? there : made;
}

lmc_metric *lmc_late_metrics_declare(lmc_late_metrics *set, lmc_metric_type type,
                                     const char *prefix, const char *name, const char *help,
                                     const char *label, lmc_error *error) {
    if (set == NULL)
        return NULL;
    if (!is_name(name) || (label != NULL && !is_name(label))) {
        lmc_error_set(error, LMC_INVALID, "metric '%s' with label '%s': not a name",
                      name != NULL ? name : "", label != NULL ? label : "");
        return NULL;
    }
    char *text = full_name(type, prefix, name);
    lmc_metric *metric = text != NULL ? make_metric(type, text, help, label) : NULL;
    if (metric == NULL) {
        lmc_error_set(error, LMC_NO_MEMORY, "no memory for metric '%s'", name);
        return NULL;
    }
    metric = enter(set, metric);
    if (metric->spec.type == type && same_labels(metric, label))
        return metric;
    lmc_error_set(error, LMC_INVALID, "metric '%s' exists with another type or label", name);
    return NULL;
}

/* ---- counting ---- */

void lmc_metric_add(lmc_metric *metric, lmc_slice value, int64_t by) {
    if (metric == NULL)
        return;
    const lmc_slice *values = metric->label != NULL ? &value : NULL;
    if (metric->spec.type == LMC_GAUGE)
        lmc_gauge_add(lmc_gauge_of(metric->family, values), (double)by);
    else if (by > 0)
        lmc_counter_add(lmc_counter_of(metric->family, values), (uint64_t)by);
}

void lmc_metric_set(lmc_metric *metric, lmc_slice value, double to) {
    if (metric != NULL && metric->spec.type == LMC_GAUGE)
        lmc_gauge_set(lmc_gauge_of(metric->family, metric->label != NULL ? &value : NULL), to);
}

lmc_status lmc_late_metrics_write(lmc_late_metrics *set, lmc_buffer *out) {
    lmc_status status = LMC_OK;
    lmc_metric *metric = set != NULL ? atomic_load(&set->first) : NULL;
    for (; metric != NULL && status == LMC_OK; metric = atomic_load(&metric->next))
        status = lmc_metrics_write(metric->registry, out);
    return status;
}
