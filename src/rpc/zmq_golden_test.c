/* Every vector of zmq-requests.json through the ZMQ codec, whole and damaged. */
#include "support/golden.h"

#include "base/error.h"
#include "rpc/rpc.h"
#include "support/alloc_fault.h"

/* Vectors in an older or looser spelling than the one we write. */
static const char *const respelled[] = {
    "lookup_key_v1_no_readers",
    "lookup_key_v0",
    "clear_legacy_no_payload",
    "end_session_with_info_nil",
    "wait_prefetch_status_int_timeout",
    "register_engine_driven_legacy8",
    "register_engine_driven_reply_two_fields",
    "register_engine_driven_kernel_groups",
    "register_kv_cache_hints_nil",
};

typedef struct exchange {
    const lmc_operation_def *operation;
    golden_frames request, response;
    bool answered;
    bool same_spelling;
    const char *name;
} exchange;

typedef void exchange_test(const exchange *vector);

static void for_each_vector(exchange_test *test) {
    json_t *vectors = golden_load("zmq-requests.json");
    size_t i;
    json_t *vector;
    json_array_foreach(vectors, i, vector) {
        exchange e = {
            .request = golden_read_frames(vector, "frames_hex"),
            .response = golden_read_frames(vector, "response_frames_hex"),
            .answered = json_is_true(json_object_get(vector, "reply")),
            .same_spelling = true,
            .name = golden_text(vector, "name"),
        };
        for (size_t j = 0; j < sizeof respelled / sizeof respelled[0]; j++)
            if (strcmp(e.name, respelled[j]) == 0)
                e.same_spelling = false;
        e.operation = lmc_zmq_read_operation(e.request.frames[1], NULL);
        test(&e);
        golden_free_frames(&e.request);
        golden_free_frames(&e.response);
    }
    json_decref(vectors);
}

/* Where an operation only counts token ids, the vector is read as if it needed them. */
static lmc_operation_def with_tokens(const lmc_operation_def *operation) {
    lmc_operation_def copy = *operation;
    copy.counts_tokens = false;
    return copy;
}

static lmc_status decode(const lmc_operation_def *operation, const lmc_slice *frames,
                         size_t count, lmc_arena *arena, void **request) {
    *request = calloc(1, operation->request_size);
    assert_non_null(*request);
    return lmc_zmq_decode_request(operation, frames, count, arena, *request, NULL);
}

static void assert_same(const char *name, lmc_slice got, lmc_slice expected) {
    if (!lmc_slice_equal(got, expected))
        print_error("vector %s: %zu bytes where %zu are due\n", name, got.size, expected.size);
    assert_true(lmc_slice_equal(got, expected));
}

/* Decodes frames, encodes what came out, and does both again: the second time nothing changes.
 */
static void check_request(const exchange *e) {
    if (!e->answered)
        return;
    assert_non_null(e->operation);
    lmc_operation_def operation = with_tokens(e->operation);
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    void *first, *second;
    lmc_slice once[LMC_FRAMES_MAX], twice[LMC_FRAMES_MAX];
    size_t count, again;
    const lmc_slice *payload = e->request.frames + 2;
    assert_int_equal(decode(&operation, payload, e->request.count - 2, &arena, &first), LMC_OK);
    assert_int_equal(lmc_zmq_encode_request(&operation, first, &arena, once, &count), LMC_OK);
    for (size_t i = 0; e->same_spelling && i < count; i++)
        assert_same(e->name, once[i], payload[i]);
    if (e->same_spelling && count != e->request.count - 2)
        fail_msg("vector %s: %zu frames", e->name, count);
    assert_int_equal(decode(&operation, once, count, &arena, &second), LMC_OK);
    assert_int_equal(lmc_zmq_encode_request(&operation, second, &arena, twice, &again), LMC_OK);
    assert_int_equal(again, count);
    for (size_t i = 0; i < count; i++)
        assert_same(e->name, twice[i], once[i]);
    free(first);
    free(second);
    lmc_arena_fini(&arena);
}

static void every_request_decodes_and_encodes_back(void **state) {
    (void)state;
    for_each_vector(check_request);
}

static void check_silence(const exchange *e) {
    if (e->answered || e->operation == NULL)
        return;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    void *request;
    assert_int_equal(
        decode(e->operation, e->request.frames + 2, e->request.count - 2, &arena, &request),
        LMC_MALFORMED);
    free(request);
    lmc_arena_fini(&arena);
}

static void requests_that_stay_unanswered_do_not_decode(void **state) {
    (void)state;
    for_each_vector(check_silence);
}

