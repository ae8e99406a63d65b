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

bool lmc_mp_read_token_ids(lmc_mp_reader *reader, size_t count, uint32_t *ids,
                           bool *out_of_range) {
    size_t done = 0;
    while (done < count) {
        if (lmc_mp_left(reader) >= 5)
            done += ids != NULL ? read_common(reader, count - done, ids + done)
                                : step_common(reader, count - done);
        if (done == count)
            break;
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
