/*
 * A ZMQ request or result frame: what decodes must encode, and encode to the same bytes again
 * after another round.
 *
 * Input: operation index, 0 (request) or 1 (reply), then per frame two bytes of length and the
 * frame; the last frame takes what is left.
 */
#include <string.h>

#include "base/bytes.h"
#include "check.h"
#include "rpc/rpc.h"

static size_t split(const uint8_t *data, size_t size, lmc_slice *frames) {
    size_t count = 0;
    while (size >= 2 && count < LMC_FRAMES_MAX) {
        size_t length = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        length = length < size ? length : size;
        frames[count++] = lmc_slice_of(data, length);
        data += length;
        size -= length;
    }
    return count;
}

static bool has_tokens_out_of_range(const lmc_operation_def *operation, lmc_slice *frames,
                                    size_t count, const void *request, lmc_arena *arena) {
    return lmc_zmq_encode_request(operation, request, arena, frames, &count) == LMC_INVALID;
}

static void check_request(const lmc_operation_def *operation, lmc_slice *frames, size_t count,
                          size_t size) {
    lmc_arena arena, scratch;
    lmc_slice once[LMC_FRAMES_MAX], twice[LMC_FRAMES_MAX];
    size_t written, again;
    void *first = calloc(1, operation->request_size);
    void *second = calloc(1, operation->request_size);
    lmc_arena_init(&arena, 0);
    lmc_arena_init(&scratch, 0);
    lmc_status status = lmc_zmq_decode_request(operation, frames, count, &arena, first, NULL);
    check_memory(&arena, size);
    CHECK(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
    if (status == LMC_OK && !operation->counts_tokens &&
        !has_tokens_out_of_range(operation, once, LMC_FRAMES_MAX, first, &scratch)) {
        CHECK(lmc_zmq_encode_request(operation, first, &scratch, once, &written) == LMC_OK);
        CHECK(lmc_zmq_decode_request(operation, once, written, &scratch, second, NULL) ==
              LMC_OK);
        CHECK(lmc_zmq_encode_request(operation, second, &scratch, twice, &again) == LMC_OK);
        CHECK(written == again);
        for (size_t i = 0; i < written; i++)
            CHECK(lmc_slice_equal(once[i], twice[i]));
    }
    lmc_arena_fini(&arena);
    lmc_arena_fini(&scratch);
    free(first);
    free(second);
}

static void check_reply(const lmc_operation_def *operation, lmc_slice frame) {
    lmc_arena arena;
    void *reply = calloc(1, operation->reply_size);
    bool has_frame;
    size_t size;
    lmc_arena_init(&arena, 0);
    if (lmc_zmq_decode_reply(operation, frame, &arena, reply, NULL) == LMC_OK &&
        lmc_zmq_reply_size(operation, reply, LMC_OK, &has_frame, &size) == LMC_OK &&
        has_frame) {
        void *out = malloc(size);
        lmc_zmq_write_reply(operation, reply, out, size);
        free(out);
    }
    check_memory(&arena, frame.size);
    lmc_arena_fini(&arena);
    free(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lmc_slice frames[LMC_FRAMES_MAX];
    if (size < 2)
        return 0;
    lmc_zmq_read_operation(lmc_slice_of(data, size), NULL);
    const lmc_operation_def *operation = lmc_operation_at(data[0] % lmc_operation_count());
    if (data[1] != 0) {
        check_reply(operation, lmc_slice_of(data + 2, size - 2));
        return 0;
    }
    size_t count = split(data + 2, size - 2, frames);
    check_request(operation, frames, count, size);
    return 0;
}
