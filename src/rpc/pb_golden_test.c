/* Every vector of grpc-messages.json through the protobuf codec, whole and damaged. */
#include "support/golden.h"

#include "base/error.h"
#include "rpc/rpc.h"
#include "support/alloc_fault.h"
#include <ctype.h>

/* Names that are not the snake case of the wire's; a prefix wraps the message into a field. */
static const struct {
    const char *wire, *ours;
    uint8_t tag;
} renamed[] = {
    {"IpcCacheServerKey", "cache_key", 0},
    {"TransferChannelAddress", "transfer_address", 0},
    {"KvEventRecord", "kv_event", 0},
    {"CbMatchResult", "cb_match", 0},
    {"ChunkStoreResponse", "store_with_chunk_events_reply", 0},
    {"EventIpcHandleResult", "store_reply", 0x0a},
    {"BlockIdGroup", "store_request", 0x1a},
    {"DeviceIpcWrapper", "register_kv_cache_request", 0x12},
};

typedef struct vector {
    const char *name;  /* "PingRequest: zero (present)" */
    const char *cased; /* only the case */
    const lmc_message_def *message;
    lmc_slice bytes;
    bool decode_only, must_fail;
} vector;

typedef void vector_test(const vector *v);

/* PingResponse: ping_reply */
static void snake_case(const char *wire, char *out, size_t size) {
    size_t length = 0;
    for (size_t i = 0; wire[i] != '\0' && length + 2 < size; i++) {
        if (i > 0 && isupper((unsigned char)wire[i]))
            out[length++] = '_';
        out[length++] = (char)tolower((unsigned char)wire[i]);
    }
    out[length] = '\0';
    char *response = strstr(out, "_response");
    if (response != NULL)
        snprintf(response, size - (size_t)(response - out), "_reply");
}

static lmc_slice wrapped(lmc_slice bytes, uint8_t tag) {
    uint8_t frame[130];
    assert_true(bytes.size < 128);
    frame[0] = tag;
    frame[1] = (uint8_t)bytes.size;
    memcpy(frame + 2, bytes.data, bytes.size);
    lmc_slice copy = golden_copy(frame, bytes.size + 2);
    golden_free(bytes);
    return copy;
}

static void identify(vector *v, const char *wire) {
    char ours[128];
    uint8_t tag = 0;
    snake_case(wire, ours, sizeof ours);
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++) {
        if (strcmp(wire, renamed[i].wire) == 0) {
            snprintf(ours, sizeof ours, "%s", renamed[i].ours);
            tag = renamed[i].tag;
        }
    }
    v->message = lmc_message_by_name(ours);
    if (v->message == NULL)
        fail_msg("no message for %s", wire);
    if (tag != 0)
        v->bytes = wrapped(v->bytes, tag);
}

static void for_each_vector(vector_test *test) {
    json_t *vectors = golden_load("grpc-messages.json");
    size_t i;
    json_t *entry;
    char name[256];
    json_array_foreach(vectors, i, entry) {
        const char *wire = golden_text(entry, "message") + strlen("lmcache.mp.");
        snprintf(name, sizeof name, "%s: %s", wire, golden_text(entry, "case"));
        vector v = {
            .name = name,
            .cased = golden_text(entry, "case"),
            .bytes = golden_bytes(golden_text(entry, "bytes_hex")),
            .decode_only = json_is_true(json_object_get(entry, "decode_only")),
            .must_fail = json_is_true(json_object_get(entry, "must_fail")),
        };
        identify(&v, wire);
        test(&v);
        golden_free(v.bytes);
    }
    json_decref(vectors);
}

static void assert_encodes_to(const vector *v, const void *value, lmc_arena *arena) {
    lmc_slice encoded;
    assert_int_equal(lmc_pb_encode(v->message, value, arena, &encoded), LMC_OK);
    if (!lmc_slice_equal(encoded, v->bytes))
        fail_msg("%s: %zu bytes where %zu are due", v->name, encoded.size, v->bytes.size);
}

static void check_both_ways(const vector *v) {
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    void *value = calloc(1, lmc_message_size(v->message));
    lmc_status status = lmc_pb_decode(v->message, v->bytes, &arena, value, NULL);
    if (status != (v->must_fail ? LMC_MALFORMED : LMC_OK))
        fail_msg("%s: status %d", v->name, (int)status);
    bool extreme = strcmp(v->cased, "negative and extreme integers") == 0;
    if (extreme)
        assert_true(((lmc_cache_key *)value)->token_ids.out_of_range);
    else if (!v->must_fail && !v->decode_only)
        assert_encodes_to(v, value, &arena);
    free(value);
    lmc_arena_fini(&arena);
}

static void every_message_decodes_and_encodes_back(void **state) {
    (void)state;
    for_each_vector(check_both_ways);
}

