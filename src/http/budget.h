/*
 * budget.h: how much memory all requests together may keep, of bodies that still arrive or of
 * replies that their peers have not read.
 *
 * A limit of each request bounds nothing by itself: thousands of connections may be open. A
 * small share is always granted, so that peers who hold much keep nobody's probe out.
 *
 * Event thread only.
 */
#ifndef LMC_HTTP_BUDGET_H
#define LMC_HTTP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lmc_http_budget {
    size_t limit; /* of all shares that are larger than small */
    size_t small;
    size_t held;
} lmc_http_budget;

/* Makes *share (0 at first) `wanted` bytes. False: too much is held, *share is as before. */
bool lmc_http_budget_take(lmc_http_budget *budget, size_t *share, size_t wanted);
/* Returns how much that was. */
size_t lmc_http_budget_release(lmc_http_budget *budget, size_t *share);

#endif
