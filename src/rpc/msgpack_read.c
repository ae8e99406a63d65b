#include "rpc/msgpack.h"

#include <string.h>

#include "base/bytes.h"

/* What the bytes at the cursor begin: a whole scalar, or the length of what follows. */
typedef struct head {
    lmc_mp_type type;
    bool negative;  /* integers: `value` is the two's complement of a number below 0 */
    bool wide;      /* floats: 64 bits */
    int8_t ext;     /* extensions: type */
    uint64_t value; /* integer or float bits, truth, bytes or elements that follow */
} head;

lmc_mp_reader lmc_mp_reader_of(lmc_slice bytes) {
    const uint8_t *data = bytes.data;
    return (lmc_mp_reader){data, bytes.size == 0 ? data : data + bytes.size};
}

/* Types of the markers c0 to df. */
static const uint8_t marker_type[32] = {
    LMC_MP_NIL,   LMC_MP_NONE, LMC_MP_BOOL, LMC_MP_BOOL, LMC_MP_BYTES, LMC_MP_BYTES,
    LMC_MP_BYTES, LMC_MP_EXT,  LMC_MP_EXT,  LMC_MP_EXT,  LMC_MP_FLOAT, LMC_MP_FLOAT,
    LMC_MP_INT,   LMC_MP_INT,  LMC_MP_INT,  LMC_MP_INT,  LMC_MP_INT,   LMC_MP_INT,
    LMC_MP_INT,   LMC_MP_INT,  LMC_MP_EXT,  LMC_MP_EXT,  LMC_MP_EXT,   LMC_MP_EXT,
    LMC_MP_EXT,   LMC_MP_TEXT, LMC_MP_TEXT, LMC_MP_TEXT, LMC_MP_ARRAY, LMC_MP_ARRAY,
    LMC_MP_MAP,   LMC_MP_MAP,
};

/* Bytes of number or length after the markers c0 to df. */
static const uint8_t marker_width[32] = {
    0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8,
    1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4,
};

static lmc_mp_type type_of(uint8_t marker) {
    if (marker < 0x80 || marker >= 0xe0)
        return LMC_MP_INT;
    if (marker >= 0xc0)
        return (lmc_mp_type)marker_type[marker - 0xc0];
    return marker < 0x90 ? LMC_MP_MAP : marker < 0xa0 ? LMC_MP_ARRAY : LMC_MP_TEXT;
}

lmc_mp_type lmc_mp_peek(const lmc_mp_reader *reader) {
    return reader->at == reader->end ? LMC_MP_NONE : type_of(*reader->at);
}

static uint64_t load(const uint8_t *at, size_t width) {
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value = value << 8 | at[i];
    return value;
}

/* Values whose marker holds everything: small integers, and small texts, arrays and maps. */
static head small_head(uint8_t marker) {
    head found = {.type = type_of(marker)};
    if (marker >= 0xe0) {
        found.negative = true;
        found.value = (uint64_t)(int64_t)(int8_t)marker;
    } else if (found.type == LMC_MP_TEXT) {
        found.value = marker & 0x1f;
    } else {
        found.value = found.type == LMC_MP_INT ? marker : marker & 0x0f;
    }
    return found;
}

static void sign_extend(head *found, size_t width) {
    unsigned shift = 64 - 8 * (unsigned)width;
    int64_t value = (int64_t)(found->value << shift) >> shift;
    found->negative = value < 0;
    found->value = (uint64_t)value;
}

static bool read_head(lmc_mp_reader *reader, head *found) {
    if (reader->at == reader->end)
        return false;
    uint8_t marker = *reader->at++;
    if (marker < 0xc0 || marker >= 0xe0) {
        *found = small_head(marker);
        return true;
    }
    size_t width = marker_width[marker - 0xc0];
    *found = (head){.type = type_of(marker)};
    if (found->type == LMC_MP_NONE || lmc_mp_left(reader) < width)
        return false;
    found->value = load(reader->at, width);
    reader->at += width;
    if (found->type == LMC_MP_BOOL)
        found->value = marker & 1;
    else if (found->type == LMC_MP_FLOAT)
        found->wide = width == 8;
    else if (marker >= 0xd0 && marker <= 0xd3)
        sign_extend(found, width);
    else if (marker >= 0xd4 && marker <= 0xd8)
        found->value = UINT64_C(1) << (marker - 0xd4);
    if (found->type != LMC_MP_EXT)
        return true;
    if (reader->at == reader->end)
        return false;
    found->ext = (int8_t)*reader->at++;
    return true;
}

static bool read_typed(lmc_mp_reader *reader, lmc_mp_type type, head *found) {
    return read_head(reader, found) && found->type == type;
}

static bool read_run(lmc_mp_reader *reader, const head *found, lmc_slice *run) {
    if (found->value > lmc_mp_left(reader))
        return false;
    *run = lmc_slice_of(reader->at, (size_t)found->value);
    reader->at += found->value;
    return true;
}

bool lmc_mp_read_nil(lmc_mp_reader *reader) {
    head found;
    return read_typed(reader, LMC_MP_NIL, &found);
}

bool lmc_mp_read_bool(lmc_mp_reader *reader, bool *value) {
    head found;
    if (!read_typed(reader, LMC_MP_BOOL, &found))
        return false;
    *value = found.value != 0;
    return true;
}

