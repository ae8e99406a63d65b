/*
 * Every allocation of a whole request fails once, and everything after it: the caller gets an
 * error or the operation's negative, and nothing stays held, half written or lost.
 */
#include "cache/cache_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/alloc_fault.h"

#define CHUNKS 20

typedef struct scenario {
    cache_fixture f;
    lmc_chunk_layout groups[2];
} scenario;

static void count_row(void *arg, const lmc_instance_report *row) {
    size_t *rows = arg;
    assert_true(row->model_name.size > 0);
    ++*rows;
}

static void count_id(void *arg, int64_t id) {
    (void)id;
    ++*(size_t *)arg;
}

static void count_answer(void *arg, lmc_status status, int64_t chunks) {
    (void)status;
    (void)chunks;
    ++*(size_t *)arg;
}

/* A job that is not finished at once, and three that wait for it: each is answered once. */
static void run_waits(scenario *s) {
    lmc_cache *cache = s->f.cache;
    lmc_sessions *sessions = &cache->sessions;
    lmc_ticket ticket;
    size_t answers = 0;
    lmc_status begun = lmc_job_begin(sessions, lmc_text("p"), 2, NULL, NULL, &ticket);
    for (int i = 0; i < 3; i++)
        lmc_cache_wait(cache, lmc_text("p"), 5 * S, count_answer, &answers);
    if (begun == LMC_OK) {
        lmc_job_result result = {.chunks = 1, .early_exit = ""};
        lmc_job_finish(sessions, &ticket, &result, NULL);
    }
    assert_int_equal(answers, 3);
    int64_t chunks;
    (void)lmc_cache_query(cache, lmc_text("p"), &chunks);
    lmc_cache_end_session(cache, lmc_text("p"));
}

/* One object group, which is reserved as a list; a store that is cleared under way; looks in
 * from outside; a worker that is reaped with a store and a retrieve open. */
static void run_one_group(scenario *s) {
    cache_fixture *f = &s->f;
    lmc_instance_config config = {.instance_id = 8,
                                  .model_name = lmc_text("other"),
                                  .world_size = 1,
                                  .groups = s->groups,
                                  .group_count = 1};
    bool created;
    size_t rows = 0, reaped = 0;
    (void)lmc_cache_register(f->cache, &config, 4, &created, NULL);
    lmc_cache_each_instance(f->cache, LMC_TRANSFER_ENGINE_DRIVEN, count_row, &rows);
    assert_true(rows <= lmc_cache_instance_count(f->cache, LMC_TRANSFER_ENGINE_DRIVEN));
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(f, "o", 0, 0, CHUNKS);
    key.model_name = config.model_name;
    for (int round = 0; round < 2; round++) {
        lmc_arena_fini(&f->arena); /* so that the call's own memory is asked for, too */
        if (lmc_cache_prepare_store(f->cache, &key, 8, 4, &f->arena, &transfer, NULL) != LMC_OK)
            continue;
        if (round == 0)
            lmc_cache_clear(f->cache, true);
        (void)lmc_cache_commit_store(f->cache, &key, 8, 4, NULL, NULL);
    }
    uint8_t hashes[CHUNKS * LMC_HASH_SIZE];
    (void)lmc_cache_session_hashes(f->cache, key.request_id, 0, hashes, CHUNKS);
    lmc_cache_key open = worker_key(f, "o2", 0, CHUNKS, CHUNKS + 4);
    open.model_name = config.model_name;
    lmc_arena_reset(&f->arena);
    (void)lmc_cache_prepare_store(f->cache, &open, 8, 4, &f->arena, &transfer, NULL);
    lmc_arena_reset(&f->arena);
    if (lmc_cache_prepare_retrieve(f->cache, &key, 8, 4, true, &f->arena, &transfer, NULL) ==
        LMC_OK)
        lmc_cache_finish_copy_out(f->cache, &transfer);
    (void)lmc_cache_touch_instance(f->cache, 8, 4);
    advance(f, 1);
    lmc_cache_reap(f->cache, LMC_TRANSFER_ENGINE_DRIVEN, 1, 1, count_id, &reaped);
    lmc_cache_end_session(f->cache, key.request_id);
    lmc_cache_end_session(f->cache, open.request_id);
}

/* Register, store, look up, poll, retrieve, free, end, unregister; whatever each answers. */
static void run(scenario *s) {
    cache_fixture *f = &s->f;
    lmc_instance_config config = {.instance_id = 7,
                                  .model_name = lmc_text("model"),
                                  .world_size = 1,
                                  .groups = s->groups,
                                  .group_count = 2};
    bool created;
    (void)lmc_cache_register(f->cache, &config, 3, &created, NULL);
    lmc_transfer transfer;
    lmc_cache_key write = worker_key(f, "w", 0, 0, CHUNKS);
    lmc_arena_reset(&f->arena);
    if (lmc_cache_prepare_store(f->cache, &write, 7, 3, &f->arena, &transfer, NULL) == LMC_OK)
        (void)lmc_cache_commit_store(f->cache, &write, 7, 3, NULL, NULL);
    lmc_cache_key copy = worker_key(f, "c", 0, CHUNKS - 2, CHUNKS + 2);
    lmc_arena_reset(&f->arena);
    if (lmc_cache_begin_copy_in(f->cache, &copy, 7, 3, &f->arena, &transfer, NULL) == LMC_OK)
        lmc_cache_finish_copy_in(f->cache, &transfer, NULL, NULL);
    int64_t chunks;
    lmc_cache_key key = scheduler_key(f, "r", CHUNKS + 4);
    lmc_cache_lookup(f->cache, &key, 1, 2);
    (void)lmc_cache_query(f->cache, key.request_id, &chunks);
    lmc_cache_key read = worker_key(f, "r", 0, 2, CHUNKS);
    lmc_arena_reset(&f->arena);
    if (lmc_cache_prepare_retrieve(f->cache, &read, 7, 3, true, &f->arena, &transfer, NULL) ==
        LMC_OK) {
        lmc_cache_finish_copy_out(f->cache, &transfer);
        lmc_cache_commit_retrieve(f->cache, &read, 7, 3);
    }
    lmc_cache_key failing = worker_key(f, "r", 0, 0, CHUNKS + 10);
    lmc_arena_reset(&f->arena);
    (void)lmc_cache_prepare_retrieve(f->cache, &failing, 7, 3, true, &f->arena, &transfer,
                                     NULL);
    key.end = 2 * CHUNK;
    (void)lmc_cache_free_locks(f->cache, &key, 1, NULL);
    lmc_cache_lookup(f->cache, &key, 1, 2);
    lmc_cache_connection_closed(f->cache, 2);
    lmc_cache_end_session(f->cache, key.request_id);
    (void)lmc_cache_unregister(f->cache, 7);
    run_one_group(s);
    run_waits(s);
}

