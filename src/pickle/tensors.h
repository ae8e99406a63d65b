/*
 * tensors.h: lists of CPU tensors as PyTorch pickles them, read and written without copying.
 *
 * One element per chunk; an element is a tensor or, for hybrid models, a list of tensors. What
 * is read has been checked: every element of a tensor lies inside its storage. Tensors point
 * into the input and the arena; written pieces point into the tensors' own bytes and the arena.
 * Any thread.
 */
#ifndef LMC_PICKLE_TENSORS_H
#define LMC_PICKLE_TENSORS_H

#include <lmcached/values.h>

#include "base/arena.h"

#define LMC_TENSOR_RANK_MAX 8
#define LMC_TENSORS_MAX ((size_t)1 << 16) /* elements of one list */

typedef struct lmc_tensor {
    lmc_slice dtype; /* torch name without prefix: "float16" */
    size_t item_size;
    size_t rank;
    int64_t shape[LMC_TENSOR_RANK_MAX];
    int64_t strides[LMC_TENSOR_RANK_MAX]; /* in elements */
    int64_t offset;                       /* of the first element in the storage, in elements */
    lmc_slice storage;
} lmc_tensor;

typedef struct lmc_tensor_list {
    const lmc_tensor *items;
    size_t count;
} lmc_tensor_list;

typedef struct lmc_tensor_lists {
    const lmc_tensor_list *items; /* one per chunk */
    size_t count;
    bool nested; /* elements are lists; otherwise each has exactly one tensor */
} lmc_tensor_lists;

/* Bytes of one element of a torch dtype, named without prefix; 0: unknown. */
size_t lmc_tensor_item_size(lmc_slice dtype);
/* Bytes of all elements; false when that is more than a size can say. */
bool lmc_tensor_size(const lmc_tensor *tensor, size_t *size);
/* Fills in strides of a row-major tensor without gaps. */
void lmc_tensor_set_strides(lmc_tensor *tensor);
bool lmc_tensor_is_contiguous(const lmc_tensor *tensor);
/* Every element lies inside the storage; only the storage's size is looked at. */
bool lmc_tensor_fits(const lmc_tensor *tensor);
/* Copies the elements in row-major order; false when they are not exactly `size` bytes. */
bool lmc_tensor_copy(const lmc_tensor *tensor, void *out, size_t size);

/* LMC_MALFORMED: not a pickle that is read; LMC_INVALID: not a list of CPU tensors. */
lmc_status lmc_tensors_read(lmc_slice pickle, lmc_arena *arena, lmc_tensor_lists *lists,
                            lmc_error *error);
/*
 * The tensors must be contiguous (offset and strides are not looked at) and their storage
 * exactly their elements. LMC_INVALID: they are not, or a dtype is unknown.
 */
lmc_status lmc_tensors_write(const lmc_tensor_lists *lists, lmc_arena *arena,
                             lmc_pieces *pieces);

#endif
