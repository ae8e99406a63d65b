/*
 * connections.h: which sessions a connection looked up for, and when a closed one is given up
 * (D46).
 *
 * A connection is known while sessions belong to it. Once closed it is due after the lease;
 * what still belongs to it then is released. A request that was on its way when its connection
 * closed may name it afterwards: the last closed ids are remembered. Guarded by the owner's
 * lock.
 */
#ifndef LMC_CACHE_CONNECTIONS_H
#define LMC_CACHE_CONNECTIONS_H

#include "base/hashmap.h"
#include "cache/list.h"

#define LMC_CLOSED_MAX 256 /* closed connections remembered */

typedef struct lmc_closed_ring {
    uint64_t ids[LMC_CLOSED_MAX];
    size_t next;
} lmc_closed_ring;

void lmc_closed_add(lmc_closed_ring *ring, uint64_t id);
bool lmc_closed_has(const lmc_closed_ring *ring, uint64_t id); /* true for 0: nobody's */

typedef struct lmc_connection {
    lmc_link due;     /* in the order of due_ns, once closed */
    lmc_link members; /* what belongs to it */
    uint64_t id;
    int64_t due_ns; /* 0: open */
} lmc_connection;

typedef struct lmc_connections {
    int64_t lease_ns; /* 0: nothing is tracked */
    lmc_hashmap *open;
    lmc_link due;
    lmc_closed_ring closed;
} lmc_connections;

lmc_status lmc_connections_init(lmc_connections *connections, int64_t lease_ns);
void lmc_connections_fini(lmc_connections *connections); /* nothing may belong any more */

/* Links `member` to the connection; NULL when it is not tracked (lease off, id 0, no memory).
 */
lmc_connection *lmc_connection_join(lmc_connections *connections, uint64_t id, lmc_link *member,
                                    int64_t now);
/* Unlinks; a connection without members is forgotten. */
void lmc_connection_leave(lmc_connections *connections, lmc_connection *connection,
                          lmc_link *member);
void lmc_connection_close(lmc_connections *connections, uint64_t id, int64_t now);
/* The first closed connection that is due, NULL: none. It goes when its last member leaves. */
lmc_connection *lmc_connection_due(lmc_connections *connections, int64_t now);

#endif
