/*
 * l1.h: the first tier: objects in one arena of memory, their table, their locks, their
 * eviction.
 *
 * An object is one chunk of one object group of one KV shard. It is `staging` from reserve to
 * commit (seen by its writer only) and `resident` afterwards. Callers hold objects by
 * reference: a reserve gives the writer one reference, an acquire gives `shares` read shares.
 * While a reference exists the object's bytes stay where they are, also when the object was
 * cleared
 * ("dead": no longer found, its memory goes back when the last reference does).
 *
 * Who owns what: L1 owns objects and bytes; owners of references are accounted for by the
 * caller (holds.h, instances.h). All functions may be called from any thread; none waits for
 * I/O except that reserve may supply pages. One lock (LMC_RANK_L1), never held longer than one
 * batch of LMC_L1_BATCH objects; longer calls take it again per batch. Observers are called
 * without it.
 */
#ifndef LMC_CACHE_L1_H
#define LMC_CACHE_L1_H

#include <lmcached/types.h>
#include <stdatomic.h>

#include "base/clock.h"

#define LMC_HASH_SIZE 32 /* bytes of a chunk hash */
#define LMC_L1_BATCH 256

typedef enum lmc_eviction_policy { LMC_EVICT_LRU, LMC_EVICT_NONE } lmc_eviction_policy;

typedef struct lmc_l1_config {
    uint64_t capacity;  /* bytes */
    uint64_t init_size; /* bytes to give pages at first when lazy */
    uint64_t align;     /* power of two; every object starts and is sized at a multiple */
    bool use_lazy; /* pages: init_size first, then ahead of demand; else all, in the background
                    */
    bool use_hugepages;   /* MAP_HUGETLB; not with a shm name */
    const char *shm_name; /* "" = private memory; else normalised as spec zmq-wire 9.1 says */
    uint32_t shm_mode;    /* permission bits of the pool, 0600 */
    lmc_eviction_policy policy;
    double watermark;      /* usage ratio at which the periodic round evicts */
    double eviction_ratio; /* share of tracked keys that one round evicts */
} lmc_l1_config;

/* Model name and cache salt of keys, interned: compare by pointer. Owned by L1, refcounted. */
typedef struct lmc_key_space lmc_key_space;

typedef struct lmc_l1_key {
    const uint8_t *hash; /* LMC_HASH_SIZE bytes */
    lmc_key_space *space;
    uint64_t kv_rank;
    uint32_t group;
} lmc_l1_key;

typedef uint32_t lmc_object_ref; /* 0 = none */
#define LMC_NO_OBJECT 0u

typedef struct lmc_l1 lmc_l1;

/* What can be told about single objects: bits of `interest`. */
enum {
    LMC_L1_READ_RESERVED = 1,   /* read shares were taken */
    LMC_L1_READ_FINISHED = 2,   /* and given back after a transfer */
    LMC_L1_READ_RELEASED = 4,   /* and given back, after a transfer or without one */
    LMC_L1_WRITE_RESERVED = 8,  /* is being written */
    LMC_L1_WRITE_FINISHED = 16, /* became readable */
    LMC_L1_EVICTED = 32,        /* any removal of a resident object */
    LMC_L1_ACCESSED = 64,       /* became the newest */
    LMC_L1_NO_MEMORY = 128,
    LMC_L1_READ_FAILED = 256,
    LMC_CACHE_LOOKUP_DONE = 512, /* of the observer in cache.h */
};
typedef struct lmc_l1_sight {
    uint8_t hash[LMC_HASH_SIZE];
    const lmc_key_space *space;
    uint64_t kv_rank, size; /* size 0: unknown */
    uint32_t group;
} lmc_l1_sight;

/* What others want to know; all members may be NULL. Called without locks, on the acting
 * thread. */
typedef struct lmc_l1_observer {
    void *arg;
    /* Which of the above `saw` is called for: read once per batch. NULL: for none. */
    const _Atomic uint32_t *interest;
    void (*saw)(void *arg, uint32_t what, const lmc_l1_sight *sights, size_t count);
    void (*committed)(void *arg, lmc_slice salt, size_t count);
    void (*evicted)(void *arg, lmc_slice salt,
                    size_t count); /* any removal of a resident object */
    void (*read)(void *arg, lmc_slice salt,
                 size_t count); /* read shares given back after a transfer */
    void (*no_memory)(void *arg, lmc_slice model, size_t count);
    void (*eviction_tick)(void *arg, bool triggered);
} lmc_l1_observer;

