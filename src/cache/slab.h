/*
 * slab.h: records of one size, named by 32-bit indexes instead of pointers.
 *
 * Memory comes in blocks of LMC_SLAB_BLOCK records and stays until fini; a record never moves,
 * so growing costs one small allocation and no copy. The directory is sized at init for the
 * largest count the owner can ever need, so that lmc_slab_at() needs no lock: whoever got an
 * index from the owner may look at its record without one.
 *
 * Owned by L1; take and give only under its lock.
 */
#ifndef LMC_CACHE_SLAB_H
#define LMC_CACHE_SLAB_H

#include <lmcached/types.h>

#define LMC_SLAB_BLOCK_BITS 10
#define LMC_SLAB_BLOCK (1u << LMC_SLAB_BLOCK_BITS)

typedef struct lmc_slab {
    unsigned char **blocks; /* directory */
    size_t record_size;
    uint32_t limit;       /* indexes are below this */
    uint32_t top;         /* lowest index that was never taken */
    uint32_t free_head;   /* chain through the first four bytes of free records, 0 = end */
    uint32_t block_count; /* blocks allocated */
} lmc_slab;

/* record_size: a multiple of four; blocks are aligned to 64 bytes. */
lmc_status lmc_slab_init(lmc_slab *slab, size_t record_size, uint64_t max_records);
void lmc_slab_fini(lmc_slab *slab); /* also after a failed or no init of a zeroed slab */

/* A record as its last owner left it, zeroed the first time; 0 = out of memory or of indexes.
 */
uint32_t lmc_slab_take(lmc_slab *slab);
/* Overwrites the first four bytes of the record. */
void lmc_slab_give(lmc_slab *slab, uint32_t index);

size_t lmc_slab_bytes(const lmc_slab *slab);

static inline void *lmc_slab_at(const lmc_slab *slab, uint32_t index) {
    return slab->blocks[index >> LMC_SLAB_BLOCK_BITS] +
           (index & (LMC_SLAB_BLOCK - 1)) * slab->record_size;
}

#endif