static void check_reply(const exchange *e) {
    if (!e->answered)
        return;
    const lmc_operation_def *operation = e->operation;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    void *reply = calloc(1, operation->reply_size);
    assert_non_null(reply);
    bool pending = e->response.count == 2;
    lmc_slice expected = pending ? (lmc_slice){0} : e->response.frames[2];
    if (!pending)
        assert_int_equal(lmc_zmq_decode_reply(operation, expected, &arena, reply, NULL),
                         LMC_OK);
    bool has_frame;
    size_t size;
    lmc_status status = pending && !operation->is_void ? LMC_AGAIN : LMC_OK;
    assert_int_equal(lmc_zmq_reply_size(operation, reply, status, &has_frame, &size), LMC_OK);
    assert_true(has_frame == !pending);
    uint8_t *written = malloc(size + 1);
    assert_non_null(written);
    if (has_frame)
        lmc_zmq_write_reply(operation, reply, written, size);
    if (e->same_spelling)
        assert_same(e->name, lmc_slice_of(written, size), expected);
    free(written);
    free(reply);
    lmc_arena_fini(&arena);
}

static void every_reply_decodes_and_encodes_back(void **state) {
    (void)state;
    for_each_vector(check_reply);
}

static void check_cut(const exchange *e, size_t frame, size_t size) {
    lmc_slice frames[GOLDEN_FRAMES_MAX];
    size_t count = e->request.count - 2;
    memcpy(frames, e->request.frames + 2, count * sizeof frames[0]);
    frames[frame] = golden_copy(frames[frame].data, size);
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    void *request;
    lmc_status status = decode(e->operation, frames, count, &arena, &request);
    assert_int_equal(status, e->operation->answers_all ? LMC_INVALID : LMC_MALFORMED);
    free(request);
    lmc_arena_fini(&arena);
    golden_free(frames[frame]);
}

static void check_cuts(const exchange *e) {
    for (size_t frame = 2; e->answered && frame < e->request.count; frame++)
        for (size_t size = 0; size < e->request.frames[frame].size; size++)
            check_cut(e, frame - 2, size);
}

static void a_frame_cut_short_anywhere_does_not_decode(void **state) {
    (void)state;
    for_each_vector(check_cuts);
}

static void check_trailing(const exchange *e) {
    for (size_t frame = 2; e->answered && frame < e->request.count; frame++) {
        exchange longer = *e;
        lmc_slice whole = e->request.frames[frame];
        uint8_t *bytes = malloc(whole.size + 1);
        assert_non_null(bytes);
        memcpy(bytes, whole.data, whole.size);
        bytes[whole.size] = 0;
        longer.request.frames[frame] = lmc_slice_of(bytes, whole.size + 1);
        check_cut(&longer, frame - 2, whole.size + 1);
        free(bytes);
    }
}

static void a_frame_with_a_byte_too_many_does_not_decode(void **state) {
    (void)state;
    for_each_vector(check_trailing);
}

/* Each byte of each frame replaced by several others; the outcome is free, a crash is not. */
static void check_flips(const exchange *e) {
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x40};
    for (size_t frame = 2; e->answered && frame < e->request.count; frame++) {
        uint8_t *bytes = (uint8_t *)(uintptr_t)e->request.frames[frame].data;
        for (size_t i = 0; i < e->request.frames[frame].size; i++) {
            uint8_t mask = masks[i % sizeof masks];
            lmc_arena arena;
            lmc_arena_init(&arena, 0);
            void *request;
            bytes[i] ^= mask;
            lmc_status status = decode(e->operation, e->request.frames + 2,
                                       e->request.count - 2, &arena, &request);
            bytes[i] ^= mask;
            assert_true(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
            free(request);
            lmc_arena_fini(&arena);
        }
    }
}

static void a_flipped_byte_is_decoded_or_refused(void **state) {
    (void)state;
    for_each_vector(check_flips);
}

static void check_no_memory(const exchange *e) {
    for (uint64_t nth = 1; e->answered; nth++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        void *request = calloc(1, e->operation->request_size);
        lmc_slice frames[LMC_FRAMES_MAX];
        size_t count;
        lmc_operation_def operation = with_tokens(e->operation);
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_zmq_decode_request(&operation, e->request.frames + 2,
                                                   e->request.count - 2, &arena, request, NULL);
        if (status == LMC_OK)
            status = lmc_zmq_encode_request(&operation, request, &arena, frames, &count);
        lmc_fault_disarm();
        assert_int_equal(status, lmc_fault_hit() ? LMC_NO_MEMORY : LMC_OK);
        lmc_arena_fini(&arena);
        free(request);
        if (!lmc_fault_hit())
            return;
    }
}

static void a_failed_allocation_is_reported_wherever_it_happens(void **state) {
    (void)state;
    for_each_vector(check_no_memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_decodes_and_encodes_back),
        cmocka_unit_test(requests_that_stay_unanswered_do_not_decode),
        cmocka_unit_test(every_reply_decodes_and_encodes_back),
        cmocka_unit_test(a_frame_cut_short_anywhere_does_not_decode),
        cmocka_unit_test(a_frame_with_a_byte_too_many_does_not_decode),
        cmocka_unit_test(a_flipped_byte_is_decoded_or_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
