/*
 * zmq_values.h: members and messages as MessagePack, driven by the schema's tables.
 *
 * Internal to this room: zmq_decode.c and zmq_encode.c do the values, zmq_wire.c does frames,
 * arities and forms of requests and replies. A decoder belongs to one call.
 */
#ifndef LMC_RPC_ZMQ_VALUES_H
#define LMC_RPC_ZMQ_VALUES_H

#include "base/arena.h"
#include "rpc/msgpack.h"
#include "rpc/schema.h"

typedef struct lmc_zmq_decoder {
    lmc_mp_reader in;
    lmc_arena *arena;
    const lmc_member_def *failed; /* the innermost member that did not decode */
    lmc_status status;            /* LMC_MALFORMED unless something else went wrong */
    bool count_tokens;            /* do not decode token ids */
    bool whole_frame; /* the value is a frame of its own: numbers are interchangeable */
} lmc_zmq_decoder;

/* One member's value into its struct. False: decoder->status and ->failed say why. */
bool lmc_zmq_decode_member(lmc_zmq_decoder *decoder, const lmc_member_def *member, void *base);
/* A message in its form (MAP, TUPLE, RESULT, BARE) into its zeroed struct. */
bool lmc_zmq_decode_message(lmc_zmq_decoder *decoder, const lmc_message_def *message,
                            void *base);
/* Sets every member that has one to its non-zero default. */
void lmc_zmq_fill_fallbacks(const lmc_message_def *message, void *base);

/* The same in the other direction. */
void lmc_zmq_write_member(lmc_mp_writer *writer, const lmc_member_def *member,
                          const void *base);
void lmc_zmq_write_message(lmc_mp_writer *writer, const lmc_message_def *message,
                           const void *base);

static inline uint64_t lmc_present(const void *base) { return *(const uint64_t *)base; }

#endif
