/*
 * check.h: what every fuzz target holds the readers to, beside not crashing.
 */
#ifndef LMC_FUZZ_CHECK_H
#define LMC_FUZZ_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

/* Memory grows with the input only: never more than this many bytes for one of it. */
#define MEMORY_PER_BYTE 128

static inline void check_memory(const lmc_arena *arena, size_t input) {
    CHECK(arena->used <= MEMORY_PER_BYTE * input + 4096);
}

#endif