/*
 * Creates arena and pool. Errors name the option: a pool of a living owner, /dev/shm too small,
 * not enough huge pages, a size that cannot be mapped. A size beyond the machine's memory or
 * the cgroup's limit is a WARNING. Start-up time does not depend on capacity.
 */
lmc_status lmc_l1_create(const lmc_l1_config *config, const lmc_clock *clock,
                         const lmc_l1_observer *observer, lmc_l1 **l1, lmc_error *error);
void lmc_l1_destroy(lmc_l1 *l1); /* stops page supply, unlinks the pool */

const char *lmc_l1_pool_name(const lmc_l1 *l1); /* advertised name without '/', "" = no pool */
uint64_t lmc_l1_capacity(const lmc_l1 *l1);

lmc_status lmc_key_space_get(lmc_l1 *l1, lmc_slice model, lmc_slice salt,
                             lmc_key_space **space);
lmc_key_space *lmc_key_space_keep(lmc_key_space *space);
void lmc_key_space_drop(lmc_l1 *l1, lmc_key_space *space); /* accepts NULL */
lmc_slice lmc_key_space_model(const lmc_key_space *space);
lmc_slice lmc_key_space_salt(const lmc_key_space *space);

/* refs[i] = the resident object with `shares` more read shares, or LMC_NO_OBJECT. */
void lmc_l1_acquire(lmc_l1 *l1, const lmc_l1_key *keys, size_t count, uint32_t shares,
                    lmc_object_ref *refs);
/* Adds shares to objects already held by the caller. */
void lmc_l1_acquire_more(lmc_l1 *l1, const lmc_object_ref *refs, size_t count, uint32_t shares);
/* Gives back `shares` of each; LMC_NO_OBJECT entries are skipped. `transfer`: count as read. */
void lmc_l1_release(lmc_l1 *l1, const lmc_object_ref *refs, size_t count, uint32_t shares,
                    bool transfer);

typedef enum lmc_reserve_result {
    LMC_RESERVED,
    LMC_RESERVE_RESIDENT, /* exists */
    LMC_RESERVE_STAGED,   /* is being written by someone else */
    LMC_RESERVE_NO_MEMORY,
} lmc_reserve_result;

/*
 * Reserves what is neither resident nor staged, `size` bytes each. When memory runs short it
 * evicts what the policy allows, at once, oldest first, and retries (D45); if it still does not
 * fit, the leading keys that do are reserved. refs[i] is set for LMC_RESERVED only.
 */
void lmc_l1_reserve(lmc_l1 *l1, const lmc_l1_key *keys, size_t count, uint64_t size,
                    lmc_object_ref *refs, lmc_reserve_result *results);
/* Makes staged objects resident and gives up the writer's reference. A cleared one is dropped.
 */
size_t lmc_l1_commit(lmc_l1 *l1, const lmc_object_ref *refs, size_t count);
/* Tells the observer about keys that are not in the table. */
void lmc_l1_tell(lmc_l1 *l1, uint32_t what, const lmc_l1_key *keys, size_t count,
                 uint64_t size);
/* Frees staged objects, never seen by anybody. */
void lmc_l1_discard(lmc_l1 *l1, const lmc_object_ref *refs, size_t count);

void lmc_l1_touch(lmc_l1 *l1, const lmc_l1_key *keys, size_t count);
/* force: everything becomes invisible; else unlocked residents only. */
void lmc_l1_clear(lmc_l1 *l1, bool force);

/* Bytes of a held object. Valid while the reference is held. */
void *lmc_l1_data(lmc_l1 *l1, lmc_object_ref ref);
uint64_t lmc_l1_offset(lmc_l1 *l1, lmc_object_ref ref); /* from the start of the pool */
uint64_t lmc_l1_size(lmc_l1 *l1, lmc_object_ref ref);   /* logical bytes */

/* One round of the 1 s loop: evicts when usage is at the watermark. Call from a worker thread.
 */
void lmc_l1_evict_round(lmc_l1 *l1);

typedef struct lmc_l1_report {
    bool is_sound; /* the allocator's own check: free + allocated == heap */
    uint64_t resident_count, staging_count, read_locked_count;
    uint64_t staging_bytes, used_bytes, supplied_bytes, capacity_bytes;
    uint64_t metadata_bytes; /* everything the core keeps for objects */
} lmc_l1_report;
void lmc_l1_report_get(lmc_l1 *l1, lmc_l1_report *report); /* cheap: counters only */
bool lmc_l1_check(lmc_l1 *l1); /* full check of extents; slow, for tests and CLEAR */
/* Longest hold of the lock while lmc_lock_measure() is on, and resets it; for the bench. */
int64_t lmc_l1_longest_hold_ns(lmc_l1 *l1);

#endif
