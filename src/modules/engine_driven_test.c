#include <lmcached/messages.h>

#include "modules/module_fixture.h"
#include "rpc/msgpack.h"

#define CHUNKS 3
#define CHUNK_BYTES                                                           \
    (2 * 2 * FIXTURE_CHUNK * 8 * 2) /* planes, layers, slots, hidden, float16 \
                                     */

static uint32_t tokens[CHUNKS * FIXTURE_CHUNK];

static int set_up_with_pool(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CHUNKS * FIXTURE_CHUNK; i++)
        tokens[i] = i + 1;
    return fixture_set_up(true);
}

static const void *ask(const char *operation, const void *request) {
    return fixture_ask(&lmc_engine_driven_transfer_module, operation, request);
}

static lmc_register_kv_cache_engine_driven_context_request registration(int64_t id) {
    return (lmc_register_kv_cache_engine_driven_context_request){.instance_id = id,
                                                                 .model_name = lmc_text("m"),
                                                                 .world_size = 1,
                                                                 .block_size = FIXTURE_CHUNK,
                                                                 .num_layers = 2,
                                                                 .hidden_dim_size = 8,
                                                                 .dtype_str =
                                                                     lmc_text("float16")};
}

static lmc_cache_key key_of(bool is_worker, const char *request_id) {
    return (lmc_cache_key){.present = is_worker ? LMC_CACHE_KEY_HAS_WORKER_ID : 0,
                           .model_name = lmc_text("m"),
                           .world_size = 1,
                           .token_ids = {tokens, CHUNKS * FIXTURE_CHUNK, false},
                           .end = CHUNKS * FIXTURE_CHUNK,
                           .request_id = lmc_text(request_id),
                           .num_kv_readers = 1};
}

static void register_instance(int64_t id) {
    lmc_register_kv_cache_engine_driven_context_request request = registration(id);
    const lmc_register_kv_cache_engine_driven_context_reply *reply =
        ask("register_kv_cache_engine_driven_context", &request);
    assert_int_equal(reply->present, 0);
    assert_int_equal(reply->pool_size, 4 << 20);
}

/* prepare_store through the harness; checks the number of slots. */
static void prepare_store(int64_t id, size_t expected) {
    lmc_prepare_store_request request = {.key = key_of(true, "r"), .instance_id = id};
    harness_run(fixture.call, &lmc_engine_driven_transfer_module,
                fixture_module(&lmc_engine_driven_transfer_module), "prepare_store", &request,
                1);
    const lmc_prepare_store_reply *reply = (const void *)fixture.call->reply;
    lmc_mp_reader slots, indices;
    size_t count;
    assert_true(lmc_mp_find(reply->context, "slots", &slots));
    assert_true(lmc_mp_read_array(&slots, &count));
    assert_int_equal(count, expected);
    assert_true(lmc_mp_find(reply->context, "chunk_indices", &indices));
    assert_true(lmc_mp_read_array(&indices, &count));
    assert_int_equal(count, expected);
    harness_end(fixture.call);
}

static bool commit_store(int64_t id) {
    lmc_commit_store_request request = {.key = key_of(true, "r"), .instance_id = id};
    const lmc_commit_store_reply *reply = ask("commit_store", &request);
    return reply->success;
}

static int64_t look_up(const char *request_id) {
    lmc_lookup_request lookup = {.key = key_of(false, request_id), .tp_size = 1};
    lmc_query_prefetch_status_request query = {.request_id = lmc_text(request_id)};
    fixture_ask(&lmc_lookup_module, "lookup", &lookup);
    const lmc_query_prefetch_status_reply *reply =
        fixture_ask(&lmc_lookup_module, "query_prefetch_status", &query);
    return reply->chunk_count;
}

static bool prepare_retrieve(int64_t id) {
    lmc_prepare_retrieve_request request = {.key = key_of(true, "q"), .instance_id = id};
    const lmc_prepare_retrieve_reply *reply = ask("prepare_retrieve", &request);
    return reply->success;
}

