/*
 * holds.h: the lock ledger: which read shares a lookup took for its session (D5,
 * storage.md 4.6).
 *
 * A hold has one cell per retained object: the object and how many shares are left. It belongs
 * to a session, or to nobody but its lease once the session ended or looked up again; it ends
 * when the last share is given back, at its expiry, or when the lease runs out. All shares it
 * still has are then released, exactly once. Only operations that name the session can take
 * from it.
 *
 * Holds are guarded by the lock of sessions.h. Shares are collected under it and released to L1
 * without it.
 */
#ifndef LMC_CACHE_HOLDS_H
#define LMC_CACHE_HOLDS_H

#include "cache/chains.h"
#include "cache/chunk_keys.h"
#include "cache/list.h"

struct lmc_session;

typedef struct lmc_hold_group {
    uint32_t group;
    bool windowed;
    size_t first;  /* cells are for chunks [first, hit) */
    size_t offset; /* of the first rank's row */
} lmc_hold_group;

typedef struct lmc_hold {
    lmc_link expiring; /* in the order of expiry_ns */
    lmc_link leased;   /* in the order of lease_ns, once there is a lease */
    struct lmc_hold *next;
    struct lmc_session *owner; /* NULL: leased */
    int64_t expiry_ns, lease_ns;
    lmc_key_space *space;
    int64_t world_size;
    uint32_t first_rank, rank_count, group_count;
    size_t hit;                       /* chunks */
    uint8_t last_hash[LMC_HASH_SIZE]; /* of chunk hit - 1: which prompt this is about */
    size_t cell_count;
    uint64_t shares;      /* left in all cells */
    lmc_object_ref *refs; /* group-major, then rank, then chunk */
    uint8_t *counts;
    lmc_hold_group groups[];
} lmc_hold;

/* What a hold is to be for; groups and windows of the rows in it. */
typedef struct lmc_hold_shape {
    lmc_key_space *space; /* borrowed; the hold keeps it itself */
    int64_t world_size;
    uint32_t first_rank, rank_count, group_count;
    const uint32_t *groups;
    const int64_t *windows;
    size_t hit;
    const uint8_t *last_hash;
    uint32_t shares; /* per cell, 1 ... LMC_READERS_MAX */
} lmc_hold_shape;

/* With full counts and unset refs, which the caller fills in. NULL: out of memory. */
lmc_hold *lmc_hold_create(const lmc_hold_shape *shape);
size_t lmc_hold_bytes(const lmc_hold *hold); /* 0 for NULL */
/* First cell of a row; `group` is an index into groups. */
size_t lmc_hold_row(const lmc_hold *hold, size_t group, uint32_t rank);
/* Releases what is left and frees; without locks. Accepts NULL; takes one hold, not its next.
 */
void lmc_hold_destroy(lmc_l1 *l1, lmc_hold *hold);

/* Shares on their way from a hold back to L1. */
typedef struct lmc_share_list {
    size_t count;
    lmc_object_ref refs[LMC_L1_BATCH];
    uint8_t shares[LMC_L1_BATCH];
} lmc_share_list;

void lmc_share_list_release(lmc_l1 *l1, lmc_share_list *list); /* and empties it */

/* Takes up to `shares` of a cell into the list (which has room). Returns how many. */
uint32_t lmc_hold_take(lmc_hold *hold, size_t cell, uint32_t shares, lmc_share_list *list);
/* The cell of (group id, rank, chunk), or SIZE_MAX. */
size_t lmc_hold_find(const lmc_hold *hold, uint32_t group, uint32_t rank, size_t chunk);

/* Whether the hold is about the model, world size and salt that the key names. */
bool lmc_hold_is_for(const lmc_hold *hold, const lmc_cache_key *key);

/* Position in a walk over the cells of ranks x chunks; start with all 0. */
typedef struct lmc_hold_walk {
    size_t group;
    uint32_t rank; /* counted from the hold's first */
    size_t chunk;  /* counted from the row's first in the range */
} lmc_hold_walk;
/* Takes `shares` of each cell in the range until the list is full. True: not at the end yet. */
bool lmc_hold_take_range(lmc_hold *hold, const lmc_chunk_range *range, uint32_t shares,
                         bool skip_windowed, lmc_hold_walk *walk, lmc_share_list *list);

#endif
