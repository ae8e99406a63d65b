#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/log.h"
#include "dispatch/fake_door.h"
#include "support/alloc_fault.h"

/* What the handlers of a test do; set by the test before it runs them. */
typedef struct plan {
    lmc_status status;
    uint32_t completions; /* how often the handler completes; 0: it keeps the call */
    uint32_t runs;
    lmc_call *kept;
    uint32_t done;
} plan;

static void handle(void *self, lmc_call *call) {
    plan *p = self;
    p->runs++;
    p->kept = call;
    for (uint32_t i = 0; i < p->completions; i++)
        lmc_complete(call, p->status);
}

static void note_done(void *arg) { ((plan *)arg)->done++; }

#define SYNC_OPERATION(label) \
    { .name = label, .scheduling = LMC_SYNC, .handle = handle }
static const lmc_operation inline_operations[] = {SYNC_OPERATION("ping"),
                                                  SYNC_OPERATION("query_prefetch_status"),
                                                  SYNC_OPERATION("lookup"),
                                                  SYNC_OPERATION("commit_retrieve"),
                                                  {.name = NULL}};

typedef struct fixture {
    fake_server server;
    plan plan;
    lmc_peer peer;
    fake_exchange *exchange;
} fixture;

static int open_fixture(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->plan.completions = 1;
    fake_open(&f->server);
    fake_add(&f->server, inline_operations, &f->plan, false);
    fake_run(&f->server, 1, 1);
    lmc_peer_init(&f->peer);
    f->exchange = fake_make(f->server.dispatcher);
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    fake_close(&f->server);
    fake_free(f->exchange);
    free(f);
    return 0;
}

static void run(fixture *f, const char *operation) {
    fake_begin(f->exchange, operation, &f->peer);
    lmc_dispatch(&f->exchange->x);
    lmc_dispatch_flush((&f->exchange->x)->dispatcher);
}

static uint64_t counted(const fixture *f, lmc_dispatch_counter what) {
    return lmc_dispatch_counted(f->server.dispatcher, what);
}

static void a_completed_call_is_encoded_once_and_finished_once(void **state) {
    fixture *f = *state;
    run(f, "ping");
    assert_int_equal(f->plan.runs, 1);
    assert_int_equal(f->exchange->encodes, 1);
    assert_int_equal(f->exchange->finished, 1);
    assert_true(f->exchange->answered);
    assert_int_equal(counted(f, LMC_COUNT_NEGATIVE), 0);
}

static void a_second_completion_is_reported_and_changes_nothing(void **state) {
    fixture *f = *state;
    f->plan.completions = 2;
    run(f, "ping");
    assert_int_equal(f->exchange->finished, 1);
    assert_int_equal(counted(f, LMC_COUNT_TWICE), 1);
}

static void a_second_completion_does_not_end_the_next_request_of_the_record(void **state) {
    fixture *f = *state;
    run(f, "ping");
    lmc_call *stale = f->plan.kept;
    lmc_exchange_end(&f->exchange->x, 0);
    lmc_complete(stale, LMC_OK); /* while the record is idle */
    f->plan.completions = 0;
    run(f, "lookup");
    lmc_complete(stale, LMC_OK); /* while another request has it */
    assert_int_equal(f->exchange->finished, 1);
    assert_int_equal(counted(f, LMC_COUNT_TWICE), 2);
    lmc_complete(f->plan.kept, LMC_OK);
    assert_int_equal(f->exchange->finished, 2);
}

static void a_failure_is_answered_with_the_negative_where_there_is_one(void **state) {
    fixture *f = *state;
    f->plan.status = LMC_INVALID;
    run(f, "commit_retrieve");
    assert_true(f->exchange->answered);
    assert_int_equal(f->exchange->encoded, LMC_OK);
    lmc_commit_retrieve_reply *reply = f->exchange->x.reply;
    assert_true(reply->success); /* D1: commit_retrieve answers true */
    lmc_exchange_end(&f->exchange->x, 0);
    run(f, "lookup");
    assert_true(f->exchange->answered);
    assert_int_equal(counted(f, LMC_COUNT_NEGATIVE), 2);
}

static void a_failure_without_negative_is_silence(void **state) {
    fixture *f = *state;
    f->plan.status = LMC_FAILED;
    run(f, "ping");
    assert_int_equal(f->exchange->finished, 1);
    assert_false(f->exchange->answered);
    assert_int_equal(counted(f, LMC_COUNT_UNANSWERED), 1);
}

