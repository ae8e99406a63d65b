/*
 * modules.h: the server modules that are built in.
 *
 * They are classes like any other (lmcached/module.h) and constant. The order of the list is
 * the order in which ties are broken when they are built.
 */
#ifndef LMC_MODULES_MODULES_H
#define LMC_MODULES_MODULES_H

#include <lmcached/module.h>

extern const lmc_module_class lmc_lookup_module;
extern const lmc_module_class lmc_p2p_controller;
extern const lmc_module_class lmc_lmcache_driven_transfer_module;
extern const lmc_module_class lmc_engine_driven_transfer_module;
extern const lmc_module_class lmc_qstore_module;
extern const lmc_module_class lmc_blend_module;
extern const lmc_module_class lmc_kv_event_module;
extern const lmc_module_class lmc_management_module;

const lmc_module_class *const *lmc_built_in_modules(size_t *count);

/* Why nobody answers an operation, naming the option that would change it; NULL: no reason
 * known. */
const char *lmc_unserved_reason(const char *operation);

#endif
