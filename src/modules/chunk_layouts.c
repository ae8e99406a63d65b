#include "modules/chunk_layouts.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

uint32_t lmc_dtype_size(lmc_slice dtype) {
    static const struct {
        const char *name;
        uint32_t size;
    } known[] = {
        {"bfloat16", 2},
        {"float16", 2},
        {"half", 2},
        {"float32", 4},
        {"float", 4},
        {"float8_e4m3fn", 1},
        {"float8_e5m2", 1},
        {"uint8", 1},
        {"int8", 1},
        {"bool", 1},
        {"int16", 2},
        {"int32", 4},
        {"int64", 8},
        {"float64", 8},
        {"double", 8},
        {"float8_e4m3fnuz", 1},
        {"float8_e5m2fnuz", 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (lmc_slice_is(dtype, known[i].name))
            return known[i].size;
    return 0;
}

/* What all groups of one registration share. */
typedef struct shared_layout {
    int64_t slots;
    bool single_plane;
    lmc_slice dtype;
    uint32_t item_size;
} shared_layout;

static lmc_status read_shared(const lmc_engine_registration *r, uint32_t chunk_size,
                              shared_layout *shared, lmc_error *error) {
    bool has_slots =
        (r->present &
         LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REQUEST_HAS_NUM_PHYSICAL_SLOTS) != 0;
    *shared = (shared_layout){.slots = has_slots ? r->num_physical_slots : chunk_size,
                              .single_plane = r->use_mla,
                              .dtype = r->dtype_str,
                              .item_size = lmc_dtype_size(r->dtype_str)};
    if (shared->slots <= 0)
        return lmc_error_set(error, LMC_INVALID,
                             "num_physical_slots must be positive (got %lld)",
                             (long long)shared->slots);
    if (shared->item_size == 0)
        return lmc_error_set(error, LMC_INVALID, "unknown dtype_str '%.*s'",
                             LMC_SLICE_ARGS(r->dtype_str));
    return LMC_OK;
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
    if (r->kernel_groups.count > 0)
        return lmc_error_set(error, LMC_INVALID,
                             "several tensors per chunk (kernel_groups) are not supported");
    if (r->engine_group_infos.count > LMC_OBJECT_GROUPS_MAX)
        return lmc_error_set(error, LMC_INVALID, "more than %d engine groups",
                             LMC_OBJECT_GROUPS_MAX);
    return LMC_OK;
}

lmc_status lmc_chunk_layouts(const lmc_engine_registration *registration, uint32_t chunk_size,
                             lmc_arena *arena, const lmc_chunk_layout **groups, size_t *count,
                             lmc_error *error) {
    const lmc_engine_registration *r = registration;
    size_t group_count = r->engine_group_infos.count > 0 ? r->engine_group_infos.count : 1;
    shared_layout shared;
    lmc_status status = check_supported(r, error);
    if (status == LMC_OK)
        status = read_shared(r, chunk_size, &shared, error);
    if (status != LMC_OK)
        return status;
    lmc_chunk_layout *layouts = lmc_arena_array(arena, group_count, sizeof *layouts);
    if (layouts == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the layout of an engine");
    if (r->engine_group_infos.count == 0)
        status = fill_layout(&shared, r->num_layers, r->hidden_dim_size, layouts, error);
    for (size_t i = 0; i < r->engine_group_infos.count && status == LMC_OK; i++)
        status = fill_group(r, &shared, chunk_size, i, &layouts[i], error);
    *groups = layouts;
    *count = group_count;
    return status;
}
