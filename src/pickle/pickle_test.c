/* Real pickles of torch, our own, and what nobody should send. */
#include "support/golden.h"

#include "base/error.h"
#include "pickle/pickle.h"
#include "pickle/tensors.h"
#include "pickle/wrapper.h"
#include "support/alloc_fault.h"

/* ---- pickles out of the golden vectors ---- */

/* The byte string that begins with a MessagePack head at `at`; copied into its own block. */
static lmc_slice run_at(const uint8_t *at) {
    size_t width = *at == 0xc4 || *at == 0xc7 ? 1 : *at == 0xc5 ? 2 : 4;
    size_t size = 0;
    for (size_t i = 0; i < width; i++)
        size = size << 8 | at[1 + i];
    return golden_copy(at + 1 + width + (*at == 0xc7), size);
}

static lmc_slice pickle_of(const char *name) {
    json_t *vectors = golden_load("zmq-requests.json");
    size_t i;
    json_t *vector;
    lmc_slice pickle = {0};
    json_array_foreach(vectors, i, vector) {
        if (strcmp(golden_text(vector, "name"), name) != 0)
            continue;
        golden_frames request = golden_read_frames(vector, "frames_hex");
        golden_frames response = golden_read_frames(vector, "response_frames_hex");
        const uint8_t *at = NULL;
        if (strncmp(name, "commit_store", 12) == 0)
            at = request.frames[4].data;
        else if (strncmp(name, "register", 8) == 0)
            at = (const uint8_t *)request.frames[3].data + 1;
        else
            at = (const uint8_t *)memmem(response.frames[2].data, response.frames[2].size,
                                         "\xa4"
                                         "data",
                                         5) +
                 5;
        pickle = run_at(at);
        golden_free_frames(&request);
        golden_free_frames(&response);
    }
    json_decref(vectors);
    assert_non_null(pickle.data);
    return pickle;
}

static const char *const tensor_vectors[] = {
    "commit_store_pickle_f16",
    "commit_store_pickle_bf16_mla",
    "commit_store_pickle_u8",
    "prepare_retrieve_pickle_hit",
    "prepare_retrieve_pickle_hit_c_template",
};

typedef struct expectation {
    const char *name, *dtype;
    size_t count, item_size, rank;
    int64_t shape[4];
} expectation;

static const expectation expected[] = {
    {"commit_store_pickle_f16", "float16", 2, 2, 4, {2, 2, 4, 8}},
    {"commit_store_pickle_bf16_mla", "bfloat16", 1, 2, 3, {2, 4, 8}},
    {"commit_store_pickle_u8", "uint8", 1, 1, 4, {0}},
    {"prepare_retrieve_pickle_hit", "float16", 2, 2, 4, {2, 2, 4, 8}},
    {"prepare_retrieve_pickle_hit_c_template", "float16", 2, 2, 4, {2, 2, 4, 8}},
};

/* float16 of a small whole number. */
static uint16_t half_of(unsigned number) {
    if (number == 0)
        return 0;
    unsigned exponent = 31U - (unsigned)__builtin_clz(number);
    return (uint16_t)((exponent + 15) << 10 | ((number << (10 - exponent)) & 0x3ff));
}

static void pickles_of_torch_give_their_tensors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const expectation *e = &expected[i];
        lmc_slice pickle = pickle_of(e->name);
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        lmc_tensor_lists lists;
        assert_int_equal(lmc_tensors_read(pickle, &arena, &lists, NULL), LMC_OK);
        assert_int_equal(lists.count, e->count);
        assert_false(lists.nested);
        for (size_t j = 0; j < lists.count; j++) {
            const lmc_tensor *tensor = lists.items[j].items;
            assert_int_equal(lists.items[j].count, 1);
            assert_true(lmc_slice_is(tensor->dtype, e->dtype));
            assert_int_equal(tensor->item_size, e->item_size);
            if (e->shape[0] != 0) {
                assert_int_equal(tensor->rank, e->rank);
                assert_memory_equal(tensor->shape, e->shape, e->rank * sizeof(int64_t));
            }
            assert_true(lmc_tensor_is_contiguous(tensor));
            const uint8_t *bytes = tensor->storage.data;
            assert_true(bytes >= (const uint8_t *)pickle.data &&
                        bytes + tensor->storage.size <=
                            (const uint8_t *)pickle.data + pickle.size);
        }
        golden_free(pickle);
        lmc_arena_fini(&arena);
    }
}

