#include "modules/chunk_layouts.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "pickle/tensors.h"

/* What all groups of one registration share. */
typedef struct shared_layout {
    int64_t slots;
    bool single_plane;
    lmc_slice dtype;
    uint32_t item_size;
} shared_layout;

static lmc_status check_shared(int64_t slots, bool single_plane, lmc_slice dtype,
                               shared_layout *shared, lmc_error *error) {
    *shared =
        (shared_layout){slots, single_plane, dtype, (uint32_t)lmc_tensor_item_size(dtype)};
    if (slots <= 0)
        return lmc_error_set(error, LMC_INVALID,
                             "num_physical_slots must be positive (got %lld)",
                             (long long)slots);
    if (shared->item_size == 0)
        return lmc_error_set(error, LMC_INVALID, "unknown dtype_str '%.*s'",
                             LMC_SLICE_ARGS(dtype));
    return LMC_OK;
}

static lmc_status read_shared(const lmc_engine_registration *r, uint32_t chunk_size,
                              shared_layout *shared, lmc_error *error) {
    uint64_t bit = LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REQUEST_HAS_NUM_PHYSICAL_SLOTS;
    int64_t slots = (r->present & bit) != 0 ? r->num_physical_slots : chunk_size;
    return check_shared(slots, r->use_mla, r->dtype_str, shared, error);
}

static lmc_status fill_layout(const shared_layout *shared, int64_t layers, int64_t hidden,
                              lmc_chunk_layout *layout, lmc_error *error) {
    uint64_t size = shared->item_size;
    uint32_t dims = 0;
    *layout = (lmc_chunk_layout){.item_size = shared->item_size, .window = -1};
    if (layers <= 0)
        return lmc_error_set(error, LMC_INVALID, "the number of layers must be positive");
    if (hidden <= 0)
        return lmc_error_set(error, LMC_INVALID, "hidden_dim_size must be positive (got %lld)",
                             (long long)hidden);
    if (!shared->single_plane)
        layout->dims[dims++] = 2;
    layout->dims[dims++] = layers;
    layout->dims[dims++] = shared->slots;
    layout->dims[dims++] = hidden;
    layout->dim_count = dims;
    for (uint32_t i = 0; i < dims; i++)
        if (__builtin_mul_overflow(size, (uint64_t)layout->dims[i], &size) || size > INT64_MAX)
            return lmc_error_set(error, LMC_INVALID, "a chunk is larger than can be addressed");
    layout->size = size;
    memcpy(layout->dtype, shared->dtype.data, shared->dtype.size); /* known, so it fits */
    return LMC_OK;
}

static int64_t window_chunks(int64_t window_tokens, uint32_t chunk_size) {
    if (window_tokens < 1)
        return -1;
    return window_tokens / chunk_size + (window_tokens % chunk_size != 0);
}

static lmc_status fill_group(const lmc_engine_registration *r, const shared_layout *shared,
                             uint32_t chunk_size, size_t index, lmc_chunk_layout *layout,
                             lmc_error *error) {
    const lmc_engine_group_info *info = &r->engine_group_infos.items[index];
    int64_t layers = (int64_t)info->layer_indices.count;
    int64_t hidden = r->hidden_dim_size;
    if (layers == 0 && r->engine_group_infos.count == 1)
        layers = r->num_layers;
    if (index < r->group_hidden_dim_sizes.count)
        hidden = r->group_hidden_dim_sizes.items[index];
    lmc_status status = fill_layout(shared, layers, hidden, layout, error);
    layout->window = window_chunks(info->sw_size_tokens, chunk_size);
    layout->extra = info->extra_object_group_tag != 0;
    return status;
}

