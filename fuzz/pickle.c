/*
 * A pickle from a peer: as a list of tensors, whose elements must all be there to be copied and
 * which must come back the same when they are written; and as a wrapper.
 */
#include <string.h>

#include "base/bytes.h"
#include "check.h"
#include "pickle/tensors.h"
#include "pickle/wrapper.h"

#define COPY_MAX ((size_t)1 << 20)

/* A copy that is written and read must hold the same elements. */
static void check_round_trip(const lmc_tensor *tensor, const uint8_t *elements, size_t size,
                             lmc_arena *arena) {
    lmc_tensor dense = *tensor;
    lmc_pieces pieces;
    lmc_tensor_lists read;
    dense.storage = lmc_slice_of(elements, size);
    lmc_tensor_list list = {&dense, 1};
    lmc_tensor_lists lists = {&list, 1, false};
    CHECK(lmc_tensors_write(&lists, arena, &pieces) == LMC_OK);
    uint8_t *pickle = lmc_arena_alloc(arena, pieces.size);
    size_t at = 0;
    for (size_t i = 0; i < pieces.count; i++) {
        if (pieces.items[i].size > 0)
            memcpy(pickle + at, pieces.items[i].data, pieces.items[i].size);
        at += pieces.items[i].size;
    }
    CHECK(lmc_tensors_read(lmc_slice_of(pickle, at), arena, &read, NULL) == LMC_OK);
    CHECK(read.count == 1 && lmc_slice_equal(read.items[0].items[0].storage, dense.storage));
}

static void check_tensor(const lmc_tensor *tensor, lmc_arena *arena) {
    size_t size;
    CHECK(lmc_tensor_fits(tensor) && lmc_tensor_size(tensor, &size));
    if (size > COPY_MAX)
        return;
    uint8_t *elements = malloc(size + 1);
    CHECK(lmc_tensor_copy(tensor, elements, size));
    check_round_trip(tensor, elements, size, arena);
    free(elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lmc_arena arena, scratch;
    lmc_tensor_lists lists;
    lmc_wrapper wrapper;
    lmc_shm_tensor shm;
    lmc_slice pickle = lmc_slice_of(data, size);
    lmc_arena_init(&arena, 0);
    lmc_arena_init(&scratch, 0);
    if (lmc_tensors_read(pickle, &arena, &lists, NULL) == LMC_OK)
        for (size_t i = 0; i < lists.count && i < 8; i++)
            for (size_t j = 0; j < lists.items[i].count && j < 8; j++)
                check_tensor(&lists.items[i].items[j], &scratch);
    lmc_arena_reset(&arena);
    if (lmc_wrapper_read(pickle, &arena, &wrapper, NULL) == LMC_OK)
        lmc_wrapper_read_shm(&wrapper, &shm, NULL);
    lmc_arena_fini(&arena);
    lmc_arena_fini(&scratch);
    return 0;
}