static void elements_are_those_that_were_stored(void **state) {
    (void)state;
    lmc_slice pickle = pickle_of("commit_store_pickle_f16");
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_tensor_lists lists;
    assert_int_equal(lmc_tensors_read(pickle, &arena, &lists, NULL), LMC_OK);
    for (size_t i = 0; i < 2; i++) {
        uint16_t elements[128];
        assert_true(lmc_tensor_copy(lists.items[i].items, elements, sizeof elements));
        for (unsigned n = 0; n < 128; n++)
            assert_int_equal(elements[n], half_of(n + (unsigned)i));
    }
    assert_false(lmc_tensor_copy(lists.items[0].items, (uint16_t[4]){0}, 8));
    golden_free(pickle);
    lmc_arena_fini(&arena);
}

/* ---- writing ---- */

static lmc_slice joined(const lmc_pieces *pieces) {
    uint8_t *bytes = malloc(pieces->size);
    size_t size = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < pieces->count; i++) {
        memcpy(bytes + size, pieces->items[i].data, pieces->items[i].size);
        size += pieces->items[i].size;
    }
    assert_int_equal(size, pieces->size);
    return lmc_slice_of(bytes, size);
}

static void what_we_write_is_the_template(void **state) {
    (void)state;
    lmc_slice template = pickle_of("prepare_retrieve_pickle_hit_c_template");
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_tensor_lists lists;
    lmc_pieces pieces;
    assert_int_equal(lmc_tensors_read(template, &arena, &lists, NULL), LMC_OK);
    assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_OK);
    assert_int_equal(pieces.count, 5);
    assert_ptr_equal(pieces.items[1].data, lists.items[0].items[0].storage.data);
    lmc_slice written = joined(&pieces);
    assert_true(lmc_slice_equal(written, template));
    golden_free(written);
    golden_free(template);
    lmc_arena_fini(&arena);
}

static lmc_tensor tensor_of(const char *dtype, lmc_slice bytes) {
    lmc_tensor tensor = {.dtype = lmc_text(dtype), .rank = 1, .storage = bytes};
    tensor.item_size = lmc_tensor_item_size(tensor.dtype);
    tensor.shape[0] = (int64_t)(bytes.size / tensor.item_size);
    return tensor;
}

static void every_dtype_survives_writing_and_reading(void **state) {
    (void)state;
    static const char *const names[] = {
        "float16",       "bfloat16",    "float32",         "float64",        "uint8",
        "int8",          "int16",       "int32",           "int64",          "bool",
        "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"};
    const uint8_t bytes[400] = {1, 2, 3};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        lmc_tensor tensor = tensor_of(names[i], lmc_slice_of(bytes, sizeof bytes));
        lmc_tensor_list list = {&tensor, 1};
        lmc_tensor_lists lists = {&list, 1, false}, read;
        lmc_pieces pieces;
        assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_OK);
        lmc_slice written = joined(&pieces);
        assert_int_equal(lmc_tensors_read(written, &arena, &read, NULL), LMC_OK);
        assert_true(lmc_slice_is(read.items[0].items[0].dtype, names[i]));
        assert_int_equal(read.items[0].items[0].shape[0], tensor.shape[0]);
        assert_true(lmc_slice_equal(read.items[0].items[0].storage, tensor.storage));
        golden_free(written);
        lmc_arena_fini(&arena);
    }
}

