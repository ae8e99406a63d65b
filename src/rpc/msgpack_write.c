#include <string.h>

#include "base/bytes.h"
#include "base/copy.h"
#include "rpc/msgpack.h"

static void put(lmc_mp_writer *writer, const void *data, size_t size) {
    if (writer->out != NULL && size > 0)
        lmc_copy_cold(writer->out + writer->size, data, size);
    writer->size += size;
}

/* A marker followed by `width` bytes of number, high byte first. */
static void put_number(lmc_mp_writer *writer, uint8_t marker, uint64_t number, unsigned width) {
    uint8_t bytes[9];
    bytes[0] = marker;
    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(number >> (8 * (width - 1 - i)));
    put(writer, bytes, 1 + width);
}

/* A length in the smallest form; a marker of 0 means that there is none of that width. */
static void put_length(lmc_mp_writer *writer, size_t length, size_t small_max, uint8_t small,
                       const uint8_t marker[3]) {
    if (length < small_max)
        put_number(writer, (uint8_t)(small | length), 0, 0);
    else if (length <= UINT8_MAX && marker[0] != 0)
        put_number(writer, marker[0], length, 1);
    else if (length <= UINT16_MAX)
        put_number(writer, marker[1], length, 2);
    else if (length <= UINT32_MAX)
        put_number(writer, marker[2], length, 4);
    else
        writer->invalid = true;
}

void lmc_mp_write_nil(lmc_mp_writer *writer) { put_number(writer, 0xc0, 0, 0); }

void lmc_mp_write_bool(lmc_mp_writer *writer, bool value) {
    put_number(writer, value ? 0xc3 : 0xc2, 0, 0);
}

static void write_negative(lmc_mp_writer *writer, int64_t value) {
    if (value >= -32)
        put_number(writer, (uint8_t)value, 0, 0);
    else if (value >= INT8_MIN)
        put_number(writer, 0xd0, (uint64_t)value, 1);
    else if (value >= INT16_MIN)
        put_number(writer, 0xd1, (uint64_t)value, 2);
    else if (value >= INT32_MIN)
        put_number(writer, 0xd2, (uint64_t)value, 4);
    else
        put_number(writer, 0xd3, (uint64_t)value, 8);
}

void lmc_mp_write_int(lmc_mp_writer *writer, int64_t value) {
    if (value < 0)
        write_negative(writer, value);
    else if (value < 128)
        put_number(writer, (uint8_t)value, 0, 0);
    else if (value <= UINT8_MAX)
        put_number(writer, 0xcc, (uint64_t)value, 1);
    else if (value <= UINT16_MAX)
        put_number(writer, 0xcd, (uint64_t)value, 2);
    else if (value <= UINT32_MAX)
        put_number(writer, 0xce, (uint64_t)value, 4);
    else
        put_number(writer, 0xcf, (uint64_t)value, 8);
}

void lmc_mp_write_float(lmc_mp_writer *writer, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(writer, 0xcb, bits, 8);
}

void lmc_mp_write_text(lmc_mp_writer *writer, lmc_slice text) {
    if (writer->out == NULL && !lmc_slice_is_utf8(text))
        writer->invalid = true;
    put_length(writer, text.size, 32, 0xa0, (const uint8_t[]){0xd9, 0xda, 0xdb});
    put(writer, text.data, text.size);
}

void lmc_mp_write_name(lmc_mp_writer *writer, const char *text) {
    put_length(writer, strlen(text), 32, 0xa0, (const uint8_t[]){0xd9, 0xda, 0xdb});
    put(writer, text, strlen(text));
}

void lmc_mp_write_bytes_head(lmc_mp_writer *writer, size_t size) {
    put_length(writer, size, 0, 0, (const uint8_t[]){0xc4, 0xc5, 0xc6});
}

void lmc_mp_write_bytes(lmc_mp_writer *writer, lmc_slice bytes) {
    lmc_mp_write_bytes_head(writer, bytes.size);
    put(writer, bytes.data, bytes.size);
}

void lmc_mp_write_ext(lmc_mp_writer *writer, int8_t type, lmc_slice bytes) {
    size_t size = bytes.size;
    if (size != 0 && size <= 16 && (size & (size - 1)) == 0)
        put_number(writer, (uint8_t)(0xd4 + __builtin_ctzl(size)), 0, 0);
    else
        put_length(writer, size, 0, 0, (const uint8_t[]){0xc7, 0xc8, 0xc9});
    put(writer, &type, 1);
    put(writer, bytes.data, size);
}

void lmc_mp_write_array(lmc_mp_writer *writer, size_t count) {
    put_length(writer, count, 16, 0x90, (const uint8_t[]){0, 0xdc, 0xdd});
}

void lmc_mp_write_map(lmc_mp_writer *writer, size_t count) {
    put_length(writer, count, 16, 0x80, (const uint8_t[]){0, 0xde, 0xdf});
}

void lmc_mp_write_raw(lmc_mp_writer *writer, lmc_slice bytes) {
    put(writer, bytes.data, bytes.size);
}
