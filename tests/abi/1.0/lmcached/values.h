/*
 * values.h: the C form of every kind of value that a message member can have.
 *
 * All are lent with the call they came in or go out with. Counts are of elements.
 */
#ifndef LMCACHED_VALUES_H
#define LMCACHED_VALUES_H

#include <lmcached/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Token ids of a prompt prefix. out_of_range: at least one was < 0 or > 2^32-1, or the list was
 * longer than a prompt can be; then ids is NULL. Where an operation does not need the ids they
 * are only counted: ids is NULL, count is right, out_of_range false. */
typedef struct lmc_tokens {
    const uint32_t *ids;
    size_t count;
    bool out_of_range;
} lmc_tokens;

typedef struct lmc_ints {
    const int64_t *items;
    size_t count;
} lmc_ints;

typedef struct lmc_int_lists { /* block ids per group, shapes of a layout, ... */
    const lmc_ints *items;
    size_t count;
} lmc_int_lists;

typedef struct lmc_bools {
    const bool *items;
    size_t count;
} lmc_bools;

typedef struct lmc_bool_lists { /* null_chunk_mask: [group][chunk] */
    const lmc_bools *items;
    size_t count;
} lmc_bool_lists;

typedef struct lmc_slices { /* several texts, byte strings, or opaque wrappers */
    const lmc_slice *items;
    size_t count;
} lmc_slices;

/* One byte string that may lie in several pieces: concatenate them in order. */
typedef struct lmc_pieces {
    const lmc_slice *items;
    size_t count;
    size_t size; /* bytes of all pieces together */
} lmc_pieces;

#ifdef __cplusplus
}
#endif

#endif
