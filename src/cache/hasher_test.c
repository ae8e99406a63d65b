#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <blake3.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/chains.h"
#include "cache/hasher.h"

static json_t *golden(void) {
    json_error_t error;
    json_t *root = json_load_file(LMC_GOLDEN_DIR "/chunk-hashes.json", 0, &error);
    assert_non_null(root);
    return root;
}

static uint32_t *tokens_of(const json_t *value, size_t *count) {
    const json_t *range = json_object_get(value, "range");
    size_t first = 0;
    *count = json_array_size(value);
    if (range != NULL) {
        first = (size_t)json_integer_value(json_array_get(range, 0));
        *count = (size_t)json_integer_value(json_array_get(range, 1)) - first;
    }
    uint32_t *tokens = malloc((*count + 1) * sizeof(*tokens));
    for (size_t i = 0; i < *count; i++)
        tokens[i] = range != NULL ? (uint32_t)(first + i)
                                  : (uint32_t)json_integer_value(json_array_get(value, i));
    return tokens;
}

static void check_case(const json_t *test) {
    size_t count;
    uint32_t *tokens = tokens_of(json_object_get(test, "tokens"), &count);
    uint32_t chunk_size = (uint32_t)json_integer_value(json_object_get(test, "chunk_size"));
    const json_t *end = json_object_get(test, "end");
    if (json_is_integer(end) && (size_t)json_integer_value(end) < count)
        count = (size_t)json_integer_value(end);
    size_t first = (size_t)json_integer_value(json_object_get(test, "start")) / chunk_size;
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, chunk_size), LMC_OK);
    size_t chunks = count / chunk_size;
    uint8_t *hashes = malloc((chunks + 1) * LMC_HASH_SIZE);
    lmc_hasher_run(&hasher, NULL, tokens, chunks, hashes);
    const json_t *expected = json_object_get(test, "chunk_hashes");
    assert_int_equal(json_array_size(expected), chunks - first);
    for (size_t i = first; i < chunks; i++) {
        char hex[2 * LMC_HASH_SIZE + 1];
        lmc_hex(hashes + i * LMC_HASH_SIZE, LMC_HASH_SIZE, hex);
        assert_string_equal(hex, json_string_value(json_array_get(expected, i - first)));
    }
    free(hashes);
    free(tokens);
}

static void every_blake3_vector_holds(void **state) {
    (void)state;
    json_t *root = golden();
    const json_t *cases = json_object_get(root, "chunk_hash_cases");
    size_t run = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *test = json_array_get(cases, i);
        if (strcmp(json_string_value(json_object_get(test, "algorithm")), "blake3") != 0)
            continue;
        check_case(test);
        run++;
    }
    assert_true(run >= 9);
    json_decref(root);
}

static void the_chain_starts_at_the_hash_of_twelve_zeros(void **state) {
    (void)state;
    json_t *root = golden();
    const json_t *none = json_object_get(json_object_get(root, "none_hash"), "blake3");
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, 256), LMC_OK);
    char hex[2 * LMC_HASH_SIZE + 1];
    lmc_hex(hasher.none, LMC_HASH_SIZE, hex);
    assert_string_equal(hex, json_string_value(json_object_get(none, "hash")));
    json_decref(root);
}

/* Chunks longer than a conversion block, against one plain BLAKE3 of the same bytes. */
static void chunks_longer_than_a_block_are_hashed_whole(void **state) {
    (void)state;
    enum { SIZE = 2 * LMC_HASH_BLOCK + 7 };
    uint32_t *tokens = malloc(2 * SIZE * sizeof(*tokens));
    uint8_t *bytes = malloc(LMC_HASH_SIZE + SIZE * 4);
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, SIZE), LMC_OK);
    for (size_t i = 0; i < 2 * SIZE; i++)
        tokens[i] = (uint32_t)(i * UINT32_C(2654435761));
    uint8_t hashes[2][LMC_HASH_SIZE], expected[LMC_HASH_SIZE];
    lmc_hasher_run(&hasher, NULL, tokens, 2, hashes[0]);
    memcpy(expected, hasher.none, sizeof(expected));
    for (int chunk = 0; chunk < 2; chunk++) {
        memcpy(bytes, expected, LMC_HASH_SIZE);
        for (size_t i = 0; i < SIZE; i++) {
            uint32_t token = tokens[(size_t)chunk * SIZE + i];
            uint8_t *at = bytes + LMC_HASH_SIZE + i * 4;
            at[0] = (uint8_t)(token >> 24);
            at[1] = (uint8_t)(token >> 16);
            at[2] = (uint8_t)(token >> 8);
            at[3] = (uint8_t)token;
        }
        blake3_hasher blake3;
        blake3_hasher_init(&blake3);
        blake3_hasher_update(&blake3, bytes, LMC_HASH_SIZE + SIZE * 4);
        blake3_hasher_finalize(&blake3, expected, sizeof(expected));
        assert_memory_equal(hashes[chunk], expected, sizeof(expected));
    }
    free(bytes);
    free(tokens);
}

static void a_chain_can_be_hashed_in_parts(void **state) {
    (void)state;
    uint32_t tokens[24];
    for (size_t i = 0; i < 24; i++)
        tokens[i] = (uint32_t)(100 - i);
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, 8), LMC_OK);
    uint8_t whole[3 * LMC_HASH_SIZE], parts[3 * LMC_HASH_SIZE];
    lmc_hasher_run(&hasher, NULL, tokens, 3, whole);
    lmc_hasher_run(&hasher, NULL, tokens, 1, parts);
    lmc_hasher_run(&hasher, parts, tokens + 8, 2, parts + LMC_HASH_SIZE);
    assert_memory_equal(whole, parts, sizeof(whole));
}

