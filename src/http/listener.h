/*
 * listener.h: the listening socket: resolved, bound early, listening late (D3).
 *
 * Any thread; blocks in name resolution.
 */
#ifndef LMC_HTTP_LISTENER_H
#define LMC_HTTP_LISTENER_H

#include <lmcached/types.h>

/*
 * Binds host:port without listening. Names resolve to IPv4 first (D32). *port becomes the port
 * that was bound.
 */
lmc_status lmc_http_listener_bind(const char *host, uint16_t *port, int *fd, lmc_error *error);
lmc_status lmc_http_listener_listen(int fd, const char *host, uint16_t port, lmc_error *error);
/* Can only this machine reach the socket? */
bool lmc_http_listener_is_loopback(int fd);
/* "host:port", IPv6 literals in brackets. */
void lmc_http_listener_name(const char *host, uint16_t port, char *out, size_t size);

#endif
