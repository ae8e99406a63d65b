/*
 * link.h: the connection of one client: its socket, its thread, what is queued and in flight.
 *
 * The thread owns the socket. Others append futures to `outgoing` and ring `bell`. Lives until
 * the client and all its futures are gone (`holders`).
 */
#ifndef LMC_CLIENT_LINK_H
#define LMC_CLIENT_LINK_H

#include <lmcached/client.h>

#include "base/hashmap.h"
#include "base/lock.h"
#include "base/thread.h"

typedef struct lmc_link {
    void *context;
    void *socket;
    int bell; /* eventfd */
    lmc_thread thread;
    lmc_lock lock; /* guards everything below */
    lmc_future *outgoing, **outgoing_end;
    lmc_hashmap *in_flight; /* uid -> future */
    uint64_t next_uid;
    uint32_t holders;
    bool closing;
} lmc_link;

lmc_status lmc_link_create(const char *url, lmc_link **link, lmc_error *error);
/* Ends thread and socket; every open future becomes LMC_CLOSED. */
void lmc_link_close(lmc_link *link);
void lmc_link_drop(lmc_link *link); /* gives up one holder */

/* Takes over one holder of the future; false: closing, or out of memory. */
bool lmc_link_send(lmc_link *link, lmc_future *future);
/* The future's owner no longer wants the answer. */
void lmc_link_forget(lmc_link *link, lmc_future *future);

#endif
