/*
 * pool_segment.h: named segments in /dev/shm: who made them, who owns them, which are stale.
 *
 * Ownership is a lock on the file that ends with the process, however it ends. Only pool.c uses
 * this; any thread.
 */
#ifndef LMC_CACHE_POOL_SEGMENT_H
#define LMC_CACHE_POOL_SEGMENT_H

#include <lmcached/types.h>

#define LMC_SEGMENT_DIRECTORY "/dev/shm"

/*
 * Creates and locks the segment `name` of `size` bytes, the last page being the mark's. An
 * existing one is replaced unless its owner lives: LMC_BUSY, the error names it.
 */
lmc_status lmc_segment_create(const char *name, uint64_t size, uint32_t mode, int *fd,
                              lmc_error *error);
/* Unlinks the name if it still leads to fd. */
void lmc_segment_unlink(const char *name, int fd);
/* Unlinks marked segments without an owner; returns how many. */
unsigned lmc_segment_sweep(void);

#endif
