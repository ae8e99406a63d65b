/*
 * arena.h: memory that lives as long as one request and goes in one step.
 *
 * A bump allocator over a chain of blocks. reset() keeps the first block, up to `keep` bytes,
 * for the next request. Owned by one thread at a time. Allocations are aligned to 16 bytes.
 */
#ifndef LMC_BASE_ARENA_H
#define LMC_BASE_ARENA_H

#include <lmcached/types.h>

typedef struct lmc_arena {
    struct lmc_arena_block *blocks;
    size_t keep; /* bytes of block memory kept by reset */
    size_t used; /* bytes handed out since the last reset */
} lmc_arena;

void lmc_arena_init(lmc_arena *arena, size_t keep);
void lmc_arena_fini(lmc_arena *arena);
void lmc_arena_reset(lmc_arena *arena);

void *lmc_arena_alloc(lmc_arena *arena, size_t size);  /* NULL: out of memory; not zeroed */
void *lmc_arena_zalloc(lmc_arena *arena, size_t size); /* zeroed */
void *lmc_arena_array(lmc_arena *arena, size_t count, size_t size); /* overflow checked */
char *lmc_arena_text(lmc_arena *arena, lmc_slice text);             /* terminated copy */
char *lmc_arena_printf(lmc_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
