/*
 * pb_values.h: messages as protobuf, driven by the schema's tables.
 *
 * Internal to this room.
 */
#ifndef LMC_RPC_PB_VALUES_H
#define LMC_RPC_PB_VALUES_H

#include "rpc/protobuf.h"
#include "rpc/schema.h"
#include "rpc/zmq_values.h"

/* `always`: zero and empty members are written too, as in the entries of a map. */
void lmc_pb_write_message(lmc_pb_writer *writer, const lmc_message_def *message,
                          const void *base, bool always);

#endif
