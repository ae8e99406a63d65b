/*
 * A gRPC message: what decodes must encode, and encode to the same bytes again after another
 * round.
 *
 * Input: operation index, 0 (request) or 1 (reply), then the message.
 */
#include "base/bytes.h"
#include "check.h"
#include "rpc/rpc.h"

static void check_again(const lmc_message_def *message, lmc_slice once, lmc_arena *arena) {
    lmc_slice twice;
    void *value = calloc(1, lmc_message_size(message));
    CHECK(lmc_pb_decode(message, once, arena, value, NULL) == LMC_OK);
    CHECK(lmc_pb_encode(message, value, arena, &twice) == LMC_OK);
    CHECK(lmc_slice_equal(once, twice));
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    const lmc_operation_def *operation = lmc_operation_at(data[0] % lmc_operation_count());
    const lmc_message_def *message = data[1] == 0 ? operation->request : operation->reply;
    lmc_arena arena, scratch;
    lmc_slice once;
    void *value = calloc(1, lmc_message_size(message));
    lmc_arena_init(&arena, 0);
    lmc_arena_init(&scratch, 0);
    lmc_status status =
        lmc_pb_decode(message, lmc_slice_of(data + 2, size - 2), &arena, value, NULL);
    check_memory(&arena, 2 * size);
    CHECK(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
    if (status == LMC_OK) {
        status = lmc_pb_encode(message, value, &scratch, &once);
        CHECK(status == LMC_OK || status == LMC_INVALID);
        if (status == LMC_OK)
            check_again(message, once, &scratch);
    }
    lmc_arena_fini(&arena);
    lmc_arena_fini(&scratch);
    free(value);
    return 0;
}
