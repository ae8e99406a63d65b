/* What the ZMQ codec takes, refuses and fills in, beyond the golden vectors. */
#include "support/golden.h"

#include "base/error.h"
#include "rpc/msgpack.h"
#include "rpc/rpc.h"

typedef struct fixture {
    lmc_arena arena;
    uint8_t bytes[4096]; /* frames under construction */
    lmc_mp_writer writer;
    lmc_slice frames[LMC_FRAMES_MAX + 1];
    size_t count;
    union {
        lmc_lookup_request lookup;
        lmc_free_lookup_locks_request free_locks;
        lmc_ping_request ping;
        lmc_clear_request clear;
        lmc_end_session_request end;
        lmc_wait_prefetch_status_request wait;
        lmc_register_kv_cache_request registration;
        lmc_register_kv_cache_engine_driven_context_request context;
        lmc_store_request store;
        lmc_retrieve_request retrieve;
        lmc_commit_store_request commit;
        lmc_server_module_call_request module_call;
        lmc_report_block_allocation_request report;
        lmc_p2p_lookup_and_lock_request p2p;
    } request;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    lmc_arena_init(&f->arena, 0);
    f->writer.out = f->bytes;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    lmc_arena_fini(&f->arena);
    free(f);
    return 0;
}

/* What was written since the last call becomes the next frame. */
static void end_frame(fixture *f) {
    size_t start = 0;
    for (size_t i = 0; i < f->count; i++)
        start += f->frames[i].size;
    f->frames[f->count++] = lmc_slice_of(f->bytes + start, f->writer.size - start);
}

static void add_raw(fixture *f, const char *hex) {
    lmc_slice bytes = golden_bytes(hex);
    lmc_mp_write_raw(&f->writer, bytes);
    golden_free(bytes);
}

static void frame_hex(fixture *f, const char *hex) {
    add_raw(f, hex);
    end_frame(f);
}

static void frame_int(fixture *f, int64_t value) {
    lmc_mp_write_int(&f->writer, value);
    end_frame(f);
}

static void frame_text(fixture *f, const char *text) {
    lmc_mp_write_name(&f->writer, text);
    end_frame(f);
}

/* Starts a key with the members that are required, tokens given as MessagePack. */
static void begin_key(fixture *f, size_t members, const char *tokens_hex) {
    lmc_mp_writer *w = &f->writer;
    lmc_mp_write_map(w, members);
    lmc_mp_write_name(w, "model_name");
    lmc_mp_write_name(w, "m");
    lmc_mp_write_name(w, "world_size");
    lmc_mp_write_int(w, 1);
    lmc_mp_write_name(w, "worker_id");
    lmc_mp_write_nil(w);
    lmc_mp_write_name(w, "start");
    lmc_mp_write_int(w, 0);
    lmc_mp_write_name(w, "end");
    lmc_mp_write_int(w, 3);
    lmc_mp_write_name(w, "request_id");
    lmc_mp_write_name(w, "r");
    lmc_mp_write_name(w, "token_ids");
    add_raw(f, tokens_hex);
}

static lmc_status decode(fixture *f, const char *operation) {
    memset(&f->request, 0, sizeof f->request);
    return lmc_zmq_decode_request(lmc_operation_by_name(lmc_text(operation)), f->frames,
                                  f->count, &f->arena, &f->request, NULL);
}

static void decode_lookup(fixture *f, const char *tokens_hex, lmc_status expected) {
    f->count = 0;
    f->writer.size = 0;
    begin_key(f, 7, tokens_hex);
    end_frame(f);
    frame_int(f, 1);
    assert_int_equal(decode(f, "lookup"), expected);
}

static void an_old_key_gets_its_defaults(void **state) {
    fixture *f = *state;
    decode_lookup(f, "93010203", LMC_OK);
    const lmc_cache_key *key = &f->request.lookup.key;
    assert_int_equal(key->present & LMC_CACHE_KEY_HAS_WORKER_ID, 0);
    assert_int_equal(key->cache_salt.size, 0);
    assert_int_equal(key->num_kv_readers, 0);
    assert_null(key->request_configs.data);
    assert_int_equal(key->present & LMC_CACHE_KEY_HAS_NULL_CHUNK_MASK, 0);
    assert_int_equal(key->token_ids.count, 3);
    assert_int_equal(key->token_ids.ids[2], 3);
}

