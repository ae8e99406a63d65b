#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "dispatch/fake_door.h"

#define CALLS_MAX 4096

/* What ran, in order; handlers of the tests write here. */
typedef struct record {
    pthread_mutex_t mutex;
    uint32_t numbers[CALLS_MAX];
    lmc_call *calls[CALLS_MAX];
    pthread_t threads[CALLS_MAX];
    _Atomic uint32_t count;
} record;

static uint32_t number_of(lmc_call *call) {
    uintptr_t address = (uintptr_t)call & ~((uintptr_t)LMC_EXCHANGE_ALIGN - 1);
    return ((fake_exchange *)address)->number;
}

static void note(record *r, lmc_call *call) {
    pthread_mutex_lock(&r->mutex);
    uint32_t at = atomic_load(&r->count);
    r->numbers[at] = number_of(call);
    r->calls[at] = call;
    r->threads[at] = pthread_self();
    atomic_store(&r->count, at + 1);
    pthread_mutex_unlock(&r->mutex);
}

static void note_and_complete(void *self, lmc_call *call) {
    note(self, call);
    lmc_complete(call, LMC_OK);
}

static void note_and_keep(void *self, lmc_call *call) { note(self, call); }

static void await_count(record *r, uint32_t count) {
    while (atomic_load(&r->count) < count)
        sched_yield();
}

static record *make_record(void) {
    record *r = calloc(1, sizeof *r);
    assert_non_null(r);
    pthread_mutex_init(&r->mutex, NULL);
    return r;
}

static fake_exchange *submit(fake_server *server, const char *operation, lmc_peer *peer,
                             uint32_t number) {
    fake_exchange *exchange = fake_make(server->dispatcher);
    exchange->number = number;
    fake_begin(exchange, operation, peer);
    lmc_dispatch(&exchange->x);
    lmc_dispatch_flush((&exchange->x)->dispatcher);
    return exchange;
}

static void open_server(fake_server *server, const char *operation, uint32_t scheduling,
                        void (*handle)(void *, lmc_call *), record *r, bool outside,
                        uint32_t threads) {
    static lmc_operation operations[2];
    operations[0] =
        (lmc_operation){.name = operation, .scheduling = scheduling, .handle = handle};
    *server = (fake_server){0};
    fake_open(server);
    fake_add(server, operations, r, outside);
    fake_run(server, threads, threads);
}

static void transfers_of_one_connection_run_in_order_on_one_thread(void **state) {
    (void)state;
    fake_server server;
    record *r = make_record();
    open_server(&server, "store", LMC_AFFINITY, note_and_complete, r, false, 3);
    lmc_peer peers[4];
    fake_exchange *all[400];
    for (int i = 0; i < 4; i++)
        lmc_peer_init(&peers[i]);
    for (uint32_t i = 0; i < 400; i++)
        all[i] = submit(&server, "store", &peers[i % 4], i);
    for (uint32_t i = 0; i < 400; i++)
        fake_await(all[i], 1);
    uint32_t next[4] = {0, 1, 2, 3};
    pthread_t thread[4];
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t peer = r->numbers[i] % 4;
        assert_int_equal(r->numbers[i], next[peer]);
        if (next[peer] < 4)
            thread[peer] = r->threads[i];
        assert_true(pthread_equal(thread[peer], r->threads[i]));
        next[peer] += 4;
    }
    assert_int_equal(peers[0].slot, 0); /* round robin */
    assert_int_equal(peers[1].slot, 1);
    assert_int_equal(peers[2].slot, 2);
    assert_int_equal(peers[3].slot, 0);
    fake_close(&server);
    for (uint32_t i = 0; i < 400; i++)
        fake_free(all[i]);
    free(r);
}