static lmc_status check_supported(const lmc_engine_registration *r, lmc_error *error) {
    if (r->enable_l1_kvweave_quant)
        return lmc_error_set(error, LMC_INVALID, "enable_l1_kvweave_quant is not supported");
    for (size_t i = 0; i < r->group_layout_descs.count; i++)
        if (r->group_layout_descs.items[i].present != 0)
            return lmc_error_set(error, LMC_INVALID,
                                 "quantised groups (group_layout_descs) are not supported");
    if (r->engine_group_infos.count > LMC_OBJECT_GROUPS_MAX ||
        r->kernel_groups.count > LMC_OBJECT_GROUPS_MAX)
        return lmc_error_set(error, LMC_INVALID, "more than %d groups", LMC_OBJECT_GROUPS_MAX);
    return LMC_OK;
}

static lmc_status read_groups(const lmc_engine_registration *r, uint32_t chunk_size,
                              lmc_arena *arena, lmc_chunk_layouts *layouts, lmc_error *error) {
    size_t count = r->engine_group_infos.count > 0 ? r->engine_group_infos.count : 1;
    shared_layout shared;
    lmc_status status = read_shared(r, chunk_size, &shared, error);
    if (status != LMC_OK)
        return status;
    lmc_chunk_layout *groups = lmc_arena_array(arena, count, sizeof *groups);
    if (groups == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the layout of an engine");
    if (r->engine_group_infos.count == 0)
        status = fill_layout(&shared, r->num_layers, r->hidden_dim_size, groups, error);
    for (size_t i = 0; i < r->engine_group_infos.count && status == LMC_OK; i++)
        status = fill_group(r, &shared, chunk_size, i, &groups[i], error);
    *layouts = (lmc_chunk_layouts){.groups = groups, .group_count = count};
    return status;
}

/* One tensor of an object that has several. */
static lmc_status fill_tensor(const lmc_kernel_group *group, uint32_t chunk_size,
                              lmc_chunk_layout *layout, lmc_error *error) {
    shared_layout shared;
    bool has_slots = (group->present & LMC_KERNEL_GROUP_HAS_NUM_PHYSICAL_SLOTS) != 0;
    lmc_status status = check_shared(has_slots ? group->num_physical_slots : chunk_size,
                                     group->use_mla, group->dtype_str, &shared, error);
    if (status != LMC_OK)
        return status;
    return fill_layout(&shared, group->num_layers, group->hidden_dim_size, layout, error);
}

static lmc_status read_kernel_groups(const lmc_engine_registration *r, uint32_t chunk_size,
                                     lmc_arena *arena, lmc_chunk_layouts *layouts,
                                     lmc_error *error) {
    size_t count = r->kernel_groups.count;
    lmc_chunk_layout *tensors = lmc_arena_array(arena, count + 1, sizeof *tensors);
    if (tensors == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the layout of an engine");
    lmc_chunk_layout *object = &tensors[count];
    *object =
        (lmc_chunk_layout){.dim_count = 1, .dtype = "uint8", .item_size = 1, .window = -1};
    for (size_t i = 0; i < count; i++) {
        lmc_status status =
            fill_tensor(&r->kernel_groups.items[i], chunk_size, &tensors[i], error);
        if (status != LMC_OK)
            return status;
        if (__builtin_add_overflow(object->size, tensors[i].size, &object->size) ||
            object->size > INT64_MAX)
            return lmc_error_set(error, LMC_INVALID, "a chunk is larger than can be addressed");
    }
    object->dims[0] = (int64_t)object->size;
    *layouts = (lmc_chunk_layouts){object, 1, {tensors, count}};
    return LMC_OK;
}

lmc_status lmc_chunk_layouts_read(const lmc_engine_registration *registration,
                                  uint32_t chunk_size, lmc_arena *arena,
                                  lmc_chunk_layouts *layouts, lmc_error *error) {
    lmc_status status = check_supported(registration, error);
    if (status != LMC_OK)
        return status;
    if (registration->kernel_groups.count > 0)
        return read_kernel_groups(registration, chunk_size, arena, layouts, error);
    return read_groups(registration, chunk_size, arena, layouts, error);
}
