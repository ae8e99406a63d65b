#include <lmcached/messages.h>

#include "modules/module_fixture.h"
#include "pickle/tensors.h"

#define CHUNKS 3
#define ELEMENTS (2 * 2 * FIXTURE_CHUNK * 8) /* planes, layers, slots, hidden */

static uint32_t tokens[CHUNKS * FIXTURE_CHUNK];
static uint16_t bytes[CHUNKS][ELEMENTS];
static lmc_arena arena;

static int set_up(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CHUNKS * FIXTURE_CHUNK; i++)
        tokens[i] = i + 7;
    for (int c = 0; c < CHUNKS; c++)
        for (int i = 0; i < ELEMENTS; i++)
            bytes[c][i] = (uint16_t)(1000 * c + i);
    lmc_arena_init(&arena, 4096);
    return fixture_set_up(false);
}

static int tear_down(void **state) {
    lmc_arena_fini(&arena);
    return fixture_tear_down(state);
}

static const void *ask(const char *operation, const void *request) {
    return fixture_ask(&lmc_engine_driven_transfer_module, operation, request);
}

static lmc_cache_key key_of(bool is_worker, int64_t chunks) {
    return (lmc_cache_key){.present = is_worker ? LMC_CACHE_KEY_HAS_WORKER_ID : 0,
                           .model_name = lmc_text("m"),
                           .world_size = 1,
                           .token_ids = {tokens, CHUNKS * FIXTURE_CHUNK, false},
                           .end = chunks * FIXTURE_CHUNK,
                           .request_id = lmc_text("r"),
                           .num_kv_readers = 1};
}

static void register_instance(const lmc_kernel_group *kernels, size_t count) {
    lmc_register_kv_cache_engine_driven_context_request request = {
        .instance_id = 5,
        .model_name = lmc_text("m"),
        .world_size = 1,
        .block_size = FIXTURE_CHUNK,
        .num_layers = 2,
        .hidden_dim_size = 8,
        .dtype_str = lmc_text("half"),
        .kernel_groups = {kernels, count}};
    const lmc_register_kv_cache_engine_driven_context_reply *reply =
        ask("register_kv_cache_engine_driven_context", &request);
    assert_int_equal(reply->present, 0);
    assert_int_equal(reply->pool_size, 0);
}

static lmc_tensor tensor_of(int chunk) {
    return (lmc_tensor){.dtype = lmc_text("float16"),
                        .item_size = 2,
                        .rank = 4,
                        .shape = {2, 2, FIXTURE_CHUNK, 8},
                        .storage = lmc_slice_of(bytes[chunk], sizeof bytes[chunk])};
}

/* Pickles lists of `each` tensors and commits them; the answer of commit_store. */
static bool commit(const lmc_tensor *tensors, size_t count, size_t each, int64_t chunks) {
    lmc_tensor_list lists[CHUNKS];
    for (size_t i = 0; i < count; i++)
        lists[i] = (lmc_tensor_list){&tensors[i * each], each};
    lmc_commit_store_request request = {.key = key_of(true, chunks), .instance_id = 5};
    assert_int_equal(
        lmc_tensors_write(&(lmc_tensor_lists){lists, count, each > 1}, &arena, &request.data),
        LMC_OK);
    const lmc_commit_store_reply *reply = ask("commit_store", &request);
    return reply->success;
}

/* Reads the range back; the tensors are the arena's. False: a miss. */
static bool retrieve(int64_t chunks, lmc_tensor_lists *lists) {
    lmc_prepare_retrieve_request request = {.key = key_of(true, chunks), .instance_id = 5};
    fixture.call->pieces_at = offsetof(lmc_prepare_retrieve_reply, data);
    harness_run(fixture.call, &lmc_engine_driven_transfer_module,
                fixture_module(&lmc_engine_driven_transfer_module), "prepare_retrieve",
                &request, 1);
    fixture.call->pieces_at = 0;
    const lmc_prepare_retrieve_reply *reply = (const void *)fixture.call->reply;
    bool success = reply->success;
    if (success) {
        char *copy = lmc_arena_text(
            &arena, lmc_slice_of(fixture.call->bytes.data, fixture.call->bytes.size));
        assert_int_equal(
            lmc_tensors_read(lmc_slice_of(copy, fixture.call->bytes.size), &arena, lists, NULL),
            LMC_OK);
    }
    harness_end(fixture.call);
    return success;
}

static void expect_bytes(const lmc_tensor_lists *lists, size_t chunk) {
    unsigned char got[sizeof bytes[0]];
    assert_int_equal(lists->items[chunk].count, 1);
    assert_true(lmc_tensor_copy(&lists->items[chunk].items[0], got, sizeof got));
    assert_memory_equal(got, bytes[chunk], sizeof got);
}

