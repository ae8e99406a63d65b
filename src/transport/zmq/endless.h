/*
 * endless.h: messages that grow and do not end.
 *
 * libzmq hands over whole messages and bounds the size of a frame, not how many frames a
 * message has: a peer that sends one after the other makes the server keep them all, for each
 * byte of the wire some dozens of memory. Nobody sees such a message before its end. So, while
 * the process's memory grows by more than arrives and than is accounted for, the connections
 * are shut down from which much has come and no message; and at any growth, those from which
 * more has come than the longest message has, and all if there are many of these.
 *
 * Guarded by the monitor's lock.
 */
#ifndef LMC_TRANSPORT_ZMQ_ENDLESS_H
#define LMC_TRANSPORT_ZMQ_ENDLESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one connection; all 0 when it begins. */
typedef struct lmc_zmq_progress {
    uint64_t bytes_then; /* received when the last message was noticed */
    uint64_t unended;    /* received since */
    uint32_t messages;
    bool large;   /* much has come since */
    bool stalled; /* and already had at the look before */
} lmc_zmq_progress;

/* Of the process. */
typedef struct lmc_zmq_growth {
    size_t resident, in_use; /* bytes that are explained */
} lmc_zmq_growth;

/* Starts anew from what is kept now. */
void lmc_zmq_growth_accept(lmc_zmq_growth *growth);
/* True when there is so much more that somebody should look at the connections. */
bool lmc_zmq_growth_is_large(lmc_zmq_growth *growth);
/* True when `explained` bytes do not explain it. */
bool lmc_zmq_growth_is_strange(const lmc_zmq_growth *growth, size_t explained);

/* Notes how far a connection is; the bytes that have come since its last message. */
uint64_t lmc_zmq_progress_look(lmc_zmq_progress *progress, int fd, uint32_t messages);

#endif
