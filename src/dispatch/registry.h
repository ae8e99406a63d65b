/*
 * registry.h: which handler answers which operation, and where it runs.
 *
 * Handlers are added on the main thread in construction order of their modules. Per operation
 * one wins: a handler from outside the tree beats a built-in one, and among equals the later
 * added wins (D8). The others stay behind it, in that order, for lmc_forward(). freeze() ends
 * adding; afterwards the registry is constant and any thread may read it. It borrows the
 * lmc_operation entries, `self` and the owner's name, which must outlive it.
 */
#ifndef LMC_DISPATCH_REGISTRY_H
#define LMC_DISPATCH_REGISTRY_H

#include <lmcached/module.h>

#include "rpc/rpc.h"

typedef struct lmc_registry lmc_registry;

/* Where a handler runs. */
typedef enum lmc_place {
    LMC_PLACE_INLINE,   /* on the request loop: built-in SYNC, and what never waits */
    LMC_PLACE_NORMAL,   /* normal pool */
    LMC_PLACE_AFFINITY, /* affinity pool */
    LMC_PLACE_OUTSIDE,  /* pool of handlers from outside the tree */
    LMC_PLACE_SERIAL,   /* the one thread of SYNC handlers from outside the tree */
} lmc_place;

typedef struct lmc_handler {
    const lmc_operation_def *operation;
    const lmc_operation *entry;
    void *self;
    const char *owner; /* class name */
    bool outside;
    lmc_place place;
    struct lmc_handler *replaced; /* the next best, NULL: none */
} lmc_handler;

lmc_status lmc_registry_create(lmc_registry **registry, lmc_error *error);
void lmc_registry_destroy(lmc_registry *registry); /* accepts NULL */

/*
 * Adds every entry of `operations` (ends with a NULL name) for one module. Fails, naming class
 * and operation, when an operation is unknown, named twice by this owner, or has a scheduling
 * class or a flag that a handler of this origin cannot have. `operations` may be NULL.
 */
lmc_status lmc_registry_add(lmc_registry *registry, const lmc_operation *operations, void *self,
                            const char *owner, bool outside, lmc_error *error);
void lmc_registry_freeze(lmc_registry *registry);

/* The winning handler; NULL: nobody handles it. */
const lmc_handler *lmc_registry_find(const lmc_registry *registry,
                                     const lmc_operation_def *operation);
/* True when some winning or replaced handler runs at this place. */
bool lmc_registry_uses(const lmc_registry *registry, lmc_place place);

#endif