static void chunks_of_several_tensors_stay_together(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_tensor tensors[3] = {tensor_of("uint8", lmc_text("abc")),
                             tensor_of("float16", lmc_text("defghi")),
                             tensor_of("uint8", (lmc_slice){"", 0})};
    lmc_tensor_list chunks[3] = {{tensors, 2}, {tensors + 2, 1}, {NULL, 0}};
    lmc_tensor_lists lists = {chunks, 3, true}, read;
    lmc_pieces pieces;
    assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_OK);
    lmc_slice written = joined(&pieces);
    assert_int_equal(lmc_tensors_read(written, &arena, &read, NULL), LMC_OK);
    assert_true(read.nested);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.items[0].count, 2);
    assert_int_equal(read.items[1].count, 1);
    assert_int_equal(read.items[2].count, 0);
    assert_true(lmc_slice_is(read.items[0].items[1].storage, "defghi"));
    golden_free(written);
    lmc_arena_fini(&arena);
}

static void a_tensor_that_is_not_its_bytes_is_not_written(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_pieces pieces;
    lmc_tensor tensor = tensor_of("float16", lmc_text("abcd"));
    lmc_tensor_list list = {&tensor, 1};
    lmc_tensor_lists lists = {&list, 1, false};
    tensor.shape[0] = 3;
    assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_INVALID);
    tensor.shape[0] = -1;
    assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_INVALID);
    tensor.shape[0] = 2;
    tensor.dtype = lmc_text("complex64");
    assert_int_equal(lmc_tensors_write(&lists, &arena, &pieces), LMC_INVALID);
    lmc_arena_fini(&arena);
}

/* ---- views ---- */

/* A pickle of one uint8 tensor with the given view of the storage "0123456789". */
static lmc_status read_view(const char *view, lmc_arena *arena, lmc_tensor_lists *lists,
                            uint8_t *pickle) {
    lmc_tensor tensor = tensor_of("uint8", lmc_text("0123456789"));
    lmc_tensor_list list = {&tensor, 1};
    lmc_tensor_lists whole = {&list, 1, false};
    lmc_pieces pieces;
    lmc_arena_init(arena, 0);
    assert_int_equal(lmc_tensors_write(&whole, arena, &pieces), LMC_OK);
    lmc_slice bytes = joined(&pieces);
    /* Behind the bytes: TUPLE1 REDUCE, offset, shape, strides; replaced up to the False. */
    static const char plain[] = "\x85RK\0(K\x0at(K\x01t";
    uint8_t *at = memmem(bytes.data, bytes.size, plain, sizeof plain - 1);
    assert_non_null(at);
    size_t before = (size_t)(at - (const uint8_t *)bytes.data) + 2;
    lmc_slice changed = golden_bytes(view);
    size_t after = (size_t)(at - (const uint8_t *)bytes.data) + sizeof plain - 1;
    memcpy(pickle, bytes.data, before);
    memcpy(pickle + before, changed.data, changed.size);
    memcpy(pickle + before + changed.size, (const uint8_t *)bytes.data + after,
           bytes.size - after);
    size_t size = before + changed.size + bytes.size - after;
    golden_free(changed);
    golden_free(bytes);
    return lmc_tensors_read(lmc_slice_of(pickle, size), arena, lists, NULL);
}

static void a_view_is_copied_element_by_element(void **state) {
    (void)state;
    uint8_t pickle[1024], out[6];
    lmc_arena arena;
    lmc_tensor_lists lists;
    /* offset 1, shape (2, 3), strides (4, 2): 1 3 5 / 5 7 9 */
    assert_int_equal(read_view("4b01"
                               "284b024b0374"
                               "284b044b0274",
                               &arena, &lists, pickle),
                     LMC_OK);
    assert_false(lmc_tensor_is_contiguous(lists.items[0].items));
    assert_true(lmc_tensor_copy(lists.items[0].items, out, sizeof out));
    assert_memory_equal(out, "135579", 6);
    lmc_arena_fini(&arena);
}

