/*
 * msgpack.h: reading and writing MessagePack where it lies.
 *
 * The reader is a cursor over borrowed bytes: it never allocates, and what it returns points
 * into the input. Every function returns false when the bytes at the cursor are not what was
 * asked for, or end too early; the cursor is then of no further use. Counts and lengths are
 * checked against the bytes that are left before they are returned, so an array may be
 * allocated from its count.
 *
 * The writer either counts (out is NULL) or writes into memory that the caller has sized with a
 * counting run of the same calls. Both belong to one thread at a time.
 */
#ifndef LMC_RPC_MSGPACK_H
#define LMC_RPC_MSGPACK_H

#include <lmcached/types.h>

#define LMC_MP_DEPTH 32      /* nesting that skip() follows; deeper is malformed */
#define LMC_MP_EXT_WRAPPER 1 /* the one extension type: device memory wrappers */

typedef enum lmc_mp_type {
    LMC_MP_NONE, /* end of input, or a byte that begins no value */
    LMC_MP_NIL,
    LMC_MP_BOOL,
    LMC_MP_INT,
    LMC_MP_FLOAT,
    LMC_MP_TEXT,
    LMC_MP_BYTES,
    LMC_MP_ARRAY,
    LMC_MP_MAP,
    LMC_MP_EXT,
} lmc_mp_type;

typedef struct lmc_mp_reader {
    const uint8_t *at;
    const uint8_t *end;
} lmc_mp_reader;

lmc_mp_reader lmc_mp_reader_of(lmc_slice bytes);
static inline size_t lmc_mp_left(const lmc_mp_reader *reader) {
    return (size_t)(reader->end - reader->at);
}
lmc_mp_type lmc_mp_peek(const lmc_mp_reader *reader);

bool lmc_mp_read_nil(lmc_mp_reader *reader);
bool lmc_mp_read_bool(lmc_mp_reader *reader, bool *value);
/* Any width and sign; what is above INT64_MAX becomes INT64_MAX. */
bool lmc_mp_read_int(lmc_mp_reader *reader, int64_t *value);
/* Float of either width, or an integer. */
bool lmc_mp_read_float(lmc_mp_reader *reader, double *value);
bool lmc_mp_read_text(lmc_mp_reader *reader, lmc_slice *text); /* valid UTF-8 */
bool lmc_mp_read_bytes(lmc_mp_reader *reader, lmc_slice *bytes);
bool lmc_mp_read_ext(lmc_mp_reader *reader, int8_t *type, lmc_slice *bytes);
bool lmc_mp_read_array(lmc_mp_reader *reader, size_t *count); /* then `count` values follow */
bool lmc_mp_read_map(lmc_mp_reader *reader, size_t *count);   /* then `count` keys and values */
bool lmc_mp_skip(lmc_mp_reader *reader); /* one value of any kind; texts in it are UTF-8 */
/* One value of any kind, as it lies. */
bool lmc_mp_read_raw(lmc_mp_reader *reader, lmc_slice *value);
/* One map whose keys are texts, as it lies. */
bool lmc_mp_read_raw_map(lmc_mp_reader *reader, lmc_slice *map);

/* Looks a text key up in a map; the reader then stands at its value (the last one when
 * repeated). False: no such key, or `map` is not a map. */
bool lmc_mp_find(lmc_slice map, const char *key, lmc_mp_reader *value);
/* True when the bytes are exactly one map whose keys are texts. */
bool lmc_mp_is_map(lmc_slice bytes);

typedef struct lmc_mp_writer {
    uint8_t *out; /* NULL: count only */
    size_t size;  /* bytes written or counted so far */
    bool invalid; /* a value cannot be written: longer than 2^32-1, or text that is not UTF-8 */
} lmc_mp_writer;

void lmc_mp_write_nil(lmc_mp_writer *writer);
void lmc_mp_write_bool(lmc_mp_writer *writer, bool value);
void lmc_mp_write_int(lmc_mp_writer *writer, int64_t value);
void lmc_mp_write_float(lmc_mp_writer *writer, double value);
void lmc_mp_write_text(lmc_mp_writer *writer, lmc_slice text);
void lmc_mp_write_name(lmc_mp_writer *writer, const char *text); /* terminated */
void lmc_mp_write_bytes(lmc_mp_writer *writer, lmc_slice bytes);
void lmc_mp_write_bytes_head(lmc_mp_writer *writer, size_t size); /* then `size` raw bytes */
void lmc_mp_write_ext(lmc_mp_writer *writer, int8_t type, lmc_slice bytes);
void lmc_mp_write_array(lmc_mp_writer *writer, size_t count);
void lmc_mp_write_map(lmc_mp_writer *writer, size_t count);
void lmc_mp_write_raw(lmc_mp_writer *writer, lmc_slice bytes); /* as they are */

#endif
