/*
 * late_metrics.h: metric families that are declared while the server runs, by modules.
 *
 * The set owns its families, which live as long as it does. Declaring takes a lock, counting is
 * as in metrics.h; any thread. A NULL set declares nothing. The functions lmc_metric_add() and
 * lmc_metric_set() of lmcached/module.h are defined here.
 */
#ifndef LMC_OBSERVE_LATE_METRICS_H
#define LMC_OBSERVE_LATE_METRICS_H

#include <lmcached/module.h>

#include "observe/metrics.h"

typedef struct lmc_late_metrics lmc_late_metrics;

lmc_late_metrics *lmc_late_metrics_create(void);      /* NULL: out of memory */
void lmc_late_metrics_destroy(lmc_late_metrics *set); /* accepts NULL */

/*
 * The family "<prefix>_<name>", a counter's with "_total"; of an earlier declaration when there
 * is one of the same type. NULL with an error: the names are not Prometheus names, or the
 * family exists as another type.
 */
lmc_metric *lmc_late_metrics_declare(lmc_late_metrics *set, lmc_metric_type type,
                                     const char *prefix, const char *name, const char *help,
                                     const char *label, lmc_error *error);

/* Appends the families to a scrape; LMC_NO_MEMORY. */
lmc_status lmc_late_metrics_write(lmc_late_metrics *set, lmc_buffer *out);

#endif