bool lmc_mp_read_int(lmc_mp_reader *reader, int64_t *value) {
    head found;
    if (!read_typed(reader, LMC_MP_INT, &found))
        return false;
    bool above = !found.negative && found.value > INT64_MAX;
    *value = above ? INT64_MAX : (int64_t)found.value;
    return true;
}

static double float_of(const head *found) {
    if (found->wide) {
        double value;
        memcpy(&value, &found->value, sizeof value);
        return value;
    }
    uint32_t bits = (uint32_t)found->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

bool lmc_mp_read_float(lmc_mp_reader *reader, double *value) {
    head found;
    if (!read_head(reader, &found))
        return false;
    if (found.type == LMC_MP_INT)
        *value = found.negative ? (double)(int64_t)found.value : (double)found.value;
    else if (found.type == LMC_MP_FLOAT)
        *value = float_of(&found);
    else
        return false;
    return true;
}

bool lmc_mp_read_text(lmc_mp_reader *reader, lmc_slice *text) {
    head found;
    return read_typed(reader, LMC_MP_TEXT, &found) && read_run(reader, &found, text) &&
           lmc_slice_is_utf8(*text);
}

bool lmc_mp_read_bytes(lmc_mp_reader *reader, lmc_slice *bytes) {
    head found;
    return read_typed(reader, LMC_MP_BYTES, &found) && read_run(reader, &found, bytes);
}

bool lmc_mp_read_ext(lmc_mp_reader *reader, int8_t *type, lmc_slice *bytes) {
    head found;
    if (!read_typed(reader, LMC_MP_EXT, &found))
        return false;
    *type = found.ext;
    return read_run(reader, &found, bytes);
}

bool lmc_mp_read_array(lmc_mp_reader *reader, size_t *count) {
    head found;
    if (!read_typed(reader, LMC_MP_ARRAY, &found) || found.value > lmc_mp_left(reader))
        return false;
    *count = (size_t)found.value;
    return true;
}

bool lmc_mp_read_map(lmc_mp_reader *reader, size_t *count) {
    head found;
    if (!read_typed(reader, LMC_MP_MAP, &found) || found.value > lmc_mp_left(reader) / 2)
        return false;
    *count = (size_t)found.value;
    return true;
}

/* Steps over a scalar; for an array or a map says how many values follow. */
static bool step(lmc_mp_reader *reader, uint64_t *children) {
    head found;
    lmc_slice run;
    *children = 0;
    if (!read_head(reader, &found))
        return false;
    if (found.type == LMC_MP_ARRAY)
        *children = found.value;
    else if (found.type == LMC_MP_MAP)
        *children = found.value * 2;
    else if (found.type == LMC_MP_BYTES || found.type == LMC_MP_EXT)
        return read_run(reader, &found, &run);
    else if (found.type == LMC_MP_TEXT)
        return read_run(reader, &found, &run) && lmc_slice_is_utf8(run);
    return *children <= lmc_mp_left(reader);
}

bool lmc_mp_skip(lmc_mp_reader *reader) {
    uint64_t open[LMC_MP_DEPTH + 1] = {1}; /* values still to come, per level */
    size_t depth = 0;
    for (;;) {
        while (open[depth] == 0) {
            if (depth == 0)
                return true;
            depth--;
        }
        open[depth]--;
        uint64_t children;
        if (!step(reader, &children))
            return false;
        if (children == 0)
            continue;
        if (depth == LMC_MP_DEPTH)
            return false;
        open[++depth] = children;
    }
}

bool lmc_mp_read_raw(lmc_mp_reader *reader, lmc_slice *value) {
    const uint8_t *start = reader->at;
    if (!lmc_mp_skip(reader))
        return false;
    *value = lmc_slice_of(start, (size_t)(reader->at - start));
    return true;
}

bool lmc_mp_find(lmc_slice map, const char *key, lmc_mp_reader *value) {
    lmc_mp_reader reader = lmc_mp_reader_of(map);
    size_t count;
    bool found = false;
    if (!lmc_mp_read_map(&reader, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        lmc_slice name = {0};
        bool is_text = lmc_mp_peek(&reader) == LMC_MP_TEXT;
        if (is_text ? !lmc_mp_read_text(&reader, &name) : !lmc_mp_skip(&reader))
            return false;
        if (is_text && lmc_slice_is(name, key)) {
            *value = reader;
            found = true;
        }
        if (!lmc_mp_skip(&reader))
            return false;
    }
    return found;
}

bool lmc_mp_read_raw_map(lmc_mp_reader *reader, lmc_slice *map) {
    const uint8_t *start = reader->at;
    size_t count;
    lmc_slice key;
    if (!lmc_mp_read_map(reader, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!lmc_mp_read_text(reader, &key) || !lmc_mp_skip(reader))
            return false;
    *map = lmc_slice_of(start, (size_t)(reader->at - start));
    return true;
}

bool lmc_mp_is_map(lmc_slice bytes) {
    lmc_mp_reader reader = lmc_mp_reader_of(bytes);
    lmc_slice map;
    return lmc_mp_read_raw_map(&reader, &map) && reader.at == reader.end;
}
