/*
 * rpc.h: operations and messages as data, and the two wire codecs that read them.
 *
 * Every message and operation is declared once, in include/lmcached/schema.def. From it come
 * the C structs (lmcached/messages.h), the tables below, the MessagePack codec of the ZMQ wire
 * and the protobuf codec of the gRPC wire. Tables are constant; all functions may be called
 * from any thread. Decoded values borrow from the input bytes and from the arena; both must
 * outlive them.
 */
#ifndef LMC_RPC_RPC_H
#define LMC_RPC_RPC_H

#include <lmcached/messages.h>

#include "base/arena.h"

typedef struct lmc_message_def lmc_message_def;

/* What a request that cannot be served is answered with (D1). */
typedef enum lmc_negative {
    LMC_NEGATIVE_NONE,  /* silence */
    LMC_NEGATIVE_VOID,  /* a reply without a result */
    LMC_NEGATIVE_REPLY, /* the reply struct that lmc_reply_negative() fills */
} lmc_negative;

typedef struct lmc_operation_def {
    const char *name;
    int32_t legacy_id;   /* 0: travels by name only */
    uint32_t index;      /* dense, 0 .. lmc_operation_count() - 1: LMC_OP_<name> */
    uint32_t scheduling; /* LMC_SYNC, LMC_NORMAL, LMC_AFFINITY of module.h */
    lmc_negative negative;
    bool is_void;       /* never a result frame */
    bool may_pend;      /* LMC_AGAIN is a reply without a result frame */
    bool counts_tokens; /* token ids are counted, not decoded, unless the request brings data */
    bool answers_all;   /* answered even when the payload does not decode */
    const lmc_message_def
        *request; /* one member per payload frame (or one map, see schema.def) */
    const lmc_message_def *reply;
    size_t request_size, reply_size; /* sizeof the structs */
    const char *const
        *service_paths; /* gRPC, "/lmcache.mp.LookupService/Lookup", ends with NULL */
} lmc_operation_def;

#define LMC_OPERATION_INDEX(name, id, class, negative, flags, path, older) LMC_OP_##name,
enum { LMC_OPERATIONS(LMC_OPERATION_INDEX) LMC_OP_COUNT };
#undef LMC_OPERATION_INDEX

size_t lmc_operation_count(void);
const lmc_operation_def *lmc_operation_at(size_t index);
const lmc_operation_def *lmc_operation_by_id(int64_t legacy_id); /* NULL: unknown */
const lmc_operation_def *lmc_operation_by_name(lmc_slice name);  /* NULL: unknown */

/* "lookup_request", "cache_key", ...: the name of the struct without its prefix. NULL: unknown.
 */
const lmc_message_def *lmc_message_by_name(const char *name);
size_t lmc_message_size(const lmc_message_def *message); /* sizeof the struct */

/* Reads the operation frame (integer or string). NULL: undecodable or unknown; *error says
 * which. */
const lmc_operation_def *lmc_zmq_read_operation(lmc_slice frame, lmc_error *error);

/* ---- ZMQ, the server's side ---- */

/*
 * `frames` are the payload frames after uid and operation; `request` is zeroed memory of
 * request_size bytes. LMC_MALFORMED: the arity is wrong or a frame does not decode, and the
 * request stays unanswered. Any other failure (no memory; for an operation with answers_all
 * also a payload that does not decode, LMC_INVALID) is answered with the operation's negative.
 * Values that decode but make no sense are for the handler: tokens.out_of_range, integers cut
 * off at INT64_MAX.
 */
lmc_status lmc_zmq_decode_request(const lmc_operation_def *operation, const lmc_slice *frames,
                                  size_t count, lmc_arena *arena, void *request,
                                  lmc_error *error);
/*
 * Bytes of the result frame for LMC_OK or LMC_AGAIN; *has_frame is false for void and pending
 * replies. LMC_INVALID: the reply cannot be written (text that is not UTF-8, a raw map that is
 * no map, bytes beyond 4 GiB, any other status).
 */
lmc_status lmc_zmq_reply_size(const lmc_operation_def *operation, const void *reply,
                              lmc_status status, bool *has_frame, size_t *size);
/* Writes exactly that many bytes. */
void lmc_zmq_write_reply(const lmc_operation_def *operation, const void *reply, void *out,
                         size_t size);

/* ---- ZMQ, the client's side ---- */

#define LMC_FRAMES_MAX 8 /* no request has more payload frames */

/* Payload frames of this request; trailing EXTRA members without a value are not sent. */
size_t lmc_zmq_request_frames(const lmc_operation_def *operation, const void *request);
/* One frame at a time, into memory of the caller's. */
lmc_status lmc_zmq_request_size(const lmc_operation_def *operation, const void *request,
                                size_t frame, size_t *size);
void lmc_zmq_write_request(const lmc_operation_def *operation, const void *request,
                           size_t frame, void *out, size_t size);
/* All frames, in memory of the arena; `frames` has room for LMC_FRAMES_MAX. */
lmc_status lmc_zmq_encode_request(const lmc_operation_def *operation, const void *request,
                                  lmc_arena *arena, lmc_slice *frames, size_t *count);
lmc_status lmc_zmq_decode_reply(const lmc_operation_def *operation, lmc_slice frame,
                                lmc_arena *arena, void *reply, lmc_error *error);

/* ---- gRPC: one protobuf message each way ---- */

/*
 * `out` is zeroed memory. LMC_MALFORMED: not this message (INTERNAL on gRPC). LMC_INVALID: it
 * parses, but an encoded_... member is no MessagePack map (UNKNOWN).
 */
lmc_status lmc_pb_decode(const lmc_message_def *message, lmc_slice bytes, lmc_arena *arena,
                         void *out, lmc_error *error);
/* LMC_INVALID: some text is not UTF-8. */
lmc_status lmc_pb_encode(const lmc_message_def *message, const void *in, lmc_arena *arena,
                         lmc_slice *bytes);
/* As lmc_pb_decode() of the request, without token ids where the operation only counts them. */
lmc_status lmc_pb_decode_request(const lmc_operation_def *operation, lmc_slice bytes,
                                 lmc_arena *arena, void *request, lmc_error *error);
/* As lmc_pb_encode() of the reply: LMC_AGAIN gives the message that says "still pending". */
lmc_status lmc_pb_encode_reply(const lmc_operation_def *operation, const void *reply,
                               lmc_status status, lmc_arena *arena, lmc_slice *bytes);

/* Fills the operation's negative reply (D1) into zeroed memory of reply_size bytes. */
void lmc_reply_negative(const lmc_operation_def *operation, const void *request, void *reply);

#endif
