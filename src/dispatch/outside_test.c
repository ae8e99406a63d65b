/* What dispatch does for handlers from outside the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "dispatch/fake_door.h"

static lmc_account module_account, built_in_account;
static const lmc_owner outside_owner = {.name = "OutsideModule",
                                        .self = &module_account,
                                        .outside = true,
                                        .account = &module_account};
static const lmc_owner inside_owner = {
    .name = "BuiltInModule", .self = &built_in_account, .account = &built_in_account};

static atomic_bool hold;
static _Atomic uint32_t runs, afters;
static _Atomic lmc_status after_status;

static int reset(void **state) {
    (void)state;
    module_account = (lmc_account){.owner = "OutsideModule", .outside = true};
    built_in_account = (lmc_account){.owner = "BuiltInModule"};
    atomic_store(&hold, false);
    atomic_store(&runs, 0);
    atomic_store(&afters, 0);
    return 0;
}

static void pause_a_moment(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void complete(void *self, lmc_call *call) {
    (void)self;
    atomic_fetch_add(&runs, 1);
    while (atomic_load(&hold))
        pause_a_moment();
    lmc_complete(call, LMC_OK);
}

static void complete_now(void *self, lmc_call *call) {
    (void)self;
    lmc_complete(call, LMC_OK);
}

static void give_up(void *self, lmc_call *call) {
    (void)self;
    lmc_fail(call, LMC_FAILED, "on purpose");
}

static void forward(void *self, lmc_call *call) {
    (void)self;
    lmc_forward(call);
}

static void after(void *arg, lmc_call *call, lmc_status status) {
    atomic_fetch_add((_Atomic uint32_t *)arg, 1);
    atomic_store(&after_status, status);
    lmc_complete(call, status);
}

static void forward_then(void *self, lmc_call *call) {
    (void)self;
    lmc_forward_then(call, after, &afters);
}

static const lmc_operation completes[] = {
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = complete}, {.name = NULL}};
static const lmc_operation fails[] = {
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = give_up}, {.name = NULL}};
static const lmc_operation forwards[] = {
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = forward}, {.name = NULL}};
static const lmc_operation comes_back[] = {
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = forward_then}, {.name = NULL}};

/* One call of "clear" through these handlers; the door's view of it. */
static fake_exchange *call_clear(fake_server *server, lmc_peer *peer) {
    fake_exchange *exchange = fake_make(server->dispatcher);
    lmc_peer_init(peer);
    fake_begin(exchange, "clear", peer);
    lmc_dispatch(&exchange->x);
    lmc_dispatch_flush(server->dispatcher);
    return exchange;
}

static void open_with(fake_server *server, const lmc_operation *inside,
                      const lmc_operation *outside) {
    *server = (fake_server){0};
    fake_open(server);
    assert_int_equal(lmc_registry_add_of(server->registry, outside, &outside_owner, NULL),
                     LMC_OK);
    assert_int_equal(lmc_registry_add_of(server->registry, inside, &inside_owner, NULL),
                     LMC_OK);
}

static void run_once(fake_server *server, bool answered) {
    lmc_peer peer;
    fake_run(server, 1, 1);
    fake_exchange *exchange = call_clear(server, &peer);
    fake_await(exchange, 1);
    assert_int_equal(exchange->answered, answered);
    fake_close(server);
    fake_free(exchange);
}

/* Stands for a router of modules from outside. */
static const lmc_operation routes[] = {{.name = "ping",
                                        .scheduling = LMC_NORMAL,
                                        .flags = LMC_RUNS_OUTSIDE,
                                        .handle = complete_now},
                                       {.name = NULL}};

static bool knows_none(const void *self, const void *request) {
    (void)self;
    (void)request;
    return true;
}

static void what_is_answered_at_once_waits_for_no_handler_from_outside(void **state) {
    (void)state;
    static const lmc_owner router = {.name = "Router", .answers_at_once = knows_none};
    fake_server server;
    lmc_peer slow_peer, peer;
    open_with(&server, completes, completes);
    assert_int_equal(lmc_registry_add_of(server.registry, routes, &router, NULL), LMC_OK);
    fake_run(&server, 1, 1);
    atomic_store(&hold, true);
    fake_exchange *slow = call_clear(&server, &slow_peer);
    while (atomic_load(&runs) == 0)
        pause_a_moment();
    fake_exchange *quick = fake_make(server.dispatcher);
    lmc_peer_init(&peer);
    fake_begin(quick, "ping", &peer);
    lmc_dispatch(&quick->x);
    assert_int_equal(atomic_load(&quick->finished), 1); /* on this thread, before any flush */
    assert_true(quick->answered);
    assert_int_equal(atomic_load(&slow->finished), 0);
    atomic_store(&hold, false);
    fake_await(slow, 1);
    fake_close(&server);
    fake_free(slow);
    fake_free(quick);
}

