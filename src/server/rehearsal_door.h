/*
 * rehearsal_door.h: calls of a rehearsal: a transport without a wire. Private to this room.
 *
 * The thread that rehearses is the request loop. An exchange is finished once; a handler that
 * completes it later, or twice, finds it still there.
 */
#ifndef LMC_SERVER_REHEARSAL_DOOR_H
#define LMC_SERVER_REHEARSAL_DOOR_H

#include "dispatch/dispatcher.h"
#include "server/rehearsal.h"

typedef struct lmc_rehearsed_exchange {
    lmc_exchange x; /* first */
    lmc_peer peer;
    const void *request; /* struct to be decoded as it is */
    lmc_status encoded;  /* of the last encode; LMC_TIMEOUT: none */
    bool negative;
    uint64_t bytes;
    lmc_buffer text;
    atomic_bool finished, posted;
    struct lmc_rehearsed_exchange *following;
} lmc_rehearsed_exchange;

lmc_rehearsed_exchange *
lmc_rehearsed_exchange_create(lmc_dispatcher *dispatcher,
                              const void *request); /* NULL: no memory */
void lmc_rehearsed_exchange_destroy(lmc_rehearsed_exchange *exchange);
/* Runs it if a handler on another thread has sent it to this one. */
bool lmc_rehearsed_exchange_turn(lmc_rehearsed_exchange *exchange);
void lmc_rehearsed_exchange_result(lmc_rehearsed_exchange *exchange,
                                   lmc_rehearsed_call *result);

#endif
