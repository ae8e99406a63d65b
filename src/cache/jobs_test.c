/* Jobs that are not finished at once, waiters, and sessions as such. */
#include "cache/cache_fixture.h"

#include <time.h>

typedef struct outcome {
    _Atomic int calls;
    lmc_status status;
    int64_t chunks;
} outcome;

static void note(void *arg, lmc_status status, int64_t chunks) {
    outcome *seen = arg;
    lmc_lock_assert_none();
    seen->status = status;
    seen->chunks = chunks;
    atomic_fetch_add(&seen->calls, 1);
}

static lmc_ticket begin(cache_fixture *f, const char *id) {
    lmc_ticket ticket;
    assert_int_equal(lmc_job_begin(&f->cache->sessions, lmc_text(id), 0, NULL, NULL, &ticket),
                     LMC_OK);
    return ticket;
}

static lmc_hold *hold_of(cache_fixture *f, size_t chunks) {
    uint8_t hashes[64 * LMC_HASH_SIZE];
    lmc_l1_key keys[64];
    lmc_key_space *space;
    lmc_l1 *l1 = f->cache->l1;
    lmc_hasher_run(&f->cache->hasher, NULL, f->tokens, chunks, hashes);
    assert_int_equal(lmc_key_space_get(l1, lmc_text("model"), lmc_text(""), &space), LMC_OK);
    for (size_t i = 0; i < chunks; i++)
        keys[i] = lmc_object_key_of(hashes + i * LMC_HASH_SIZE, space, 1, 0, 0);
    const uint32_t group = 0;
    const int64_t window = -1;
    lmc_hold_shape shape = {.space = space,
                            .world_size = 1,
                            .rank_count = 1,
                            .group_count = 1,
                            .groups = &group,
                            .windows = &window,
                            .hit = chunks,
                            .last_hash = hashes + (chunks - 1) * LMC_HASH_SIZE,
                            .shares = 1};
    lmc_hold *hold = lmc_hold_create(&shape);
    lmc_l1_acquire(l1, keys, chunks, 1, hold->refs);
    lmc_key_space_drop(l1, space);
    return hold;
}

static void finish(cache_fixture *f, const lmc_ticket *ticket, int64_t chunks, lmc_hold *hold) {
    lmc_job_result result = {.chunks = chunks, .early_exit = ""};
    lmc_job_finish(&f->cache->sessions, ticket, &result, hold);
}

static lmc_status query(cache_fixture *f, const char *id, int64_t *chunks) {
    return lmc_cache_query(f->cache, lmc_text(id), chunks);
}

static void a_job_is_pending_until_it_finishes_and_consumed_once(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    int64_t chunks;
    lmc_ticket ticket = begin(&f, "r");
    assert_int_equal(query(&f, "r", &chunks), LMC_AGAIN);
    assert_int_equal(lmc_cache_peek(f.cache, lmc_text("r"), &chunks), LMC_AGAIN);
    finish(&f, &ticket, 9, NULL);
    assert_int_equal(lmc_cache_peek(f.cache, lmc_text("r"), &chunks), LMC_OK);
    assert_int_equal(chunks, 9);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 1);
    assert_int_equal(query(&f, "r", &chunks), LMC_OK);
    assert_int_equal(chunks, 9);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    assert_int_equal(query(&f, "r", &chunks), LMC_OK);
    assert_int_equal(chunks, 0);
    assert_int_equal(query(&f, "unknown", &chunks), LMC_OK);
    assert_int_equal(chunks, 0);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 1); /* asking created none */
    fixture_fini(&f);
}

