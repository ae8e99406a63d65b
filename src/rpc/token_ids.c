#include "rpc/token_ids.h"

#include <string.h>

static uint32_t load32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

/* The common widths, while every one of them surely lies inside the input. */
static size_t read_common(lmc_mp_reader *reader, size_t count, uint32_t *ids) {
    const uint8_t *at = reader->at;
    const uint8_t *last = reader->end - 5;
    size_t done = 0;
    for (; done < count && at <= last; done++) {
        uint8_t marker = *at;
        if (marker == 0xcd) {
            ids[done] = (uint32_t)at[1] << 8 | at[2];
            at += 3;
        } else if (marker == 0xce) {
            ids[done] = load32(at + 1);
            at += 5;
        } else if (marker < 0x80) {
            ids[done] = marker;
            at += 1;
        } else if (marker == 0xcc) {
            ids[done] = at[1];
            at += 2;
        } else {
            break;
        }
    }
    reader->at = at;
    return done;
}

static size_t step_common(lmc_mp_reader *reader, size_t count) {
    const uint8_t *at = reader->at;
    const uint8_t *last = reader->end - 5;
    size_t done = 0;
    for (; done < count && at <= last; done++) {
        uint8_t marker = *at;
        if (marker == 0xcd)
            at += 3;
        else if (marker == 0xce)
            at += 5;
        else if (marker < 0x80)
            at += 1;
        else
            break;
    }
    reader->at = at;
    return done;
}

/* As many as are quick to take. */
static size_t take_common(lmc_mp_reader *reader, size_t count, uint32_t *ids) {
    size_t done = lmc_token_ids_wide_works() ? lmc_token_ids_wide(reader, count, ids) : 0;
    if (done > 0 || lmc_mp_left(reader) < 5)
        return done;
    return ids != NULL ? read_common(reader, count, ids) : step_common(reader, count);
}

bool lmc_mp_read_token_ids(lmc_mp_reader *reader, size_t count, uint32_t *ids,
                           bool *out_of_range) {
    size_t done = 0;
    while (done < count) {
        size_t common = take_common(reader, count - done, ids != NULL ? ids + done : NULL);
        done += common;
        if (common > 0)
            continue;
        int64_t value;
        if (!lmc_mp_read_int(reader, &value))
            return false;
        if (value < 0 || value > UINT32_MAX)
            *out_of_range = true;
        if (ids != NULL)
            ids[done] = (uint32_t)value;
        done++;
    }
    return true;
}

static size_t written_size(const uint32_t *ids, size_t count) {
    size_t size = count;
    for (size_t i = 0; i < count; i++)
        size += (size_t)(ids[i] >= 0x80) + (size_t)(ids[i] > UINT8_MAX) +
                2 * (size_t)(ids[i] > UINT16_MAX);
    return size;
}

static uint8_t *write_id(uint8_t *out, uint32_t id) {
    if (id > UINT16_MAX) {
        uint32_t swapped = __builtin_bswap32(id);
        *out = 0xce;
        memcpy(out + 1, &swapped, sizeof swapped);
        return out + 5;
    }
    if (id > UINT8_MAX) {
        out[0] = 0xcd;
        out[1] = (uint8_t)(id >> 8);
        out[2] = (uint8_t)id;
        return out + 3;
    }
    if (id >= 0x80)
        *out++ = 0xcc;
    *out++ = (uint8_t)id;
    return out;
}

void lmc_mp_write_token_ids(lmc_mp_writer *writer, const uint32_t *ids, size_t count) {
    lmc_mp_write_array(writer, count);
    if (writer->out == NULL) {
        writer->size += written_size(ids, count);
        return;
    }
    uint8_t *out = writer->out + writer->size;
    for (size_t i = 0; i < count; i++)
        out = write_id(out, ids[i]);
    writer->size = (size_t)(out - writer->out);
}
