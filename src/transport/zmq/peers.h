/*
 * peers.h: the connections that have sent something, by ROUTER identity.
 *
 * A peer is one connection: identity and file descriptor together, since a client that chose
 * its own identity keeps it when it reconnects. The table belongs to the request loop. A peer's
 * memory is shared: the table has one reference, each reply frame that libzmq still holds
 * another.
 */
#ifndef LMC_TRANSPORT_ZMQ_PEERS_H
#define LMC_TRANSPORT_ZMQ_PEERS_H

#include "base/hashmap.h"
#include "dispatch/exchange.h"
#include "transport/zmq/wake.h"

typedef struct lmc_zmq_peer {
    lmc_zmq_errand errand; /* first: CLOSED on its way to the loop, then to the monitor */
    lmc_peer peer;         /* what dispatch knows of it */
    int fd;                /* -1: none */
    bool closed;           /* its connection is gone */
    uint32_t calls;        /* requests not ended yet */
    _Atomic uint32_t references;
    _Atomic uint32_t messages; /* that have come; written by the loop alone */
    size_t unmarked;           /* bytes of replies since a counted frame (loop) */
    _Atomic size_t unread;     /* bytes of reply frames that libzmq holds */
    size_t id_size;
    uint8_t id[];
} lmc_zmq_peer;

typedef struct lmc_zmq_peers {
    lmc_hashmap *by_id;
    lmc_zmq_peer *latest; /* of the message before; NULL: none */
} lmc_zmq_peers;

lmc_status lmc_zmq_peers_init(lmc_zmq_peers *peers, lmc_error *error);
void lmc_zmq_peers_fini(lmc_zmq_peers *peers);

/* The peer with this identity; NULL: not known. */
lmc_zmq_peer *lmc_zmq_peers_find(lmc_zmq_peers *peers, const void *id, size_t size);
/* A new peer, put in place of one with the same identity. NULL: no memory. */
lmc_zmq_peer *lmc_zmq_peers_add(lmc_zmq_peers *peers, const void *id, size_t size, int fd);
/* Takes the peer out of the table, if it is the one there; the caller has the reference. */
void lmc_zmq_peers_remove(lmc_zmq_peers *peers, lmc_zmq_peer *peer);

/* True when libzmq chose the identity: then it means one connection and is not used again. */
static inline bool lmc_zmq_id_is_generated(const void *id, size_t size) {
    return size == 5 && *(const uint8_t *)id == 0;
}

/* Any thread. */
void lmc_zmq_peer_keep(lmc_zmq_peer *peer);
void lmc_zmq_peer_drop(lmc_zmq_peer *peer);

#endif
