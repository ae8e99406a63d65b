#include "observe/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "support/alloc_fault.h"

#define WAIT_NS (20 * LMC_NS_PER_S)

typedef struct listener {
    _Atomic int64_t count, sum;
    atomic_bool block, entered;
} listener;

static void pause_a_moment(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void receive(void *arg, const lmc_event *event) {
    listener *l = arg;
    int64_t value = 0;
    atomic_store(&l->entered, true);
    while (atomic_load(&l->block))
        pause_a_moment();
    lmc_event_int(event, "value", &value);
    atomic_fetch_add(&l->sum, value);
    atomic_fetch_add(&l->count, 1);
}

static void await(listener *l, int64_t count) {
    while (atomic_load(&l->count) < count)
        pause_a_moment();
}

static lmc_events *open_bus(size_t queue_max) {
    lmc_events *events;
    assert_int_equal(lmc_events_create(queue_max, &events, NULL), LMC_OK);
    return events;
}

static void publish(lmc_events *events, const char *name, int64_t value) {
    lmc_event *event = lmc_events_begin(events, name, lmc_text("session"));
    lmc_event_put_int(event, "value", value);
    lmc_event_publish(event);
}

static void close_bus(lmc_events *events) {
    assert_true(lmc_events_stop(events, WAIT_NS));
    lmc_events_destroy(events);
}

static void subscribers_get_what_they_asked_for_in_order(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener apples = {0}, pears = {0};
    assert_int_equal(lmc_events_subscribe(events, "A", "apple", receive, &apples, NULL),
                     LMC_OK);
    assert_int_equal(lmc_events_subscribe(events, "B", "pear", receive, &pears, NULL), LMC_OK);
    assert_int_equal(lmc_events_subscribe(events, "B", "apple", receive, &pears, NULL), LMC_OK);
    publish(events, "apple", 1);
    publish(events, "pear", 10);
    publish(events, "plum", 100);
    await(&pears, 2);
    assert_int_equal(atomic_load(&apples.sum), 1);
    assert_int_equal(atomic_load(&pears.sum), 11);
    close_bus(events);
}

static void an_event_that_nobody_wants_is_not_made(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {0};
    assert_null(lmc_events_begin(events, "apple", (lmc_slice){0}));
    assert_int_equal(lmc_events_subscribe(events, "A", "pear", receive, &l, NULL), LMC_OK);
    assert_null(lmc_events_begin(events, "apple", (lmc_slice){0}));
    assert_null(lmc_events_begin(NULL, "apple", (lmc_slice){0}));
    lmc_event_put_int(NULL, "value", 1); /* all accept none */
    lmc_event_publish(NULL);
    close_bus(events);
}

static void check_members(void *arg, const lmc_event *event) {
    int64_t number = 0;
    double real = 0;
    lmc_slice text = {0};
    assert_string_equal(lmc_event_name(event), "all");
    assert_true(lmc_slice_is(lmc_event_session(event), "session"));
    assert_true(lmc_event_time_ns(event) > 0);
    assert_true(lmc_event_int(event, "number", &number) && number == -5);
    assert_true(lmc_event_real(event, "real", &real) && real == 0.5);
    assert_true(lmc_event_text(event, "text", &text) && lmc_slice_is(text, "three"));
    assert_false(lmc_event_int(event, "text", &number)); /* another type */
    assert_false(lmc_event_int(event, "nothing", &number));
    assert_int_equal(number, -5);
    atomic_fetch_add(&((listener *)arg)->count, 1);
}

static void members_have_their_types(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {0};
    assert_int_equal(lmc_events_subscribe(events, "A", "all", check_members, &l, NULL), LMC_OK);
    lmc_event *event = lmc_events_begin(events, "all", lmc_text("session"));
    lmc_event_put_int(event, "number", -5);
    lmc_event_put_real(event, "real", 0.5);
    lmc_event_put_text(event, "text", lmc_text("three"));
    for (int i = 0; i < 40; i++) /* more than there is room for */
        lmc_event_put_int(event, "more", i);
    lmc_event_publish(event);
    await(&l, 1);
    close_bus(events);
}

static void check_lists(void *arg, const lmc_event *event) {
    lmc_object_key_list keys;
    lmc_ints ints;
    lmc_int_lists lists;
    lmc_slices slices;
    assert_true(lmc_event_keys(event, "keys", &keys) && keys.count == 2);
    assert_true(lmc_slice_is(keys.items[1].model_name, "m"));
    assert_true(lmc_slice_is(keys.items[1].chunk_hash, "hash2"));
    assert_true(lmc_slice_is(keys.items[1].cache_salt, "s"));
    assert_int_equal(keys.items[1].kv_rank, 7);
    assert_true(lmc_event_ints(event, "sizes", &ints) && ints.count == 3);
    assert_int_equal(ints.items[2], -3);
    assert_true(lmc_event_int_lists(event, "chunks", &lists) && lists.count == 2);
    assert_true(lists.items[0].count == 3 && lists.items[1].count == 0);
    assert_int_equal(lists.items[0].items[1], 2);
    assert_true(lmc_event_slices(event, "texts", &slices) && slices.count == 1);
    assert_true(lmc_slice_is(slices.items[0], "text"));
    assert_true(lmc_event_slices(event, "blobs", &slices) && slices.count == 0);
    assert_false(lmc_event_keys(event, "sizes", &keys)); /* another type */
    atomic_fetch_add(&((listener *)arg)->count, 1);
}

static void put_lists(lmc_event *event) {
    char hash[] = "hash2", text[] = "text";
    int64_t values[] = {1, 2, -3};
    lmc_object_key keys[2] = {{.chunk_hash = lmc_text("hash1"), .model_name = lmc_text("m")},
                              {.chunk_hash = lmc_text(hash),
                               .model_name = lmc_text("m"),
                               .kv_rank = 7,
                               .cache_salt = lmc_text("s")}};
    lmc_ints lists[2] = {{values, 3}, {NULL, 0}};
    lmc_slice texts[1] = {lmc_text(text)};
    lmc_event_put_keys(event, "keys", keys, 2);
    lmc_event_put_ints(event, "sizes", values, 3);
    lmc_event_put_int_lists(event, "chunks", lists, 2);
    lmc_event_put_texts(event, "texts", texts, 1);
    lmc_event_put_blobs(event, "blobs", NULL, 0);
    memset(hash, 0, sizeof hash); /* copies were made */
    memset(values, 0, sizeof values);
    memset(text, 0, sizeof text);
}

static void lists_are_copied_whole(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {0};
    assert_int_equal(lmc_events_subscribe(events, "A", "lists", check_lists, &l, NULL), LMC_OK);
    lmc_event *event = lmc_events_begin(events, "lists", lmc_text("session"));
    put_lists(event);
    for (int i = 0; i < 40; i++) /* more than there is room for: freed, not leaked */
        lmc_event_put_ints(event, "more", (int64_t[]){1}, 1);
    lmc_event_publish(event);
    put_lists(NULL); /* all accept none */
    await(&l, 1);
    close_bus(events);
}

static void what_waits_is_bounded_in_bytes_too(void **state) {
    (void)state;
    static int64_t values[1 << 20]; /* 8 MiB */
    lmc_events *events = open_bus(100);
    lmc_events_report report;
    listener l = {.block = true};
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    assert_int_equal(lmc_events_subscribe(events, "A", "big", receive, &l, NULL), LMC_OK);
    publish(events, "big", 1);
    while (!atomic_load(&l.entered))
        pause_a_moment();
    for (int i = 0; i < 20; i++) {
        lmc_event *event = lmc_events_begin(events, "big", lmc_text("session"));
        lmc_event_put_ints(event, "values", values, sizeof values / sizeof values[0]);
        lmc_event_publish(event);
    }
    lmc_events_report_get(events, &report);
    assert_int_equal(report.queued, LMC_EVENT_BYTES_MAX / sizeof values);
    assert_int_equal(report.dropped, 20 - report.queued);
    atomic_store(&l.block, false);
    await(&l, 1 + (int64_t)report.queued);
    publish(events, "big", 1); /* and there is room again */
    await(&l, 2 + (int64_t)report.queued);
    close_bus(events);
    lmc_log_set_level("lmcache", LMC_LOG_INFO);
}

static void sum_failures(void *arg, const char *owner, uint64_t failures) {
    uint64_t *sums = arg;
    sums[strcmp(owner, "A") == 0 ? 0 : 1] += failures;
    sums[2]++;
}

static void failures_are_counted_by_owner(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {0};
    uint64_t sums[3] = {0};
    static const char *const owners[] = {"A", "B", "A"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(lmc_events_subscribe(events, owners[i], "apple", receive, &l, NULL),
                         LMC_OK);
    lmc_events_failed(events, "A");
    lmc_events_failed(events, "A");
    lmc_events_failed(events, "B");
    lmc_events_failed(events, "nobody");
    lmc_events_failed(NULL, "A");
    lmc_events_each_owner(events, sum_failures, sums);
    lmc_events_each_owner(NULL, sum_failures, sums);
    assert_int_equal(sums[0], 2);
    assert_int_equal(sums[1], 1);
    assert_int_equal(sums[2], 2); /* owners */
    close_bus(events);
}

static void a_producer_that_knows_no_bus_sees_a_bit(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    _Atomic uint32_t interest = 0;
    listener l = {0};
    assert_int_equal(lmc_events_subscribe(events, "A", "apple", receive, &l, NULL), LMC_OK);
    lmc_events_watch(events, "pear", &interest, 1);
    lmc_events_watch(events, "plum", &interest, 2);
    assert_int_equal(atomic_load(&interest), 0);
    lmc_events_watch(events, "apple", &interest, 4); /* subscribed already */
    assert_int_equal(atomic_load(&interest), 4);
    assert_int_equal(lmc_events_subscribe(events, "A", "plum", receive, &l, NULL), LMC_OK);
    assert_int_equal(atomic_load(&interest), 6);
    assert_true(lmc_events_any(events));
    assert_false(lmc_events_any(NULL));
    lmc_events_watch(NULL, "plum", &interest, 8);
    close_bus(events);
}

static void the_newest_are_dropped_and_counted_when_the_queue_is_full(void **state) {
    (void)state;
    lmc_events *events = open_bus(4);
    lmc_events_report report;
    listener l = {.block = true};
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    assert_int_equal(lmc_events_subscribe(events, "A", "apple", receive, &l, NULL), LMC_OK);
    publish(events, "apple", 1);
    while (!atomic_load(&l.entered))
        pause_a_moment();
    for (int i = 0; i < 10; i++)
        publish(events, "apple", 1000);
    lmc_events_report_get(events, &report);
    assert_int_equal(report.dropped, 6);
    assert_int_equal(report.queued, 4);
    atomic_store(&l.block, false);
    await(&l, 5);
    assert_int_equal(atomic_load(&l.sum), 4001);
    close_bus(events);
    lmc_log_set_level("lmcache", LMC_LOG_INFO);
}

static void a_stop_delivers_what_waits_and_ends_the_rest(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {0};
    assert_int_equal(lmc_events_subscribe(events, "A", "apple", receive, &l, NULL), LMC_OK);
    for (int i = 0; i < 50; i++)
        publish(events, "apple", 1);
    assert_true(lmc_events_stop(events, WAIT_NS));
    assert_int_equal(atomic_load(&l.count), 50);
    publish(events, "apple", 1);
    assert_int_equal(atomic_load(&l.count), 50);
    lmc_events_destroy(events);
}

static void a_subscriber_that_hangs_is_named_and_waited_for_no_longer(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener l = {.block = true};
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    assert_int_equal(lmc_events_subscribe(events, "Stuck", "apple", receive, &l, NULL), LMC_OK);
    publish(events, "apple", 1);
    while (!atomic_load(&l.entered))
        pause_a_moment();
    assert_false(lmc_events_stop(events, LMC_NS_PER_MS));
    assert_true(lmc_events_is_in(events, "Stuck"));
    assert_false(lmc_events_is_in(events, "Other"));
    lmc_events_destroy(events); /* keeps it */
    atomic_store(&l.block, false);
    close_bus(events);
    lmc_log_set_level("lmcache", LMC_LOG_INFO);
}

static void a_dropped_owner_hears_nothing_more(void **state) {
    (void)state;
    lmc_events *events = open_bus(100);
    listener gone = {0}, stays = {0};
    assert_int_equal(lmc_events_subscribe(events, "Gone", "apple", receive, &gone, NULL),
                     LMC_OK);
    assert_int_equal(lmc_events_subscribe(events, "Stays", "apple", receive, &stays, NULL),
                     LMC_OK);
    publish(events, "apple", 1);
    await(&stays, 1);
    lmc_events_drop(events, "Gone", WAIT_NS);
    publish(events, "apple", 1);
    await(&stays, 2);
    assert_int_equal(atomic_load(&gone.count), 1);
    close_bus(events);
}

typedef struct producer {
    lmc_events *events;
    lmc_thread thread;
} producer;

static void produce(void *arg) {
    for (int i = 0; i < 2000; i++)
        publish(((producer *)arg)->events, "apple", 1);
}

static void many_producers_lose_nothing_uncounted(void **state) {
    (void)state;
    lmc_events *events = open_bus(64);
    lmc_events_report report;
    listener l = {0};
    producer producers[4] = {
        {.events = events}, {.events = events}, {.events = events}, {.events = events}};
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    assert_int_equal(lmc_events_subscribe(events, "A", "apple", receive, &l, NULL), LMC_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            lmc_thread_start(&producers[i].thread, "producer", produce, &producers[i], NULL),
            LMC_OK);
    for (size_t i = 0; i < 4; i++)
        lmc_thread_join(&producers[i].thread);
    assert_true(lmc_events_stop(events, WAIT_NS));
    lmc_events_report_get(events, &report);
    assert_int_equal(report.delivered + report.dropped, 8000);
    assert_int_equal(atomic_load(&l.count), report.delivered);
    lmc_events_destroy(events);
    lmc_log_set_level("lmcache", LMC_LOG_INFO);
}

static void without_a_bus_everything_is_accepted(void **state) {
    (void)state;
    lmc_events_report report;
    assert_int_equal(lmc_events_subscribe(NULL, "A", "apple", receive, NULL, NULL),
                     LMC_DECLINED);
    assert_true(lmc_events_stop(NULL, 0));
    lmc_events_drop(NULL, "A", 0);
    lmc_events_destroy(NULL);
    lmc_events_report_get(NULL, &report);
    assert_int_equal(report.queued, 0);
}

static void failed_allocations_lose_the_event_only(void **state) {
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        lmc_events *events = open_bus(10);
        listener l = {0};
        lmc_error error = LMC_ERROR_INIT;
        lmc_fault_arm(i + 1, false);
        lmc_status status = lmc_events_subscribe(events, "A", "apple", receive, &l, &error);
        lmc_event *event = lmc_events_begin(events, "apple", lmc_text("session"));
        lmc_event_put_text(event, "text", lmc_text("0123456789012345678901234567890123456789"));
        put_lists(event);
        lmc_event_publish(event);
        lmc_fault_disarm();
        if (status != LMC_OK)
            assert_null(event);
        close_bus(events);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subscribers_get_what_they_asked_for_in_order),
        cmocka_unit_test(an_event_that_nobody_wants_is_not_made),
        cmocka_unit_test(members_have_their_types),
        cmocka_unit_test(lists_are_copied_whole),
        cmocka_unit_test(what_waits_is_bounded_in_bytes_too),
        cmocka_unit_test(failures_are_counted_by_owner),
        cmocka_unit_test(a_producer_that_knows_no_bus_sees_a_bit),
        cmocka_unit_test(the_newest_are_dropped_and_counted_when_the_queue_is_full),
        cmocka_unit_test(a_stop_delivers_what_waits_and_ends_the_rest),
        cmocka_unit_test(a_subscriber_that_hangs_is_named_and_waited_for_no_longer),
        cmocka_unit_test(a_dropped_owner_hears_nothing_more),
        cmocka_unit_test(many_producers_lose_nothing_uncounted),
        cmocka_unit_test(without_a_bus_everything_is_accepted),
        cmocka_unit_test(failed_allocations_lose_the_event_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
