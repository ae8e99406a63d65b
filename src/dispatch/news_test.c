#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/fake_door.h"

#define CALLS 2000

/* A door whose loop must be told of what has finished, like one behind a socket. */
static _Atomic uint32_t finished, told_of, tellings;
static _Atomic bool gate;

static void tell(void *arg) {
    (void)arg;
    atomic_fetch_add(&tellings, 1);
    atomic_store(&told_of, atomic_load(&finished));
}

static void finish_and_tell(lmc_exchange *x, bool answered) {
    fake_finish(x, answered);
    atomic_fetch_add(&finished, 1);
    if (!lmc_news_keep(tell, &tellings))
        tell(NULL);
}

static const lmc_door telling_door = {fake_decode, fake_encode, finish_and_tell, fake_post,
                                      fake_is_home};

static void complete_when_open(void *self, lmc_call *call) {
    (void)self;
    while (!atomic_load(&gate))
        sched_yield();
    lmc_complete(call, LMC_OK);
}

static void await_told(uint32_t count) {
    while (atomic_load(&told_of) < count)
        sched_yield();
}

/* So many calls that wait for the gate, one behind the other. */
static void run_calls(bool outside, fake_exchange **all, uint32_t count) {
    static const lmc_operation operations[] = {{.name = "report_block_allocation",
                                                .scheduling = LMC_NORMAL,
                                                .handle = complete_when_open},
                                               {0}};
    fake_server server = {0};
    lmc_peer peer;
    atomic_store(&finished, 0);
    atomic_store(&told_of, 0);
    atomic_store(&tellings, 0);
    atomic_store(&gate, false);
    lmc_peer_init(&peer);
    fake_open(&server);
    fake_add(&server, operations, NULL, outside);
    fake_run(&server, 1, 1);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = fake_make(server.dispatcher);
        all[i]->x.door = &telling_door;
        fake_begin(all[i], "report_block_allocation", &peer);
        lmc_dispatch(&all[i]->x);
    }
    lmc_dispatch_flush(server.dispatcher);
    atomic_store(&gate, true);
    await_told(count);
    fake_close(&server);
    for (uint32_t i = 0; i < count; i++)
        fake_free(all[i]);
}

static void quick_requests_that_follow_each_other_are_told_of_together(void **state) {
    (void)state;
    fake_exchange *all[CALLS];
    run_calls(false, all, CALLS);
    assert_int_equal(atomic_load(&finished), CALLS);
    assert_true(atomic_load(&tellings) < CALLS);
}

static void nothing_is_kept_when_nothing_follows(void **state) {
    (void)state;
    fake_exchange *one[1];
    for (int i = 0; i < 100; i++)
        run_calls(false, one, 1);
    assert_int_equal(atomic_load(&tellings), 1);
}

/* Its handler may go on for long after it has completed the call. */
static void a_request_of_a_module_from_outside_is_told_of_at_once(void **state) {
    (void)state;
    fake_exchange *all[CALLS];
    run_calls(true, all, CALLS);
    assert_int_equal(atomic_load(&tellings), CALLS);
}

static void news_of_two_doors_are_not_mixed_up(void **state) {
    (void)state;
    int one, another;
    lmc_news news = {0};
    assert_false(lmc_news_keep(tell, &one));
    lmc_news_here = &news;
    assert_true(lmc_news_keep(tell, &one));
    assert_true(lmc_news_keep(tell, &one));
    assert_false(lmc_news_keep(tell, &another));
    lmc_news_here = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_requests_that_follow_each_other_are_told_of_together),
        cmocka_unit_test(nothing_is_kept_when_nothing_follows),
        cmocka_unit_test(a_request_of_a_module_from_outside_is_told_of_at_once),
        cmocka_unit_test(news_of_two_doors_are_not_mixed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
