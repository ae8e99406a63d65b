/*
 * rpc.h: operations and messages as data, and the two wire codecs that read them.
 *
 * Every message and operation is declared once, in include/lmcached/schema.def. From it come the C
 * structs (lmcached/messages.h), the tables below, the MessagePack codec of the ZMQ wire and the
 * protobuf codec of the gRPC wire. Tables are constant; all functions may be called from any
 * thread. Decoded values borrow from the input bytes and from the arena.
 */
#ifndef LMC_RPC_RPC_H
#define LMC_RPC_RPC_H

#include <lmcached/messages.h>

#include "base/arena.h"

typedef struct lmc_message_def lmc_message_def;

/* What a request that cannot be served is answered with (D1). */
typedef enum lmc_negative {
    LMC_NEGATIVE_NONE,   /* silence */
    LMC_NEGATIVE_VOID,   /* a reply without a result */
    LMC_NEGATIVE_REPLY,  /* the reply struct that lmc_reply_negative() fills */
} lmc_negative;

typedef struct lmc_operation_def {
    const char *name;
    int32_t legacy_id;    /* 0: travels by name only */
    uint32_t index;       /* dense, 0 .. lmc_operation_count() - 1 */
    uint32_t scheduling;  /* LMC_SYNC, LMC_NORMAL, LMC_AFFINITY of module.h */
    lmc_negative negative;
    bool is_void;         /* never a result frame */
    bool may_pend;        /* LMC_AGAIN is a reply without a result frame */
    const lmc_message_def *request; /* one member per payload frame (or one map, see schema.def) */
    const lmc_message_def *reply;
    size_t request_size, reply_size; /* sizeof the structs */
    const char *const *service_paths; /* gRPC, "/lmcache.mp.LookupService/Lookup", ends with NULL */
} lmc_operation_def;

size_t lmc_operation_count(void);
const lmc_operation_def *lmc_operation_at(size_t index);
const lmc_operation_def *lmc_operation_by_id(int64_t legacy_id);  /* NULL: unknown */
const lmc_operation_def *lmc_operation_by_name(lmc_slice name);   /* NULL: unknown */

/* Reads the operation frame (integer or string). NULL: undecodable or unknown; *error says which. */
const lmc_operation_def *lmc_zmq_read_operation(lmc_slice frame, lmc_error *error);

/*
 * ZMQ. `frames` are the payload frames after uid and operation. LMC_MALFORMED: arity or bytes (the
 * request must stay unanswered). `request` is zeroed memory of request_size bytes.
 */
lmc_status lmc_zmq_decode_request(const lmc_operation_def *operation, const lmc_slice *frames,
                                  size_t count, lmc_arena *arena, void *request, lmc_error *error);
/* Bytes of the result frame; *has_frame is false for void and pending replies. */
lmc_status lmc_zmq_reply_size(const lmc_operation_def *operation, const void *reply,
                              lmc_status status, bool *has_frame, size_t *size);
/* Writes exactly that many bytes. */
void lmc_zmq_write_reply(const lmc_operation_def *operation, const void *reply, void *out,
                         size_t size);
/* The client's side. */
lmc_status lmc_zmq_encode_request(const lmc_operation_def *operation, const void *request,
                                  lmc_arena *arena, lmc_slice *frames, size_t *count);
lmc_status lmc_zmq_decode_reply(const lmc_operation_def *operation, lmc_slice frame,
                                lmc_arena *arena, void *reply, lmc_error *error);

/* gRPC: one protobuf message each way. */
lmc_status lmc_pb_decode(const lmc_message_def *message, lmc_slice bytes, lmc_arena *arena,
                         void *out, lmc_error *error);
lmc_status lmc_pb_encode(const lmc_message_def *message, const void *in, lmc_arena *arena,
                         lmc_slice *bytes);

/* Fills the operation's negative reply (D1) into zeroed memory of reply_size bytes. */
void lmc_reply_negative(const lmc_operation_def *operation, const void *request, void *reply);

#endif