static void a_kept_transfer_holds_back_its_connection_but_no_other(void **state) {
    (void)state;
    fake_server server;
    record *r = make_record();
    open_server(&server, "store", LMC_AFFINITY, note_and_keep, r, false, 1);
    lmc_peer one, other;
    lmc_peer_init(&one);
    lmc_peer_init(&other);
    fake_exchange *all[5];
    all[0] = submit(&server, "store", &one, 0);
    await_count(r, 1);
    all[1] = submit(&server, "store", &one, 1);
    all[2] = submit(&server, "store", &one, 2);
    all[3] = submit(&server, "store", &other, 3);
    await_count(r, 2);
    assert_int_equal(r->numbers[1], 3); /* overtook */
    lmc_complete(r->calls[0], LMC_OK);
    await_count(r, 3);
    all[4] = submit(&server, "store", &one, 4);
    assert_int_equal(r->numbers[2], 1);
    lmc_complete(r->calls[2], LMC_OK);
    await_count(r, 4);
    assert_int_equal(r->numbers[3], 2);
    lmc_complete(r->calls[3], LMC_OK);
    await_count(r, 5);
    assert_int_equal(r->numbers[4], 4);
    lmc_complete(r->calls[4], LMC_OK);
    lmc_complete(r->calls[1], LMC_OK);
    fake_close(&server);
    for (int i = 0; i < 5; i++)
        fake_free(all[i]);
    free(r);
}

static pthread_barrier_t both;

static void meet(void *self, lmc_call *call) {
    (void)self;
    pthread_barrier_wait(&both); /* returns only if two run at once */
    lmc_complete(call, LMC_OK);
}

static void the_normal_pool_runs_as_many_at_once_as_it_has_threads(void **state) {
    (void)state;
    fake_server server;
    pthread_barrier_init(&both, NULL, 2);
    open_server(&server, "lookup", LMC_NORMAL, meet, NULL, false, 2);
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_exchange *all[2] = {submit(&server, "lookup", &peer, 0),
                             submit(&server, "lookup", &peer, 1)};
    fake_await(all[0], 1);
    fake_await(all[1], 1);
    fake_close(&server);
    pthread_barrier_destroy(&both);
    fake_free(all[0]);
    fake_free(all[1]);
}

static _Atomic int inside, most_inside;

static void count_inside(void *self, lmc_call *call) {
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&most_inside))
        atomic_store(&most_inside, now);
    note(self, call);
    atomic_fetch_sub(&inside, 1);
    lmc_complete(call, LMC_OK);
}

static void sync_handlers_from_outside_run_one_at_a_time_in_order(void **state) {
    (void)state;
    fake_server server;
    record *r = make_record();
    open_server(&server, "noop", LMC_SYNC, count_inside, r, true, 4);
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_exchange *all[100];
    for (uint32_t i = 0; i < 100; i++)
        all[i] = submit(&server, "noop", &peer, i);
    for (uint32_t i = 0; i < 100; i++)
        fake_await(all[i], 1);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(r->numbers[i], i);
    assert_int_equal(atomic_load(&most_inside), 1);
    fake_close(&server);
    for (uint32_t i = 0; i < 100; i++)
        fake_free(all[i]);
    free(r);
}

static void later_requests_wait_for_a_registration_from_outside(void **state) {
    (void)state;
    const lmc_operation outside[] = {
        {.name = "register_kv_cache", .scheduling = LMC_SYNC, .handle = note_and_keep},
        {.name = NULL}};
    const lmc_operation inside_tree[] = {
        {.name = "noop", .scheduling = LMC_SYNC, .handle = note_and_complete}, {.name = NULL}};
    fake_server server = {0};
    record *r = make_record();
    fake_open(&server);
    fake_add(&server, inside_tree, r, false);
    fake_add(&server, outside, r, true);
    fake_run(&server, 1, 1);
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_exchange *first = submit(&server, "register_kv_cache", &peer, 0);
    fake_exchange *second = submit(&server, "noop", &peer, 1);
    await_count(r, 1);
    assert_int_equal(second->finished, 0);
    lmc_complete(r->calls[0], LMC_OK);
    assert_int_equal(second->finished, 0);
    lmc_dispatch_ended(server.dispatcher, &first->x);
    assert_int_equal(second->finished, 1);
    assert_int_equal(r->numbers[1], 1);
    fake_close(&server);
    fake_free(first);
    fake_free(second);
    free(r);
}