static void what_was_stored_through_the_pool_is_found_and_read(void **state) {
    (void)state;
    register_instance(5);
    assert_int_equal(look_up("before"), 0);
    prepare_store(5, CHUNKS);
    assert_true(commit_store(5));
    assert_int_equal(look_up("q"), CHUNKS);
    assert_true(prepare_retrieve(5));
    lmc_commit_retrieve_request request = {.key = key_of(true, "q"), .instance_id = 5};
    const lmc_commit_retrieve_reply *reply = ask("commit_retrieve", &request);
    assert_true(reply->success);
    prepare_store(5, 0);
}

static void a_commit_without_a_preparation_is_false(void **state) {
    (void)state;
    register_instance(5);
    assert_false(commit_store(5));
}

static void an_unknown_instance_meets_the_negatives(void **state) {
    (void)state;
    prepare_store(6, 0);
    assert_false(commit_store(6));
    assert_false(prepare_retrieve(6));
}

static void a_layout_that_cannot_be_used_is_answered_with_its_reason(void **state) {
    (void)state;
    lmc_register_kv_cache_engine_driven_context_request request = registration(8);
    request.dtype_str = lmc_text("float12");
    harness_run(fixture.call, &lmc_engine_driven_transfer_module,
                fixture_module(&lmc_engine_driven_transfer_module),
                "register_kv_cache_engine_driven_context", &request, 1);
    const lmc_register_kv_cache_engine_driven_context_reply *reply =
        (const void *)fixture.call->reply;
    assert_true(reply->present & LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REPLY_HAS_ERROR);
    assert_true(lmc_slice_is(reply->error, "unknown dtype_str 'float12'"));
    assert_int_equal(reply->shm_name.size, 0);
    assert_int_equal(reply->pool_size, 0);
    harness_end(fixture.call);
    prepare_store(8, 0);
}

static void a_registration_for_device_memory_stays_unanswered(void **state) {
    (void)state;
    lmc_register_kv_cache_request request = {.instance_id = 4, .model_name = lmc_text("m")};
    harness_run(fixture.call, &lmc_engine_driven_transfer_module,
                fixture_module(&lmc_engine_driven_transfer_module), "register_kv_cache",
                &request, 1);
    assert_true(fixture.call->ended);
    assert_false(fixture.call->answered);
    harness_end(fixture.call);
}

static void stores_driven_by_the_server_are_refused_with_an_empty_handle(void **state) {
    (void)state;
    lmc_store_request request = {.key = key_of(true, "r"), .event_ipc_handle = lmc_text("x")};
    const lmc_store_reply *reply = ask("store", &request);
    assert_false(reply->success);
    assert_int_equal(reply->event_ipc_handle.size, 0);
}

static void registering_again_refreshes(void **state) {
    (void)state;
    register_instance(5);
    prepare_store(5, CHUNKS);
    register_instance(5);
    assert_true(commit_store(5));
}

static void unregistering_discards_what_was_not_committed(void **state) {
    (void)state;
    register_instance(5);
    prepare_store(5, CHUNKS);
    lmc_unregister_kv_cache_engine_driven_context_request request = {.instance_id = 5};
    ask("unregister_kv_cache_engine_driven_context", &request);
    register_instance(5);
    assert_int_equal(look_up("q"), 0);
    prepare_store(5, CHUNKS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_with_pool, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_stored_through_the_pool_is_found_and_read),
        TEST(a_commit_without_a_preparation_is_false),
        TEST(an_unknown_instance_meets_the_negatives),
        TEST(a_layout_that_cannot_be_used_is_answered_with_its_reason),
        TEST(a_registration_for_device_memory_stays_unanswered),
        TEST(stores_driven_by_the_server_are_refused_with_an_empty_handle),
        TEST(registering_again_refreshes),
        TEST(unregistering_discards_what_was_not_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
