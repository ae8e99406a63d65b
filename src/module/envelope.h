/*
 * envelope.h: the router of `server_module_call`: which module answers which method.
 *
 * It is filled on the main thread while modules are built, and constant afterwards. It answers
 * unknown methods itself, so the operation exists even when no module offers a method. Borrows
 * the modules' tables and handles until destroy.
 */
#ifndef LMC_MODULE_ENVELOPE_H
#define LMC_MODULE_ENVELOPE_H

#include <lmcached/module.h>

#include "dispatch/registry.h"

typedef struct lmc_router lmc_router;

lmc_router *lmc_router_create(void);         /* NULL: out of memory */
void lmc_router_destroy(lmc_router *router); /* accepts NULL */

/* Adds every method of `envelopes` (may be NULL) of one module. Fails on a method that is not
 * namespaced or that exists. */
lmc_status lmc_router_add(lmc_router *router, const lmc_envelope *envelopes, void *self,
                          const char *owner, lmc_error *error);
/* The same for an owner whose calls are counted, or who is from outside. */
lmc_status lmc_router_add_of(lmc_router *router, const lmc_envelope *envelopes,
                             const lmc_owner *owner, lmc_error *error);

/* Makes the router the handler of `server_module_call`. With methods of modules from outside it
 * runs where those do; unknown methods are answered on the request loop then. */
lmc_status lmc_router_register(lmc_router *router, lmc_registry *registry, lmc_error *error);
/* {"server_module_plugins": {"methods": [...]}}, or nothing when there is no method. */
lmc_status lmc_router_report_status(void *router, lmc_writer *writer);

#endif
