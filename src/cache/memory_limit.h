/*
 * memory_limit.h: how much memory this process may use, and how much of it is left.
 *
 * The tightest of the machine's memory and the limits of the control groups the process is in
 * (version 2: memory.max, version 1: memory.limit_in_bytes). Page cache that the kernel can
 * drop counts as left. Stateless; any thread. Reads a handful of small files.
 */
#ifndef LMC_CACHE_MEMORY_LIMIT_H
#define LMC_CACHE_MEMORY_LIMIT_H

#include <lmcached/types.h>

typedef struct lmc_memory_limit {
    uint64_t bytes;   /* UINT64_MAX = not known */
    char source[256]; /* for a person: where the limit stands */
} lmc_memory_limit;

/* `root` is put before every path: "" outside tests. */
void lmc_memory_limit_find(const char *root, lmc_memory_limit *limit);
/* Bytes that can still be used; UINT64_MAX = not known. */
uint64_t lmc_memory_left(const char *root);

#endif
