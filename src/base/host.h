/*
 * host.h: how the option values that name a host are read. Any thread.
 */
#ifndef LMC_BASE_HOST_H
#define LMC_BASE_HOST_H

#include <stddef.h>

/* Without the brackets of "[::1]"; a cut is harmless, because the name then does not resolve.
 */
void lmc_host_bare(const char *host, char *out, size_t size);
/* What to look up or bind: localhost is the IPv4 loopback also where no resolver knows it. */
const char *lmc_host_address(const char *bare);

#endif
