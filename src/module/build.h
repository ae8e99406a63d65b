/*
 * build.h: what create() of one class is lent. Private to this room, main thread.
 */
#ifndef LMC_MODULE_BUILD_H
#define LMC_MODULE_BUILD_H

#include "base/arena.h"
#include "config/json_value.h"
#include "module/composition.h"
#include "module/context.h"

struct lmc_build {
    lmc_composition *composition;
    const lmc_module_class *class; /* the one being built */
    lmc_context *context;
    lmc_slice config;
    const lmc_json_value *json; /* of config; NULL until asked for */
    lmc_arena *arena;           /* lives as long as the composition */
};

#endif
