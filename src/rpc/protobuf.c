#include "rpc/protobuf.h"

#include <string.h>

#include "base/bytes.h"

lmc_pb_reader lmc_pb_reader_of(lmc_slice bytes) {
    const uint8_t *data = bytes.data;
    return (lmc_pb_reader){data, bytes.size == 0 ? data : data + bytes.size};
}

/* At most ten bytes; bits beyond the 64th are dropped. */
bool lmc_pb_read_varint(lmc_pb_reader *reader, uint64_t *value) {
    const uint8_t *at = reader->at;
    uint64_t bits = 0;
    for (unsigned shift = 0; shift < 70 && at < reader->end; shift += 7) {
        uint8_t byte = *at++;
        bits |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            reader->at = at;
            *value = bits;
            return true;
        }
    }
    return false;
}

bool lmc_pb_read_tag(lmc_pb_reader *reader, uint32_t *number, lmc_pb_wire *wire) {
    uint64_t tag;
    if (!lmc_pb_read_varint(reader, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    *number = (uint32_t)tag >> 3;
    *wire = (lmc_pb_wire)(tag & 7);
    return *wire <= LMC_PB_FIXED32;
}

bool lmc_pb_read_fixed64(lmc_pb_reader *reader, uint64_t *value) {
    if (reader->end - reader->at < 8)
        return false;
    *value = 0;
    for (unsigned i = 0; i < 8; i++)
        *value |= (uint64_t)*reader->at++ << (8 * i);
    return true;
}

bool lmc_pb_read_bytes(lmc_pb_reader *reader, lmc_slice *bytes) {
    uint64_t size;
    if (!lmc_pb_read_varint(reader, &size) || size > (size_t)(reader->end - reader->at))
        return false;
    *bytes = lmc_slice_of(reader->at, (size_t)size);
    reader->at += size;
    return true;
}

static bool skip_scalar(lmc_pb_reader *reader, lmc_pb_wire wire) {
    uint64_t value;
    lmc_slice bytes;
    if (wire == LMC_PB_VARINT)
        return lmc_pb_read_varint(reader, &value);
    if (wire == LMC_PB_FIXED64)
        return lmc_pb_read_fixed64(reader, &value);
    if (wire == LMC_PB_BYTES)
        return lmc_pb_read_bytes(reader, &bytes);
    if (wire != LMC_PB_FIXED32 || reader->end - reader->at < 4)
        return false;
    reader->at += 4;
    return true;
}

bool lmc_pb_skip(lmc_pb_reader *reader, uint32_t number, lmc_pb_wire wire) {
    uint32_t open[LMC_PB_DEPTH];
    size_t depth = 0;
    for (;;) {
        if (wire == LMC_PB_GROUP) {
            if (depth == LMC_PB_DEPTH)
                return false;
            open[depth++] = number;
        } else if (wire == LMC_PB_GROUP_END) {
            if (depth == 0 || open[--depth] != number)
                return false;
        } else if (!skip_scalar(reader, wire)) {
            return false;
        }
        if (depth == 0)
            return true;
        if (!lmc_pb_read_tag(reader, &number, &wire))
            return false;
    }
}

bool lmc_pb_count_varints(lmc_slice packed, size_t *count) {
    const uint8_t *bytes = packed.data;
    size_t ends = 0;
    for (size_t i = 0; i < packed.size; i++)
        ends += bytes[i] < 0x80;
    *count = ends;
    return packed.size == 0 || bytes[packed.size - 1] < 0x80;
}

void lmc_pb_write_raw(lmc_pb_writer *writer, lmc_slice bytes) {
    writer->size += bytes.size;
    if (writer->end != NULL && bytes.size > 0)
        memcpy(writer->end - writer->size, bytes.data, bytes.size);
}

void lmc_pb_write_varint(lmc_pb_writer *writer, uint64_t value) {
    uint8_t bytes[10];
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    lmc_pb_write_raw(writer, lmc_slice_of(bytes, size));
}

void lmc_pb_write_fixed64(lmc_pb_writer *writer, uint64_t value) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    lmc_pb_write_raw(writer, lmc_slice_of(bytes, sizeof bytes));
}

void lmc_pb_write_tag(lmc_pb_writer *writer, uint32_t number, lmc_pb_wire wire) {
    lmc_pb_write_varint(writer, (uint64_t)number << 3 | (uint64_t)wire);
}

void lmc_pb_write_head(lmc_pb_writer *writer, uint32_t number, size_t since) {
    lmc_pb_write_varint(writer, writer->size - since);
    lmc_pb_write_tag(writer, number, LMC_PB_BYTES);
}
