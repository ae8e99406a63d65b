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

#include "dispatch/account.h"
#include "rpc/rpc.h"

typedef struct lmc_registry lmc_registry;

/* Where a handler runs. */
typedef enum lmc_place {
    LMC_PLACE_INLINE,   /* on the request loop: built-in SYNC, and what never waits */
    LMC_PLACE_NORMAL,   /* normal pool */
    LMC_PLACE_AFFINITY, /* affinity pool */
    LMC_PLACE_OUTSIDE,  /* pool of handlers from outside the tree */
    LMC_PLACE_SERIAL,   /* the one thread of SYNC handlers from outside the tree */
    LMC_PLACE_PRIVATE,  /* a pool that a module made for it */
    LMC_PLACE_NONE,     /* waits for its module to make that pool */
} lmc_place;

/* A pool that a module made for some operations. */
typedef struct lmc_private_pool {
    char name[16];
    uint32_t threads;
    bool affinity; /* a connection keeps to one thread */
} lmc_private_pool;

/* Whose handlers are added; borrowed, and so is what it points to. */
typedef struct lmc_owner {
    const char *name; /* class name */
    void *self;
    bool outside;
    lmc_account *account; /* NULL: its calls are not counted */
    /* True: the handler only answers this request, wherever it runs. May be NULL. Then such
     * requests, and those that do not decode, wait for no pool. Called on the request loop. */
    bool (*answers_at_once)(const void *self, const void *request);
} lmc_owner;

typedef struct lmc_handler {
    const lmc_operation_def *operation;
    const lmc_operation *entry;
    void *self;
    const char *owner; /* class name */
    lmc_account *account;
    bool outside;
    bool (*answers_at_once)(const void *self, const void *request); /* of the owner */
    lmc_place place;
    uint32_t pool;                /* LMC_PLACE_PRIVATE: index of its pool */
    lmc_operation *made;          /* the entry, when it was made for this handler; else NULL */
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
/* The same for an owner whose calls are counted. */
lmc_status lmc_registry_add_of(lmc_registry *registry, const lmc_operation *operations,
                               const lmc_owner *owner, lmc_error *error);
/*
 * Adds one handler of an owner from outside that may have one for the operation already, which
 * it then replaces. Unless it is SYNC a pool must be made for it before the freeze.
 */
lmc_status lmc_registry_set(lmc_registry *registry, const lmc_operation *operation,
                            const lmc_owner *owner, lmc_error *error);
/*
 * Makes a pool for the winning handlers of these operations (names, ended by NULL; none: no
 * pool). Fails for an unknown operation, one that nobody handles, and one whose handler is
 * SYNC. `threads` 0 means 1.
 */
lmc_status lmc_registry_add_pool(lmc_registry *registry, const char *const *operations,
                                 uint32_t threads, bool affinity, lmc_error *error);
/* Fails, naming the operation, when a winning handler has no pool. */
lmc_status lmc_registry_check(const lmc_registry *registry, lmc_error *error);
void lmc_registry_freeze(lmc_registry *registry);

uint32_t lmc_registry_pool_count(const lmc_registry *registry);
const lmc_private_pool *lmc_registry_pool(const lmc_registry *registry, uint32_t index);

/* The winning handler; NULL: nobody handles it. */
const lmc_handler *lmc_registry_find(const lmc_registry *registry,
                                     const lmc_operation_def *operation);
/* True when some winning or replaced handler runs at this place. */
bool lmc_registry_uses(const lmc_registry *registry, lmc_place place);

#endif