/* A shorter message may be one too, but never reads beyond its bytes. */
static void check_cuts(const vector *v) {
    for (size_t size = 0; size < v->bytes.size; size++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        void *value = calloc(1, lmc_message_size(v->message));
        lmc_slice cut = golden_copy(v->bytes.data, size);
        lmc_status status = lmc_pb_decode(v->message, cut, &arena, value, NULL);
        assert_true(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
        golden_free(cut);
        free(value);
        lmc_arena_fini(&arena);
    }
}

static void a_message_cut_short_is_decoded_or_refused(void **state) {
    (void)state;
    for_each_vector(check_cuts);
}

static void check_flips(const vector *v) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)v->bytes.data;
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x07};
    for (size_t i = 0; i < v->bytes.size * 4; i++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        void *value = calloc(1, lmc_message_size(v->message));
        bytes[i / 4] ^= masks[i % 4];
        lmc_status status = lmc_pb_decode(v->message, v->bytes, &arena, value, NULL);
        bytes[i / 4] ^= masks[i % 4];
        assert_true(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
        free(value);
        lmc_arena_fini(&arena);
    }
}

static void a_flipped_byte_is_decoded_or_refused(void **state) {
    (void)state;
    for_each_vector(check_flips);
}

static void check_no_memory(const vector *v) {
    bool out_of_range = strcmp(v->cased, "negative and extreme integers") == 0;
    for (uint64_t nth = 1; !v->must_fail && !out_of_range; nth++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        void *value = calloc(1, lmc_message_size(v->message));
        lmc_slice encoded;
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_pb_decode(v->message, v->bytes, &arena, value, NULL);
        if (status == LMC_OK)
            status = lmc_pb_encode(v->message, value, &arena, &encoded);
        lmc_fault_disarm();
        assert_int_equal(status, lmc_fault_hit() ? LMC_NO_MEMORY : LMC_OK);
        lmc_arena_fini(&arena);
        free(value);
        if (!lmc_fault_hit())
            return;
    }
}

static void a_failed_allocation_is_reported_wherever_it_happens(void **state) {
    (void)state;
    for_each_vector(check_no_memory);
}

/* ---- beyond the vectors ---- */