static void token_ids_of_every_width_are_read(void **state) {
    fixture *f = *state;
    decode_lookup(f,
                  "9a"
                  "7f"
                  "cc80"
                  "cdffff"
                  "ceffffffff"
                  "cf00000000ffffffff"
                  "d07f"
                  "d17fff"
                  "d27fffffff"
                  "d300000000ffffffff"
                  "ce00000001",
                  LMC_OK);
    const uint32_t expected[] = {0x7f, 0x80,   0xffff,     0xffffffff, 0xffffffff,
                                 0x7f, 0x7fff, 0x7fffffff, 0xffffffff, 1};
    assert_int_equal(f->request.lookup.key.token_ids.count, 10);
    assert_memory_equal(f->request.lookup.key.token_ids.ids, expected, sizeof expected);
    assert_false(f->request.lookup.key.token_ids.out_of_range);
}

static void token_ids_outside_32_bits_decode_but_are_out_of_range(void **state) {
    fixture *f = *state;
    static const char *const lists[] = {"93ff0203", "9301d0ff03", "930102cf0000000100000000",
                                        "93d3ffffffffffffffff0203", "93cfffffffffffffffff0203"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        decode_lookup(f, lists[i], LMC_OK);
        assert_true(f->request.lookup.key.token_ids.out_of_range);
        assert_null(f->request.lookup.key.token_ids.ids);
        assert_int_equal(f->request.lookup.key.token_ids.count, 3);
    }
}

