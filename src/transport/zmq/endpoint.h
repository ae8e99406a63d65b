/*
 * endpoint.h: from --host and --port to a bound socket.
 *
 * libzmq does not bind host names, so they are resolved here, IPv4 first. Main thread.
 */
#ifndef LMC_TRANSPORT_ZMQ_ENDPOINT_H
#define LMC_TRANSPORT_ZMQ_ENDPOINT_H

#include <lmcached/types.h>

/*
 * Binds `socket` to tcp://host:port; the host is a name, a number (IPv6 with or without
 * brackets), an interface or `*`, and port 0 lets the system choose. `bound` receives the
 * endpoint with numbers, an IPv6 address in brackets. A port that another server has is a
 * failure.
 */
lmc_status lmc_zmq_bind(void *socket, const char *host, uint16_t port, char *bound, size_t size,
                        lmc_error *error);

#endif
