/*
 * instances.h: one record per registered engine instance. It owns everything the instance has
 * here: its registration in the layout registry, the stores it prepared and has not committed,
 * the retrieves it is still copying. Unregister, reaper and destroy close it through one
 * function.
 *
 * A pending transfer ends once: by its commit, by its TTL (write for stores, read for
 * retrieves), with its record, or when the instance's connection has been closed for the
 * disconnect lease and nothing named it meanwhile (D46). Stores are discarded, retrieves give
 * their shares back.
 *
 * One lock (LMC_RANK_INSTANCES); L1 and callbacks are called without it. Any thread.
 */
#ifndef LMC_CACHE_INSTANCES_H
#define LMC_CACHE_INSTANCES_H

#include "cache/cache.h"
#include "cache/connections.h"
#include "cache/layouts.h"
#include "cache/ledger.h"
#include "cache/list.h"

#define LMC_INSTANCES_MAX 16384 /* registered at a time */
#define LMC_PENDING_MAX 16384   /* pending transfers of one instance */
#define LMC_PENDING_BUCKETS 64

typedef enum lmc_pending_kind { LMC_PENDING_STORE, LMC_PENDING_RETRIEVE } lmc_pending_kind;

/* Identity of a pending transfer beside its instance (D74). */
typedef struct lmc_pending_id {
    lmc_slice model_name, cache_salt, request_id;
    int64_t world_size, worker_id, start, end;
    size_t token_count;
    uint64_t mark; /* of all token ids; 0 = they were only counted, equals any */
} lmc_pending_id;

typedef struct lmc_pending {
    lmc_link of_instance; /* in its bucket, oldest first */
    lmc_link expiring;
    struct lmc_pending *next;
    struct lmc_instance *instance;
    lmc_pending_kind kind;
    int64_t expiry_ns;
    lmc_pending_id id; /* texts lie behind */
    size_t count;
    lmc_object_ref *refs;
    lmc_place *places;
} lmc_pending;

/* Copies everything. The shares or reservations become the pending transfer's. */
lmc_pending *lmc_pending_create(lmc_pending_kind kind, const lmc_pending_id *id,
                                const lmc_object_ref *refs, const lmc_place *places,
                                size_t count);
/* Counts objects of one group that became readable. */
void lmc_stored_add(lmc_stored *stored, uint32_t group, size_t count);

/* Discards or releases the objects and frees; accepts NULL. Takes one, not its next. */
void lmc_pending_abandon(lmc_l1 *l1, lmc_pending *pending);
/* Commits a store or ends a retrieve, and frees. Returns the chunks a store made readable. */
size_t lmc_pending_complete(lmc_l1 *l1, lmc_pending *pending);

typedef struct lmc_instances_config {
    int64_t read_ttl_ns, write_ttl_ns, disconnect_lease_ns;
} lmc_instances_config;

typedef struct lmc_instances {
    lmc_lock lock;
    lmc_instances_config config;
    const lmc_clock *clock;
    lmc_l1 *l1;
    lmc_layouts *layouts;
    lmc_hashmap *by_id;
    lmc_link stores, retrieves; /* pending, in the order of expiry_ns */
    lmc_closed_ring closed;
    uint64_t last_serial;
    size_t orphans; /* instances whose disconnect lease runs */
} lmc_instances;

lmc_status lmc_instances_init(lmc_instances *instances, const lmc_instances_config *config,
                              const lmc_clock *clock, lmc_l1 *l1, lmc_layouts *layouts);
void lmc_instances_fini(lmc_instances *instances);

lmc_status lmc_instances_register(lmc_instances *instances, const lmc_instance_config *config,
                                  uint64_t connection, bool *created, lmc_error *error);
bool lmc_instances_unregister(lmc_instances *instances, int64_t id);
bool lmc_instances_have(lmc_instances *instances, int64_t id);
bool lmc_instances_ping(lmc_instances *instances, int64_t id, uint64_t connection);
void lmc_instances_reap(lmc_instances *instances, lmc_transfer_kind kind, int64_t timeout_ns,
                        int64_t grace_ns, void (*found)(void *arg, int64_t id), void *arg);
size_t lmc_instances_count(lmc_instances *instances, lmc_transfer_kind kind);
void lmc_instances_each(lmc_instances *instances, lmc_transfer_kind kind,
                        void (*visit)(void *arg, const lmc_instance_report *row), void *arg);
void lmc_instances_connection_closed(lmc_instances *instances, uint64_t connection);
void lmc_instances_tick(lmc_instances *instances);

/* What a transfer needs to know of its instance. */
typedef struct lmc_instance_view {
    lmc_layout *layout; /* kept for the caller */
    uint64_t serial;    /* of the record */
    bool by_copy;
} lmc_instance_view;
/* Refreshes the instance. LMC_NOT_FOUND: not registered. */
lmc_status lmc_instances_enter(lmc_instances *instances, int64_t id, uint64_t connection,
                               lmc_instance_view *view);
void lmc_instances_set_by_copy(lmc_instances *instances, int64_t id);
/* Takes the transfer over. LMC_NOT_FOUND: the record is closed; LMC_BUSY: it has too many. */
lmc_status lmc_instances_remember(lmc_instances *instances, int64_t id, uint64_t serial,
                                  lmc_pending *pending);
/*
 * Takes what was remembered: for a store everything under this identity, for a retrieve the
 * oldest; when there is none, the oldest that differs in request_id only. Linked through next;
 * NULL: none.
 */
lmc_pending *lmc_instances_take(lmc_instances *instances, int64_t id, uint64_t connection,
                                lmc_pending_kind kind, const lmc_pending_id *pending_id);

#endif