static void a_replaced_or_ended_job_leaves_nothing_held(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 4));
    lmc_ticket first = begin(&f, "r"), second = begin(&f, "r");
    finish(&f, &first, 4, hold_of(&f, 4));
    int64_t chunks;
    assert_int_equal(query(&f, "r", &chunks), LMC_AGAIN);
    assert_at_rest(&f);
    finish(&f, &second, 2, hold_of(&f, 2));
    assert_shares(&f, 1, 0, (const int[]){1, 1, 0, 0}, 4);
    finish(&f, &second, 2, hold_of(&f, 2)); /* finished already */
    assert_shares(&f, 1, 0, (const int[]){1, 1, 0, 0}, 4);
    lmc_ticket third = begin(&f, "s");
    end_session(&f, "s");
    finish(&f, &third, 4, hold_of(&f, 4));
    assert_shares(&f, 1, 0, (const int[]){1, 1, 0, 0}, 4);
    end_session(&f, "r");
    advance(&f, 30);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_known_answer_is_given_at_once(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    outcome seen = {0};
    lmc_cache_wait(f.cache, lmc_text("unknown"), 5 * S, note, &seen);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.status, LMC_OK);
    assert_int_equal(seen.chunks, 0);
    lmc_ticket ticket = begin(&f, "r");
    lmc_cache_wait(f.cache, lmc_text("r"), 0, note, &seen); /* no time to wait */
    assert_int_equal(seen.calls, 2);
    assert_int_equal(seen.status, LMC_AGAIN);
    finish(&f, &ticket, 3, NULL);
    lmc_cache_wait(f.cache, lmc_text("r"), 5 * S, note, &seen);
    assert_int_equal(seen.calls, 3);
    assert_int_equal(seen.chunks, 3);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    assert_null(f.cache->sessions.timers); /* nobody had to be parked */
    fixture_fini(&f);
}

static void waiters_are_called_when_the_job_finishes(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    outcome first = {0}, second = {0};
    lmc_ticket ticket = begin(&f, "r");
    lmc_cache_wait(f.cache, lmc_text("r"), 1000 * S, note, &first);
    lmc_cache_wait(f.cache, lmc_text("r"), INT64_MAX, note, &second);
    assert_int_equal(first.calls + second.calls, 0);
    finish(&f, &ticket, 6, NULL);
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 1);
    assert_int_equal(first.status, LMC_OK);
    assert_int_equal(second.status, LMC_OK);
    assert_int_equal(first.chunks + second.chunks, 6); /* delivered once */
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    fixture_fini(&f);
}

static void waiters_end_with_their_time_their_session_or_the_cache(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    outcome late = {0}, ended = {0}, replaced = {0}, closed = {0};
    lmc_ticket ticket = begin(&f, "r");
    (void)begin(&f, "e");
    (void)begin(&f, "c");
    lmc_cache_wait(f.cache, lmc_text("r"), 2 * S, note, &late);
    lmc_cache_wait(f.cache, lmc_text("r"), 200 * S, note, &replaced);
    lmc_cache_wait(f.cache, lmc_text("e"), 200 * S, note, &ended);
    lmc_cache_wait(f.cache, lmc_text("c"), 200 * S, note, &closed);
    advance(&f, 1);
    assert_int_equal(late.calls, 0);
    advance(&f, 1);
    assert_int_equal(late.calls, 1);
    assert_int_equal(late.status, LMC_AGAIN);
    end_session(&f, "e");
    assert_int_equal(ended.calls, 1);
    assert_int_equal(ended.status, LMC_OK);
    assert_int_equal(ended.chunks, 0);
    lmc_ticket second = begin(&f, "r"); /* waits for the new job now */
    finish(&f, &ticket, 1, NULL);
    assert_int_equal(replaced.calls, 0);
    finish(&f, &second, 2, NULL);
    assert_int_equal(replaced.chunks, 2);
    fixture_fini(&f);
    assert_int_equal(closed.calls, 1);
    assert_int_equal(closed.status, LMC_CLOSED);
}

static void ended_waits_do_not_start_again(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    outcome seen = {0};
    lmc_ticket ticket = begin(&f, "r");
    lmc_cache_wait(f.cache, lmc_text("r"), 200 * S, note, &seen);
    lmc_cache_end_waits(f.cache);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.status, LMC_CLOSED);
    lmc_cache_wait(f.cache, lmc_text("r"), 200 * S, note, &seen);
    assert_int_equal(seen.calls, 2);
    assert_int_equal(seen.status, LMC_CLOSED);
    finish(&f, &ticket, 4, NULL);
    lmc_cache_wait(f.cache, lmc_text("r"), 200 * S, note, &seen);
    assert_int_equal(seen.chunks, 4); /* a known answer is still given */
    fixture_fini(&f);
}

