/*
 * unknown_ids.h: which unknown instances were told, once, that the server does not know them.
 *
 * A worker that missed a restart of the server learns it from a ping answered false, which it
 * gets exactly once per loss of its registration (D4). The set is bounded: the oldest id is
 * forgotten, at worst that worker is told again. Any thread; one short lock.
 */
#ifndef LMC_MODULE_UNKNOWN_IDS_H
#define LMC_MODULE_UNKNOWN_IDS_H

#include <lmcached/types.h>

#define LMC_UNKNOWN_IDS_MAX 65536

typedef struct lmc_unknown_ids lmc_unknown_ids;

lmc_unknown_ids *lmc_unknown_ids_create(size_t limit); /* NULL: out of memory */
void lmc_unknown_ids_destroy(lmc_unknown_ids *ids);    /* accepts NULL */

/* True the first time an id is given; false when it was told, or cannot be remembered. */
bool lmc_unknown_ids_tell(lmc_unknown_ids *ids, int64_t instance_id);
/* The id was registered: should it be lost, it is told anew. */
void lmc_unknown_ids_forget(lmc_unknown_ids *ids, int64_t instance_id);

#endif
