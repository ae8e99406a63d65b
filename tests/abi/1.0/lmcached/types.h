/*
 * types.h: the few types that every part of lmcached and every module share.
 *
 * Nothing here owns memory. A slice borrows; whoever hands one over says for how long.
 * Any thread may use these types.
 */
#ifndef LMCACHED_TYPES_H
#define LMCACHED_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Result of a function that can fail. 0 is success, positive values are outcomes that are not
 * failures, negative values are failures. A value the caller does not know counts as failure.
 */
typedef int32_t lmc_status;

#define LMC_OK 0
#define LMC_DECLINED 1     /* not applicable here; nothing was done */
#define LMC_AGAIN 2        /* not yet; ask again or wait for the callback */
#define LMC_FAILED (-1)    /* any failure that has no code of its own */
#define LMC_NO_MEMORY (-2) /* memory of the process, or of L1, is exhausted */
#define LMC_INVALID (-3)   /* an argument, option or message value is not acceptable */
#define LMC_MALFORMED (-4) /* bytes do not decode as what they should be */
#define LMC_NOT_FOUND (-5) /* no such key, session, instance, method or file */
#define LMC_BUSY (-6)      /* exists already, or is held by someone else */
#define LMC_CLOSED (-7)    /* the owner is stopping; no new work is taken */
#define LMC_TIMEOUT (-8)   /* the time allowed has passed */

/* Borrowed bytes. Text is UTF-8 and not terminated. An absent slice is {NULL, 0}. */
typedef struct lmc_slice {
    const void *data;
    size_t size;
} lmc_slice;

/* Failure text for a person; see lmc_error_set() in base/error.h or in module.h. */
typedef struct lmc_error lmc_error;

#ifdef __cplusplus
}
#endif

#endif