static void token_ids_that_are_no_integers_do_not_decode(void **state) {
    fixture *f = *state;
    static const char *const lists[] = {"9301a1610a", "93cb3ff80000000000000203",
                                        "9301c003",   "9301c303",
                                        "9301029103", "c403010203",
                                        "a3616263",   "c0"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        decode_lookup(f, lists[i], LMC_MALFORMED);
}

static void a_list_longer_than_its_bytes_does_not_decode(void **state) {
    fixture *f = *state;
    decode_lookup(f, "ddffffffff010203", LMC_MALFORMED);
    decode_lookup(f, "dc0100010203", LMC_MALFORMED);
    assert_true(f->arena.used < 4096);
}

static void token_ids_are_only_counted_where_nobody_needs_them(void **state) {
    fixture *f = *state;
    begin_key(f, 7, "9301cd0200cf0000000100000000");
    end_frame(f);
    frame_int(f, 1);
    assert_int_equal(decode(f, "free_lookup_locks"), LMC_OK);
    assert_null(f->request.free_locks.key.token_ids.ids);
    assert_int_equal(f->request.free_locks.key.token_ids.count, 3);
    assert_false(f->request.free_locks.key.token_ids.out_of_range);
}

static void token_ids_are_decoded_for_a_commit_that_brings_data(void **state) {
    fixture *f = *state;
    for (int with_data = 0; with_data < 2; with_data++) {
        f->count = 0;
        f->writer.size = 0;
        begin_key(f, 7, "93010203");
        end_frame(f);
        frame_int(f, 9);
        frame_hex(f, with_data ? "c40464617461" : "c400");
        assert_int_equal(decode(f, "commit_store"), LMC_OK);
        assert_int_equal(f->request.commit.key.token_ids.count, 3);
        assert_true((f->request.commit.key.token_ids.ids != NULL) == with_data);
        assert_int_equal(f->request.commit.data.size, with_data ? 4 : 0);
    }
}

static void a_list_beyond_any_prompt_is_out_of_range(void **state) {
    fixture *f = *state;
    size_t count = ((size_t)1 << 24) + 1;
    lmc_mp_writer head = {.out = f->bytes};
    f->writer = head;
    begin_key(f, 7, "");
    lmc_mp_write_array(&f->writer, count);
    uint8_t *frame = calloc(1, f->writer.size + count);
    memcpy(frame, f->bytes, f->writer.size);
    f->frames[0] = lmc_slice_of(frame, f->writer.size + count);
    f->frames[1] = lmc_slice_of("\x01", 1);
    f->count = 2;
    assert_int_equal(decode(f, "lookup"), LMC_OK);
    assert_true(f->request.lookup.key.token_ids.out_of_range);
    assert_int_equal(f->request.lookup.key.token_ids.count, count);
    assert_true(f->arena.used < 4096);
    free(frame);
}

static void a_missing_required_member_does_not_decode(void **state) {
    fixture *f = *state;
    frame_hex(f, "81aa6d6f64656c5f6e616d65a16d");
    frame_int(f, 1);
    assert_int_equal(decode(f, "lookup"), LMC_MALFORMED);
}

static void unknown_keys_are_skipped_and_the_last_of_equal_keys_counts(void **state) {
    fixture *f = *state;
    begin_key(f, 11, "9101");
    lmc_mp_write_name(&f->writer, "something_new");
    add_raw(f, "82a16191c0a162d6ff00000000"); /* {"a": [nil], "b": ext} */
    lmc_mp_write_name(&f->writer, "end");
    lmc_mp_write_int(&f->writer, 7);
    lmc_mp_write_name(&f->writer, "cache_salt");
    lmc_mp_write_name(&f->writer, "x");
    lmc_mp_write_name(&f->writer, "cache_salt");
    lmc_mp_write_nil(&f->writer);
    end_frame(f);
    frame_int(f, 1);
    assert_int_equal(decode(f, "lookup"), LMC_OK);
    assert_int_equal(f->request.lookup.key.end, 7);
    assert_int_equal(f->request.lookup.key.cache_salt.size, 0);
}

static void nesting_beyond_the_bound_does_not_decode(void **state) {
    fixture *f = *state;
    frame_text(f, "r");
    lmc_mp_write_map(&f->writer, 1);
    lmc_mp_write_name(&f->writer, "k");
    for (int i = 0; i < 100; i++)
        lmc_mp_write_array(&f->writer, 1);
    lmc_mp_write_nil(&f->writer);
    end_frame(f);
    assert_int_equal(decode(f, "end_session"), LMC_MALFORMED);
}

static void raw_maps_have_text_keys_and_sound_texts(void **state) {
    fixture *f = *state;
    static const struct {
        const char *hex;
        lmc_status status;
    } maps[] = {
        {"80", LMC_OK},
        {"81a16190", LMC_OK},
        {"81a161a2c3a9", LMC_OK},
        {"8101c0", LMC_MALFORMED},
        {"81a161a2c328", LMC_MALFORMED},
        {"90", LMC_MALFORMED},
        {"81a1ffc0", LMC_MALFORMED},
        {"81c0c0", LMC_MALFORMED},
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        f->count = 0;
        f->writer.size = 0;
        frame_text(f, "r");
        frame_hex(f, maps[i].hex);
        assert_int_equal(decode(f, "end_session"), maps[i].status);
    }
}

static void text_and_bytes_are_not_interchangeable(void **state) {
    fixture *f = *state;
    frame_hex(f, "c40172");
    assert_int_equal(decode(f, "end_session"), LMC_MALFORMED);
    frame_hex(f, "a2c328"); /* not UTF-8 */
    f->frames[0] = f->frames[1];
    f->count = 1;
    assert_int_equal(decode(f, "end_session"), LMC_MALFORMED);
}

static void decode_ping(fixture *f, const char *hex, lmc_status status, int64_t id) {
    f->count = 0;
    f->writer.size = 0;
    frame_hex(f, hex);
    assert_int_equal(decode(f, "ping"), status);
    if (status == LMC_OK)
        assert_true(f->request.ping.instance_id == id);
}

static void integers_of_every_width_are_read_and_cut_off_at_the_top(void **state) {
    fixture *f = *state;
    decode_ping(f, "d3ffffffffffffff80", LMC_OK, -128);
    decode_ping(f, "d080", LMC_OK, -128);
    decode_ping(f, "e0", LMC_OK, -32);
    decode_ping(f, "cf0000000000000001", LMC_OK, 1);
    decode_ping(f, "cfffffffffffffffff", LMC_OK, INT64_MAX);
    decode_ping(f, "a131", LMC_MALFORMED, 0);
    decode_ping(f, "9101", LMC_MALFORMED, 0);
    decode_ping(f, "c1", LMC_MALFORMED, 0);
}

static void a_frame_of_one_number_may_be_any_number(void **state) {
    fixture *f = *state;
    decode_ping(f, "cb4008000000000000", LMC_OK, 3);
    decode_ping(f, "c3", LMC_OK, 1);
    decode_ping(f, "cb7ff8000000000000", LMC_MALFORMED, 0); /* NaN */
    decode_ping(f, "cb7fefffffffffffff", LMC_MALFORMED, 0); /* too large */
    f->count = 0;
    frame_int(f, 0);
    f->frames[0] = lmc_slice_of("\x00", 1);
    assert_int_equal(decode(f, "clear"), LMC_OK);
    assert_false(f->request.clear.force);
}

static void inside_a_structure_a_float_is_no_integer(void **state) {
    fixture *f = *state;
    begin_key(f, 8, "9101");
    lmc_mp_write_name(&f->writer, "num_kv_readers");
    lmc_mp_write_float(&f->writer, 1);
    end_frame(f);
    frame_int(f, 1);
    assert_int_equal(decode(f, "lookup"), LMC_MALFORMED);
}

static void old_clients_may_leave_frames_out(void **state) {
    fixture *f = *state;
    assert_int_equal(decode(f, "ping"), LMC_OK);
    assert_int_equal(f->request.ping.present, 0);
    assert_int_equal(decode(f, "clear"), LMC_OK);
    assert_true(f->request.clear.force);
    assert_int_equal(decode(f, "end_session"), LMC_MALFORMED);
    frame_text(f, "r");
    assert_int_equal(decode(f, "end_session"), LMC_OK);
    assert_null(f->request.end.end_info.data);
}

static void frames_too_many_do_not_decode(void **state) {
    fixture *f = *state;
    frame_hex(f, "c0");
    frame_hex(f, "c0");
    assert_int_equal(decode(f, "ping"), LMC_MALFORMED);
    assert_int_equal(decode(f, "clear"), LMC_MALFORMED);
    assert_int_equal(decode(f, "noop"), LMC_MALFORMED);
    assert_int_equal(decode(f, "server_module_call"), LMC_MALFORMED);
}

static void a_retrieve_without_skip_skips_nothing(void **state) {
    fixture *f = *state;
    begin_key(f, 7, "9101");
    end_frame(f);
    frame_int(f, 5);
    frame_hex(f, "92920102"
                 "90");
    frame_hex(f, "c400");
    assert_int_equal(decode(f, "retrieve"), LMC_OK);
    assert_int_equal(f->request.retrieve.skip_first_n_tokens, 0);
    assert_int_equal(f->request.retrieve.block_ids.count, 2);
    assert_int_equal(f->request.retrieve.block_ids.items[0].items[1], 2);
    assert_int_equal(f->request.retrieve.block_ids.items[1].count, 0);
}

static void nil_is_refused_where_a_value_is_required(void **state) {
    fixture *f = *state;
    frame_hex(f, "c0");
    assert_int_equal(decode(f, "query_prefetch_status"), LMC_MALFORMED);
    assert_int_equal(decode(f, "unregister_kv_cache"), LMC_MALFORMED);
}

static void a_group_without_a_window_has_full_attention(void **state) {
    fixture *f = *state;
    lmc_mp_write_map(&f->writer, 9);
    add_raw(f, "ab696e7374616e63655f696401"           /* instance_id */
               "aa6d6f64656c5f6e616d65a16d"           /* model_name */
               "aa776f726c645f73697a6501"             /* world_size */
               "aa626c6f636b5f73697a6510"             /* block_size */
               "aa6e756d5f6c617965727302"             /* num_layers */
               "af68696464656e5f64696d5f73697a6508"); /* hidden_dim_size */
    lmc_mp_write_name(&f->writer, "dtype_str");
    lmc_mp_write_name(&f->writer, "float16");
    lmc_mp_write_name(&f->writer, "use_mla");
    lmc_mp_write_bool(&f->writer, true);
    lmc_mp_write_name(&f->writer, "engine_group_infos");
    add_raw(f, "9181af656e67696e655f67726f75705f696403"); /* [{"engine_group_id": 3}] */
    end_frame(f);
    assert_int_equal(decode(f, "register_kv_cache_engine_driven_context"), LMC_OK);
    const lmc_register_kv_cache_engine_driven_context_request *request = &f->request.context;
    assert_int_equal(request->engine_group_infos.count, 1);
    assert_int_equal(request->engine_group_infos.items[0].engine_group_id, 3);
    assert_int_equal(request->engine_group_infos.items[0].sw_size_tokens, -1);
    assert_true(request->use_mla);
}

static void only_wrappers_are_taken_for_wrappers(void **state) {
    fixture *f = *state;
    static const char *const wrappers[] = {"91d401ab", "91d402ab", "91c40102", "c0"};
    for (size_t i = 0; i < 4; i++) {
        f->count = 0;
        f->writer.size = 0;
        frame_int(f, 1);
        frame_hex(f, wrappers[i]);
        frame_text(f, "m");
        frame_int(f, 1);
        frame_int(f, 2);
        frame_hex(f, "c0");
        frame_hex(f, "90");
        assert_int_equal(decode(f, "register_kv_cache"), i == 0 ? LMC_OK : LMC_MALFORMED);
    }
}

static void an_engine_type_may_be_a_number(void **state) {
    fixture *f = *state;
    frame_int(f, 1);
    frame_hex(f, "90");
    frame_text(f, "m");
    frame_int(f, 1);
    frame_int(f, 12);
    frame_hex(f, "c0");
    frame_hex(f, "90");
    assert_int_equal(decode(f, "register_kv_cache"), LMC_OK);
    assert_true(lmc_slice_is(f->request.registration.engine_type, "12"));
    assert_null(f->request.registration.layout_hints.data);
}

static void a_module_call_that_does_not_decode_is_still_answered(void **state) {
    fixture *f = *state;
    frame_hex(f, "c1");
    assert_int_equal(decode(f, "server_module_call"), LMC_INVALID);
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text("server_module_call"));
    lmc_server_module_call_reply reply = {0};
    lmc_reply_negative(operation, NULL, &reply);
    assert_false(reply.success);
    assert_int_equal(reply.payload.size, 0);
    assert_true(reply.error.size > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_old_key_gets_its_defaults),
        TEST(token_ids_of_every_width_are_read),
        TEST(token_ids_outside_32_bits_decode_but_are_out_of_range),
        TEST(token_ids_that_are_no_integers_do_not_decode),
        TEST(a_list_longer_than_its_bytes_does_not_decode),
        TEST(token_ids_are_only_counted_where_nobody_needs_them),
        TEST(token_ids_are_decoded_for_a_commit_that_brings_data),
        TEST(a_list_beyond_any_prompt_is_out_of_range),
        TEST(a_missing_required_member_does_not_decode),
        TEST(unknown_keys_are_skipped_and_the_last_of_equal_keys_counts),
        TEST(nesting_beyond_the_bound_does_not_decode),
        TEST(raw_maps_have_text_keys_and_sound_texts),
        TEST(text_and_bytes_are_not_interchangeable),
        TEST(integers_of_every_width_are_read_and_cut_off_at_the_top),
        TEST(a_frame_of_one_number_may_be_any_number),
        TEST(inside_a_structure_a_float_is_no_integer),
        TEST(old_clients_may_leave_frames_out),
        TEST(frames_too_many_do_not_decode),
        TEST(a_retrieve_without_skip_skips_nothing),
        TEST(nil_is_refused_where_a_value_is_required),
        TEST(a_group_without_a_window_has_full_attention),
        TEST(only_wrappers_are_taken_for_wrappers),
        TEST(an_engine_type_may_be_a_number),
        TEST(a_module_call_that_does_not_decode_is_still_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
