#include "cache/connections.h"

#include <stdlib.h>

void lmc_closed_add(lmc_closed_ring *ring, uint64_t id) {
    ring->ids[ring->next] = id;
    ring->next = (ring->next + 1) % LMC_CLOSED_MAX;
}

bool lmc_closed_has(const lmc_closed_ring *ring, uint64_t id) {
    bool found = id == 0;
    for (size_t i = 0; i < LMC_CLOSED_MAX; i++)
        found |= ring->ids[i] == id;
    return found;
}

lmc_status lmc_connections_init(lmc_connections *connections, int64_t lease_ns) {
    *connections = (lmc_connections){.lease_ns = lease_ns};
    lmc_link_init(&connections->due);
    connections->open = lmc_hashmap_create();
    return connections->open != NULL ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_connections_fini(lmc_connections *connections) {
    lmc_hashmap_destroy(connections->open);
    connections->open = NULL;
}

static void begin_lease(lmc_connections *connections, lmc_connection *connection, int64_t now) {
    connection->due_ns = now + connections->lease_ns;
    lmc_link_append(&connections->due, &connection->due);
}

static lmc_connection *create(lmc_connections *connections, uint64_t id, int64_t now) {
    lmc_connection *connection = malloc(sizeof(*connection));
    if (connection == NULL)
        return NULL;
    *connection = (lmc_connection){.id = id};
    lmc_link_init(&connection->due);
    lmc_link_init(&connection->members);
    if (lmc_closed_has(&connections->closed, id)) {
        begin_lease(connections, connection, now);
    } else if (lmc_hashmap_put_id(connections->open, id, connection, NULL) != LMC_OK) {
        free(connection);
        return NULL;
    }
    return connection;
}

lmc_connection *lmc_connection_join(lmc_connections *connections, uint64_t id, lmc_link *member,
                                    int64_t now) {
    if (connections->lease_ns <= 0 || id == 0)
        return NULL;
    lmc_connection *connection = lmc_hashmap_get_id(connections->open, id);
    if (connection == NULL)
        connection = create(connections, id, now);
    if (connection != NULL)
        lmc_link_append(&connection->members, member);
    return connection;
}

void lmc_connection_leave(lmc_connections *connections, lmc_connection *connection,
                          lmc_link *member) {
    lmc_link_remove(member);
    if (!lmc_link_is_alone(&connection->members))
        return;
    if (connection->due_ns == 0)
        lmc_hashmap_remove_id(connections->open, connection->id);
    lmc_link_remove(&connection->due);
    free(connection);
}

void lmc_connection_close(lmc_connections *connections, uint64_t id, int64_t now) {
    if (connections->lease_ns <= 0)
        return;
    lmc_closed_add(&connections->closed, id);
    lmc_connection *connection = lmc_hashmap_remove_id(connections->open, id);
    if (connection != NULL)
        begin_lease(connections, connection, now);
}

lmc_connection *lmc_connection_due(lmc_connections *connections, int64_t now) {
    lmc_link *first = lmc_link_first(&connections->due);
    if (first == NULL)
        return NULL;
    lmc_connection *connection = LMC_OWNER(first, lmc_connection, due);
    return connection->due_ns <= now ? connection : NULL;
}
