/*
 * cache.h: the cache core as modules see it: layouts, instances, sessions, lookups, transfers.
 *
 * A library without sockets, modules or globals. It owns L1 and everything that holds objects
 * in it. Every share of an object has an owner (a session's hold or an instance's pending
 * transfer) and is given back by that owner only, exactly once: by the operation that ends it,
 * by its lease, by unregister, reaping or the end of the process (D5, D46, storage.md 4.6).
 *
 * All functions may be called from any thread. None blocks. Text and tokens in arguments are
 * borrowed for the call. Outputs that name objects stay valid until the transfer they belong to
 * ends.
 */
#ifndef LMC_CACHE_CACHE_H
#define LMC_CACHE_CACHE_H

#include <lmcached/messages.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cache/l1.h"

typedef struct lmc_cache lmc_cache;

typedef struct lmc_cache_config {
    uint32_t chunk_size; /* tokens */
    lmc_l1_config l1;
    int64_t read_ttl_ns, write_ttl_ns;
    int64_t session_ttl_ns;      /* from last use */
    int64_t session_lease_ns;    /* what an ended session holds is released after this */
    int64_t disconnect_lease_ns; /* 0 = off */
    size_t session_bytes_max;    /* all sessions together, then the oldest go; 0 = 1 GiB */
} lmc_cache_config;

/* Counters and samples for metrics; members may be NULL. Called without locks. */
typedef struct lmc_cache_observer {
    void *arg;
    lmc_l1_observer l1;
    /* When an answer is delivered; early_exit "" = none. Abandoned lookups count nowhere. The
     * request id is there only while l1.interest has LMC_CACHE_LOOKUP_DONE. */
    void (*lookup_done)(void *arg, lmc_slice model, lmc_slice salt, uint64_t requested_tokens,
                        uint64_t hit_tokens, uint64_t hit_keys, const char *early_exit,
                        lmc_slice request_id);
    void (*read_failed)(void *arg, lmc_slice model, size_t count, const char *reason);
} lmc_cache_observer;

lmc_status lmc_cache_create(const lmc_cache_config *config, const lmc_clock *clock,
                            const lmc_cache_observer *observer, lmc_cache **cache,
                            lmc_error *error);
void lmc_cache_destroy(lmc_cache *cache);

lmc_l1 *lmc_cache_l1(lmc_cache *cache);
uint32_t lmc_cache_chunk_size(const lmc_cache *cache);

/*
 * Periodic work: expired holds, leases and sessions, disconnect leases, the eviction round. The
 * owner calls it from a worker thread about once per second; tests call it with a fake clock.
 */
void lmc_cache_tick(lmc_cache *cache);

/* ---- lookups (worker_id absent in the key) ---- */

/* Registers a job under key->request_id, replacing an older one. Invalid keys give a job with
 * 0. */
void lmc_cache_lookup(lmc_cache *cache, const lmc_cache_key *key, int64_t tp_size,
                      uint64_t connection);
/* LMC_OK: *chunks is the answer and the job is consumed. LMC_AGAIN: pending. Unknown id: 0. */
lmc_status lmc_cache_query(lmc_cache *cache, lmc_slice request_id, int64_t *chunks);
/* As query without consuming. */
lmc_status lmc_cache_peek(lmc_cache *cache, lmc_slice request_id, int64_t *chunks);
/*
 * Calls done exactly once: with LMC_OK and the chunks (job consumed), or LMC_AGAIN after the
 * timeout, or LMC_CLOSED at destroy. At once, on this thread, when the answer is known.
 */
void lmc_cache_wait(lmc_cache *cache, lmc_slice request_id, int64_t timeout_ns,
                    void (*done)(void *arg, lmc_status status, int64_t chunks), void *arg);
/* Ends all waits, and every later one that would have to be parked, with LMC_CLOSED. */
void lmc_cache_end_waits(lmc_cache *cache);
/*
 * Gives back what the lookup of this session still holds in the key's range, its readers per
 * object (D38). Token ids may be only counted. LMC_INVALID: D1 causes; else LMC_OK.
 */
lmc_status lmc_cache_free_locks(lmc_cache *cache, const lmc_cache_key *key, int64_t tp_size,
                                lmc_error *error);
void lmc_cache_end_session(lmc_cache *cache, lmc_slice request_id);
size_t lmc_cache_active_jobs(lmc_cache *cache);
size_t lmc_cache_active_sessions(lmc_cache *cache);