static lmc_status decode_hex(const char *message, const char *hex, lmc_arena *arena,
                             void *value) {
    lmc_slice bytes = golden_bytes(hex);
    lmc_arena_init(arena, 0);
    /* Copied into the arena, which outlives the value. */
    void *copy = lmc_arena_alloc(arena, bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    lmc_slice input = lmc_slice_of(copy, bytes.size);
    golden_free(bytes);
    return lmc_pb_decode(lmc_message_by_name(message), input, arena, value, NULL);
}

static void an_old_key_keeps_its_reader_count(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_cache_key key = {0};
    assert_int_equal(decode_hex("cache_key", "0a016d4803", &arena, &key), LMC_OK);
    assert_int_equal(key.num_kv_readers, 3);
    assert_null(key.request_configs.data);
    lmc_arena_fini(&arena);
}

static void request_configs_tell_none_from_empty(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_cache_key key = {0};
    assert_int_equal(decode_hex("cache_key", "4a00", &arena, &key), LMC_OK);
    assert_true(lmc_slice_is(key.request_configs, "\x80"));
    assert_int_equal(key.present, LMC_CACHE_KEY_HAS_REQUEST_CONFIGS);
    lmc_arena_fini(&arena);
}

static void a_map_that_is_none_parses_but_is_invalid(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_cache_key key = {0};
    assert_int_equal(decode_hex("cache_key", "4a0191", &arena, &key), LMC_INVALID);
    lmc_arena_fini(&arena);
    assert_int_equal(decode_hex("cache_key", "4a028080", &arena, &key), LMC_INVALID);
    lmc_arena_fini(&arena);
}

static void repeated_members_go_on_where_they_were_left(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_lookup_request request = {0};
    /* key {token_ids: 1, 2 (packed)}, key {token_ids: 3} {token_ids: 4}, request id between */
    assert_int_equal(decode_hex("lookup_request",
                                "0a0422020102"
                                "0a062003"
                                "20043000"
                                "1005",
                                &arena, &request),
                     LMC_OK);
    const uint32_t expected[] = {1, 2, 3, 4};
    assert_int_equal(request.key.token_ids.count, 4);
    assert_memory_equal(request.key.token_ids.ids, expected, sizeof expected);
    assert_int_equal(request.tp_size, 5);
    lmc_arena_fini(&arena);
}

static void unknown_groups_are_skipped_when_they_close(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_ping_request ping = {0};
    assert_int_equal(decode_hex("ping_request",
                                "0807"
                                "ab02"
                                "b302"
                                "1801"
                                "b402"
                                "ac02",
                                &arena, &ping),
                     LMC_OK);
    assert_int_equal(ping.instance_id, 7);
    lmc_arena_fini(&arena);
    static const char *const broken[] = {"ab02", "ab02b402", "ac02", "0c",
                                         "0601", "0001",     "07"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        assert_int_equal(decode_hex("ping_request", broken[i], &arena, &ping), LMC_MALFORMED);
        lmc_arena_fini(&arena);
    }
}

static void end_info_becomes_the_map_of_the_other_wire(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_end_session_request request = {0};
    assert_int_equal(decode_hex("end_session_request",
                                "0a0172"
                                "1206"
                                "0a0261621000",
                                &arena, &request),
                     LMC_OK);
    lmc_slice expected = golden_bytes("82ad66696e6973685f726561736f6ea26162"
                                      "ad73746f705f746f6b656e5f696400");
    assert_true(lmc_slice_equal(request.end_info, expected));
    golden_free(expected);
    lmc_arena_fini(&arena);
}

static void clear_without_force_keeps_locked_objects(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_clear_request request = {0};
    assert_int_equal(decode_hex("clear_request", "", &arena, &request), LMC_OK);
    assert_false(request.force);
    lmc_arena_fini(&arena);
}

static void a_pending_reply_is_the_empty_message(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_slice bytes;
    lmc_arena_init(&arena, 0);
    lmc_query_prefetch_status_reply reply = {0};
    const lmc_operation_def *operation =
        lmc_operation_by_name(lmc_text("query_prefetch_status"));
    assert_int_equal(lmc_pb_encode_reply(operation, &reply, LMC_AGAIN, &arena, &bytes), LMC_OK);
    assert_int_equal(bytes.size, 0);
    assert_int_equal(lmc_pb_encode_reply(operation, &reply, LMC_OK, &arena, &bytes), LMC_OK);
    assert_int_equal(bytes.size, 2);
    operation = lmc_operation_by_name(lmc_text("ping"));
    lmc_ping_reply ping = {0};
    assert_int_equal(lmc_pb_encode_reply(operation, &ping, LMC_AGAIN, &arena, &bytes),
                     LMC_INVALID);
    lmc_arena_fini(&arena);
}

static void text_that_no_client_would_take_is_not_sent(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_slice bytes;
    lmc_arena_init(&arena, 0);
    lmc_noop_reply reply = {.message = lmc_slice_of("\xff", 1)};
    assert_int_equal(lmc_pb_encode(lmc_message_by_name("noop_reply"), &reply, &arena, &bytes),
                     LMC_INVALID);
    lmc_arena_fini(&arena);
}

static void token_ids_are_only_counted_where_nobody_needs_them(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_free_lookup_locks_request request = {0};
    lmc_slice bytes = golden_bytes("0a0722050102038005");
    assert_int_equal(lmc_pb_decode_request(lmc_operation_by_name(lmc_text("free_lookup_locks")),
                                           bytes, &arena, &request, NULL),
                     LMC_OK);
    assert_null(request.key.token_ids.ids);
    assert_int_equal(request.key.token_ids.count, 4);
    golden_free(bytes);
    lmc_arena_fini(&arena);
}

static void token_ids_are_decoded_for_a_commit_that_brings_data(void **state) {
    (void)state;
    static const char *const messages[] = {"0a0522030102031a0161", "1a01610a052203010203",
                                           "0a0522030102031a00", "0a052203010203"};
    for (size_t i = 0; i < 4; i++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        lmc_commit_store_request request = {0};
        lmc_slice bytes = golden_bytes(messages[i]);
        assert_int_equal(lmc_pb_decode_request(lmc_operation_by_name(lmc_text("commit_store")),
                                               bytes, &arena, &request, NULL),
                         LMC_OK);
        assert_int_equal(request.key.token_ids.count, 3);
        assert_true((request.key.token_ids.ids != NULL) == (i < 2));
        golden_free(bytes);
        lmc_arena_fini(&arena);
    }
}

/* A key given very often must not cost the square of its size. */
static void merging_a_message_many_times_stays_cheap(void **state) {
    (void)state;
    const size_t times = 100000;
    uint8_t *bytes = malloc(times * 4);
    assert_non_null(bytes);
    for (size_t i = 0; i < times; i++)
        memcpy(bytes + 4 * i, "\x0a\x02\x20\x07", 4);
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_lookup_request request = {0};
    assert_int_equal(lmc_pb_decode(lmc_message_by_name("lookup_request"),
                                   lmc_slice_of(bytes, times * 4), &arena, &request, NULL),
                     LMC_OK);
    assert_int_equal(request.key.token_ids.count, times);
    assert_true(arena.used < times * sizeof(uint32_t) * 6);
    lmc_arena_fini(&arena);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_decodes_and_encodes_back),
        cmocka_unit_test(a_message_cut_short_is_decoded_or_refused),
        cmocka_unit_test(a_flipped_byte_is_decoded_or_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_wherever_it_happens),
        cmocka_unit_test(an_old_key_keeps_its_reader_count),
        cmocka_unit_test(request_configs_tell_none_from_empty),
        cmocka_unit_test(a_map_that_is_none_parses_but_is_invalid),
        cmocka_unit_test(repeated_members_go_on_where_they_were_left),
        cmocka_unit_test(unknown_groups_are_skipped_when_they_close),
        cmocka_unit_test(end_info_becomes_the_map_of_the_other_wire),
        cmocka_unit_test(clear_without_force_keeps_locked_objects),
        cmocka_unit_test(a_pending_reply_is_the_empty_message),
        cmocka_unit_test(text_that_no_client_would_take_is_not_sent),
        cmocka_unit_test(token_ids_are_only_counted_where_nobody_needs_them),
        cmocka_unit_test(token_ids_are_decoded_for_a_commit_that_brings_data),
        cmocka_unit_test(merging_a_message_many_times_stays_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
