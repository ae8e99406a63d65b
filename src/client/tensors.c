#include <lmcached/client.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/error.h"
#include "client/failure.h"
#include "pickle/tensors.h"

_Static_assert(LMC_TENSOR_RANK_MAX == sizeof(((lmc_client_layout *)0)->shape) / sizeof(int64_t),
               "the header names the greatest rank");

/* A tensor of this layout that has no bytes yet; false: there can be none. */
static bool tensor_of(const lmc_client_layout *layout, lmc_tensor *tensor, size_t *size) {
    *tensor = (lmc_tensor){.dtype = layout->dtype,
                           .item_size = lmc_tensor_item_size(layout->dtype),
                           .rank = layout->rank};
    if (tensor->item_size == 0 || layout->rank > LMC_TENSOR_RANK_MAX)
        return false;
    memcpy(tensor->shape, layout->shape, layout->rank * sizeof(*layout->shape));
    return lmc_tensor_size(tensor, size);
}

static lmc_status bad_layout(const lmc_client_layout *layout, lmc_error *error) {
    return lmc_error_set(error, LMC_INVALID, "no such layout: rank %zu, dtype %.*s",
                         layout->rank, LMC_SLICE_ARGS(layout->dtype));
}

static lmc_status list_chunks(const lmc_client_layout *layout, const lmc_slice *chunks,
                              size_t count, lmc_arena *arena, lmc_tensor_lists *lists,
                              lmc_error *error) {
    lmc_tensor one;
    size_t size;
    if (!tensor_of(layout, &one, &size))
        return bad_layout(layout, error);
    lmc_tensor *tensors = lmc_arena_array(arena, count + 1, sizeof(*tensors));
    lmc_tensor_list *items = lmc_arena_array(arena, count + 1, sizeof(*items));
    if (tensors == NULL || items == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (chunks[i].size != size)
            return lmc_error_set(error, LMC_INVALID, "chunk %zu has %zu bytes, not %zu", i,
                                 chunks[i].size, size);
        tensors[i] = one;
        tensors[i].storage = chunks[i];
        items[i] = (lmc_tensor_list){&tensors[i], 1};
    }
    *lists = (lmc_tensor_lists){.items = items, .count = count};
    return LMC_OK;
}

static void free_arena(lmc_arena *arena) {
    if (arena != NULL)
        lmc_arena_fini(arena);
    free(arena);
}

static lmc_arena *make_arena(void) {
    lmc_arena *arena = malloc(sizeof(*arena));
    if (arena != NULL)
        lmc_arena_init(arena, 0);
    return arena;
}

lmc_status lmc_client_pack(const lmc_client_layout *layout, const lmc_slice *chunks,
                           size_t count, lmc_client_packed *packed) {
    lmc_error *error = lmc_client_fresh_error();
    lmc_tensor_lists lists;
    lmc_arena *arena = make_arena();
    *packed = (lmc_client_packed){0};
    lmc_status status = LMC_NO_MEMORY;
    if (arena != NULL)
        status = list_chunks(layout, chunks, count, arena, &lists, error);
    if (status == LMC_OK)
        status = lmc_tensors_write(&lists, arena, &packed->data);
    if (status == LMC_OK) {
        packed->memory = arena;
        return LMC_OK;
    }
    free_arena(arena);
    return lmc_error_set(error, status, "%s", lmc_status_name(status));
}

void lmc_client_packed_free(lmc_client_packed *packed) {
    free_arena(packed->memory);
    *packed = (lmc_client_packed){0};
}

static bool is_of(const lmc_tensor_list *list, const lmc_tensor *wanted) {
    const lmc_tensor *tensor = list->items;
    return list->count == 1 && tensor->item_size == wanted->item_size &&
           tensor->rank == wanted->rank &&
           memcmp(tensor->shape, wanted->shape, wanted->rank * sizeof(*wanted->shape)) == 0;
}

static lmc_status join(lmc_pieces data, lmc_arena *arena, lmc_slice *joined) {
    *joined = lmc_slice_of(NULL, 0);
    if (data.count == 1)
        *joined = data.items[0];
    if (data.count <= 1)
        return LMC_OK;
    uint8_t *all = lmc_arena_alloc(arena, data.size);
    if (all == NULL)
        return LMC_NO_MEMORY;
    size_t used = 0;
    for (size_t i = 0; i < data.count; i++) {
        if (data.items[i].size > 0)
            memcpy(all + used, data.items[i].data, data.items[i].size);
        used += data.items[i].size;
    }
    *joined = lmc_slice_of(all, used);
    return LMC_OK;
}

static lmc_status copy_out(const lmc_client_layout *layout, const lmc_tensor_lists *lists,
                           uint8_t *out, size_t room, lmc_error *error) {
    lmc_tensor wanted;
    size_t size;
    if (!tensor_of(layout, &wanted, &size))
        return bad_layout(layout, error);
    if (size > 0 && lists->count > room / size)
        return lmc_error_set(error, LMC_INVALID, "%zu chunks of %zu bytes do not fit into %zu",
                             lists->count, size, room);
    for (size_t i = 0; i < lists->count; i++) {
        if (!is_of(&lists->items[i], &wanted) ||
            !lmc_tensor_copy(lists->items[i].items, out + i * size, size))
            return lmc_error_set(error, LMC_INVALID, "chunk %zu is of another layout", i);
    }
    return LMC_OK;
}

lmc_status lmc_client_unpack(const lmc_client_layout *layout, lmc_pieces data, void *out,
                             size_t size, size_t *count) {
    lmc_arena arena;
    lmc_error *error = lmc_client_fresh_error();
    lmc_tensor_lists lists = {0};
    lmc_slice pickle;
    lmc_arena_init(&arena, 0);
    *count = 0;
    lmc_status status = join(data, &arena, &pickle);
    if (status == LMC_OK)
        status = lmc_tensors_read(pickle, &arena, &lists, error);
    if (status == LMC_OK)
        status = copy_out(layout, &lists, out, size, error);
    if (status == LMC_OK)
        *count = lists.count;
    lmc_arena_fini(&arena);
    return status == LMC_OK ? LMC_OK
                            : lmc_error_set(error, status, "%s", lmc_status_name(status));
}
