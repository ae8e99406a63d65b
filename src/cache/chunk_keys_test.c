#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cache/chunk_keys.h"

static void every_kv_rank_vector_holds(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(LMC_GOLDEN_DIR "/chunk-hashes.json", 0, &error);
    const json_t *keys = json_object_get(root, "object_keys");
    assert_true(json_array_size(keys) >= 8);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *key = json_array_get(keys, i);
        int64_t world = json_integer_value(json_object_get(key, "world_size"));
        int64_t rank = json_integer_value(json_object_get(key, "worker_id"));
        assert_int_equal(lmc_kv_rank(world, (uint32_t)rank),
                         json_integer_value(json_object_get(key, "kv_rank")));
    }
    json_decref(root);
    assert_true(lmc_kv_rank(0x1000, 3) == UINT64_C(0x1000130003)); /* not masked */
}

static const char *salt_error(lmc_slice salt) {
    static lmc_error error;
    error = (lmc_error)LMC_ERROR_INIT;
    return lmc_cache_salt_check(salt, &error) == LMC_OK ? "" : error.text;
}

static void salts_are_checked_as_specified(void **state) {
    (void)state;
    assert_string_equal(salt_error(lmc_text("")), "");
    assert_string_equal(salt_error(lmc_text("tenant:42")), "");
    for (const char *bad = "@/\\"; *bad != '\0'; bad++) {
        char text[] = {'a', *bad, 'b', '\0'};
        assert_non_null(strstr(salt_error(lmc_text(text)), "cache_salt must not contain"));
    }
    assert_non_null(strstr(salt_error((lmc_slice){"a\0", 2}), "cache_salt must not contain"));
    char longest[2 * 129 + 1];
    for (size_t i = 0; i < 129; i++)
        memcpy(longest + 2 * i, "\xc3\xa9", 2); /* two bytes, one code point */
    assert_string_equal(salt_error((lmc_slice){longest, 2 * 128}), "");
    assert_string_equal(salt_error((lmc_slice){longest, 2 * 129}),
                        "cache_salt exceeds max length 128 (got 129)");
}

static void a_world_size_outside_its_bounds_is_told_which(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_world_size_check(1, &error), LMC_OK);
    assert_int_equal(lmc_world_size_check(INT64_C(4294967295), &error), LMC_OK);
    assert_int_equal(lmc_world_size_check(0, &error), LMC_INVALID);
    assert_string_equal(error.text, "world_size must be >= 1 (got 0)");
    lmc_error_clear(&error);
    assert_int_equal(lmc_world_size_check(INT64_C(4294967296), &error), LMC_INVALID);
    assert_string_equal(error.text, "world_size must be <= 4294967295 (got 4294967296)");
}

static void readers_are_taken_from_the_key_or_guessed(void **state) {
    (void)state;
    lmc_cache_key key = {.world_size = 2, .num_kv_readers = 3};
    assert_int_equal(lmc_key_readers(&key, 8), 3);
    key.num_kv_readers = 0;
    assert_int_equal(lmc_key_readers(&key, 8), 8);
    assert_int_equal(lmc_key_readers(&key, 2), 1);
    assert_int_equal(lmc_key_readers(&key, 0), 1);
    key.num_kv_readers = -5;
    assert_int_equal(lmc_key_readers(&key, -1), 1);
    key.num_kv_readers = 1000;
    assert_int_equal(lmc_key_readers(&key, 0), LMC_READERS_MAX);
}

static void scheduler_ranges_are_cut_and_floored(void **state) {
    (void)state;
    lmc_cache_key key = {.world_size = 3, .token_ids = {.count = 19}, .start = 5, .end = 18};
    lmc_chunk_range range = lmc_key_lookup_range(&key, 4);
    assert_int_equal(range.first, 1);
    assert_int_equal(range.end, 4);
    assert_int_equal(range.first_rank, 0);
    assert_int_equal(range.rank_count, 3);
    key.end = INT64_MAX;
    assert_int_equal(lmc_key_lookup_range(&key, 4).end, 4);
    key.end = -1;
    range = lmc_key_lookup_range(&key, 4);
    assert_int_equal(range.end, 0);
    assert_int_equal(range.first, 0);
    key.start = INT64_MIN;
    key.end = 4;
    key.present = LMC_CACHE_KEY_HAS_WORKER_ID;
    key.worker_id = 2;
    range = lmc_key_lookup_range(&key, 4);
    assert_int_equal(range.end, 1);
    assert_int_equal(range.first_rank, 2);
    assert_int_equal(range.rank_count, 1);
}

static void names_have_a_bound(void **state) {
    (void)state;
    static char text[LMC_NAME_MAX + 1];
    memset(text, 'x', sizeof(text));
    lmc_cache_key key = {.world_size = 1, .model_name = {text, LMC_NAME_MAX}};
    key.request_id = key.model_name;
    assert_int_equal(lmc_key_check(&key, NULL), LMC_OK);
    key.request_id.size++;
    assert_int_equal(lmc_key_check(&key, NULL), LMC_INVALID);
    key.request_id.size = 0;
    key.model_name.size++;
    assert_int_equal(lmc_key_check(&key, NULL), LMC_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kv_rank_vector_holds),
        cmocka_unit_test(salts_are_checked_as_specified),
        cmocka_unit_test(a_world_size_outside_its_bounds_is_told_which),
        cmocka_unit_test(readers_are_taken_from_the_key_or_guessed),
        cmocka_unit_test(scheduler_ranges_are_cut_and_floored),
        cmocka_unit_test(names_have_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