/* With the machine's clock: nobody ticks. */
static void a_timeout_needs_no_tick(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    lmc_cache_destroy(f.cache);
    assert_int_equal(lmc_cache_create(&config, &lmc_system_clock, NULL, &f.cache, NULL),
                     LMC_OK);
    outcome seen = {0};
    (void)begin(&f, "r");
    lmc_cache_wait(f.cache, lmc_text("r"), 20 * LMC_NS_PER_MS, note, &seen);
    const struct timespec pause = {.tv_nsec = 2000000};
    while (atomic_load(&seen.calls) == 0)
        nanosleep(&pause, NULL);
    assert_int_equal(seen.status, LMC_AGAIN);
    lmc_ticket ticket = begin(&f, "r"); /* the sweep starts again when it is needed again */
    lmc_cache_wait(f.cache, lmc_text("r"), 20 * LMC_NS_PER_MS, note, &seen);
    while (atomic_load(&seen.calls) == 1)
        nanosleep(&pause, NULL);
    finish(&f, &ticket, 1, NULL);
    fixture_fini(&f);
}

/* ---- sessions ---- */

static void old_sessions_make_room_for_new_ones(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.session_bytes_max = 100 * 1024;
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 64));
    char id[16];
    for (int i = 0; i < 200; i++) {
        (void)snprintf(id, sizeof(id), "r%d", i);
        assert_int_equal(lookup(&f, scheduler_key(&f, id, 64)), 64);
        assert_true(f.cache->sessions.bytes < config.session_bytes_max + 8192);
    }
    assert_true(lmc_cache_active_sessions(f.cache) < 40);
    free_locks(&f, scheduler_key(&f, "r199", 64)); /* the newest are still there */
    assert_shares(&f, 1, 0, (const int[]){199}, 1);
    advance(&f, 30); /* what the others held goes with their lease */
    assert_true(shares_on(&f, 1, 0, 0, 0) < 40);
    fixture_fini(&f);
}

static void a_session_keeps_hashes_not_tokens(void **state) {
    (void)state;
    enum { SESSIONS = 1000, CHUNKS = 128 };
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, CHUNKS));
    char id[16];
    for (int i = 0; i < SESSIONS; i++) {
        (void)snprintf(id, sizeof(id), "request-%d", i);
        assert_int_equal(lookup(&f, scheduler_key(&f, id, CHUNKS)), CHUNKS);
    }
    /* 10^4 of them in 64 MiB, allocator and map included. */
    assert_true(f.cache->sessions.bytes < SESSIONS * (size_t)6400);
    fixture_fini(&f);
}

static void counted_tokens_are_enough_for_known_hashes(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "r", 0, 0, 4));
    lmc_cache_key key = worker_key(&f, "r", 0, 1, 4);
    key.token_ids.ids = NULL;
    assert_int_equal(retrieve(&f, 1, key), LMC_OK);
    key.request_id = lmc_text("unknown");
    assert_int_equal(retrieve(&f, 1, key), LMC_INVALID);
    assert_at_rest(&f);
    fixture_fini(&f);
}

/* The oldest chunk goes first under pressure; the end of a session makes its chunks new. */
static void the_end_of_a_session_makes_its_chunks_new(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.l1.watermark = 0.0;
    config.l1.eviction_ratio = 0.5;
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    register_one(&f, 1, 1);
    uint32_t other[4 * CHUNK];
    for (size_t i = 0; i < 4 * CHUNK; i++)
        other[i] = 90000 + (uint32_t)i;
    lmc_cache_key key = worker_key(&f, "other", 0, 0, 4);
    key.token_ids.ids = other;
    store(&f, 1, worker_key(&f, "a", 0, 0, 4));
    store(&f, 1, key);
    end_session(&f, "a");
    lmc_l1_evict_round(f.cache->l1);
    assert_shares(&f, 1, 0, (const int[]){0, 0, 0, 0}, 4);
    assert_int_equal(report_of(&f).resident_count, 4);
    lmc_l1_evict_round(f.cache->l1); /* of one prompt the last chunks go first */
    assert_shares(&f, 1, 0, (const int[]){0, 0, -1, -1}, 4);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_pending_until_it_finishes_and_consumed_once),
        cmocka_unit_test(a_replaced_or_ended_job_leaves_nothing_held),
        cmocka_unit_test(a_known_answer_is_given_at_once),
        cmocka_unit_test(waiters_are_called_when_the_job_finishes),
        cmocka_unit_test(waiters_end_with_their_time_their_session_or_the_cache),
        cmocka_unit_test(ended_waits_do_not_start_again),
        cmocka_unit_test(a_timeout_needs_no_tick),
        cmocka_unit_test(old_sessions_make_room_for_new_ones),
        cmocka_unit_test(a_session_keeps_hashes_not_tokens),
        cmocka_unit_test(counted_tokens_are_enough_for_known_hashes),
        cmocka_unit_test(the_end_of_a_session_makes_its_chunks_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
