/*
 * greeting.h: who is shown out because nothing came that begins a ZMTP conversation.
 *
 * libzmq has an interval for the whole handshake, but counts it against itself as well: when
 * its thread is late, as after a restart that thousands of clients notice, it closes
 * connections whose bytes lie there unread, and a client loses the request it had sent behind
 * them. So that interval is long, and here is the short one for strangers: what they sent was
 * read, and libzmq had no more to answer than its own greeting.
 *
 * Guarded by the monitor's lock.
 */
#ifndef LMC_TRANSPORT_ZMQ_GREETING_H
#define LMC_TRANSPORT_ZMQ_GREETING_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct lmc_zmq_greeting {
    int64_t since_ns;         /* when it was accepted; 0: no question any more */
    struct sockaddr_in6 peer; /* a descriptor may get a new owner at any time */
} lmc_zmq_greeting;

void lmc_zmq_greeting_begin(lmc_zmq_greeting *greeting, int fd, int64_t now);
/* Shuts the connection down when it is a stranger's. False: cannot be told yet. */
bool lmc_zmq_greeting_check(lmc_zmq_greeting *greeting, int fd);

#endif
