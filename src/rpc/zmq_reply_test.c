/* Replies, negatives, operations and the client's side of the ZMQ codec. */
#include "support/golden.h"

#include "base/error.h"
#include "rpc/rpc.h"

typedef struct fixture {
    lmc_arena arena;
    uint8_t bytes[1024]; /* a result frame */
    lmc_slice frames[LMC_FRAMES_MAX];
    union {
        lmc_lookup_request lookup;
        lmc_end_session_request end;
    } request;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    lmc_arena_init(&f->arena, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    lmc_arena_fini(&f->arena);
    free(f);
    return 0;
}

static void assert_negative(const char *name, const char *hex) {
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text(name));
    uint64_t reply[64] = {0};
    uint8_t written[512];
    bool has_frame;
    size_t size;
    assert_true(operation->reply_size <= sizeof reply);
    assert_int_not_equal(operation->negative, LMC_NEGATIVE_NONE);
    lmc_reply_negative(operation, NULL, reply);
    assert_int_equal(lmc_zmq_reply_size(operation, reply, LMC_OK, &has_frame, &size), LMC_OK);
    assert_true(has_frame == (hex != NULL));
    if (hex == NULL)
        return;
    lmc_zmq_write_reply(operation, reply, written, size);
    lmc_slice expected = golden_bytes(hex);
    assert_true(lmc_slice_equal(lmc_slice_of(written, size), expected));
    golden_free(expected);
}

static void negatives_are_those_of_the_decision(void **state) {
    (void)state;
    assert_negative("lookup", NULL);
    assert_negative("free_lookup_locks", NULL);
    assert_negative("end_session", NULL);
    assert_negative("unregister_kv_cache", NULL);
    assert_negative("unregister_kv_cache_engine_driven_context", NULL);
    assert_negative("clear", NULL);
    assert_negative("report_block_allocation", NULL);
    assert_negative("query_prefetch_status", "00");
    assert_negative("wait_prefetch_status", "00");
    assert_negative("query_prefetch_lookup_hits", "00");
    assert_negative("prepare_store", "81a7636f6e7465787482a5736c6f747390"
                                     "ad6368756e6b5f696e646963657390");
    assert_negative("commit_store", "c2");
    assert_negative("prepare_retrieve", "83a773756363657373c2a464617461c400a7636f6e7465787480");
    assert_negative("commit_retrieve", "c3");
    assert_negative("store", "92c400c2");
    assert_negative("retrieve", "92c400c2");
    static const char *const silent[] = {"register_kv_cache",
                                         "ping",
                                         "noop",
                                         "get_chunk_size",
                                         "get_experimental",
                                         "p2p_lookup_and_lock",
                                         "cb_unified_lookup"};
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        assert_int_equal(lmc_operation_by_name(lmc_text(silent[i]))->negative,
                         LMC_NEGATIVE_NONE);
}

static void a_refused_registration_says_why(void **state) {
    fixture *f = *state;
    const lmc_operation_def *operation =
        lmc_operation_by_name(lmc_text("register_kv_cache_engine_driven_context"));
    lmc_register_kv_cache_engine_driven_context_reply reply = {0}, read = {0};
    lmc_reply_negative(operation, NULL, &reply);
    bool has_frame;
    size_t size;
    assert_int_equal(lmc_zmq_reply_size(operation, &reply, LMC_OK, &has_frame, &size), LMC_OK);
    lmc_zmq_write_reply(operation, &reply, f->bytes, size);
    assert_int_equal(f->bytes[0], 0x85);
    assert_int_equal(
        lmc_zmq_decode_reply(operation, lmc_slice_of(f->bytes, size), &f->arena, &read, NULL),
        LMC_OK);
    assert_int_equal(read.shm_name.size, 0);
    assert_int_equal(read.pool_size, 0);
    assert_true(read.error.size > 0);
}

static void bytes_in_pieces_go_out_as_one(void **state) {
    fixture *f = *state;
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text("prepare_retrieve"));
    lmc_slice pieces[] = {lmc_text("ab"), {NULL, 0}, lmc_text("cde")};
    lmc_prepare_retrieve_reply reply = {.success = true, .data = {pieces, 3, 5}}, read = {0};
    bool has_frame;
    size_t size;
    assert_int_equal(lmc_zmq_reply_size(operation, &reply, LMC_OK, &has_frame, &size), LMC_OK);
    lmc_zmq_write_reply(operation, &reply, f->bytes, size);
    assert_int_equal(
        lmc_zmq_decode_reply(operation, lmc_slice_of(f->bytes, size), &f->arena, &read, NULL),
        LMC_OK);
    assert_int_equal(read.data.count, 1);
    assert_true(lmc_slice_is(read.data.items[0], "abcde"));
}

