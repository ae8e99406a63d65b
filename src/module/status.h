/*
 * status.h: /status, gathered from the core and every module.
 *
 * The core's members come first; then, in the order in which sources were added, each module's
 * members are merged at top level, a later one replacing an earlier one of the same name in its
 * place. `is_healthy` is the AND of the core's and of every module's that is a boolean (D60).
 *
 * A module's report runs on a thread of the collector and is waited for one second, once: while
 * that call has not returned, the last result is used and the module stands in `status_errors`
 * (D61), as does one that fails. Sources are added by the main thread before the first
 * collection; collecting may be done from any thread.
 */
#ifndef LMC_MODULE_STATUS_H
#define LMC_MODULE_STATUS_H

#include <lmcached/module.h>

#include "base/bytes.h"

typedef struct lmc_status_collector lmc_status_collector;

typedef lmc_status (*lmc_status_report)(void *self, lmc_writer *writer);

lmc_status_collector *lmc_status_collector_create(int64_t budget_ns); /* NULL: out of memory */
/* Ends the threads. False: a report has not returned within wait_ns; nothing may be freed. */
bool lmc_status_collector_stop(lmc_status_collector *collector, int64_t wait_ns);
/* Accepts NULL. A collector of which a report is still running is left as it is. */
void lmc_status_collector_destroy(lmc_status_collector *collector);

/* `name` and `self` are borrowed until stop. */
lmc_status lmc_status_collector_add(lmc_status_collector *collector, const char *name,
                                    lmc_status_report report, void *self);

/* True while a report of this source has not returned in time. */
bool lmc_status_collector_is_late(lmc_status_collector *collector, const void *self);

/* Appends one compact JSON object. `core` writes the first members, on the calling thread. */
lmc_status lmc_status_collect(lmc_status_collector *collector, lmc_status_report core,
                              void *arg, lmc_buffer *out);
/* Asks every module without putting anything together, so that the next function knows. */
void lmc_status_refresh(lmc_status_collector *collector);
/* AND of the modules' own is_healthy, as of the last time they were asked; false also names
 * one. Does not wait. */
bool lmc_status_modules_healthy(lmc_status_collector *collector, const char **unhealthy);

#endif