void lmc_cache_clear(lmc_cache *cache, bool force);

/* ---- instances ---- */

/* How one chunk of one object group lies in memory: row-major, no padding (zmq-wire.md 9.2). */
#define LMC_LAYOUT_DIMS_MAX 4
typedef struct lmc_chunk_layout {
    uint32_t dim_count;
    int64_t dims[LMC_LAYOUT_DIMS_MAX];
    char dtype[24]; /* torch name without prefix */
    uint32_t item_size;
    uint64_t size;  /* bytes: product(dims) * item_size */
    int64_t window; /* chunks; < 1 = full attention */
    bool extra;     /* connector-private (D42): stored, but not looked up or retrieved */
} lmc_chunk_layout;

typedef enum lmc_transfer_kind {
    LMC_TRANSFER_ENGINE_DRIVEN,
    LMC_TRANSFER_LMCACHE_DRIVEN
} lmc_transfer_kind;

typedef struct lmc_instance_config {
    int64_t instance_id;
    lmc_transfer_kind kind;
    lmc_slice model_name;
    int64_t world_size, block_size;
    bool use_mla;
    const lmc_chunk_layout *groups; /* one per object group */
    size_t group_count;
    bool by_copy; /* cannot use the pool: pickle form from the start */
} lmc_instance_config;

/* LMC_OK: registered or, for a live id, refreshed (*created tells). */
lmc_status lmc_cache_register(lmc_cache *cache, const lmc_instance_config *config,
                              uint64_t connection, bool *created, lmc_error *error);
/* Closes the instance's record: discards its reservations, releases its reads, drops its
 * layout. */
bool lmc_cache_unregister(lmc_cache *cache, int64_t instance_id);
/* Asks only; nothing is refreshed. */
bool lmc_cache_has_instance(lmc_cache *cache, int64_t instance_id);
/* A ping: refreshes and marks ping-proven. False: unknown id. */
bool lmc_cache_touch_instance(lmc_cache *cache, int64_t instance_id, uint64_t connection);
/*
 * Closes the instances silent for longer than the timeout that applies: the grace when they
 * never pinged or their connection is open (D46). `found` is called for each, without locks; a
 * timeout of 0 reaps nothing. Logging it is the caller's.
 */
void lmc_cache_reap(lmc_cache *cache, lmc_transfer_kind kind, int64_t reap_timeout_ns,
                    int64_t grace_ns, void (*found)(void *arg, int64_t instance_id), void *arg);
size_t lmc_cache_instance_count(lmc_cache *cache, lmc_transfer_kind kind);

typedef struct lmc_instance_report {
    int64_t instance_id;
    lmc_slice model_name;
    int64_t world_size, block_size;
    bool use_mla;
} lmc_instance_report;
void lmc_cache_each_instance(lmc_cache *cache, lmc_transfer_kind kind,
                             void (*visit)(void *arg, const lmc_instance_report *row),
                             void *arg);

/*
 * The transport tells which connections closed (D46). Where a function takes a connection, 0
 * means that the caller does not know it: nothing is changed about the one known.
 */
void lmc_cache_connection_closed(lmc_cache *cache, uint64_t connection);

/* ---- transfers (worker_id present in the key) ---- */

/* One object of a transfer, in the order the client sees: group-major, then chunk. */
typedef struct lmc_slot {
    lmc_object_ref object; /* gone at any time once it is remembered: by TTL, by unregister */
    uint64_t offset;       /* of its bytes, from the start of the pool */
    int64_t
        chunk_index; /* position in the group's range + full chunk counts of earlier groups */
    int64_t list_index; /* position among the chunks that are not masked, over all groups */
    uint32_t group;
} lmc_slot;

typedef struct lmc_transfer {
    lmc_slot *slots; /* in the caller's arena */
    size_t slot_count;
    size_t chunk_count;             /* full chunks in the range, per group */
    const lmc_chunk_layout *groups; /* copies in the caller's arena */
    size_t group_count;
    bool by_copy;    /* answer this instance in pickle form */
    bool remembered; /* the instance's record has the objects; nothing to finish */
} lmc_transfer;

/*
 * Reserves the missing objects of the range and remembers them under (instance, key). LMC_OK
 * also when nothing was reserved. LMC_NOT_FOUND: unknown instance. LMC_INVALID: D1 causes. For
 * an instance that is answered in pickle form (transfer->by_copy) nothing is reserved.
 */