static void marks_depend_on_every_token_and_its_place(void **state) {
    (void)state;
    lmc_hasher hasher;
    for (uint32_t size = 1; size < 40; size++) {
        uint32_t tokens[80];
        for (size_t i = 0; i < 80; i++)
            tokens[i] = (uint32_t)i;
        assert_int_equal(lmc_hasher_init(&hasher, size), LMC_OK);
        uint32_t before[2], after[2];
        uint64_t all = lmc_hasher_mark(&hasher, hasher.seed, tokens, 2, before);
        for (size_t i = 0; i < 2 * size; i++) {
            tokens[i] ^= 0x10000;
            assert_true(lmc_hasher_mark(&hasher, hasher.seed, tokens, 2, after) != all);
            assert_true(after[1] != before[1]);
            assert_true((after[0] != before[0]) == (i < size));
            tokens[i] ^= 0x10000;
        }
    }
}

/* ---- chains ---- */

static lmc_tokens list_of(const uint32_t *ids, size_t count) {
    return (lmc_tokens){.ids = ids, .count = count};
}

static void a_chain_grows_and_agrees_with_one_made_at_once(void **state) {
    (void)state;
    uint32_t tokens[40];
    for (size_t i = 0; i < 40; i++)
        tokens[i] = (uint32_t)(i * i);
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, 4), LMC_OK);
    lmc_tokens list = list_of(tokens, 40);
    lmc_chain *small, *grown, *whole, *same;
    uint64_t a, b;
    assert_int_equal(lmc_chain_resolve(&hasher, NULL, &list, 3, &small, NULL), LMC_OK);
    assert_int_equal(lmc_chain_resolve(&hasher, small, &list, 10, &grown, &a), LMC_OK);
    assert_int_equal(lmc_chain_resolve(&hasher, NULL, &list, 10, &whole, &b), LMC_OK);
    assert_true(a == b);
    assert_memory_equal(grown->hashes, whole->hashes, 10 * LMC_HASH_SIZE);
    assert_memory_equal(grown->marks, whole->marks, 10 * sizeof(uint32_t));
    assert_int_equal(lmc_chain_resolve(&hasher, grown, &list, 5, &same, NULL), LMC_OK);
    assert_ptr_equal(same, grown);
    lmc_chain_drop(same);
    lmc_chain_drop(whole);
    lmc_chain_drop(grown);
    lmc_chain_drop(small);
}

static void other_tokens_under_the_same_name_are_hashed_anew(void **state) {
    (void)state;
    uint32_t tokens[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, 4), LMC_OK);
    lmc_tokens list = list_of(tokens, 16);
    lmc_chain *first, *other;
    assert_int_equal(lmc_chain_resolve(&hasher, NULL, &list, 4, &first, NULL), LMC_OK);
    tokens[5] = 99;
    assert_false(lmc_chain_matches(&hasher, first, &list, 4));
    assert_true(lmc_chain_matches(&hasher, first, &list, 1));
    assert_int_equal(lmc_chain_resolve(&hasher, first, &list, 2, &other, NULL), LMC_OK);
    assert_ptr_not_equal(first, other);
    uint8_t expected[2 * LMC_HASH_SIZE];
    lmc_hasher_run(&hasher, NULL, tokens, 2, expected);
    assert_memory_equal(other->hashes, expected, sizeof(expected));
    assert_false(lmc_chain_reaches(first, 2, lmc_chain_hash(other, 1)));
    assert_true(lmc_chain_reaches(first, 1, lmc_chain_hash(other, 0)));
    lmc_chain_drop(other);
    lmc_chain_drop(first);
}

static void counted_tokens_need_a_chain_that_covers_them(void **state) {
    (void)state;
    uint32_t tokens[8] = {0};
    lmc_hasher hasher;
    assert_int_equal(lmc_hasher_init(&hasher, 4), LMC_OK);
    lmc_tokens list = list_of(tokens, 8), counted = list_of(NULL, 8);
    lmc_chain *chain, *again;
    assert_int_equal(lmc_chain_resolve(&hasher, NULL, &counted, 1, &chain, NULL), LMC_INVALID);
    assert_int_equal(lmc_chain_resolve(&hasher, NULL, &list, 1, &chain, NULL), LMC_OK);
    assert_int_equal(lmc_chain_resolve(&hasher, chain, &counted, 1, &again, NULL), LMC_OK);
    assert_ptr_equal(chain, again);
    lmc_chain_drop(again);
    assert_int_equal(lmc_chain_resolve(&hasher, chain, &counted, 2, &again, NULL), LMC_INVALID);
    lmc_chain_drop(chain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_blake3_vector_holds),
        cmocka_unit_test(the_chain_starts_at_the_hash_of_twelve_zeros),
        cmocka_unit_test(chunks_longer_than_a_block_are_hashed_whole),
        cmocka_unit_test(a_chain_can_be_hashed_in_parts),
        cmocka_unit_test(marks_depend_on_every_token_and_its_place),
        cmocka_unit_test(a_chain_grows_and_agrees_with_one_made_at_once),
        cmocka_unit_test(other_tokens_under_the_same_name_are_hashed_anew),
        cmocka_unit_test(counted_tokens_need_a_chain_that_covers_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
