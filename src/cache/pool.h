/*
 * pool.h: the memory of L1: one mapping of its whole capacity, without pages until supplied.
 *
 * With a name it is a POSIX shared memory segment that clients map (zmq-wire.md 9.1): the file
 * is one page longer than the capacity, and that page carries a mark that tells which program
 * made it. The creator holds an advisory lock (flock) on the file for the life of the process,
 * so a segment is stale exactly when it has our mark and its lock is free. Without a name the
 * memory is a memfd, or plain anonymous memory where there is none, or huge pages.
 *
 * lmc_pool_supply() is how pages come: it fails where touching would kill the process.
 *
 * Owned by L1. supply may be called from several threads for different ranges.
 */
#ifndef LMC_CACHE_POOL_H
#define LMC_CACHE_POOL_H

#include <lmcached/types.h>

#define LMC_POOL_PREFIX "lmcache_l1_pool_"
#define LMC_POOL_NAME_MAX 250

typedef struct lmc_pool_config {
    uint64_t capacity;
    const char *shm_name; /* as configured; "" or NULL = private */
    uint32_t shm_mode;
    bool use_hugepages;
} lmc_pool_config;

typedef struct lmc_pool {
    unsigned char *base;
    uint64_t capacity;
    uint64_t mapped;    /* capacity, rounded up to pages */
    uint64_t file_size; /* mapped, and the page of the mark */
    uint64_t page_size; /* of supply: ranges start and end at multiples, or at the end */
    int fd;             /* -1 = anonymous */
    bool map_ahead;     /* supply also fills this process's page table */
    char name[LMC_POOL_NAME_MAX + 1]; /* advertised, "" = private */
} lmc_pool;

/* Strips leading '/', adds the prefix. LMC_INVALID names the option. */
lmc_status lmc_pool_name(const char *shm_name, char name[LMC_POOL_NAME_MAX + 1],
                         lmc_error *error);

/* Also removes segments that this program left behind and nobody owns. */
lmc_status lmc_pool_open(const lmc_pool_config *config, lmc_pool *pool, lmc_error *error);
void lmc_pool_close(lmc_pool *pool); /* unlinks the segment if the name is still ours */

/* Gives pages to a range. LMC_NO_MEMORY: there are none; the range may have some of them. */
lmc_status lmc_pool_supply(const lmc_pool *pool, uint64_t offset, uint64_t length);

#endif