lmc_status lmc_cache_prepare_store(lmc_cache *cache, const lmc_cache_key *key,
                                   int64_t instance_id, uint64_t connection, lmc_arena *arena,
                                   lmc_transfer *transfer, lmc_error *error);
/* What stores made readable; starts with zeros. */
typedef struct lmc_stored {
    size_t chunks;   /* objects of the group that has the most */
    size_t in_group; /* of `group`, the latest */
    uint32_t group;
} lmc_stored;

/*
 * Takes the remembered objects and makes them readable. LMC_NOT_FOUND: nothing remembered. What
 * was cleared meanwhile is dropped, and that is LMC_OK (D7). *chunks (may be NULL) is how many
 * chunks became readable.
 */
lmc_status lmc_cache_commit_store(lmc_cache *cache, const lmc_cache_key *key,
                                  int64_t instance_id, uint64_t connection, size_t *chunks,
                                  lmc_error *error);
/*
 * For a store whose bytes come with the call: takes over what prepare_store remembered for the
 * key, reserves the rest of the range and returns the slots to fill, all chunks of the range
 * that need bytes. The instance is answered in pickle form from now on. When this is LMC_OK the
 * caller must call lmc_cache_finish_copy_in exactly once, with the slots that were filled
 * marked (filled NULL: all of them); the others are dropped. *stored (may be NULL) counts on.
 */
lmc_status lmc_cache_begin_copy_in(lmc_cache *cache, const lmc_cache_key *key,
                                   int64_t instance_id, uint64_t connection, lmc_arena *arena,
                                   lmc_transfer *transfer, lmc_error *error);
void lmc_cache_finish_copy_in(lmc_cache *cache, const lmc_transfer *transfer,
                              const bool *filled, lmc_stored *stored);

/*
 * Every unmasked chunk the range needs must be resident; moves one share per object from the
 * session named in the key to the transfer, or takes a fresh one. `remember`: keep the transfer
 * under (instance, key) until commit_retrieve, unless the instance is answered in pickle form.
 * When it is not kept (transfer->remembered is false) the caller releases it with
 * lmc_cache_finish_copy_out, which is harmless otherwise. LMC_NOT_FOUND: unknown instance or
 * something is missing. After any failure one share per key of the range that the session held
 * is released, once per instance and range.
 */
lmc_status lmc_cache_prepare_retrieve(lmc_cache *cache, const lmc_cache_key *key,
                                      int64_t instance_id, uint64_t connection, bool remember,
                                      lmc_arena *arena, lmc_transfer *transfer,
                                      lmc_error *error);
void lmc_cache_finish_copy_out(lmc_cache *cache, const lmc_transfer *transfer);
/*
 * For a retrieve that fails for a reason the cache does not see (D44): releases this worker's
 * shares on the range, as a failed prepare_retrieve does.
 */
void lmc_cache_fail_retrieve(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id);
void lmc_cache_commit_retrieve(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id,
                               uint64_t connection);

/* ---- looking in from outside (cache_views.c) ---- */

/* Hashes whole chunks of `count` tokens, at most `room`; returns how many. `previous` is the
 * hash of the chunk before them, NULL at the start of a prompt. */
size_t lmc_cache_hash(const lmc_cache *cache, const uint8_t *previous, const uint32_t *tokens,
                      size_t count, uint8_t *hashes, size_t room);
/* Copies the hashes that a session knows from chunk `first` on, at most `room`; returns how
 * many there are. Not a use of the session. */
size_t lmc_cache_session_hashes(lmc_cache *cache, lmc_slice request_id, size_t first,
                                uint8_t *hashes, size_t room);
/* LMC_NOT_FOUND: no such model, world size or group is registered. */
lmc_status lmc_cache_layout(lmc_cache *cache, lmc_slice model_name, int64_t world_size,
                            uint32_t group, lmc_chunk_layout *found);
/* Takes a read share of one object, to be given back with let_go. LMC_NOT_FOUND: not resident;
 * LMC_INVALID: no such key can exist. */
lmc_status lmc_cache_hold(lmc_cache *cache, const lmc_object_key *key, lmc_object_ref *ref);
void lmc_cache_let_go(lmc_cache *cache, lmc_object_ref ref);

#endif