static void what_waits_at_the_stop_is_refused_and_what_runs_ends(void **state) {
    (void)state;
    fake_server server;
    record *r = make_record();
    open_server(&server, "store", LMC_AFFINITY, note_and_keep, r, false, 1);
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_exchange *all[3];
    for (uint32_t i = 0; i < 3; i++)
        all[i] = submit(&server, "store", &peer, i);
    await_count(r, 1);
    fake_close(&server); /* ends the threads; the kept call is still out */
    assert_int_equal(all[0]->finished, 0);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(all[i]->finished, 1);
        assert_true(all[i]->answered); /* store has a negative */
    }
    assert_int_equal(atomic_load(&r->count), 1);
    for (int i = 0; i < 3; i++)
        fake_free(all[i]);
    free(r);
}

static _Atomic bool release_stuck, stuck_runs;

static void stick(void *self, lmc_call *call) {
    (void)self;
    atomic_store(&stuck_runs, true);
    while (!atomic_load(&release_stuck))
        sched_yield();
    lmc_complete(call, LMC_OK);
}

static void a_handler_that_does_not_return_fails_the_stop_by_name(void **state) {
    (void)state;
    fake_server server;
    open_server(&server, "lookup", LMC_NORMAL, stick, NULL, false, 1);
    lmc_peer peer;
    lmc_peer_init(&peer);
    fake_exchange *exchange = submit(&server, "lookup", &peer, 0);
    while (!atomic_load(&stuck_runs))
        sched_yield();
    int64_t now = lmc_now(&lmc_system_clock);
    assert_int_equal(lmc_pools_stop(server.dispatcher->pools, now), LMC_TIMEOUT);
    fake_exchange *late = submit(&server, "lookup", &peer, 1);
    assert_int_equal(late->finished, 1); /* refused at once */
    atomic_store(&release_stuck, true);
    fake_close(&server);
    assert_int_equal(exchange->finished, 1);
    fake_free(exchange);
    fake_free(late);
}

static void collect(void *arg, const lmc_pool_report *report) {
    lmc_pool_report *reports = arg;
    size_t at = strcmp(report->name, "normal") == 0 ? 0 : 1;
    reports[at] = *report;
}

static void a_report_tells_what_waits_and_what_runs(void **state) {
    (void)state;
    fake_server server;
    atomic_store(&release_stuck, false);
    atomic_store(&stuck_runs, false);
    open_server(&server, "lookup", LMC_NORMAL, stick, NULL, false, 1);
    lmc_peer peer;
    lmc_peer_init(&peer);
    lmc_pool_report reports[2] = {{0}};
    fake_exchange *all[3];
    for (uint32_t i = 0; i < 3; i++)
        all[i] = submit(&server, "lookup", &peer, i);
    while (!atomic_load(&stuck_runs))
        sched_yield();
    lmc_pools_each(server.dispatcher->pools, collect, reports);
    assert_int_equal(reports[0].threads, 1);
    assert_int_equal(reports[0].busy, 1);
    assert_int_equal(reports[0].queued, 2);
    assert_int_equal(reports[0].started, 1);
    assert_string_equal(reports[0].longest, "lookup");
    assert_true(reports[0].oldest_ns > 0);
    assert_string_equal(reports[1].name, "affinity");
    assert_int_equal(reports[1].queued, 0);
    atomic_store(&release_stuck, true);
    for (int i = 0; i < 3; i++)
        fake_await(all[i], 1);
    fake_close(&server);
    for (int i = 0; i < 3; i++)
        fake_free(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_of_one_connection_run_in_order_on_one_thread),
        cmocka_unit_test(a_kept_transfer_holds_back_its_connection_but_no_other),
        cmocka_unit_test(the_normal_pool_runs_as_many_at_once_as_it_has_threads),
        cmocka_unit_test(sync_handlers_from_outside_run_one_at_a_time_in_order),
        cmocka_unit_test(later_requests_wait_for_a_registration_from_outside),
        cmocka_unit_test(what_waits_at_the_stop_is_refused_and_what_runs_ends),
        cmocka_unit_test(a_handler_that_does_not_return_fails_the_stop_by_name),
        cmocka_unit_test(a_report_tells_what_waits_and_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
