/*
 * routes.h: what modules answer on the HTTP port, under /ext/<class>/ (D63).
 *
 * Filled while modules are built, on the main thread, and constant from then on. Handlers run
 * on the threads of whoever calls lmc_route_run(), which charges them to the module.
 */
#ifndef LMC_MODULE_ROUTES_H
#define LMC_MODULE_ROUTES_H

#include <lmcached/module.h>

#include "base/bytes.h"

struct lmc_module_own;

typedef struct lmc_routes lmc_routes;
typedef struct lmc_route lmc_route;

#define LMC_ROUTE_TYPE_MAX 96  /* of a content type, with its end */
#define LMC_ROUTE_ALLOW_MAX 64 /* all methods with their separators */

/* One request, lent to a handler. Private to this room and the server. */
struct lmc_http_call {
    const char *method;
    const lmc_slice *segments; /* decoded, behind /ext/<class> */
    size_t segment_count;
    lmc_slice body;
    bool (*query)(void *arg, const char *name, lmc_slice *value);
    void *arg;
    const lmc_route *route;
    /* the answer */
    uint32_t status; /* 0: none yet */
    char type[LMC_ROUTE_TYPE_MAX];
    lmc_buffer *reply; /* borrowed, empty */
};

lmc_routes *lmc_routes_create(void); /* NULL: no memory */
void lmc_routes_destroy(lmc_routes *routes);
/* Once create() of the module has succeeded; says in the log which routes there are. */
void lmc_routes_bind(lmc_routes *routes, struct lmc_module_own *own, void *self);
/* The module is absent after all. */
void lmc_routes_drop(lmc_routes *routes, const struct lmc_module_own *own);

/*
 * `segments` are those behind /ext. LMC_NOT_FOUND: no such path. LMC_INVALID: a path that does
 * not take the method; `allow` has those that it takes, "GET, HEAD, POST", and is empty
 * otherwise.
 */
lmc_status lmc_routes_find(const lmc_routes *routes, const lmc_slice *segments, size_t count,
                           const char *method, const lmc_route **route,
                           char allow[LMC_ROUTE_ALLOW_MAX]);
/* call->segments as for find. A handler that answers nothing is a 500. */
void lmc_route_run(const lmc_route *route, lmc_http_call *call);

#endif
