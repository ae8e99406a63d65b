/*
 * copy_crew.h: threads that help with large copies.
 *
 * One thread moves a fraction of what the memory of a server can; a chunk of 32 MiB that one
 * client waits for is copied by several. Who copies takes piece after piece himself and waits
 * only for pieces that a helper has begun, so that busy processors cost nothing but the offer.
 *
 * One crew per process. start and stop: the main thread; share: any thread, without locks of a
 * higher rank, also before start and after stop (then it does all the work itself).
 */
#ifndef LMC_BASE_COPY_CREW_H
#define LMC_BASE_COPY_CREW_H

#include <lmcached/types.h>

/* Helpers for this machine: one for every two processors, at most 3; 0 on a single one. */
unsigned lmc_copy_crew_size(void);
/* Names its threads lmc-copy-N. On failure none is left. */
lmc_status lmc_copy_crew_start(unsigned helpers, lmc_error *error);
void lmc_copy_crew_stop(void); /* ends the helpers after what they have begun */

unsigned lmc_copy_crew_idle(void); /* helpers that wait for work */

/* Calls copy() for pieces that make up the whole, by this thread and idle helpers; returns when
 * all have been copied. */
void lmc_copy_crew_share(void *to, const void *from, size_t size,
                         void (*copy)(void *to, const void *from, size_t size));

#endif
