/*
 * own.h: what one module has of its own beside `self`: its view of the server, its names, its
 * account. Private to this room; filled on the main thread before create().
 */
#ifndef LMC_MODULE_OWN_H
#define LMC_MODULE_OWN_H

#include "module/context.h"

typedef struct lmc_module_record {
    lmc_module_own own;
    lmc_context context; /* of modules from outside */
} lmc_module_record;

/* `shared` is copied into the record's context. */
void lmc_module_record_init(lmc_module_record *record, const char *name, bool outside,
                            const lmc_context *shared);
/* The module is there: its calls are measured, also while there are none. */
void lmc_module_own_meter(lmc_module_own *own, struct lmc_metrics *metrics);
void lmc_module_record_fini(lmc_module_record *record); /* accepts one that was never filled */

#endif
