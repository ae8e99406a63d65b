#include "transport/zmq/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

lmc_status lmc_zmq_peers_init(lmc_zmq_peers *peers, lmc_error *error) {
    *peers = (lmc_zmq_peers){.by_id = lmc_hashmap_create()};
    if (peers->by_id == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the table of connections");
    return LMC_OK;
}

void lmc_zmq_peers_fini(lmc_zmq_peers *peers) {
    if (peers->by_id == NULL)
        return;
    size_t at = 0;
    lmc_slice key;
    void *peer;
    while (lmc_hashmap_next(peers->by_id, &at, &key, &peer))
        lmc_zmq_peer_drop(peer);
    lmc_hashmap_destroy(peers->by_id);
    *peers = (lmc_zmq_peers){0};
}

lmc_zmq_peer *lmc_zmq_peers_find(lmc_zmq_peers *peers, const void *id, size_t size) {
    lmc_zmq_peer *latest = peers->latest;
    if (latest != NULL && latest->id_size == size && memcmp(latest->id, id, size) == 0)
        return latest;
    lmc_zmq_peer *peer = lmc_hashmap_get(peers->by_id, lmc_slice_of(id, size));
    if (peer != NULL)
        peers->latest = peer;
    return peer;
}

lmc_zmq_peer *lmc_zmq_peers_add(lmc_zmq_peers *peers, const void *id, size_t size, int fd) {
    lmc_zmq_peer *peer = calloc(1, sizeof *peer + size);
    if (peer == NULL)
        return NULL;
    lmc_peer_init(&peer->peer);
    peer->fd = fd;
    peer->id_size = size;
    memcpy(peer->id, id, size);
    atomic_store_explicit(&peer->references, 1, memory_order_relaxed);
    if (lmc_hashmap_put(peers->by_id, lmc_slice_of(id, size), peer, NULL) != LMC_OK) {
        free(peer);
        return NULL;
    }
    peers->latest = peer;
    return peer;
}

void lmc_zmq_peers_remove(lmc_zmq_peers *peers, lmc_zmq_peer *peer) {
    lmc_slice id = lmc_slice_of(peer->id, peer->id_size);
    if (peers->latest == peer)
        peers->latest = NULL;
    if (lmc_hashmap_get(peers->by_id, id) == peer)
        lmc_hashmap_remove(peers->by_id, id);
}

void lmc_zmq_peer_keep(lmc_zmq_peer *peer) {
    atomic_fetch_add_explicit(&peer->references, 1, memory_order_relaxed);
}

void lmc_zmq_peer_drop(lmc_zmq_peer *peer) {
    if (atomic_fetch_sub_explicit(&peer->references, 1, memory_order_acq_rel) == 1)
        free(peer);
}