static void a_reply_that_no_peer_could_read_is_not_written(void **state) {
    (void)state;
    bool has_frame;
    size_t size;
    lmc_server_module_call_reply call = {.error = lmc_slice_of("\xc3\x28", 2)};
    assert_int_equal(lmc_zmq_reply_size(lmc_operation_by_name(lmc_text("server_module_call")),
                                        &call, LMC_OK, &has_frame, &size),
                     LMC_INVALID);
    lmc_prepare_store_reply store = {.context = lmc_slice_of("\x91\x01", 2)};
    assert_int_equal(lmc_zmq_reply_size(lmc_operation_by_name(lmc_text("prepare_store")),
                                        &store, LMC_OK, &has_frame, &size),
                     LMC_INVALID);
    lmc_ping_reply ping = {.ok = true};
    assert_int_equal(lmc_zmq_reply_size(lmc_operation_by_name(lmc_text("ping")), &ping,
                                        LMC_AGAIN, &has_frame, &size),
                     LMC_INVALID);
}

static void a_client_sends_the_newest_arity(void **state) {
    fixture *f = *state;
    size_t count;
    assert_int_equal(lmc_zmq_encode_request(lmc_operation_by_name(lmc_text("ping")),
                                            &f->request, &f->arena, f->frames, &count),
                     LMC_OK);
    assert_int_equal(count, 1);
    assert_true(lmc_slice_is(f->frames[0], "\xc0"));
    assert_int_equal(lmc_zmq_encode_request(lmc_operation_by_name(lmc_text("clear")),
                                            &f->request, &f->arena, f->frames, &count),
                     LMC_OK);
    assert_int_equal(count, 1);
    assert_true(lmc_slice_is(f->frames[0], "\xc3"));
    f->request.end.request_id = lmc_text("r");
    assert_int_equal(lmc_zmq_encode_request(lmc_operation_by_name(lmc_text("end_session")),
                                            &f->request, &f->arena, f->frames, &count),
                     LMC_OK);
    assert_int_equal(count, 1);
}

static void token_ids_are_written_as_short_as_they_can_be(void **state) {
    fixture *f = *state;
    static const uint32_t ids[] = {0, 127, 128, 255, 256, 65535, 65536, UINT32_MAX};
    f->request.lookup.key.token_ids = (lmc_tokens){ids, 8, false};
    size_t count;
    assert_int_equal(lmc_zmq_encode_request(lmc_operation_by_name(lmc_text("lookup")),
                                            &f->request, &f->arena, f->frames, &count),
                     LMC_OK);
    lmc_slice expected = golden_bytes("98007fcc80ccffcd0100cdffffce00010000ceffffffffa5");
    assert_non_null(memmem(f->frames[0].data, f->frames[0].size, expected.data, expected.size));
    golden_free(expected);
}

static void operations_are_found_by_id_and_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < lmc_operation_count(); i++) {
        const lmc_operation_def *operation = lmc_operation_at(i);
        assert_int_equal(operation->index, i);
        assert_ptr_equal(lmc_operation_by_name(lmc_text(operation->name)), operation);
        if (operation->legacy_id != 0)
            assert_ptr_equal(lmc_operation_by_id(operation->legacy_id), operation);
    }
    static const int64_t unknown[] = {0, -1, 35, 99, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_null(lmc_operation_by_id(unknown[i]));
    assert_null(lmc_operation_at(lmc_operation_count()));
}

static void an_operation_frame_that_does_not_decode_says_so(void **state) {
    (void)state;
    static const struct {
        const char *hex;
        lmc_status status;
    } frames[] = {
        {"", LMC_MALFORMED},
        {"c0", LMC_MALFORMED},
        {"cb3ff8000000000000", LMC_MALFORMED},
        {"1818", LMC_MALFORMED},
        {"a46e6f", LMC_MALFORMED},
        {"63", LMC_NOT_FOUND},
        {"a178", LMC_NOT_FOUND},
        {"c3", LMC_MALFORMED},
        {"c4046e6f6f70", LMC_MALFORMED},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        lmc_error error = LMC_ERROR_INIT;
        lmc_slice frame = golden_bytes(frames[i].hex);
        assert_null(lmc_zmq_read_operation(frame, &error));
        assert_int_equal(error.status, frames[i].status);
        golden_free(frame);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(negatives_are_those_of_the_decision),
        TEST(a_refused_registration_says_why),
        TEST(bytes_in_pieces_go_out_as_one),
        TEST(a_reply_that_no_peer_could_read_is_not_written),
        TEST(a_client_sends_the_newest_arity),
        TEST(token_ids_are_written_as_short_as_they_can_be),
        TEST(operations_are_found_by_id_and_by_name),
        TEST(an_operation_frame_that_does_not_decode_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
