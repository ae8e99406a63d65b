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
    const lmc_chunk_layout *groups;
    size_t count;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_chunk_layouts(r, 4, &arena, &groups, &count, &error), LMC_INVALID);
    assert_string_equal(error.text, text);
}

static const lmc_chunk_layout *expect_groups(const lmc_engine_registration *r,
                                             size_t expected) {
    const lmc_chunk_layout *groups;
    size_t count;
    assert_int_equal(lmc_chunk_layouts(r, 4, &arena, &groups, &count, NULL), LMC_OK);
    assert_int_equal(count, expected);
    return groups;
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

static void every_listed_dtype_has_its_size(void **state) {
    (void)state;
    assert_int_equal(lmc_dtype_size(lmc_text("bfloat16")), 2);
    assert_int_equal(lmc_dtype_size(lmc_text("float8_e4m3fn")), 1);
    assert_int_equal(lmc_dtype_size(lmc_text("double")), 8);
    assert_int_equal(lmc_dtype_size(lmc_text("torch.float16")), 0);
    assert_int_equal(lmc_dtype_size(lmc_text("")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separate_planes_come_first),
        cmocka_unit_test(a_single_plane_has_three_dimensions),
        cmocka_unit_test(every_engine_group_is_an_object_group),
        cmocka_unit_test(what_cannot_be_laid_out_is_refused_by_name),
        cmocka_unit_test(every_listed_dtype_has_its_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
