/*
 * limits.h: what the operating system lets this process have.
 *
 * Main thread, once, before anything is opened.
 */
#ifndef LMC_SERVER_LIMITS_H
#define LMC_SERVER_LIMITS_H

#include <lmcached/types.h>

#define LMC_DESCRIPTORS_LEAST 64 /* the server's own, and some connections */

/*
 * Raises the limit of open descriptors to what is allowed, because every client needs one.
 * LMC_FAILED: too few for the server itself (the request transport would abort).
 */
lmc_status lmc_descriptor_limit_raise(lmc_error *error);

#endif
