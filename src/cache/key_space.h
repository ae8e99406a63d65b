/*
 * key_space.h: model name and cache salt of keys, interned.
 *
 * Chunks name their space by a 32-bit index, callers by pointer. A space lives while anybody
 * holds a reference: a caller, or a chunk in the table. Taking another reference needs no lock;
 * creating a space, and giving back what may be the last reference, happens under L1's lock.
 */
#ifndef LMC_CACHE_KEY_SPACE_H
#define LMC_CACHE_KEY_SPACE_H

#include <stdatomic.h>

#include "base/hash.h"
#include "cache/index_table.h"
#include "cache/l1.h"
#include "cache/slab.h"

#define LMC_KEY_SPACES_MAX (UINT32_C(1) << 24)

struct lmc_key_space {
    _Atomic uint64_t references;
    uint64_t hash;
    uint32_t index; /* in lmc_key_spaces.slab */
    uint32_t next;  /* in the bucket */
    size_t model_size, salt_size;
    char text[]; /* model, then salt */
};

typedef struct lmc_key_spaces {
    lmc_slab slab; /* of pointers */
    lmc_index_table table;
    lmc_hash_seed seed;
    size_t bytes; /* of the spaces themselves */
} lmc_key_spaces;

/* The address of `spaces` must not change afterwards. */
lmc_status lmc_key_spaces_init(lmc_key_spaces *spaces);
void lmc_key_spaces_fini(lmc_key_spaces *spaces);

/* The space with one more reference; NULL: out of memory. */
lmc_key_space *lmc_key_spaces_get(lmc_key_spaces *spaces, lmc_slice model, lmc_slice salt);
/* Gives back a reference, under the lock. */
void lmc_key_spaces_drop(lmc_key_spaces *spaces, lmc_key_space *space);
/* Gives back a reference unless it is the last one; needs no lock. */
bool lmc_key_space_drop_shared(lmc_key_space *space);

static inline lmc_key_space *lmc_key_spaces_at(const lmc_key_spaces *spaces, uint32_t index) {
    return *(lmc_key_space **)lmc_slab_at(&spaces->slab, index);
}
size_t lmc_key_spaces_bytes(const lmc_key_spaces *spaces);

#endif