static void pending_is_an_answer_only_where_the_operation_has_it(void **state) {
    fixture *f = *state;
    f->plan.status = LMC_AGAIN;
    run(f, "query_prefetch_status");
    assert_int_equal(f->exchange->encoded, LMC_AGAIN);
    assert_true(f->exchange->answered);
    lmc_exchange_end(&f->exchange->x, 0);
    run(f, "ping");
    assert_false(f->exchange->answered);
}

static void a_payload_that_does_not_decode_reaches_no_handler(void **state) {
    fixture *f = *state;
    f->exchange->decode_status = LMC_MALFORMED;
    run(f, "lookup");
    assert_int_equal(f->plan.runs, 0);
    assert_false(f->exchange->answered);
    assert_int_equal(counted(f, LMC_COUNT_MALFORMED), 1);
    lmc_exchange_end(&f->exchange->x, 0);
    f->exchange->decode_status = LMC_INVALID; /* as server_module_call does */
    run(f, "lookup");
    assert_int_equal(f->plan.runs, 0);
    assert_true(f->exchange->answered);
}

static void done_callbacks_run_after_the_reply_was_encoded(void **state) {
    fixture *f = *state;
    f->plan.completions = 0;
    run(f, "lookup");
    for (int i = 0; i < LMC_EXCHANGE_DONE_MAX; i++)
        assert_true(lmc_call_on_done(f->plan.kept, note_done, &f->plan));
    assert_false(lmc_call_on_done(f->plan.kept, note_done, &f->plan));
    assert_int_equal(f->plan.done, 0);
    lmc_complete(f->plan.kept, LMC_OK);
    assert_int_equal(f->plan.done, LMC_EXCHANGE_DONE_MAX);
}

static void a_call_lends_memory_and_names_its_connection(void **state) {
    fixture *f = *state;
    f->plan.completions = 0;
    run(f, "lookup");
    lmc_call *call = f->plan.kept;
    char *memory = lmc_call_alloc(call, 100);
    assert_non_null(memory);
    memset(memory, 7, 100);
    lmc_slice text = lmc_call_text(call, "hello");
    assert_true(lmc_slice_is(text, "hello"));
    assert_int_equal(lmc_call_connection(call), f->peer.id);
    assert_true(f->peer.id != 0);
    assert_non_null(lmc_call_request(call));
    assert_non_null(lmc_call_reply(call));
    lmc_fail(call, LMC_FAILED, "a text for the log");
    assert_true(f->exchange->answered);
}

static void no_memory_for_a_request_means_no_answer_and_no_crash(void **state) {
    fixture *f = *state;
    lmc_exchange_end(&f->exchange->x, 0);
    lmc_fault_arm(1, true);
    run(f, "lookup");
    lmc_fault_disarm();
    assert_int_equal(f->plan.runs, 0);
    assert_int_equal(f->exchange->finished, 1);
    assert_false(f->exchange->answered);
}

static void an_abandoned_call_is_answered_by_the_stop_and_ends_later(void **state) {
    fixture *f = *state;
    f->plan.completions = 0;
    run(f, "lookup");
    assert_true(lmc_call_on_done(f->plan.kept, note_done, &f->plan));
    assert_true(lmc_exchange_abandon(&f->exchange->x));
    assert_int_equal(f->exchange->encodes, 1);
    assert_int_equal(f->exchange->finished, 0);
    assert_int_equal(f->plan.done, 0);
    lmc_complete(f->plan.kept, LMC_OK);
    assert_int_equal(f->exchange->encodes, 1);
    assert_int_equal(f->exchange->finished, 1);
    assert_int_equal(f->plan.done, 1);
    assert_int_equal(counted(f, LMC_COUNT_TWICE), 0);
}

static void nothing_is_abandoned_that_has_no_negative_or_has_ended(void **state) {
    fixture *f = *state;
    f->plan.completions = 0;
    run(f, "ping");
    assert_false(lmc_exchange_abandon(&f->exchange->x));
    lmc_complete(f->plan.kept, LMC_OK);
    lmc_exchange_end(&f->exchange->x, 0);
    f->plan.completions = 1;
    run(f, "lookup");
    assert_false(lmc_exchange_abandon(&f->exchange->x));
}

/* ---- forwarding ---- */

static void forward(void *self, lmc_call *call) {
    ((plan *)self)->runs++;
    lmc_forward(call);
}

static void a_forwarded_call_is_completed_by_the_handler_behind(void **state) {
    (void)state;
    const lmc_operation front[] = {
        {.name = "clear", .scheduling = LMC_NORMAL, .handle = forward}, {.name = NULL}};
    const lmc_operation behind[] = {
        {.name = "clear", .scheduling = LMC_NORMAL, .handle = handle}, {.name = NULL}};
    plan first = {0}, second = {.completions = 1};
    fake_server server = {0};
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_open(&server);
    fake_add(&server, behind, &second, false);
    fake_add(&server, front, &first, true);
    fake_run(&server, 1, 1);
    fake_exchange *exchange = fake_make(server.dispatcher);
    fake_begin(exchange, "clear", &peer);
    lmc_dispatch(&exchange->x);
    lmc_dispatch_flush((&exchange->x)->dispatcher);
    fake_await(exchange, 1);
    assert_true(exchange->answered);
    fake_close(&server);
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.runs, 1);
    fake_free(exchange);
}

