/*
 * hashmap.h: a map from 64-bit or text keys to pointers, open addressing, power-of-two growth.
 *
 * The map borrows its values and copies text keys. Text keys are hashed with a per-map random
 * seed, since peers choose them. Owned by one thread at a time, or guarded by the owner's lock.
 */
#ifndef LMC_BASE_HASHMAP_H
#define LMC_BASE_HASHMAP_H

#include <lmcached/types.h>

typedef struct lmc_hashmap lmc_hashmap;

lmc_hashmap *lmc_hashmap_create(void); /* NULL: out of memory */
void lmc_hashmap_destroy(lmc_hashmap *map);
size_t lmc_hashmap_count(const lmc_hashmap *map);

/* put replaces; returns the former value through *old (may be NULL). NULL values are not
 * allowed. */
lmc_status lmc_hashmap_put(lmc_hashmap *map, lmc_slice key, void *value, void **old);
void *lmc_hashmap_get(const lmc_hashmap *map, lmc_slice key); /* NULL: absent */
void *lmc_hashmap_remove(lmc_hashmap *map, lmc_slice key);    /* the value, or NULL */

lmc_status lmc_hashmap_put_id(lmc_hashmap *map, uint64_t key, void *value, void **old);
void *lmc_hashmap_get_id(const lmc_hashmap *map, uint64_t key);
void *lmc_hashmap_remove_id(lmc_hashmap *map, uint64_t key);

/*
 * Iteration: start with *at = 0; order is arbitrary. Removing the entry just returned is
 * allowed. key and value may be NULL. The key of an entry put by id is the 8 bytes of the id.
 */
bool lmc_hashmap_next(const lmc_hashmap *map, size_t *at, lmc_slice *key, void **value);

#endif