static void a_view_beyond_its_storage_is_invalid(void **state) {
    (void)state;
    static const char *const views[] = {
        "4b01"
        "284b0a74"
        "284b0174", /* offset 1, ten elements */
        "4b00"
        "284b0274"
        "284b0a74", /* stride to the eleventh */
        "4affffffff"
        "284b0174"
        "284b0174", /* offset -1 */
        "4b00"
        "284affffffff74"
        "284b0174", /* shape -1 */
        "4b00"
        "284b0274"
        "284affffffff74", /* stride -1 */
        "4b00"
        "288a08ffffffffffffff7f74"
        "288a08ffffffffffffff7f74",
        "4b00"
        "288a08ffffffffffffff7f4b7f74"
        "284b004b0074",
        "4b00"
        "284b0174"
        "284b014b0174", /* ranks differ */
        "4b00"
        "284b014b014b014b014b014b014b014b014b0174"
        "284b014b014b014b014b014b014b014b014b0174", /* rank 9 */
        "4e"
        "284b0174"
        "284b0174", /* offset None */
        "4b00"
        "4b01"
        "284b0174", /* shape is no tuple */
    };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        uint8_t pickle[1024];
        lmc_arena arena;
        lmc_tensor_lists lists;
        assert_int_equal(read_view(views[i], &arena, &lists, pickle), LMC_INVALID);
        lmc_arena_fini(&arena);
    }
}

static void a_view_without_elements_may_lie_anywhere(void **state) {
    (void)state;
    uint8_t pickle[1024];
    lmc_arena arena;
    lmc_tensor_lists lists;
    assert_int_equal(read_view("4b00"
                               "284b0074"
                               "284b0174",
                               &arena, &lists, pickle),
                     LMC_OK);
    assert_true(lmc_tensor_copy(lists.items[0].items, pickle, 0));
    lmc_arena_fini(&arena);
}

/* ---- wrappers ---- */

static void a_wrapper_names_its_segment(void **state) {
    (void)state;
    lmc_slice pickle = pickle_of("register_kv_cache_cpu_shm");
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_wrapper wrapper;
    lmc_shm_tensor tensor;
    assert_int_equal(lmc_wrapper_read(pickle, &arena, &wrapper, NULL), LMC_OK);
    assert_true(lmc_slice_is(wrapper.class_name, "CpuShmTensorWrapper"));
    assert_true(lmc_slice_is(wrapper.module, "lmcache.v1.platform.cpu.shm"));
    assert_true(lmc_pickle_is_text(lmc_pickle_get(wrapper.state, "device_uuid"), "cpu"));
    assert_null(lmc_pickle_get(wrapper.state, "something"));
    assert_int_equal(lmc_wrapper_read_shm(&wrapper, &tensor, NULL), LMC_OK);
    assert_true(lmc_slice_is(tensor.shm_name, "/lmcache_kv_4242_r0_0_0"));
    assert_int_equal(tensor.size, 65536);
    const int64_t shape[] = {2, 64, 16, 2, 8};
    assert_int_equal(tensor.layout.rank, 5);
    assert_memory_equal(tensor.layout.shape, shape, sizeof shape);
    assert_int_equal(tensor.layout.strides[0], 16384);
    assert_true(lmc_slice_is(tensor.layout.dtype, "float16"));
    golden_free(pickle);
    lmc_arena_fini(&arena);
}

static void a_wrapper_of_another_class_is_declined(void **state) {
    (void)state;
    lmc_slice pickle = golden_bytes("80048c016d948c0e43756461495043577261707065729493942981947d"
                                    "94622e");
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_wrapper wrapper;
    lmc_shm_tensor tensor;
    assert_int_equal(lmc_wrapper_read(pickle, &arena, &wrapper, NULL), LMC_OK);
    assert_true(lmc_slice_is(wrapper.class_name, "CudaIPCWrapper"));
    assert_int_equal(lmc_wrapper_read_shm(&wrapper, &tensor, NULL), LMC_DECLINED);
    wrapper.class_name = lmc_text("CpuShmTensorWrapper");
    assert_int_equal(lmc_wrapper_read_shm(&wrapper, &tensor, NULL), LMC_INVALID);
    golden_free(pickle);
    lmc_arena_fini(&arena);
}

/* ---- the reader itself ---- */

