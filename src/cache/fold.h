/*
 * fold.h: how long a prefix a set of object rows can serve (storage.md 4.2, 4.3).
 *
 * One row per object group and KV rank; a cell per chunk, LMC_NO_OBJECT = not there. Pure.
 */
#ifndef LMC_CACHE_FOLD_H
#define LMC_CACHE_FOLD_H

#include "cache/l1.h"

typedef struct lmc_row {
    const lmc_object_ref *cells;
    int64_t window; /* chunks; < 1 = full attention */
    size_t known;   /* scratch of lmc_fold: cells [known, length) were seen to be there */
} lmc_row;

/* First cell that a row needs to serve `length` chunks. */
static inline size_t lmc_row_first(int64_t window, size_t length) {
    return window < 1 || (uint64_t)window >= length ? 0 : length - (size_t)window;
}

/* The largest length, at most `chunks`, that every row can serve. Looks at each cell once. */
size_t lmc_fold(lmc_row *rows, size_t row_count, size_t chunks);

#endif
