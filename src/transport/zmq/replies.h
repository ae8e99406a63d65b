/*
 * replies.h: the result frames of replies, and what they may keep.
 *
 * A frame is made once, in its exact size. Small ones are libzmq's own; larger ones are ours
 * and counted, per peer and for all, until libzmq has sent or dropped them: a peer that does
 * not read is refused more. The buffers of the largest are kept for reuse within a bound,
 * because a fresh mapping costs more than the copy into it. Any thread.
 */
#ifndef LMC_TRANSPORT_ZMQ_REPLIES_H
#define LMC_TRANSPORT_ZMQ_REPLIES_H

#include "transport/zmq/peers.h"

typedef struct lmc_zmq_buffer lmc_zmq_buffer;

typedef struct lmc_zmq_replies {
    size_t peer_max, total_max, reuse_max; /* bytes */
    _Atomic size_t unread;                 /* bytes of counted frames */
    _Atomic size_t gone;                   /* bytes of those that were, since the start */
    lmc_lock lock;                         /* guards the rest */
    lmc_zmq_buffer *kept;                  /* latest first */
    size_t kept_bytes;
    bool used_since_tidy;
    void (*much_gone)(void *arg); /* NULL: nobody minds */
    void *arg;
} lmc_zmq_replies;

void lmc_zmq_replies_init(lmc_zmq_replies *replies);
void lmc_zmq_replies_fini(lmc_zmq_replies *replies); /* after every frame was closed */

/*
 * Calls much_gone whenever libzmq has let go of another 8 MiB, under a lock and on a thread of
 * libzmq's: it must not wait. Once NULL was given it is not called any more.
 */
void lmc_zmq_replies_notify(lmc_zmq_replies *replies, void (*much_gone)(void *arg), void *arg);

/*
 * Makes `frame` (initialised, empty) a frame of `size` bytes to be written at *data. LMC_BUSY:
 * the peer, or all together, have too much unread. LMC_NO_MEMORY.
 */
lmc_status lmc_zmq_replies_frame(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size,
                                 zmq_msg_t *frame, void **data);

/*
 * Makes `frame` one that counts `weight` (less than 128 KiB) until libzmq has let go of it; its
 * bytes stay. LMC_BUSY: too much is unread, but a peer with nothing unread always has room.
 */
lmc_status lmc_zmq_replies_mark(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t weight,
                                zmq_msg_t *frame);

/*
 * Before frames go to libzmq. It orders what was written here before what happens when it lets
 * go of them, but no tool that checks our ordering sees inside it.
 */
void lmc_zmq_replies_give(void);

/* Frees kept buffers unless some were used since the last call; true while some are kept. */
bool lmc_zmq_replies_tidy(lmc_zmq_replies *replies);
size_t lmc_zmq_replies_kept(lmc_zmq_replies *replies);

#endif
