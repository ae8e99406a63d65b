/*
 * object_table.h: what is cached: chunks and their objects, found by key, ordered by age.
 *
 * One chunk record per (hash, key space); its objects, one per KV shard and object group, hang
 * off it in a ring. So a chunk is found once for all its shards and goes with all of them: a
 * chunk is evictable only when none of its objects is being written or read. 64 bytes per
 * chunk, 32 per object, four to eight for the bucket.
 *
 * Age: a list of chunks from oldest to newest. A chunk that eviction meets while it is busy is
 * parked outside the list and returns to its oldest end when the last holder lets go, so that
 * eviction never looks twice at what it cannot have.
 *
 * Clearing by force advances the epoch: records of an older one are invisible at once and are
 * swept in batches. An object that somebody still holds stays, in a chunk that is detached (not
 * found, not aged), until its last reference is given back.
 *
 * Owned by L1, used under its lock. `extent` of a held object may be read without it.
 */
#ifndef LMC_CACHE_OBJECT_TABLE_H
#define LMC_CACHE_OBJECT_TABLE_H

#include "base/hash.h"
#include "cache/extents.h"
#include "cache/index_table.h"
#include "cache/key_space.h"
#include "cache/l1.h"
#include "cache/slab.h"

/*
 * References that callers keep are indexes; debug builds add six bits of the record's
 * generation, so that one used after its object went is caught.
 */
#ifdef NDEBUG
#define LMC_OBJECTS_MAX (UINT32_C(1) << 30)
#else
#define LMC_REF_BITS 26
#define LMC_OBJECTS_MAX ((UINT32_C(1) << LMC_REF_BITS) - 1)
#endif

#define LMC_CHUNK_PARKED UINT32_C(0x80000000)
#define LMC_CHUNK_DETACHED UINT32_C(0x40000000)
#define LMC_CHUNK_LISTED UINT32_C(0x20000000)
#define LMC_CHUNK_EPOCH UINT32_C(0x1fffffff)

#define LMC_CHUNK_OBJECTS_MAX 16384 /* shards times groups of one chunk; bounds the ring */

typedef struct lmc_chunk {
    uint8_t hash[LMC_HASH_SIZE]; /* the first bytes chain free records */
    uint32_t space;
    uint32_t next;         /* in the bucket */
    uint32_t object;       /* the one found last; the ring starts behind it */
    uint32_t older, newer; /* in the age list */
    uint32_t objects;      /* in the ring; 0 = record is free */
    uint32_t busy;         /* of them staging or read */
    uint32_t mark;         /* flags and epoch */
} lmc_chunk;

typedef enum lmc_object_state {
    LMC_OBJECT_FREE,
    LMC_OBJECT_STAGING,
    LMC_OBJECT_RESIDENT,
} lmc_object_state;

typedef struct lmc_object {
    uint32_t next; /* in the chunk's ring */
    uint32_t chunk;
    uint64_t kv_rank;
    uint32_t group;
    uint32_t extent;
    uint32_t readers;
    uint16_t state;
    uint16_t generation; /* advances when the record is freed */
} lmc_object;

_Static_assert(sizeof(lmc_chunk) == 64 && sizeof(lmc_object) == 32,
               "one cache line, half a one");

typedef struct lmc_object_table {
    lmc_slab chunks, objects;
    lmc_index_table index;
    lmc_key_spaces *spaces;
    lmc_extents *extents;
    bool aged; /* chunks are in the age list */
    uint32_t oldest, newest;
    uint32_t epoch;
    lmc_hash_seed seed;
    uint64_t resident, staging, read_locked; /* objects that can be found */
    uint64_t staging_bytes;                  /* logical */
} lmc_object_table;

/* The address of the table must not change afterwards. */
lmc_status lmc_object_table_init(lmc_object_table *table, lmc_key_spaces *spaces,
                                 lmc_extents *extents, bool aged);
void lmc_object_table_fini(lmc_object_table *table);

static inline lmc_object *lmc_object_at(const lmc_object_table *table, uint32_t index) {
    return lmc_slab_at(&table->objects, index);
}
static inline lmc_chunk *lmc_chunk_at(const lmc_object_table *table, uint32_t index) {
    return lmc_slab_at(&table->chunks, index);
}

/* Hashes up to LMC_L1_BATCH keys and brings what they lead to into the processor's cache. */
void lmc_object_table_prepare(const lmc_object_table *table, const lmc_l1_key *keys,
                              size_t count, uint64_t *hashes);
/* 0 = absent. */
uint32_t lmc_object_table_find_chunk(const lmc_object_table *table, const lmc_l1_key *key,
                                     uint64_t hash);
uint32_t lmc_object_table_find(lmc_object_table *table, const lmc_l1_key *key, uint64_t hash);
/* A staging object for an absent key, which gets `extent`; 0 = out of memory, nothing changed.
 */
uint32_t lmc_object_table_add(lmc_object_table *table, const lmc_l1_key *key, uint64_t hash,
                              uint32_t extent);

void lmc_object_hold(lmc_object_table *table, uint32_t object, uint32_t shares);
/* With the last share of an object in a detached chunk the object goes. */
void lmc_object_let_go(lmc_object_table *table, uint32_t object, uint32_t shares);
/* Staging becomes resident. */
void lmc_object_publish(lmc_object_table *table, uint32_t object);
/* Frees object and extent; with its last object the chunk goes. */
void lmc_object_remove(lmc_object_table *table, uint32_t object);

static inline bool lmc_chunk_is_current(const lmc_object_table *table, const lmc_chunk *chunk) {
    return (chunk->mark & (LMC_CHUNK_EPOCH | LMC_CHUNK_DETACHED)) == table->epoch;
}
/* Cleared: it cannot be found any more. */
bool lmc_object_is_dead(const lmc_object_table *table, uint32_t object);

/* Makes everything in the table dead; lmc_chunk_sweep() must follow for every chunk record. */
void lmc_object_table_advance(lmc_object_table *table);
/*
 * Removes the chunk's objects that nobody holds; when some are left and the chunk is of an
 * older epoch, detaches it. Returns how many residents cannot be found any more.
 */
uint32_t lmc_chunk_sweep(lmc_object_table *table, uint32_t chunk);

/* Makes the chunk the newest. No effect on dead chunks and without ages. */
void lmc_chunk_touch(lmc_object_table *table, uint32_t chunk);
/*
 * The oldest chunk that is not busy; 0 = none, or the budget ran out. Every chunk looked at
 * costs one of the budget.
 */
uint32_t lmc_object_table_victim(lmc_object_table *table, uint32_t *budget);

size_t lmc_object_table_bytes(const lmc_object_table *table);

#endif
