#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/copy_crew.h"
#include "base/error.h"
#include "support/alloc_fault.h"

#define SIZE (((size_t)9 << 20) + 12345)
#define COPIERS 4
#define TIMES 6

static void expect_copies(void) {
    uint8_t *from = malloc(SIZE), *to = malloc(SIZE + 1);
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < SIZE; i++)
        from[i] = (uint8_t)((i * 2654435761u) >> 13);
    for (int i = 0; i < TIMES; i++) {
        memset(to, i, SIZE + 1);
        lmc_copy_cold(to, from, SIZE);
        assert_memory_equal(to, from, SIZE);
        assert_int_equal(to[SIZE], i);
    }
    free(from);
    free(to);
}

static void *copy_in_thread(void *arg) {
    expect_copies();
    return arg;
}

static void copies_of_many_threads_are_whole(void **state) {
    (void)state;
    pthread_t threads[COPIERS];
    assert_int_equal(lmc_copy_crew_start(3, NULL), LMC_OK);
    for (int i = 0; i < COPIERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_in_thread, NULL), 0);
    for (int i = 0; i < COPIERS; i++)
        pthread_join(threads[i], NULL);
    lmc_copy_crew_stop();
}

static void a_copy_is_whole_without_a_crew_too(void **state) {
    (void)state;
    expect_copies();
    assert_int_equal(lmc_copy_crew_start(0, NULL), LMC_OK);
    expect_copies();
    lmc_copy_crew_stop();
    lmc_copy_crew_stop();
    expect_copies();
}

static void a_crew_can_stop_while_others_copy(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        assert_int_equal(lmc_copy_crew_start(2, NULL), LMC_OK);
        assert_int_equal(pthread_create(&thread, NULL, copy_in_thread, NULL), 0);
        lmc_copy_crew_stop();
        pthread_join(thread, NULL);
    }
}

static _Atomic int pieces_of_others;
static pthread_t asker;

/* Lets a helper in: the asker waits with its first piece until one has come. */
static void note_and_copy(void *to, const void *from, size_t size) {
    if (pthread_equal(pthread_self(), asker)) {
        while (atomic_load(&pieces_of_others) == 0)
            sched_yield();
    } else {
        atomic_fetch_add(&pieces_of_others, 1);
    }
    memcpy(to, from, size);
}

static void an_idle_helper_takes_pieces(void **state) {
    (void)state;
    uint8_t *from = calloc(1, SIZE), *to = malloc(SIZE);
    assert_non_null(from);
    assert_non_null(to);
    asker = pthread_self();
    assert_int_equal(lmc_copy_crew_start(1, NULL), LMC_OK);
    while (lmc_copy_crew_idle() == 0)
        sched_yield();
    lmc_copy_crew_share(to, from, SIZE, note_and_copy);
    assert_true(atomic_load(&pieces_of_others) > 0);
    assert_memory_equal(to, from, SIZE);
    lmc_copy_crew_stop();
    free(from);
    free(to);
}

static void a_crew_that_cannot_start_leaves_none_behind(void **state) {
    (void)state;
    lmc_error error = LMC_ERROR_INIT;
    lmc_fault_arm(2, false);
    assert_int_equal(lmc_copy_crew_start(3, &error), LMC_NO_MEMORY);
    lmc_fault_disarm();
    assert_non_null(strstr(error.text, "lmc-copy-1"));
    assert_int_equal(lmc_copy_crew_idle(), 0);
    expect_copies();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_many_threads_are_whole),
        cmocka_unit_test(a_copy_is_whole_without_a_crew_too),
        cmocka_unit_test(a_crew_can_stop_while_others_copy),
        cmocka_unit_test(an_idle_helper_takes_pieces),
        cmocka_unit_test(a_crew_that_cannot_start_leaves_none_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
