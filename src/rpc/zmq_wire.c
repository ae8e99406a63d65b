#include "base/bytes.h"
#include "base/error.h"
#include "rpc/rpc.h"
#include "rpc/zmq_values.h"

static lmc_status decode_failed(const char *name, const lmc_zmq_decoder *decoder,
                                lmc_error *error) {
    if (decoder->status == LMC_NO_MEMORY)
        return lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory to decode", name);
    if (decoder->failed == NULL)
        return lmc_error_set(error, decoder->status, "%s: payload does not decode", name);
    return lmc_error_set(error, decoder->status, "%s: '%s' does not decode", name,
                         decoder->failed->name);
}

/* Trailing members that may be missing need no frame. */
static size_t fewest_frames(const lmc_message_def *message) {
    if (message->form != LMC_FORM_FRAMES)
        return 1;
    size_t count = message->member_count;
    while (count > 0 && (message->required & message->members[count - 1].bit) == 0)
        count--;
    return count;
}

static size_t most_frames(const lmc_message_def *message) {
    return message->form == LMC_FORM_FRAMES ? message->member_count : 1;
}

static bool decode_frame(lmc_zmq_decoder *decoder, const lmc_message_def *message, size_t index,
                         lmc_slice frame, void *base) {
    decoder->in = lmc_mp_reader_of(frame);
    decoder->whole_frame = message->form == LMC_FORM_FRAMES || message->form == LMC_FORM_BARE;
    bool decoded = message->form == LMC_FORM_FRAMES
                       ? lmc_zmq_decode_member(decoder, &message->members[index], base)
                       : lmc_zmq_decode_message(decoder, message, base);
    return decoded && decoder->in.at == decoder->in.end;
}

/* A payload of bytes that is not empty; an empty one is at most five bytes long. */
static bool brings_data(const lmc_message_def *message, const lmc_slice *frames, size_t count) {
    if (message->form != LMC_FORM_FRAMES)
        return false;
    for (size_t i = 0; i < count; i++)
        if (message->members[i].kind == LMC_KIND_DATA && frames[i].size > 5)
            return true;
    return false;
}

lmc_status lmc_zmq_decode_request(const lmc_operation_def *operation, const lmc_slice *frames,
                                  size_t count, lmc_arena *arena, void *request,
                                  lmc_error *error) {
    const lmc_message_def *message = operation->request;
    if (count < fewest_frames(message) || count > most_frames(message))
        return lmc_error_set(error, LMC_MALFORMED, "%s: %zu payload frames", operation->name,
                             count);
    lmc_zmq_decoder decoder = {
        .arena = arena,
        .status = operation->answers_all ? LMC_INVALID : LMC_MALFORMED,
        .count_tokens = operation->counts_tokens && !brings_data(message, frames, count),
    };
    lmc_zmq_fill_fallbacks(message, request);
    for (size_t i = 0; i < count; i++)
        if (!decode_frame(&decoder, message, i, frames[i], request))
            return decode_failed(operation->name, &decoder, error);
    return LMC_OK;
}

lmc_status lmc_zmq_reply_size(const lmc_operation_def *operation, const void *reply,
                              lmc_status status, bool *has_frame, size_t *size) {
    *size = 0;
    *has_frame = status == LMC_OK && !operation->is_void;
    if (status != LMC_OK && !(status == LMC_AGAIN && operation->may_pend))
        return LMC_INVALID;
    if (!*has_frame)
        return LMC_OK;
    lmc_mp_writer writer = {0};
    lmc_zmq_write_message(&writer, operation->reply, reply);
    *size = writer.size;
    return writer.invalid ? LMC_INVALID : LMC_OK;
}

void lmc_zmq_write_reply(const lmc_operation_def *operation, const void *reply, void *out,
                         size_t size) {
    (void)size;
    lmc_mp_writer writer = {.out = out};
    lmc_zmq_write_message(&writer, operation->reply, reply);
}

lmc_status lmc_zmq_decode_reply(const lmc_operation_def *operation, lmc_slice frame,
                                lmc_arena *arena, void *reply, lmc_error *error) {
    if (operation->is_void)
        return LMC_OK;
    lmc_zmq_decoder decoder = {.arena = arena, .status = LMC_MALFORMED};
    if (decode_frame(&decoder, operation->reply, 0, frame, reply))
        return LMC_OK;
    return decode_failed(operation->name, &decoder, error);
}

size_t lmc_zmq_request_frames(const lmc_operation_def *operation, const void *request) {
    const lmc_message_def *message = operation->request;
    size_t count = most_frames(message);
    while (message->form == LMC_FORM_FRAMES && count > 0 &&
           message->members[count - 1].presence == LMC_PRESENCE_EXTRA &&
           (lmc_present(request) & message->members[count - 1].bit) == 0)
        count--;
    return count;
}

static void write_frame(lmc_mp_writer *writer, const lmc_message_def *message,
                        const void *request, size_t frame) {
    if (message->form == LMC_FORM_FRAMES)
        lmc_zmq_write_member(writer, &message->members[frame], request);
    else
        lmc_zmq_write_message(writer, message, request);
}

lmc_status lmc_zmq_request_size(const lmc_operation_def *operation, const void *request,
                                size_t frame, size_t *size) {
    lmc_mp_writer writer = {0};
    write_frame(&writer, operation->request, request, frame);
    *size = writer.size;
    return writer.invalid ? LMC_INVALID : LMC_OK;
}

void lmc_zmq_write_request(const lmc_operation_def *operation, const void *request,
                           size_t frame, void *out, size_t size) {
    (void)size;
    lmc_mp_writer writer = {.out = out};
    write_frame(&writer, operation->request, request, frame);
}

lmc_status lmc_zmq_encode_request(const lmc_operation_def *operation, const void *request,
                                  lmc_arena *arena, lmc_slice *frames, size_t *count) {
    *count = lmc_zmq_request_frames(operation, request);
    for (size_t i = 0; i < *count; i++) {
        size_t size;
        lmc_status status = lmc_zmq_request_size(operation, request, i, &size);
        if (status != LMC_OK)
            return status;
        void *out = lmc_arena_alloc(arena, size);
        if (out == NULL)
            return LMC_NO_MEMORY;
        lmc_zmq_write_request(operation, request, i, out, size);
        frames[i] = lmc_slice_of(out, size);
    }
    return LMC_OK;
}
