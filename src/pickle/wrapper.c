#include "pickle/wrapper.h"

#include "base/bytes.h"
#include "base/error.h"
#include "pickle/dtypes.h"

typedef lmc_pickle_value value;

lmc_status lmc_wrapper_read(lmc_slice pickle, lmc_arena *arena, lmc_wrapper *wrapper,
                            lmc_error *error) {
    lmc_pickle_reader reader = lmc_pickle_reader_of(pickle, arena);
    const value *object;
    lmc_status status = lmc_pickle_read(&reader, &object);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "a wrapper does not decode");
    if (object->type != LMC_PICKLE_OBJECT || object->call.callee->type != LMC_PICKLE_GLOBAL ||
        object->call.state == NULL || object->call.state->type != LMC_PICKLE_DICT)
        return lmc_error_set(error, LMC_INVALID, "a wrapper is no object with a dictionary");
    *wrapper = (lmc_wrapper){
        .module = object->call.callee->global.module,
        .class_name = object->call.callee->global.name,
        .state = object->call.state,
    };
    return LMC_OK;
}

static bool get_int(const value *state, const char *key, int64_t *number) {
    const value *v = lmc_pickle_get(state, key);
    if (v == NULL || v->type != LMC_PICKLE_INT)
        return false;
    *number = v->number;
    return true;
}

static bool get_layout(const value *state, lmc_tensor *layout) {
    const value *dtype = lmc_pickle_get(state, "dtype");
    size_t strides;
    if (dtype == NULL || dtype->type != LMC_PICKLE_GLOBAL ||
        !lmc_slice_is(dtype->global.module, "torch"))
        return false;
    const lmc_dtype *known = lmc_dtype_named(dtype->global.name);
    if (known == NULL)
        return false;
    layout->dtype = lmc_text(known->name);
    layout->item_size = known->size;
    return lmc_pickle_ints(lmc_pickle_get(state, "shape"), layout->shape, LMC_TENSOR_RANK_MAX,
                           &layout->rank) &&
           lmc_pickle_ints(lmc_pickle_get(state, "stride"), layout->strides,
                           LMC_TENSOR_RANK_MAX, &strides) &&
           strides == layout->rank && get_int(state, "storage_offset", &layout->offset);
}

lmc_status lmc_wrapper_read_shm(const lmc_wrapper *wrapper, lmc_shm_tensor *tensor,
                                lmc_error *error) {
    *tensor = (lmc_shm_tensor){0};
    if (!lmc_slice_is(wrapper->class_name, "CpuShmTensorWrapper"))
        return LMC_DECLINED;
    const value *name = lmc_pickle_get(wrapper->state, "shm_name");
    int64_t size;
    if (name == NULL || name->type != LMC_PICKLE_TEXT ||
        !get_int(wrapper->state, "nbytes", &size) || size < 0 ||
        !get_layout(wrapper->state, &tensor->layout))
        return lmc_error_set(error, LMC_INVALID, "a CpuShmTensorWrapper lacks members");
    tensor->shm_name = name->bytes;
    tensor->size = (size_t)size;
    tensor->layout.storage.size = tensor->size;
    if (!lmc_tensor_fits(&tensor->layout))
        return lmc_error_set(error, LMC_INVALID, "a CpuShmTensorWrapper exceeds its segment");
    return LMC_OK;
}