static void what_was_copied_in_is_copied_out(void **state) {
    (void)state;
    const lmc_tensor tensors[] = {tensor_of(0), tensor_of(1), tensor_of(2)};
    lmc_tensor_lists lists;
    register_instance(NULL, 0);
    assert_true(commit(tensors, CHUNKS, 1, CHUNKS));
    assert_true(retrieve(CHUNKS, &lists));
    assert_int_equal(lists.count, CHUNKS);
    for (size_t i = 0; i < CHUNKS; i++)
        expect_bytes(&lists, i);
}

static void nothing_stays_locked_after_a_copy(void **state) {
    (void)state;
    const lmc_tensor tensors[] = {tensor_of(0), tensor_of(1), tensor_of(2)};
    lmc_tensor_lists lists;
    lmc_l1_report report;
    register_instance(NULL, 0);
    assert_true(commit(tensors, CHUNKS, 1, CHUNKS));
    assert_true(retrieve(CHUNKS, &lists));
    lmc_l1_report_get(lmc_cache_l1(fixture.context.cache), &report);
    assert_int_equal(report.read_locked_count, 0);
    assert_int_equal(report.staging_count, 0);
    assert_int_equal(report.resident_count, CHUNKS);
}

static void a_tensor_of_another_shape_or_type_is_not_stored(void **state) {
    (void)state;
    lmc_tensor tensors[] = {tensor_of(0), tensor_of(1), tensor_of(2)};
    lmc_tensor_lists lists;
    register_instance(NULL, 0);
    tensors[1].shape[2] = 8;
    tensors[1].shape[3] = FIXTURE_CHUNK;
    tensors[2].dtype = lmc_text("bfloat16");
    assert_false(commit(tensors, CHUNKS, 1, CHUNKS));
    assert_true(retrieve(1, &lists));
    expect_bytes(&lists, 0);
    assert_false(retrieve(2, &lists));
}

static void a_list_that_is_too_short_stores_what_it_has(void **state) {
    (void)state;
    const lmc_tensor tensors[] = {tensor_of(0), tensor_of(1)};
    lmc_tensor_lists lists;
    register_instance(NULL, 0);
    assert_false(commit(tensors, 2, 1, CHUNKS));
    assert_true(retrieve(2, &lists));
    assert_true(commit(tensors, 2, 1, 2)); /* what is there already does not count */
}

static void bytes_that_are_no_tensors_are_refused(void **state) {
    (void)state;
    static const lmc_slice pieces[] = {{"not a pi", 8}, {"ckle", 4}};
    lmc_commit_store_request request = {
        .key = key_of(true, CHUNKS), .instance_id = 5, .data = {pieces, 2, 12}};
    lmc_tensor_lists lists;
    register_instance(NULL, 0);
    const lmc_commit_store_reply *reply = ask("commit_store", &request);
    assert_false(reply->success);
    assert_false(retrieve(1, &lists));
}

static void objects_of_several_tensors_come_back_as_lists(void **state) {
    (void)state;
    const lmc_kernel_group kernels[] = {
        {.num_layers = 2, .hidden_dim_size = 8, .dtype_str = lmc_text("float16")},
        {.present = LMC_KERNEL_GROUP_HAS_NUM_PHYSICAL_SLOTS,
         .num_physical_slots = 1,
         .num_layers = 1,
         .hidden_dim_size = 3,
         .dtype_str = lmc_text("uint8"),
         .use_mla = true}};
    lmc_tensor small = {.dtype = lmc_text("uint8"),
                        .item_size = 1,
                        .rank = 3,
                        .shape = {1, 1, 3},
                        .storage = lmc_slice_of("abc", 3)};
    const lmc_tensor tensors[] = {tensor_of(0), small, tensor_of(1), small};
    lmc_tensor_lists lists;
    unsigned char got[3];
    register_instance(kernels, 2);
    assert_false(commit(tensors, 1, 1, 1)); /* not a list of lists */
    assert_true(commit(tensors, 2, 2, 2));
    assert_true(retrieve(2, &lists));
    assert_true(lists.nested);
    assert_int_equal(lists.items[1].count, 2);
    assert_true(lmc_tensor_copy(&lists.items[1].items[1], got, sizeof got));
    assert_memory_equal(got, "abc", 3);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_copied_in_is_copied_out),
        TEST(nothing_stays_locked_after_a_copy),
        TEST(a_tensor_of_another_shape_or_type_is_not_stored),
        TEST(a_list_that_is_too_short_stores_what_it_has),
        TEST(bytes_that_are_no_tensors_are_refused),
        TEST(objects_of_several_tensors_come_back_as_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
