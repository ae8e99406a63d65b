/*
 * outside_modules.h: the modules that --server-module names. Private to this room, main thread.
 *
 * They are loaded before any module is built and never unloaded. The set owns the copies of
 * their classes.
 */
#ifndef LMC_SERVER_OUTSIDE_MODULES_H
#define LMC_SERVER_OUTSIDE_MODULES_H

#include "config/config.h"
#include "native/native.h"
#include "server/python_host.h"

typedef struct lmc_outside_modules {
    lmc_native_file **files;       /* in the order of the command line */
    const lmc_module_spec **specs; /* of each file */
    size_t count;
    lmc_python_host python;              /* of the dotted paths, if there are any */
    const lmc_module_class **python_saw; /* the classes it knows about */
    const lmc_module_class **classes;    /* built-in ones first */
    size_t built_in_count, class_count;
} lmc_outside_modules;

/* On failure nothing was built; fini is due in any case. `world` is for modules in Python;
 * `last`, which may be NULL, is a class that comes after all others. */
lmc_status lmc_outside_modules_load(lmc_outside_modules *modules, const lmc_config *config,
                                    const lmc_python_world *world, const lmc_module_class *last,
                                    lmc_error *error);
void lmc_outside_modules_fini(lmc_outside_modules *modules); /* after the modules were closed */

/* The configuration of the spec that a class came with; {NULL, 0}: none. */
lmc_slice lmc_outside_modules_config(const lmc_outside_modules *modules,
                                     const char *class_name);
/* "python" or "native". */
const char *lmc_outside_modules_origin(const lmc_outside_modules *modules,
                                       const char *class_name);

#endif
