/*
 * build.h: what create() of one class is lent. Private to this room, main thread.
 */
#ifndef LMC_MODULE_BUILD_H
#define LMC_MODULE_BUILD_H

#include "base/arena.h"
#include "config/json_value.h"
#include "module/composition.h"
#include "module/context.h"

/* A module that create() of another made beside, or in place of, its own. */
typedef struct lmc_added_module lmc_added_module;

struct lmc_build {
    lmc_composition *composition;
    const lmc_module_class *class; /* the one being built */
    lmc_module_class *own_class;   /* the same; create() may add hooks that it knows only now */
    lmc_context *context;
    lmc_slice config;
    const lmc_json_value *json; /* of config; NULL until asked for */
    lmc_arena *arena;           /* lives as long as the composition */
    lmc_added_module *added;    /* in the order in which they were added */
};

/*
 * Inside create(), as its last step: one more module, which is built already, takes its place
 * behind the one being built, if that is built, and those that were added before. It is closed
 * like any other, also when the start fails from then on. The class is copied; its name, which
 * is nobody else's, and its tables are borrowed.
 */
lmc_status lmc_build_add(lmc_build *build, const lmc_module_class *class, void *self,
                         lmc_error *error);

#endif
