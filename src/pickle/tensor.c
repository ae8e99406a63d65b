#include <string.h>

#include "base/bytes.h"
#include "base/copy.h"
#include "pickle/dtypes.h"
#include "pickle/tensors.h"

/* Types without a storage class travel as raw bytes and name themselves. */
static const lmc_dtype dtypes[] = {
    {"float16", "HalfStorage", 2},  {"bfloat16", "BFloat16Storage", 2},
    {"float32", "FloatStorage", 4}, {"float64", "DoubleStorage", 8},
    {"uint8", "ByteStorage", 1},    {"int8", "CharStorage", 1},
    {"int16", "ShortStorage", 2},   {"int32", "IntStorage", 4},
    {"int64", "LongStorage", 8},    {"bool", "BoolStorage", 1},
    {"half", "HalfStorage", 2},     {"float", "FloatStorage", 4},
    {"double", "DoubleStorage", 8}, {"int", "IntStorage", 4},
    {"float8_e4m3fn", NULL, 1},     {"float8_e5m2", NULL, 1},
    {"float8_e4m3fnuz", NULL, 1},   {"float8_e5m2fnuz", NULL, 1},
};

const lmc_dtype *lmc_dtype_named(lmc_slice name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (lmc_slice_is(name, dtypes[i].name))
            return &dtypes[i];
    return NULL;
}

const lmc_dtype *lmc_dtype_of_storage(lmc_slice class_name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (dtypes[i].storage != NULL && lmc_slice_is(class_name, dtypes[i].storage))
            return &dtypes[i];
    return NULL;
}

size_t lmc_tensor_item_size(lmc_slice dtype) {
    const lmc_dtype *found = lmc_dtype_named(dtype);
    return found != NULL ? found->size : 0;
}

bool lmc_tensor_size(const lmc_tensor *tensor, size_t *size) {
    size_t bytes = tensor->item_size;
    for (size_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 ||
            __builtin_mul_overflow(bytes, (size_t)tensor->shape[i], &bytes))
            return false;
    *size = bytes;
    return bytes <= PTRDIFF_MAX;
}

/* The stride of the axis before one with this; too large to say only where there is no element
 * at all, since shapes beside a zero are not bounded by any size. */
static int64_t outer_stride(int64_t stride, int64_t dim) {
    int64_t outer;
    return __builtin_mul_overflow(stride, dim > 0 ? dim : 1, &outer) ? 0 : outer;
}

void lmc_tensor_set_strides(lmc_tensor *tensor) {
    int64_t stride = 1;
    for (size_t i = tensor->rank; i-- > 0;) {
        tensor->strides[i] = stride;
        stride = outer_stride(stride, tensor->shape[i]);
    }
}

/* The stride of an axis with one element says nothing. */
bool lmc_tensor_is_contiguous(const lmc_tensor *tensor) {
    int64_t stride = 1;
    for (size_t i = tensor->rank; i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return false;
        stride = outer_stride(stride, tensor->shape[i]);
    }
    return true;
}

bool lmc_tensor_fits(const lmc_tensor *tensor) {
    size_t bytes;
    if (tensor->offset < 0 || !lmc_tensor_size(tensor, &bytes))
        return false;
    int64_t last = tensor->offset;
    for (size_t i = 0; i < tensor->rank; i++) {
        int64_t reach;
        if (tensor->strides[i] < 0)
            return false;
        if (tensor->shape[i] > 0 &&
            (__builtin_mul_overflow(tensor->shape[i] - 1, tensor->strides[i], &reach) ||
             __builtin_add_overflow(last, reach, &last)))
            return false;
    }
    return bytes == 0 || (uint64_t)last < tensor->storage.size / tensor->item_size;
}

/* One axis; the innermost copies runs of elements, or one at a time when they do not touch. */
static uint8_t *copy_axis(const lmc_tensor *tensor, size_t axis, const uint8_t *from,
                          uint8_t *to) {
    size_t item = tensor->item_size;
    if (axis == tensor->rank) {
        memcpy(to, from, item);
        return to + item;
    }
    size_t count = (size_t)tensor->shape[axis];
    if (axis + 1 == tensor->rank && tensor->strides[axis] == 1) {
        memcpy(to, from, count * item);
        return to + count * item;
    }
    for (size_t i = 0; i < count; i++)
        to = copy_axis(tensor, axis + 1, from + i * (size_t)tensor->strides[axis] * item, to);
    return to;
}

bool lmc_tensor_copy(const lmc_tensor *tensor, void *out, size_t size) {
    size_t bytes;
    if (!lmc_tensor_size(tensor, &bytes) || bytes != size)
        return false;
    if (bytes == 0)
        return true;
    const uint8_t *from = tensor->storage.data;
    from += (size_t)tensor->offset * tensor->item_size;
    if (lmc_tensor_is_contiguous(tensor))
        lmc_copy_cold(out, from, size);
    else
        copy_axis(tensor, 0, from, out);
    return true;
}
