#include "modules/module_fixture.h"

static int set_up(void **state) {
    (void)state;
    return fixture_set_up(false);
}

static bool ping(bool has_id, int64_t id) {
    lmc_ping_request request = {.instance_id = id,
                                .present = has_id ? LMC_PING_REQUEST_HAS_INSTANCE_ID : 0};
    const lmc_ping_reply *reply = fixture_ask(&lmc_management_module, "ping", &request);
    return reply->ok;
}

static void register_instance(int64_t id) {
    lmc_register_kv_cache_engine_driven_context_request request = {.instance_id = id,
                                                                   .model_name = lmc_text("m"),
                                                                   .world_size = 1,
                                                                   .block_size = 4,
                                                                   .num_layers = 1,
                                                                   .hidden_dim_size = 8,
                                                                   .dtype_str =
                                                                       lmc_text("float16")};
    fixture_ask(&lmc_engine_driven_transfer_module, "register_kv_cache_engine_driven_context",
                &request);
}

static void unregister_instance(int64_t id) {
    lmc_unregister_kv_cache_request request = {.instance_id = id};
    fixture_ask(&lmc_engine_driven_transfer_module, "unregister_kv_cache", &request);
}

static void small_questions_have_their_answers(void **state) {
    (void)state;
    const lmc_noop_reply *noop = fixture_ask(&lmc_management_module, "noop", NULL);
    assert_true(lmc_slice_is(noop->message, "OK"));
    const lmc_get_chunk_size_reply *size =
        fixture_ask(&lmc_management_module, "get_chunk_size", NULL);
    assert_int_equal(size->chunk_size, FIXTURE_CHUNK);
    const lmc_get_experimental_reply *names =
        fixture_ask(&lmc_management_module, "get_experimental", NULL);
    assert_int_equal(names->names.count, 0);
}

static void a_ping_without_an_id_is_always_true(void **state) {
    (void)state;
    assert_true(ping(false, 0));
    assert_true(ping(false, 0));
}

static void an_unknown_id_is_told_once(void **state) {
    (void)state;
    assert_false(ping(true, INT64_MAX));
    assert_true(ping(true, INT64_MAX));
    assert_false(ping(true, 2));
    assert_true(ping(true, 2));
}

static void a_lost_registration_is_told_anew(void **state) {
    (void)state;
    register_instance(7);
    assert_true(ping(true, 7));
    unregister_instance(7);
    assert_false(ping(true, 7));
    assert_true(ping(true, 7));
    register_instance(7);
    unregister_instance(7);
    assert_false(ping(true, 7));
}

static lmc_status report_nothing(void *arg, lmc_writer *writer) {
    (void)arg;
    (void)writer;
    return LMC_OK;
}

static void the_status_has_every_built_in_member(void **state) {
    (void)state;
    lmc_buffer out = LMC_BUFFER_INIT;
    register_instance(9);
    assert_int_equal(lmc_status_collect(lmc_composition_status(fixture.composition),
                                        report_nothing, NULL, &out),
                     LMC_OK);
    const char *members = strstr(out.data, "\"active_prefetch_jobs\"");
    assert_non_null(strstr(out.data, "\"LookupModule\":{\"origin\":\"built-in\""));
    assert_non_null(members);
    assert_string_equal(
        members,
        "\"active_prefetch_jobs\":0,\"active_p2p_lookup_jobs\":0,\"p2p_enabled\":false,"
        "\"p2p_state\":\"disabled\",\"p2p_peer_count\":0,\"p2p_peers\":[],"
        "\"registered_non_cuda_instance_ids\":[9],\"non_cuda_context_meta\":{\"9\":{"
        "\"model_name\":\"m\",\"world_size\":1,\"block_size\":4,\"use_mla\":false}},"
        "\"worker_liveness\":{\"enabled\":false,\"reap_timeout_seconds\":0.0,"
        "\"registration_grace_seconds\":3600.0,\"tracked_instances\":1}}");
    lmc_buffer_fini(&out);
}

static void what_is_not_built_is_not_there(void **state) {
    (void)state;
    assert_null(lmc_composition_find(fixture.composition, "LMCacheDrivenTransferModule"));
    assert_null(lmc_composition_find(fixture.composition, "BlendModule"));
    assert_int_equal(lmc_composition_count(fixture.composition), 4);
    assert_non_null(lmc_unserved_reason("p2p_unlock_objects"));
    assert_null(lmc_unserved_reason("lookup"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(small_questions_have_their_answers),   TEST(a_ping_without_an_id_is_always_true),
        TEST(an_unknown_id_is_told_once),           TEST(a_lost_registration_is_told_anew),
        TEST(the_status_has_every_built_in_member), TEST(what_is_not_built_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
