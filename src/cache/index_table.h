/*
 * index_table.h: a hash table of slab indexes that never stalls.
 *
 * Linear hashing: each insertion splits at most one bucket, so growing to millions of entries
 * moves two or three entries at a time and nothing is ever rehashed as a whole. Buckets are
 * four bytes; the chain runs through the entries, which the owner keeps. Removing shrinks
 * nothing.
 *
 * Owned by L1, used under its lock. When memory for more buckets is missing, chains grow
 * instead.
 */
#ifndef LMC_CACHE_INDEX_TABLE_H
#define LMC_CACHE_INDEX_TABLE_H

#include <lmcached/types.h>

#define LMC_INDEX_SEGMENT_BITS 12

/* How the table reaches the owner's entries. */
typedef struct lmc_index_entries {
    uint64_t (*hash)(const void *owner, uint32_t index);
    uint32_t *(*next)(const void *owner, uint32_t index);
    const void *owner;
} lmc_index_entries;

typedef struct lmc_index_table {
    uint32_t **segments; /* directory */
    size_t segment_limit;
    size_t segment_count;
    uint32_t bucket_count;
    uint32_t mask; /* buckets below mask + 1 exist all; higher ones up to bucket_count */
    uint32_t count;
    lmc_index_entries entries;
} lmc_index_table;

lmc_status lmc_index_table_init(lmc_index_table *table, uint64_t max_entries,
                                lmc_index_entries entries);
void lmc_index_table_fini(lmc_index_table *table);

static inline uint32_t *lmc_index_table_bucket(const lmc_index_table *table, uint64_t hash) {
    uint32_t bucket = (uint32_t)hash & (2 * table->mask + 1);
    if (bucket >= table->bucket_count)
        bucket &= table->mask;
    return &table->segments[bucket >> LMC_INDEX_SEGMENT_BITS]
                           [bucket & ((1u << LMC_INDEX_SEGMENT_BITS) - 1)];
}

void lmc_index_table_add(lmc_index_table *table, uint32_t index, uint64_t hash);
void lmc_index_table_remove(lmc_index_table *table, uint32_t index, uint64_t hash);
size_t lmc_index_table_bytes(const lmc_index_table *table);

#endif