static void a_call_forwarded_to_a_sync_handler_goes_back_to_the_loop(void **state) {
    (void)state;
    const lmc_operation front[] = {
        {.name = "noop", .scheduling = LMC_NORMAL, .handle = forward}, {.name = NULL}};
    const lmc_operation behind[] = {{.name = "noop", .scheduling = LMC_SYNC, .handle = handle},
                                    {.name = NULL}};
    plan first = {0}, second = {.completions = 1};
    fake_server server = {0};
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_open(&server);
    fake_add(&server, behind, &second, false);
    fake_add(&server, front, &first, true);
    fake_run(&server, 1, 1);
    fake_exchange *exchange = fake_make(server.dispatcher);
    fake_begin(exchange, "noop", &peer);
    lmc_dispatch(&exchange->x);
    lmc_dispatch_flush((&exchange->x)->dispatcher);
    while (atomic_load(&exchange->posted) == 0)
        sched_yield();
    assert_int_equal(second.runs, 0);
    lmc_exchange_run(&exchange->x); /* as the loop does */
    assert_int_equal(second.runs, 1);
    assert_int_equal(exchange->finished, 1);
    fake_close(&server);
    fake_free(exchange);
}

static void forwarding_to_nobody_is_a_failure(void **state) {
    (void)state;
    const lmc_operation front[] = {
        {.name = "lookup", .scheduling = LMC_SYNC, .handle = forward}, {.name = NULL}};
    plan first = {0};
    fake_server server = {0};
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_open(&server);
    fake_add(&server, front, &first, false);
    fake_run(&server, 1, 1);
    fake_exchange *exchange = fake_make(server.dispatcher);
    fake_begin(exchange, "lookup", &peer);
    lmc_dispatch(&exchange->x);
    lmc_dispatch_flush((&exchange->x)->dispatcher);
    assert_int_equal(exchange->finished, 1);
    assert_int_equal(lmc_dispatch_counted(server.dispatcher, LMC_COUNT_NEGATIVE), 1);
    fake_close(&server);
    fake_free(exchange);
}

/* ---- many threads ---- */

static lmc_call *contested;
static pthread_barrier_t line;

static void *complete_contested(void *arg) {
    (void)arg;
    pthread_barrier_wait(&line);
    lmc_complete(contested, LMC_OK);
    return NULL;
}

static void of_two_threads_that_complete_one_ends_the_call(void **state) {
    fixture *f = *state;
    f->plan.completions = 0;
    lmc_log_set_level("lmcache.dispatch", LMC_LOG_CRITICAL);
    pthread_barrier_init(&line, NULL, 2);
    for (uint32_t round = 1; round <= 200; round++) {
        run(f, "lookup");
        contested = f->plan.kept;
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, complete_contested, NULL), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(f->exchange->finished, round);
        assert_int_equal(counted(f, LMC_COUNT_TWICE), round);
        lmc_exchange_end(&f->exchange->x, 0);
    }
    pthread_barrier_destroy(&line);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(a_completed_call_is_encoded_once_and_finished_once),
        TEST(a_second_completion_is_reported_and_changes_nothing),
        TEST(a_second_completion_does_not_end_the_next_request_of_the_record),
        TEST(a_failure_is_answered_with_the_negative_where_there_is_one),
        TEST(a_failure_without_negative_is_silence),
        TEST(pending_is_an_answer_only_where_the_operation_has_it),
        TEST(a_payload_that_does_not_decode_reaches_no_handler),
        TEST(done_callbacks_run_after_the_reply_was_encoded),
        TEST(a_call_lends_memory_and_names_its_connection),
        TEST(no_memory_for_a_request_means_no_answer_and_no_crash),
        TEST(an_abandoned_call_is_answered_by_the_stop_and_ends_later),
        TEST(nothing_is_abandoned_that_has_no_negative_or_has_ended),
        cmocka_unit_test(a_forwarded_call_is_completed_by_the_handler_behind),
        cmocka_unit_test(a_call_forwarded_to_a_sync_handler_goes_back_to_the_loop),
        cmocka_unit_test(forwarding_to_nobody_is_a_failure),
        TEST(of_two_threads_that_complete_one_ends_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
