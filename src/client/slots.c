#include <lmcached/client.h>

#include "base/bytes.h"
#include "client/failure.h"
#include "rpc/msgpack.h"

static bool read_slot(lmc_mp_reader *reader, int64_t pool_size, lmc_client_slot *slot) {
    size_t members;
    *slot = (lmc_client_slot){.offset = -1, .length = -1, .chunk_index = -1};
    if (!lmc_mp_read_map(reader, &members))
        return false;
    for (size_t i = 0; i < members; i++) {
        lmc_slice name;
        if (!lmc_mp_read_text(reader, &name))
            return false;
        bool known = true;
        if (lmc_slice_is(name, "offset"))
            known = lmc_mp_read_int(reader, &slot->offset);
        else if (lmc_slice_is(name, "length"))
            known = lmc_mp_read_int(reader, &slot->length);
        else
            known = lmc_mp_skip(reader);
        if (!known)
            return false;
    }
    return slot->offset >= 0 && slot->length >= 0 && slot->length <= pool_size &&
           slot->offset <= pool_size - slot->length;
}

static bool read_slots(lmc_mp_reader reader, int64_t pool_size, lmc_client_slot *slots,
                       size_t capacity, size_t *count) {
    if (!lmc_mp_read_array(&reader, count))
        return false;
    for (size_t i = 0; i < *count; i++) {
        lmc_client_slot slot;
        if (!read_slot(&reader, pool_size, &slot))
            return false;
        if (i < capacity)
            slots[i] = slot;
    }
    return true;
}

static bool read_indices(lmc_mp_reader reader, lmc_client_slot *slots, size_t capacity,
                         size_t count) {
    size_t indices;
    if (!lmc_mp_read_array(&reader, &indices) || indices != count)
        return false;
    for (size_t i = 0; i < indices; i++) {
        int64_t index;
        if (!lmc_mp_read_int(&reader, &index))
            return false;
        if (i < capacity)
            slots[i].chunk_index = index;
    }
    return true;
}

/* Finds the two lists of a context; one that is not there stays empty. */
static bool find_lists(lmc_slice context, lmc_slice *slots, lmc_slice *indices) {
    lmc_mp_reader reader = lmc_mp_reader_of(context);
    size_t members;
    if (!lmc_mp_read_map(&reader, &members))
        return false;
    for (size_t i = 0; i < members; i++) {
        lmc_slice name, value;
        if (!lmc_mp_read_text(&reader, &name) || !lmc_mp_read_raw(&reader, &value))
            return false;
        if (lmc_slice_is(name, "slots"))
            *slots = value;
        else if (lmc_slice_is(name, "chunk_indices"))
            *indices = value;
    }
    return true;
}

static lmc_status read_context(lmc_slice context, int64_t pool_size, lmc_client_slot *slots,
                               size_t capacity, size_t *count) {
    lmc_slice list = {0}, indices = {0};
    if (!find_lists(context, &list, &indices))
        return LMC_MALFORMED;
    if (list.data == NULL)
        return LMC_DECLINED;
    if (!read_slots(lmc_mp_reader_of(list), pool_size, slots, capacity, count))
        return LMC_MALFORMED;
    if (indices.data != NULL &&
        !read_indices(lmc_mp_reader_of(indices), slots, capacity, *count))
        return LMC_MALFORMED;
    return LMC_OK;
}

lmc_status lmc_client_slots(lmc_slice context, int64_t pool_size, lmc_client_slot *slots,
                            size_t capacity, size_t *count) {
    lmc_error *error = lmc_client_fresh_error();
    *count = 0;
    lmc_status status = read_context(context, pool_size, slots, capacity, count);
    if (status == LMC_MALFORMED)
        lmc_error_set(error, status, "no context of slots in a pool of %lld bytes",
                      (long long)pool_size);
    else if (status == LMC_DECLINED)
        lmc_error_set(error, status, "the context names no slots: byte copy");
    return status;
}
