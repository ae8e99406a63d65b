#include "modules/chunk_layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"

#define HAS(member) LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REQUEST_HAS_##member

static lmc_arena arena;

static int set_up(void **state) {
    (void)state;
    lmc_arena_init(&arena, 4096);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lmc_arena_fini(&arena);
    return 0;
}

static lmc_engine_registration plain(void) {
    return (lmc_engine_registration){.world_size = 1,
                                     .num_layers = 2,
                                     .hidden_dim_size = 8,
                                     .dtype_str = lmc_text("float16")};
}

static void expect_invalid(const lmc_engine_registration *r, const char *text) {
    lmc_chunk_layouts layouts;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_chunk_layouts_read(r, 4, &arena, &layouts, &error), LMC_INVALID);
    assert_string_equal(error.text, text);
}

static const lmc_chunk_layout *expect_groups(const lmc_engine_registration *r,
                                             size_t expected) {
    lmc_chunk_layouts layouts;
    assert_int_equal(lmc_chunk_layouts_read(r, 4, &arena, &layouts, NULL), LMC_OK);
    assert_int_equal(layouts.group_count, expected);
    assert_int_equal(layouts.tensors.count, 0);
    return layouts.groups;
}

static void separate_planes_come_first(void **state) {
    (void)state;
    lmc_engine_registration r = plain();
    const lmc_chunk_layout *g = expect_groups(&r, 1);
    assert_int_equal(g->dim_count, 4);
    assert_int_equal(g->dims[0], 2);
    assert_int_equal(g->dims[1], 2);
    assert_int_equal(g->dims[2], 4);
    assert_int_equal(g->dims[3], 8);
    assert_int_equal(g->size, 256);
    assert_int_equal(g->window, -1);
    assert_string_equal(g->dtype, "float16");
}

static void a_single_plane_has_three_dimensions(void **state) {
    (void)state;
    lmc_engine_registration r = plain();
    r.use_mla = true;
    r.present = HAS(NUM_PHYSICAL_SLOTS);
    r.num_physical_slots = 2;
    const lmc_chunk_layout *g = expect_groups(&r, 1);
    assert_int_equal(g->dim_count, 3);
    assert_int_equal(g->dims[1], 2);
    assert_int_equal(g->size, 2 * 2 * 8 * 2);
}

static void every_engine_group_is_an_object_group(void **state) {
    (void)state;
    const int64_t layers[] = {0, 1, 2};
    const int64_t hidden[] = {16};
    const lmc_engine_group_info infos[] = {
        {.layer_indices = {layers, 3}, .sw_size_tokens = -1},
        {.layer_indices = {layers, 1}, .sw_size_tokens = 9},
        {.layer_indices = {layers, 1}, .sw_size_tokens = 8, .extra_object_group_tag = 3},
    };
    lmc_engine_registration r = plain();
    r.engine_group_infos = (lmc_engine_group_info_list){infos, 3};
    r.group_hidden_dim_sizes = (lmc_ints){hidden, 1};
    const lmc_chunk_layout *g = expect_groups(&r, 3);
    assert_int_equal(g[0].dims[1], 3);
    assert_int_equal(g[0].dims[3], 16);
    assert_int_equal(g[0].window, -1);
    assert_int_equal(g[1].dims[1], 1);
    assert_int_equal(g[1].dims[3], 8);
    assert_int_equal(g[1].window, 3);
    assert_int_equal(g[2].window, 2);
    assert_false(g[1].extra);
    assert_true(g[2].extra);
}

static void kernel_groups_make_one_object_of_several_tensors(void **state) {
    (void)state;
    const lmc_kernel_group kernels[] = {
        {.num_layers = 2, .hidden_dim_size = 8, .dtype_str = lmc_text("float16")},
        {.present = LMC_KERNEL_GROUP_HAS_NUM_PHYSICAL_SLOTS,
         .num_physical_slots = 1,
         .num_layers = 1,
         .hidden_dim_size = 3,
         .dtype_str = lmc_text("uint8"),
         .use_mla = true},
    };
    lmc_engine_registration r = plain();
    lmc_chunk_layouts layouts;
    r.kernel_groups = (lmc_kernel_group_list){kernels, 2};
    assert_int_equal(lmc_chunk_layouts_read(&r, 4, &arena, &layouts, NULL), LMC_OK);
    assert_int_equal(layouts.group_count, 1);
    assert_int_equal(layouts.groups[0].size, 256 + 3);
    assert_int_equal(layouts.groups[0].dims[0], 256 + 3);
    assert_string_equal(layouts.groups[0].dtype, "uint8");
    assert_int_equal(layouts.tensors.count, 2);
    assert_int_equal(layouts.tensors.items[0].size, 256);
    assert_int_equal(layouts.tensors.items[1].dim_count, 3);
}

static void what_cannot_be_laid_out_is_refused_by_name(void **state) {
    (void)state;
    lmc_engine_registration r = plain();
    r.dtype_str = lmc_text("float12");
    expect_invalid(&r, "unknown dtype_str 'float12'");
    r = plain();
    r.present = HAS(NUM_PHYSICAL_SLOTS);
    expect_invalid(&r, "num_physical_slots must be positive (got 0)");
    r = plain();
    r.num_layers = 0;
    expect_invalid(&r, "the number of layers must be positive");
    r = plain();
    r.hidden_dim_size = -8;
    expect_invalid(&r, "hidden_dim_size must be positive (got -8)");
    r = plain();
    r.num_layers = INT64_MAX / 2;
    expect_invalid(&r, "a chunk is larger than can be addressed");
    r = plain();
    r.enable_l1_kvweave_quant = true;
    expect_invalid(&r, "enable_l1_kvweave_quant is not supported");
}

static void every_dtype_that_clients_may_name_is_known(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t size;
    } dtypes[] = {
        {"uint8", 1},           {"int8", 1},        {"bool", 1},
        {"float8_e4m3fn", 1},   {"float8_e5m2", 1}, {"float8_e4m3fnuz", 1},
        {"float8_e5m2fnuz", 1}, {"float16", 2},     {"half", 2},
        {"bfloat16", 2},        {"int16", 2},       {"float32", 4},
        {"float", 4},           {"int32", 4},       {"float64", 8},
        {"double", 8},          {"int64", 8},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        lmc_engine_registration r = plain();
        r.dtype_str = lmc_text(dtypes[i].name);
        assert_int_equal(expect_groups(&r, 1)->item_size, dtypes[i].size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separate_planes_come_first),
        cmocka_unit_test(a_single_plane_has_three_dimensions),
        cmocka_unit_test(every_engine_group_is_an_object_group),
        cmocka_unit_test(kernel_groups_make_one_object_of_several_tensors),
        cmocka_unit_test(what_cannot_be_laid_out_is_refused_by_name),
        cmocka_unit_test(every_dtype_that_clients_may_name_is_known),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
