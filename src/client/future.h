/*
 * future.h: one request of a client and, later, its reply. Inside the client library only.
 *
 * Owned by two parties: the caller until lmc_future_free(), the client's thread while the
 * request is queued or in flight. `holders` counts them; the last one frees. Everything else is
 * guarded by the link's lock.
 */
#ifndef LMC_CLIENT_FUTURE_H
#define LMC_CLIENT_FUTURE_H

#include <lmcached/client.h>
#include <zmq.h>

#include "base/arena.h"
#include "client/link.h"
#include "rpc/rpc.h"

#define LMC_CLIENT_FRAMES_MAX 16

typedef enum lmc_future_state {
    LMC_FUTURE_WAITING, /* queued or in flight */
    LMC_FUTURE_DONE,
} lmc_future_state;

struct lmc_future {
    lmc_link *link;
    const lmc_operation_def *operation;
    struct lmc_future *next; /* in the link's outgoing list */
    uint64_t uid;
    uint32_t holders;
    lmc_future_state state;
    lmc_status status;
    bool has_result;
    bool decoded;
    lmc_arena arena; /* request frames, then the decoded reply */
    lmc_slice frames[LMC_CLIENT_FRAMES_MAX];
    size_t frame_count;
    size_t frames_sent; /* of uid, operation, payload frames */
    uint8_t uid_bytes[9];
    uint8_t operation_bytes[80];
    zmq_msg_t result;
    void *reply;
    lmc_cond changed;
};

/* Gives up one holder; frees with the last. Call without the link's lock. */
void lmc_future_drop(lmc_future *future);

#endif