static void prepare(scenario *s) {
    fixture_init(&s->f);
    s->groups[0] = layout_of(-1);
    s->groups[1] = layout_of(3);
}

static void assert_nothing_is_stuck(scenario *s) {
    advance(&s->f, 31);
    assert_at_rest(&s->f);
    advance(&s->f, 601);
    assert_int_equal(lmc_cache_active_sessions(s->f.cache), 0);
    assert_int_equal(lmc_cache_active_jobs(s->f.cache), 0);
    assert_int_equal(lmc_cache_instance_count(s->f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 0);
    assert_int_equal(lmc_hashmap_count(s->f.cache->layouts.entries), 0);
    assert_int_equal(s->f.cache->sessions.bytes, 0);
    lmc_cache_clear(s->f.cache, true);
    lmc_l1_report report = report_of(&s->f);
    assert_int_equal(report.resident_count, 0);
    assert_int_equal(report.used_bytes, 0);
    fixture_fini(&s->f);
}

static uint64_t count_allocations(void) {
    scenario s;
    prepare(&s);
    lmc_fault_arm(UINT64_MAX, false);
    run(&s);
    uint64_t count = lmc_fault_count();
    lmc_fault_disarm();
    assert_nothing_is_stuck(&s);
    return count;
}

static void fail_each(bool persistent) {
    uint64_t count = count_allocations();
    assert_true(count > 20);
    for (uint64_t nth = 1; nth <= count; nth++) {
        scenario s;
        prepare(&s);
        lmc_fault_arm(nth, persistent);
        run(&s);
        lmc_fault_disarm();
        assert_nothing_is_stuck(&s);
    }
}

static void one_failed_allocation_leaves_nothing_behind(void **state) {
    (void)state;
    fail_each(false);
}

static void no_memory_from_some_point_on_leaves_nothing_behind(void **state) {
    (void)state;
    fail_each(true);
}

static void a_lookup_without_memory_has_no_hits(void **state) {
    (void)state;
    scenario s;
    prepare(&s);
    register_groups(&s.f, 7, 1, s.groups, 2, 0);
    store(&s.f, 7, worker_key(&s.f, "w", 0, 0, CHUNKS));
    lmc_cache_key key = scheduler_key(&s.f, "r", CHUNKS);
    assert_int_equal(lookup(&s.f, key), CHUNKS);
    lmc_fault_arm(1, true);
    lmc_cache_lookup(s.f.cache, &key, 1, 0);
    lmc_fault_disarm();
    int64_t chunks = -1;
    assert_int_equal(lmc_cache_query(s.f.cache, key.request_id, &chunks), LMC_OK);
    assert_int_equal(chunks, 0);
    advance(&s.f, 30);
    assert_at_rest(&s.f);
    fixture_fini(&s.f);
}

static void build_with_each_failure(const lmc_cache_config *config) {
    cache_fixture f;
    assert_int_equal(fixture_open(&f, config), LMC_OK);
    fixture_fini(&f);
    for (uint64_t nth = 1;; nth++) {
        lmc_error error = LMC_ERROR_INIT;
        lmc_cache *cache = NULL;
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_cache_create(config, &lmc_system_clock, NULL, &cache, &error);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        if (status == LMC_OK)
            lmc_cache_destroy(cache);
        else
            assert_true(error.text[0] != '\0');
        if (!hit)
            break;
    }
}

static void a_cache_that_cannot_be_built_leaves_nothing(void **state) {
    (void)state;
    lmc_cache_config config = default_config();
    build_with_each_failure(&config);
}

static void a_cache_with_a_shared_pool_that_cannot_be_built_leaves_no_segment(void **state) {
    (void)state;
    char name[32], segment[64];
    (void)snprintf(name, sizeof name, "fault_%ld", (long)getpid());
    (void)snprintf(segment, sizeof segment, "/lmcache_l1_pool_%s", name);
    lmc_cache_config config = default_config();
    config.l1.shm_name = name;
    build_with_each_failure(&config);
    assert_int_equal(shm_open(segment, O_RDONLY, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(no_memory_from_some_point_on_leaves_nothing_behind),
        cmocka_unit_test(a_lookup_without_memory_has_no_hits),
        cmocka_unit_test(a_cache_that_cannot_be_built_leaves_nothing),
        cmocka_unit_test(a_cache_with_a_shared_pool_that_cannot_be_built_leaves_no_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
