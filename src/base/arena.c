#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)16)
#define FIRST_BLOCK ((size_t)4096)
#define LARGEST_STEP ((size_t)1 << 20)

/* The newest block is first; only it is allocated from. */
struct lmc_arena_block {
    alignas(16) struct lmc_arena_block *next;
    size_t capacity; /* bytes after this header */
    size_t used;
};

void lmc_arena_init(lmc_arena *arena, size_t keep) {
    *arena = (lmc_arena){.blocks = NULL, .keep = keep, .used = 0};
}

void lmc_arena_fini(lmc_arena *arena) {
    struct lmc_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct lmc_arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
    arena->used = 0;
}

void lmc_arena_reset(lmc_arena *arena) {
    struct lmc_arena_block *kept = NULL;
    struct lmc_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct lmc_arena_block *next = block->next;
        bool better = kept == NULL || block->capacity > kept->capacity;
        if (block->capacity <= arena->keep && better) {
            free(kept);
            kept = block;
        } else {
            free(block);
        }
        block = next;
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
    }
    arena->blocks = kept;
    arena->used = 0;
}

/* Doubles from the block before, so that a long request needs few blocks. */
static struct lmc_arena_block *add_block(lmc_arena *arena, size_t size) {
    size_t capacity = FIRST_BLOCK;
    if (arena->blocks != NULL)
        capacity = arena->blocks->capacity * 2;
    if (capacity > LARGEST_STEP)
        capacity = LARGEST_STEP;
    if (capacity < size)
        capacity = size;
    struct lmc_arena_block *block = malloc(sizeof *block + capacity);
    if (block == NULL)
        return NULL;
    block->next = arena->blocks;
    block->capacity = capacity;
    block->used = 0;
    arena->blocks = block;
    return block;
}

void *lmc_arena_alloc(lmc_arena *arena, size_t size) {
    if (size > SIZE_MAX / 4)
        return NULL;
    size_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (rounded == 0)
        rounded = ALIGNMENT;
    struct lmc_arena_block *block = arena->blocks;
    if (block == NULL || block->capacity - block->used < rounded)
        block = add_block(arena, rounded);
    if (block == NULL)
        return NULL;
    void *memory = (char *)(block + 1) + block->used;
    block->used += rounded;
    arena->used += rounded;
    return memory;
}

void *lmc_arena_zalloc(lmc_arena *arena, size_t size) {
    void *memory = lmc_arena_alloc(arena, size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

void *lmc_arena_array(lmc_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return lmc_arena_alloc(arena, bytes);
}

char *lmc_arena_text(lmc_arena *arena, lmc_slice text) {
    if (text.size == SIZE_MAX)
        return NULL;
    char *copy = lmc_arena_alloc(arena, text.size + 1);
    if (copy == NULL)
        return NULL;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

char *lmc_arena_printf(lmc_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char *text = NULL;
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0)
        text = lmc_arena_alloc(arena, (size_t)length + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
