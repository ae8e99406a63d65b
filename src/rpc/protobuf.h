/*
 * protobuf.h: the proto3 wire format, where it lies.
 *
 * The reader is a cursor over borrowed bytes, false when they do not parse. The writer works
 * from the last byte to the first, so that the length of a nested message is known when it is
 * written; like the MessagePack writer it either counts or writes. Internal to this room; one
 * thread.
 */
#ifndef LMC_RPC_PROTOBUF_H
#define LMC_RPC_PROTOBUF_H

#include <lmcached/types.h>

#define LMC_PB_DEPTH 32 /* nesting of unknown groups that is followed */

typedef enum lmc_pb_wire {
    LMC_PB_VARINT = 0,
    LMC_PB_FIXED64 = 1,
    LMC_PB_BYTES = 2,
    LMC_PB_GROUP = 3,
    LMC_PB_GROUP_END = 4,
    LMC_PB_FIXED32 = 5,
} lmc_pb_wire;

typedef struct lmc_pb_reader {
    const uint8_t *at;
    const uint8_t *end;
} lmc_pb_reader;

lmc_pb_reader lmc_pb_reader_of(lmc_slice bytes);
bool lmc_pb_read_tag(lmc_pb_reader *reader, uint32_t *number, lmc_pb_wire *wire);
bool lmc_pb_read_varint(lmc_pb_reader *reader, uint64_t *value);
bool lmc_pb_read_fixed64(lmc_pb_reader *reader, uint64_t *value);
bool lmc_pb_read_bytes(lmc_pb_reader *reader, lmc_slice *bytes);
/* The value after a tag, whatever it is. */
bool lmc_pb_skip(lmc_pb_reader *reader, uint32_t number, lmc_pb_wire wire);
/* How many varints the bytes hold; they end with the last byte of one, or false. */
bool lmc_pb_count_varints(lmc_slice packed, size_t *count);

typedef struct lmc_pb_writer {
    uint8_t *end; /* one past the last byte; NULL: count only */
    size_t size;  /* bytes written or counted so far */
    bool invalid; /* some text is not UTF-8 */
} lmc_pb_writer;

void lmc_pb_write_raw(lmc_pb_writer *writer, lmc_slice bytes);
void lmc_pb_write_varint(lmc_pb_writer *writer, uint64_t value);
void lmc_pb_write_fixed64(lmc_pb_writer *writer, uint64_t value);
void lmc_pb_write_tag(lmc_pb_writer *writer, uint32_t number, lmc_pb_wire wire);
/* Length and tag for what was written since the size was `since`. */
void lmc_pb_write_head(lmc_pb_writer *writer, uint32_t number, size_t since);

#endif