static lmc_status read_hex(const char *hex, lmc_arena *arena, lmc_slice *bytes,
                           const lmc_pickle_value **value) {
    *bytes = golden_bytes(hex);
    lmc_arena_init(arena, 0);
    lmc_pickle_reader reader = lmc_pickle_reader_of(*bytes, arena);
    return lmc_pickle_read(&reader, value);
}

static int64_t int_of(const char *hex) {
    lmc_arena arena;
    lmc_slice bytes;
    const lmc_pickle_value *value;
    assert_int_equal(read_hex(hex, &arena, &bytes, &value), LMC_OK);
    assert_int_equal(value->type, LMC_PICKLE_INT);
    int64_t number = value->number;
    golden_free(bytes);
    lmc_arena_fini(&arena);
    return number;
}

static void integers_have_their_values(void **state) {
    (void)state;
    assert_true(int_of("80024bff2e") == 255);
    assert_true(int_of("4dffff2e") == 65535);
    assert_true(int_of("4affffffff2e") == -1);
    assert_true(int_of("4affffff7f2e") == INT32_MAX);
    assert_true(int_of("8a002e") == 0);
    assert_true(int_of("8a01ff2e") == -1);
    assert_true(int_of("8a02ff002e") == 255);
    assert_true(int_of("8a08ffffffffffffff7f2e") == INT64_MAX);
    assert_true(int_of("8a0800000000000000802e") == INT64_MIN);
}

static void what_is_not_read_is_malformed(void **state) {
    (void)state;
    static const char *const pickles[] = {
        "",                       /* nothing */
        "4e",                     /* no stop */
        "2e",                     /* nothing to return */
        "4e4e2e",                 /* two values */
        "284e2e",                 /* a mark left */
        "80064e2e",               /* a protocol of the future */
        "65002e",                 /* appends without a mark */
        "4e612e",                 /* append to nothing */
        "4e4e612e",               /* append to None */
        "7d284e752e",             /* a key without a value */
        "7d4e732e",               /* the same */
        "52",                     /* reduce nothing */
        "4e4e522e",               /* reduce to no tuple */
        "4e4e622e",               /* build None */
        "68002e",                 /* empty memo */
        "9400",                   /* memoize nothing */
        "5d7200ffffff2e",         /* memo index out of bounds */
        "8c05612e",               /* text beyond the end */
        "8c02c3282e",             /* text that is not UTF-8 */
        "8effffffffffffffff612e", /* bytes beyond any end */
        "636100",                 /* global without a newline */
        "4e4e932e",               /* global of no texts */
        "282829282e",             /* marks and a value below them */
        "5d284e28652e",           /* append below a mark */
        "692e",
        "6f2e",
        "302e",
        "312e",
        "982e",
        "4c2e",
        "ff2e",
        "822e",
    };
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
        lmc_arena arena;
        lmc_slice bytes;
        const lmc_pickle_value *value;
        lmc_status status = read_hex(pickles[i], &arena, &bytes, &value);
        if (status != LMC_MALFORMED)
            fail_msg("pickle %s: status %d", pickles[i], (int)status);
        golden_free(bytes);
        lmc_arena_fini(&arena);
    }
}

static void a_list_may_contain_itself(void **state) {
    (void)state;
    lmc_arena arena;
    lmc_slice bytes;
    const lmc_pickle_value *value;
    lmc_tensor_lists lists;
    assert_int_equal(read_hex("5d940068006128", &arena, &bytes, &value), LMC_MALFORMED);
    golden_free(bytes);
    lmc_arena_fini(&arena);
    assert_int_equal(read_hex("5d946800612e", &arena, &bytes, &value), LMC_OK);
    assert_ptr_equal(lmc_pickle_item(value, 0), value);
    assert_int_equal(lmc_tensors_read(bytes, &arena, &lists, NULL), LMC_INVALID);
    golden_free(bytes);
    lmc_arena_fini(&arena);
}

