#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "pickle/dtypes.h"
#include "pickle/pickle.h"
#include "pickle/tensors.h"

typedef lmc_pickle_value value;

/* What a storage stream holds; dtype NULL: bytes of no type of their own. */
typedef struct storage {
    const lmc_dtype *dtype;
    lmc_slice bytes;
} storage;

static const uint8_t magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

#define PROTOCOL_VERSION 1001

/* ---- the legacy storage stream: four pickles, then the bytes ---- */

static bool is_magic(const value *v) {
    return v->type == LMC_PICKLE_BIG && v->bytes.size == sizeof magic &&
           memcmp(v->bytes.data, magic, sizeof magic) == 0;
}

static bool is_header(const value *v) {
    const value *order = lmc_pickle_get(v, "little_endian");
    return order != NULL && order->type == LMC_PICKLE_BOOL && order->truth;
}

/* ("storage", class, key, location, elements, None); false: no storage in this memory. */
static bool read_record(const value *v, storage *out, const value **key, int64_t *elements) {
    const value *record = v->type == LMC_PICKLE_PERSISTENT ? v->call.args : NULL;
    const value *class_name = lmc_pickle_item(record, 1);
    const value *count = lmc_pickle_item(record, 4);
    const value *view = lmc_pickle_item(record, 5);
    *key = lmc_pickle_item(record, 2);
    if (!lmc_pickle_is_text(lmc_pickle_item(record, 0), "storage") || count == NULL ||
        class_name->type != LMC_PICKLE_GLOBAL || (*key)->type != LMC_PICKLE_TEXT ||
        !lmc_pickle_is_text(lmc_pickle_item(record, 3), "cpu") ||
        count->type != LMC_PICKLE_INT || (view != NULL && view->type != LMC_PICKLE_NONE))
        return false;
    *elements = count->number;
    out->dtype = lmc_dtype_of_storage(class_name->global.name);
    return out->dtype != NULL || lmc_slice_is(class_name->global.name, "UntypedStorage");
}

static bool is_only_key(const value *keys, const value *key) {
    const value *first = lmc_pickle_item(keys, 0);
    return first != NULL && lmc_pickle_item(keys, 1) == NULL &&
           first->type == LMC_PICKLE_TEXT && lmc_slice_equal(first->bytes, key->bytes);
}

/* The number of elements once more, then the elements. */
static bool read_raw(lmc_pickle_reader *reader, int64_t elements, storage *out) {
    uint64_t count = 0;
    size_t item = out->dtype != NULL ? out->dtype->size : 1;
    if (reader->end - reader->at < 8)
        return false;
    for (unsigned i = 0; i < 8; i++)
        count |= (uint64_t)*reader->at++ << (8 * i);
    if (elements < 0 || count != (uint64_t)elements ||
        count > (size_t)(reader->end - reader->at) / item)
        return false;
    out->bytes = lmc_slice_of(reader->at, (size_t)count * item);
    return true;
}

/* LMC_INVALID: well-formed, but not a storage. */
static lmc_status read_storage(lmc_pickle_reader *outer, lmc_slice stream, storage *out) {
    lmc_pickle_reader reader = lmc_pickle_reader_of(stream, outer->arena);
    const value *parts[5];
    reader.values = outer->values;
    for (size_t i = 0; i < 5; i++) {
        lmc_status status = lmc_pickle_read(&reader, &parts[i]);
        if (status != LMC_OK)
            return status;
    }
    outer->values = reader.values;
    const value *key;
    int64_t elements;
    bool valid = is_magic(parts[0]) && parts[1]->type == LMC_PICKLE_INT &&
                 parts[1]->number == PROTOCOL_VERSION && is_header(parts[2]) &&
                 read_record(parts[3], out, &key, &elements) && is_only_key(parts[4], key) &&
                 read_raw(&reader, elements, out);
    return valid ? LMC_OK : LMC_INVALID;
}

/* ---- tensors ---- */

/* Arguments of a call that makes a tensor, or NULL. Version 3 names the dtype behind the
 * others. */
static const value *rebuild_args(const value *v, bool *names_dtype) {
    *names_dtype = lmc_pickle_is_call(v, "torch._utils", "_rebuild_tensor_v3");
    if (*names_dtype || lmc_pickle_is_call(v, "torch._utils", "_rebuild_tensor_v2"))
        return v->call.args;
    return NULL;
}