static void calls_are_charged_to_whose_handler_has_them(void **state) {
    (void)state;
    fake_server server;
    open_with(&server, completes, forwards);
    run_once(&server, true);
    assert_int_equal(module_account.calls, 1);
    assert_int_equal(module_account.errors, 0);
    assert_int_equal(module_account.measured, 1);
    assert_int_equal(module_account.in_flight, 0);
    assert_int_equal(built_in_account.calls, 1);
}

static void a_failure_counts_for_whose_handler_failed(void **state) {
    (void)state;
    fake_server server;
    open_with(&server, fails, forwards);
    run_once(&server, true); /* with the negative */
    assert_int_equal(module_account.errors, 0);
    assert_int_equal(built_in_account.errors, 1);
}

static void a_call_comes_back_once_with_the_outcome_of_the_handler_behind(void **state) {
    (void)state;
    fake_server server;
    open_with(&server, completes, comes_back);
    run_once(&server, true);
    assert_int_equal(afters, 1);
    assert_int_equal(after_status, LMC_OK);
    assert_int_equal(module_account.calls, 1);
    assert_int_equal(module_account.in_flight, 0);
    open_with(&server, fails, comes_back);
    run_once(&server, true);
    assert_int_equal(afters, 2);
    assert_int_equal(after_status, LMC_FAILED);
}

static void a_call_that_nobody_takes_comes_back_as_not_found(void **state) {
    (void)state;
    static const lmc_operation none[] = {{.name = NULL}};
    fake_server server;
    open_with(&server, none, comes_back);
    run_once(&server, true);
    assert_int_equal(afters, 1);
    assert_int_equal(after_status, LMC_NOT_FOUND);
}

static void an_outside_request_has_room_for_unknown_members(void **state) {
    (void)state;
    fake_server server;
    lmc_peer peer;
    open_with(&server, completes, completes);
    atomic_store(&hold, true);
    fake_run(&server, 1, 1);
    fake_exchange *exchange = call_clear(&server, &peer);
    while (atomic_load(&runs) == 0)
        pause_a_moment();
    const unsigned char *reply = exchange->x.reply, *request = exchange->x.request;
    for (size_t i = 0; i < LMC_MESSAGE_ROOM; i++) {
        assert_int_equal(reply[exchange->x.operation->reply_size + i], 0);
        assert_int_equal(request[exchange->x.operation->request_size + i], 0);
    }
    atomic_store(&hold, false);
    fake_await(exchange, 1);
    fake_close(&server);
    fake_free(exchange);
}

/* ---- pools of modules ---- */

static const char *const clear_only[] = {"clear", NULL};

static void note_pool(void *arg, const lmc_pool_report *report) {
    if (strcmp(report->name, "own-0") == 0)
        *(lmc_pool_report *)arg = *report;
}

static void a_module_may_make_a_pool_for_its_handlers(void **state) {
    for (int affinity = 0; affinity < 2; affinity++) {
        fake_server server;
        lmc_peer peer;
        lmc_pool_report report = {0};
        reset(state);
        open_with(&server, completes, completes);
        assert_int_equal(
            lmc_registry_add_pool(server.registry, clear_only, 3, affinity == 1, NULL), LMC_OK);
        fake_run(&server, 1, 2);
        fake_exchange *exchange = call_clear(&server, &peer);
        fake_await(exchange, 1);
        lmc_pools_each(server.dispatcher->pools, note_pool, &report);
        assert_int_equal(report.threads, 3);
        assert_int_equal(report.started, 1);
        fake_close(&server);
        fake_free(exchange);
    }
}

static void a_handler_set_by_hand_needs_a_pool(void **state) {
    (void)state;
    fake_server server;
    lmc_error error = LMC_ERROR_INIT;
    open_with(&server, completes, completes);
    lmc_operation entry = completes[0];
    entry.handle = forward;
    assert_int_equal(lmc_registry_set(server.registry, &entry, &outside_owner, NULL), LMC_OK);
    assert_int_equal(lmc_registry_check(server.registry, &error), LMC_INVALID);
    assert_string_equal(error.text,
                        "BlockingRequestHandler for clear has no thread pool assigned. Call "
                        "add_normal_thread_pool or add_affinity_thread_pool before start().");
    assert_int_equal(lmc_registry_add_pool(server.registry, clear_only, 1, false, NULL),
                     LMC_OK);
    assert_int_equal(lmc_registry_check(server.registry, NULL), LMC_OK);
    run_once(&server, true);
    assert_int_equal(runs, 1); /* it forwarded to the one from the table */
}

