/*
 * dtypes.h: torch's element types and the storage classes that stand for them in a pickle.
 *
 * Constant; any thread. Internal to this room.
 */
#ifndef LMC_PICKLE_DTYPES_H
#define LMC_PICKLE_DTYPES_H

#include <lmcached/types.h>

typedef struct lmc_dtype {
    const char *name;    /* "float16" */
    const char *storage; /* "HalfStorage"; NULL: has none */
    size_t size;
} lmc_dtype;

const lmc_dtype *lmc_dtype_named(lmc_slice name);            /* NULL: unknown */
const lmc_dtype *lmc_dtype_of_storage(lmc_slice class_name); /* NULL: unknown */

#endif
