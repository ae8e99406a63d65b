#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>

#include "base/thread.h"
#include "base/work_queue.h"

#define PUSHERS 4
#define EACH 20000

typedef struct item {
    lmc_mpsc_node node;
    int pusher, number;
} item;

static void everything_comes_out_once_in_the_order_it_went_in(void **state) {
    (void)state;
    lmc_mpsc queue = LMC_MPSC_INIT;
    item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    assert_true(lmc_mpsc_is_empty(&queue));
    assert_null(lmc_mpsc_take_all(&queue));
    assert_true(lmc_mpsc_push(&queue, &items[0].node));
    assert_false(lmc_mpsc_push(&queue, &items[1].node));
    assert_false(lmc_mpsc_push(&queue, &items[2].node));
    assert_false(lmc_mpsc_is_empty(&queue));
    const lmc_mpsc_node *node = lmc_mpsc_take_all(&queue);
    for (int i = 0; i < 3; i++, node = node->next)
        assert_ptr_equal(node, &items[i].node);
    assert_null(node);
    assert_true(lmc_mpsc_push(&queue, &items[1].node));
}

static lmc_mpsc shared = LMC_MPSC_INIT;
static item pushed[PUSHERS][EACH];
static _Atomic int wakes;

static void push_all(void *arg) {
    item *mine = arg;
    for (int i = 0; i < EACH; i++) {
        mine[i].number = i;
        mine[i].pusher = (int)((item(*)[EACH])mine - pushed);
        wakes += lmc_mpsc_push(&shared, &mine[i].node);
    }
}

static void many_pushers_lose_nothing_and_keep_their_own_order(void **state) {
    (void)state;
    lmc_thread threads[PUSHERS];
    int next[PUSHERS] = {0}, total = 0, batches = 0;
    for (int i = 0; i < PUSHERS; i++)
        assert_int_equal(lmc_thread_start(&threads[i], "push", push_all, pushed[i], NULL), 0);
    while (total < PUSHERS * EACH) {
        const lmc_mpsc_node *node = lmc_mpsc_take_all(&shared);
        batches += node != NULL;
        if (node == NULL)
            sched_yield();
        for (; node != NULL; node = node->next, total++) {
            const item *got = (const item *)node;
            assert_int_equal(got->number, next[got->pusher]++);
        }
    }
    for (int i = 0; i < PUSHERS; i++)
        lmc_thread_join(&threads[i]);
    assert_int_equal(wakes, batches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_out_once_in_the_order_it_went_in),
        cmocka_unit_test(many_pushers_lose_nothing_and_keep_their_own_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