static void a_pool_needs_a_handler_that_may_block(void **state) {
    (void)state;
    static const lmc_operation sync[] = {
        {.name = "noop", .scheduling = LMC_SYNC, .handle = complete}, {.name = NULL}};
    static const char *const noop[] = {"noop", NULL}, *const nobody[] = {"lookup", NULL};
    static const char *const unknown[] = {"brew", NULL}, *const empty[] = {NULL};
    fake_server server;
    lmc_error error = LMC_ERROR_INIT;
    open_with(&server, completes, sync);
    assert_int_equal(lmc_registry_add_pool(server.registry, noop, 1, false, &error),
                     LMC_INVALID);
    assert_string_equal(error.text,
                        "Handler for noop is SyncRequestHandler, not BlockingRequestHandler. "
                        "Only blocking handlers can use thread pools.");
    assert_int_equal(lmc_registry_add_pool(server.registry, nobody, 1, false, NULL),
                     LMC_NOT_FOUND);
    assert_int_equal(lmc_registry_add_pool(server.registry, unknown, 1, false, NULL),
                     LMC_NOT_FOUND);
    assert_int_equal(lmc_registry_add_pool(server.registry, empty, 1, false, NULL), LMC_OK);
    assert_int_equal(lmc_registry_pool_count(server.registry), 0);
    fake_close(&server);
}

/* ---- the watch ---- */

static void note_slow(void *arg, const lmc_slow_handler *slow) {
    assert_string_equal(slow->account->owner, "OutsideModule");
    assert_string_equal(slow->what, "clear");
    assert_string_equal(slow->pool, "outside");
    *(uint32_t *)arg += 1;
}

static void a_long_handler_is_told_of_and_again_when_its_time_has_doubled(void **state) {
    (void)state;
    fake_server server;
    lmc_peer peer;
    uint32_t told = 0;
    lmc_pools_watch_options options = {.limit_ns = 1, .visit = note_slow, .arg = &told};
    open_with(&server, completes, completes);
    atomic_store(&hold, true);
    fake_run(&server, 1, 1);
    fake_exchange *exchange = call_clear(&server, &peer);
    while (atomic_load(&runs) == 0)
        pause_a_moment();
    pause_a_moment();
    lmc_pools_watch(server.dispatcher->pools, &options);
    assert_int_equal(told, 1);
    lmc_pools_watch(server.dispatcher->pools, &options); /* at once: not doubled yet */
    int64_t began = lmc_now(&lmc_system_clock);
    while (told < 2 && lmc_now(&lmc_system_clock) - began < 20 * LMC_NS_PER_S) {
        pause_a_moment();
        lmc_pools_watch(server.dispatcher->pools, &options);
    }
    assert_int_equal(told, 2);
    options.limit_ns = INT64_MAX;
    lmc_pools_watch(server.dispatcher->pools, &options);
    assert_int_equal(told, 2);
    atomic_store(&hold, false);
    fake_await(exchange, 1);
    fake_close(&server);
    fake_free(exchange);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_answered_at_once_waits_for_no_handler_from_outside,
                               reset),
        cmocka_unit_test_setup(calls_are_charged_to_whose_handler_has_them, reset),
        cmocka_unit_test_setup(a_failure_counts_for_whose_handler_failed, reset),
        cmocka_unit_test_setup(a_call_comes_back_once_with_the_outcome_of_the_handler_behind,
                               reset),
        cmocka_unit_test_setup(a_call_that_nobody_takes_comes_back_as_not_found, reset),
        cmocka_unit_test_setup(an_outside_request_has_room_for_unknown_members, reset),
        cmocka_unit_test_setup(a_module_may_make_a_pool_for_its_handlers, reset),
        cmocka_unit_test_setup(a_handler_set_by_hand_needs_a_pool, reset),
        cmocka_unit_test_setup(a_pool_needs_a_handler_that_may_block, reset),
        cmocka_unit_test_setup(a_long_handler_is_told_of_and_again_when_its_time_has_doubled,
                               reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
