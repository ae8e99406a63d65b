/*
 * route.h: the one table of endpoints: path pattern, methods, where the handler runs.
 *
 * The table is constant; every family of endpoints contributes one list. Any thread.
 */
#ifndef LMC_HTTP_ROUTE_H
#define LMC_HTTP_ROUTE_H

#include "http/request.h"

#define LMC_HTTP_GET 1u
#define LMC_HTTP_POST 2u
#define LMC_HTTP_PUT 4u
#define LMC_HTTP_DELETE 8u
#define LMC_HTTP_PATCH 16u

typedef struct lmc_http_route {
    const char *path; /* "/quota/{salt}": a segment in braces takes any one segment */
    unsigned methods; /* GET answers HEAD, too */
    enum { LMC_HTTP_AT_ONCE, LMC_HTTP_ON_POOL, LMC_HTTP_ON_MODULE_POOL } where;
    void (*handle)(lmc_http_request *request);
} lmc_http_route; /* lists end with a NULL path */

extern const lmc_http_route lmc_http_health_routes[];
extern const lmc_http_route lmc_http_status_routes[];
extern const lmc_http_route lmc_http_metrics_routes[];
extern const lmc_http_route lmc_http_cache_routes[];
extern const lmc_http_route lmc_http_quota_routes[];
extern const lmc_http_route lmc_http_debug_routes[];
extern const lmc_http_route lmc_http_loop_routes[];
extern const lmc_http_route lmc_http_plugin_routes[];
extern const lmc_http_route lmc_http_later_routes[];
extern const lmc_http_route lmc_http_module_route; /* all of /ext/, by way of the provider */

/*
 * Finds the route and sets request->route and param. LMC_NOT_FOUND: no such path. LMC_INVALID:
 * a path that does not take the method; *methods are those that it takes.
 */
lmc_status lmc_http_route_find(lmc_http_request *request, const char *method, bool metrics_only,
                               unsigned *methods);
/* "GET, HEAD, POST" */
void lmc_http_route_allow(unsigned methods, char *out, size_t size);

#endif
