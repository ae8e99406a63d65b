#include "modules/engine_tensors.h"

#include <string.h>

#include "base/bytes.h"

/* torch has several names for some types; a tensor comes with the first of each row. */
static const char *canonical(const char *dtype) {
    static const char *const names[][2] = {
        {"float16", "half"}, {"float32", "float"}, {"float64", "double"}, {"int32", "int"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(dtype, names[i][1]) == 0)
            return names[i][0];
    return dtype;
}

static bool matches(const lmc_tensor *tensor, const lmc_chunk_layout *layout) {
    if (tensor->rank != layout->dim_count || tensor->item_size != layout->item_size ||
        !lmc_slice_is(tensor->dtype, canonical(layout->dtype)))
        return false;
    for (size_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] != layout->dims[i])
            return false;
    return true;
}

static lmc_object_tensors tensors_of(const lmc_transfer *transfer, const lmc_slot *slot,
                                     const lmc_object_tensors *tensors) {
    if (tensors->count > 0)
        return *tensors;
    return (lmc_object_tensors){&transfer->groups[slot->group], 1};
}

/* The instance may have been registered anew, with other tensors, since its objects were made.
 */
static bool fit_in(const lmc_object_tensors *tensors, const lmc_transfer *transfer,
                   const lmc_slot *slot) {
    uint64_t size = 0;
    for (size_t i = 0; i < tensors->count; i++)
        size += tensors->items[i].size;
    return size <= transfer->groups[slot->group].size;
}

static bool copy_element(const lmc_tensor_list *element, const lmc_object_tensors *expected,
                         unsigned char *out) {
    if (element->count != expected->count)
        return false;
    for (size_t i = 0; i < element->count; i++)
        if (!matches(&element->items[i], &expected->items[i]))
            return false;
    for (size_t i = 0; i < element->count; i++) {
        if (!lmc_tensor_copy(&element->items[i], out, expected->items[i].size))
            return false;
        out += expected->items[i].size;
    }
    return true;
}

size_t lmc_tensors_copy_in(lmc_l1 *l1, const lmc_transfer *transfer,
                           const lmc_object_tensors *tensors, const lmc_tensor_lists *lists,
                           bool *filled) {
    size_t count = 0;
    bool right_form = lists->nested == (tensors->count > 0);
    for (size_t i = 0; i < transfer->slot_count; i++) {
        const lmc_slot *slot = &transfer->slots[i];
        lmc_object_tensors expected = tensors_of(transfer, slot, tensors);
        size_t at = (size_t)slot->list_index;
        filled[i] = right_form && at < lists->count && fit_in(&expected, transfer, slot) &&
                    copy_element(&lists->items[at], &expected, lmc_l1_data(l1, slot->object));
        count += filled[i];
    }
    return count;
}

static void fill_element(const lmc_object_tensors *tensors, const unsigned char *data,
                         lmc_tensor *out) {
    for (size_t i = 0; i < tensors->count; i++) {
        const lmc_chunk_layout *layout = &tensors->items[i];
        out[i] = (lmc_tensor){.dtype = lmc_text(layout->dtype),
                              .item_size = layout->item_size,
                              .rank = layout->dim_count,
                              .storage = lmc_slice_of(data, layout->size)};
        for (size_t d = 0; d < layout->dim_count; d++)
            out[i].shape[d] = layout->dims[d];
        data += layout->size;
    }
}

lmc_status lmc_tensors_of_slots(lmc_l1 *l1, const lmc_transfer *transfer,
                                const lmc_object_tensors *tensors, lmc_arena *arena,
                                lmc_tensor_lists *lists) {
    size_t each = tensors->count > 0 ? tensors->count : 1;
    lmc_tensor_list *elements = lmc_arena_array(arena, transfer->slot_count, sizeof *elements);
    lmc_tensor *all = lmc_arena_array(arena, transfer->slot_count, each * sizeof *all);
    if (elements == NULL || all == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < transfer->slot_count; i++) {
        const lmc_slot *slot = &transfer->slots[i];
        lmc_object_tensors parts = tensors_of(transfer, slot, tensors);
        if (!fit_in(&parts, transfer, slot))
            return LMC_FAILED;
        fill_element(&parts, lmc_l1_data(l1, slot->object), &all[i * each]);
        elements[i] = (lmc_tensor_list){&all[i * each], each};
    }
    *lists = (lmc_tensor_lists){elements, transfer->slot_count, tensors->count > 0};
    return LMC_OK;
}
