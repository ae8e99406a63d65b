#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cache/hash_memo.h"

#define SEGMENT 4096u /* tokens */
#define TOKENS (5 * SEGMENT + 700)
#define THREADS 4
#define TURNS 60

typedef struct memo_fixture {
    lmc_hasher hasher;
    lmc_hash_memo *memo;
    uint32_t tokens[TOKENS];
} memo_fixture;

static void open_with(memo_fixture *f, uint32_t chunk_size) {
    assert_int_equal(lmc_hasher_init(&f->hasher, chunk_size), LMC_OK);
    f->memo = lmc_hash_memo_create(chunk_size);
    assert_non_null(f->memo);
    for (uint32_t i = 0; i < TOKENS; i++)
        f->tokens[i] = i * 2654435761u;
}

static int setup(void **state) {
    memo_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    open_with(f, 256);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    memo_fixture *f = *state;
    lmc_hash_memo_destroy(f->memo);
    free(f);
    return 0;
}

static uint8_t *expected(const memo_fixture *f, const uint32_t *tokens, size_t chunks) {
    uint8_t *hashes = malloc(chunks * LMC_HASH_SIZE + 1);
    assert_non_null(hashes);
    lmc_hasher_run(&f->hasher, NULL, tokens, chunks, hashes);
    return hashes;
}

static void expect_run(const memo_fixture *f, const uint32_t *tokens, size_t chunks) {
    uint8_t *want = expected(f, tokens, chunks);
    uint8_t *hashes = malloc(chunks * LMC_HASH_SIZE + 1);
    assert_non_null(hashes);
    hashes[chunks * LMC_HASH_SIZE] = 0x5a;
    lmc_hash_memo_run(f->memo, &f->hasher, tokens, chunks, hashes);
    assert_memory_equal(hashes, want, chunks * LMC_HASH_SIZE);
    assert_int_equal(hashes[chunks * LMC_HASH_SIZE], 0x5a);
    free(want);
    free(hashes);
}

static void hashes_are_the_same_with_and_without_the_memo(void **state) {
    memo_fixture *f = *state;
    static const uint32_t sizes[] = {1, 16, 255, 256, 4096, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lmc_hash_memo_destroy(f->memo);
        open_with(f, sizes[i]);
        size_t chunks = TOKENS / sizes[i];
        for (size_t count = 0; count <= chunks; count += chunks / 7 + 1) {
            expect_run(f, f->tokens, count);
            expect_run(f, f->tokens, count);
        }
    }
}

static void no_memo_is_as_good_as_an_empty_one(void **state) {
    memo_fixture *f = *state;
    lmc_hash_memo *kept = f->memo;
    f->memo = NULL;
    expect_run(f, f->tokens, TOKENS / 256);
    f->memo = kept;
}

/* A hasher with another start shows which hashes were computed and which were remembered. */
static void whole_segments_of_a_known_prefix_are_not_hashed_again(void **state) {
    memo_fixture *f = *state;
    size_t chunks = TOKENS / 256;
    uint8_t *before = expected(f, f->tokens, chunks), *after = malloc(chunks * LMC_HASH_SIZE);
    assert_non_null(after);
    expect_run(f, f->tokens, 3 * SEGMENT / 256 + 2);
    f->hasher.none[0] ^= 1;
    lmc_hash_memo_run(f->memo, &f->hasher, f->tokens, chunks, after);
    assert_memory_equal(after, before, chunks * LMC_HASH_SIZE); /* chained on remembered ones */
    f->tokens[0] ^= 1;
    lmc_hash_memo_run(f->memo, &f->hasher, f->tokens, chunks, after);
    for (size_t i = 0; i < chunks; i++)
        assert_memory_not_equal(after + i * LMC_HASH_SIZE, before + i * LMC_HASH_SIZE,
                                LMC_HASH_SIZE);
    free(before);
    free(after);
}

static void a_segment_counts_only_behind_the_same_beginning(void **state) {
    memo_fixture *f = *state;
    size_t chunks = TOKENS / 256;
    expect_run(f, f->tokens, chunks);
    for (uint32_t at = 0; at < TOKENS; at += SEGMENT - 1) {
        f->tokens[at] ^= 1;
        expect_run(f, f->tokens, chunks);
    }
    /* The second segment alone is a prompt of its own. */
    expect_run(f, f->tokens + SEGMENT, chunks - SEGMENT / 256);
}

static void many_prompts_overwrite_each_other_and_nothing_else(void **state) {
    memo_fixture *f = *state;
    lmc_hash_memo_destroy(f->memo);
    open_with(f, 16); /* few entries, with many hashes */
    for (uint32_t i = 0; i < 600; i++) {
        f->tokens[7] = i % 300;
        expect_run(f, f->tokens, SEGMENT / 16 + i % 3);
    }
}

typedef struct turner {
    memo_fixture *f;
    uint32_t first;
    bool same;
    pthread_t thread;
} turner;

static void *take_turns(void *arg) {
    turner *t = arg;
    uint32_t tokens[SEGMENT + 256];
    uint8_t want[(SEGMENT / 256 + 1) * LMC_HASH_SIZE], hashes[sizeof want];
    memcpy(tokens, t->f->tokens, sizeof tokens);
    t->same = true;
    for (uint32_t i = 0; i < TURNS; i++) {
        tokens[0] = (t->first + i) % 8;
        lmc_hasher_run(&t->f->hasher, NULL, tokens, SEGMENT / 256 + 1, want);
        lmc_hash_memo_run(t->f->memo, &t->f->hasher, tokens, SEGMENT / 256 + 1, hashes);
        t->same = t->same && memcmp(want, hashes, sizeof want) == 0;
    }
    return NULL;
}

static void threads_share_it(void **state) {
    turner turners[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        turners[i] = (turner){.f = *state, .first = i};
        assert_int_equal(pthread_create(&turners[i].thread, NULL, take_turns, &turners[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(turners[i].thread, NULL);
        assert_true(turners[i].same);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hashes_are_the_same_with_and_without_the_memo, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_memo_is_as_good_as_an_empty_one, setup, teardown),
        cmocka_unit_test_setup_teardown(whole_segments_of_a_known_prefix_are_not_hashed_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_segment_counts_only_behind_the_same_beginning, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(many_prompts_overwrite_each_other_and_nothing_else,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(threads_share_it, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