static void marks_and_values_are_bounded(void **state) {
    (void)state;
    const size_t size = LMC_PICKLE_VALUES_MAX + 2;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    static const uint8_t fillers[] = {'(', 'N', ')'};
    for (size_t i = 0; i < sizeof fillers; i++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        const lmc_pickle_value *value;
        memset(bytes, fillers[i], size);
        bytes[0] = '(';
        lmc_pickle_reader reader = lmc_pickle_reader_of(lmc_slice_of(bytes, size), &arena);
        assert_int_equal(lmc_pickle_read(&reader, &value), LMC_MALFORMED);
        lmc_arena_fini(&arena);
    }
    free(bytes);
}

static void check_cuts_and_flips(const char *name) {
    lmc_slice pickle = pickle_of(name);
    bool is_wrapper = strncmp(name, "register", 8) == 0;
    for (size_t i = 0; i < pickle.size * 3; i++) {
        static const uint8_t masks[] = {0x00, 0x01, 0xff};
        size_t at = i / 3;
        lmc_slice damaged = golden_copy(pickle.data, i % 3 == 0 ? at : pickle.size);
        if (i % 3 != 0)
            ((uint8_t *)(uintptr_t)damaged.data)[at] ^= masks[i % 3];
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        lmc_tensor_lists lists;
        lmc_wrapper wrapper;
        lmc_shm_tensor tensor;
        lmc_status status = is_wrapper ? lmc_wrapper_read(damaged, &arena, &wrapper, NULL)
                                       : lmc_tensors_read(damaged, &arena, &lists, NULL);
        if (is_wrapper && status == LMC_OK)
            lmc_wrapper_read_shm(&wrapper, &tensor, NULL);
        assert_true(status == LMC_OK || status == LMC_MALFORMED || status == LMC_INVALID);
        assert_true(i % 3 != 0 || status != LMC_OK);
        golden_free(damaged);
        lmc_arena_fini(&arena);
    }
    golden_free(pickle);
}

static void a_damaged_pickle_is_read_or_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof tensor_vectors / sizeof tensor_vectors[0]; i++)
        check_cuts_and_flips(tensor_vectors[i]);
    check_cuts_and_flips("register_kv_cache_cpu_shm");
}

static void a_failed_allocation_is_reported_wherever_it_happens(void **state) {
    (void)state;
    lmc_slice pickle = pickle_of("commit_store_pickle_f16");
    for (uint64_t nth = 1;; nth++) {
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        lmc_tensor_lists lists;
        lmc_pieces pieces;
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_tensors_read(pickle, &arena, &lists, NULL);
        if (status == LMC_OK)
            status = lmc_tensors_write(&lists, &arena, &pieces);
        lmc_fault_disarm();
        assert_int_equal(status, lmc_fault_hit() ? LMC_NO_MEMORY : LMC_OK);
        lmc_arena_fini(&arena);
        if (!lmc_fault_hit())
            break;
    }
    golden_free(pickle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pickles_of_torch_give_their_tensors),
        cmocka_unit_test(elements_are_those_that_were_stored),
        cmocka_unit_test(what_we_write_is_the_template),
        cmocka_unit_test(every_dtype_survives_writing_and_reading),
        cmocka_unit_test(chunks_of_several_tensors_stay_together),
        cmocka_unit_test(a_tensor_that_is_not_its_bytes_is_not_written),
        cmocka_unit_test(a_view_is_copied_element_by_element),
        cmocka_unit_test(a_view_beyond_its_storage_is_invalid),
        cmocka_unit_test(a_view_without_elements_may_lie_anywhere),
        cmocka_unit_test(a_wrapper_names_its_segment),
        cmocka_unit_test(a_wrapper_of_another_class_is_declined),
        cmocka_unit_test(integers_have_their_values),
        cmocka_unit_test(what_is_not_read_is_malformed),
        cmocka_unit_test(a_list_may_contain_itself),
        cmocka_unit_test(marks_and_values_are_bounded),
        cmocka_unit_test(a_damaged_pickle_is_read_or_refused),
        cmocka_unit_test(a_failed_allocation_is_reported_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