static bool set_dtype(lmc_tensor *tensor, const storage *from, const value *named) {
    const lmc_dtype *dtype = from->dtype;
    if (named != NULL) {
        if (named->type != LMC_PICKLE_GLOBAL || !lmc_slice_is(named->global.module, "torch"))
            return false;
        dtype = lmc_dtype_named(named->global.name);
    }
    if (dtype == NULL)
        return false;
    tensor->dtype = lmc_text(dtype->name);
    tensor->item_size = dtype->size;
    tensor->storage = from->bytes;
    return true;
}

static lmc_status read_tensor(lmc_pickle_reader *reader, const value *v, lmc_tensor *tensor) {
    bool names_dtype;
    const value *args = rebuild_args(v, &names_dtype);
    const value *load = lmc_pickle_item(args, 0);
    const value *offset = lmc_pickle_item(args, 1);
    const value *dtype = names_dtype ? lmc_pickle_item(args, 6) : NULL;
    if (!lmc_pickle_is_call(load, "torch.storage", "_load_from_bytes") || offset == NULL ||
        offset->type != LMC_PICKLE_INT || (names_dtype && dtype == NULL))
        return LMC_INVALID;
    const value *stream = lmc_pickle_item(load->call.args, 0);
    if (stream == NULL || stream->type != LMC_PICKLE_BYTES)
        return LMC_INVALID;
    storage from = {0};
    lmc_status status = read_storage(reader, stream->bytes, &from);
    if (status != LMC_OK)
        return status;
    size_t rank, strides;
    *tensor = (lmc_tensor){.offset = offset->number};
    if (!lmc_pickle_ints(lmc_pickle_item(args, 2), tensor->shape, LMC_TENSOR_RANK_MAX, &rank) ||
        !lmc_pickle_ints(lmc_pickle_item(args, 3), tensor->strides, LMC_TENSOR_RANK_MAX,
                         &strides) ||
        rank != strides || !set_dtype(tensor, &from, dtype))
        return LMC_INVALID;
    tensor->rank = rank;
    return lmc_tensor_fits(tensor) ? LMC_OK : LMC_INVALID;
}

static bool is_sequence(const value *v) {
    return v->type == LMC_PICKLE_LIST || v->type == LMC_PICKLE_TUPLE;
}

/* A tensor, or all tensors of a list. */
static lmc_status read_element(lmc_pickle_reader *reader, const value *v,
                               lmc_tensor_list *list) {
    bool nested = is_sequence(v);
    size_t count = nested ? v->list.count : 1;
    if (count > LMC_TENSORS_MAX)
        return LMC_INVALID;
    lmc_tensor *tensors = lmc_arena_array(reader->arena, count, sizeof *tensors);
    if (tensors == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        lmc_status status = read_tensor(reader, nested ? v->list.items[i] : v, &tensors[i]);
        if (status != LMC_OK)
            return status;
    }
    *list = (lmc_tensor_list){tensors, count};
    return LMC_OK;
}

static lmc_status read_lists(lmc_pickle_reader *reader, const value *top,
                             lmc_tensor_lists *lists) {
    if (!is_sequence(top) || top->list.count > LMC_TENSORS_MAX)
        return LMC_INVALID;
    size_t count = top->list.count;
    lmc_tensor_list *items = lmc_arena_array(reader->arena, count, sizeof *items);
    if (items == NULL)
        return LMC_NO_MEMORY;
    bool nested = count > 0 && is_sequence(top->list.items[0]);
    for (size_t i = 0; i < count; i++) {
        if (is_sequence(top->list.items[i]) != nested)
            return LMC_INVALID;
        lmc_status status = read_element(reader, top->list.items[i], &items[i]);
        if (status != LMC_OK)
            return status;
    }
    *lists = (lmc_tensor_lists){items, count, nested};
    return LMC_OK;
}

lmc_status lmc_tensors_read(lmc_slice pickle, lmc_arena *arena, lmc_tensor_lists *lists,
                            lmc_error *error) {
    lmc_pickle_reader reader = lmc_pickle_reader_of(pickle, arena);
    const value *top;
    lmc_status status = lmc_pickle_read(&reader, &top);
    if (status == LMC_OK)
        status = read_lists(&reader, top, lists);
    if (status == LMC_MALFORMED)
        lmc_error_set(error, status, "the data is no pickle that is read here");
    else if (status == LMC_INVALID)
        lmc_error_set(error, status, "the data is no list of CPU tensors");
    else if (status != LMC_OK)
        lmc_error_set(error, status, "no memory to read tensors");
    return status;
}
