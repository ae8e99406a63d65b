/*
 * target.h: the request target (path and query) taken apart and percent-decoded.
 *
 * A target owns its memory; slices into it live until fini. One thread at a time.
 */
#ifndef LMC_HTTP_TARGET_H
#define LMC_HTTP_TARGET_H

#include <lmcached/types.h>

#define LMC_HTTP_SEGMENTS_MAX 8
#define LMC_HTTP_PARAMS_MAX 32
#define LMC_HTTP_PARAMS_ALLOWED 128 /* beyond: the request is refused */

typedef struct lmc_http_param {
    lmc_slice name, value;
} lmc_http_param;

typedef struct lmc_http_target {
    char *memory;
    /* The path's segments, decoded; "/" has none. A trailing slash does not count. */
    lmc_slice segments[LMC_HTTP_SEGMENTS_MAX];
    size_t segment_count;
    bool unroutable; /* too many segments, an empty one, or an encoded '/' or NUL */
    lmc_http_param params[LMC_HTTP_PARAMS_MAX]; /* more than this many are ignored */
    size_t param_count;
} lmc_http_target;

/* Accepts origin form and absolute form. LMC_NO_MEMORY is the only failure. */
lmc_status lmc_http_target_init(lmc_http_target *target, const char *text);
/* Parameters in the query as sent, or at least one more than are allowed. */
size_t lmc_http_target_count_params(const char *text);
void lmc_http_target_fini(lmc_http_target *target);

#endif
