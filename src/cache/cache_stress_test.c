/*
 * Many threads on one small cache: requests, clears, closed connections, reaping, time. Every
 * object read has the bytes that were written for its chunk, and at the end nothing is held.
 * Run under TSan.
 */
#include "cache/cache_fixture.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 3000
#define CHUNKS 24
#define PROMPTS 3

static uint32_t prompts[PROMPTS][CHUNKS * CHUNK];
/* Time does not pass between a client's prepare and its reading or writing, or else what it has
 * been lent could be over. */
static pthread_rwlock_t time_passes = PTHREAD_RWLOCK_INITIALIZER;

typedef struct worker {
    cache_fixture *f;
    pthread_t handle;
    unsigned seed;
    int number;
    lmc_arena arena;
    size_t hits, reads;
} worker;

static int below(worker *w, int limit) {
    return (int)((unsigned)rand_r(&w->seed) % (unsigned)limit);
}

static uint8_t pattern(int prompt, size_t chunk) { return (uint8_t)(prompt * 50 + (int)chunk); }

/* A key on one of the shared prompts; prompts do not share prefixes. */
static lmc_cache_key key_on(worker *w, int prompt, const char *id, size_t first, size_t end) {
    lmc_cache_key key = scheduler_key(w->f, id, end);
    key.token_ids.ids = prompts[prompt];
    key.start = (int64_t)(first * CHUNK);
    key.num_kv_readers = 1 + below(w, 2);
    return key;
}

static lmc_cache_key as_worker(lmc_cache_key key) {
    key.present |= LMC_CACHE_KEY_HAS_WORKER_ID;
    return key;
}

static void fill(worker *w, int prompt, const lmc_transfer *transfer, size_t first) {
    for (size_t i = 0; i < transfer->slot_count; i++)
        memset(lmc_l1_data(w->f->cache->l1, transfer->slots[i].object),
               pattern(prompt, first + (size_t)transfer->slots[i].chunk_index), OBJECT_SIZE);
}

static void store_some(worker *w, int prompt, const char *id, uint64_t connection) {
    size_t end = 1 + (size_t)below(w, CHUNKS), first = (size_t)below(w, (int)end);
    lmc_cache_key key = as_worker(key_on(w, prompt, id, first, end));
    lmc_transfer transfer;
    lmc_arena_reset(&w->arena);
    if (below(w, 4) == 0) {
        if (lmc_cache_begin_copy_in(w->f->cache, &key, w->number + 100, connection, &w->arena,
                                    &transfer, NULL) != LMC_OK)
            return;
        fill(w, prompt, &transfer, first);
        lmc_cache_finish_copy_in(w->f->cache, &transfer, NULL, NULL);
        return;
    }
    pthread_rwlock_rdlock(&time_passes);
    lmc_status status = lmc_cache_prepare_store(w->f->cache, &key, w->number, connection,
                                                &w->arena, &transfer, NULL);
    if (status == LMC_OK)
        fill(w, prompt, &transfer, first);
    pthread_rwlock_unlock(&time_passes);
    if (status != LMC_OK)
        return;
    if (below(w, 10) > 0) /* some clients die in between */
        (void)lmc_cache_commit_store(w->f->cache, &key, w->number, connection, NULL, NULL);
}

static void check(worker *w, int prompt, const lmc_transfer *transfer, size_t first) {
    for (size_t i = 0; i < transfer->slot_count; i++) {
        const uint8_t *bytes = lmc_l1_data(w->f->cache->l1, transfer->slots[i].object);
        uint8_t expected = pattern(prompt, first + (size_t)transfer->slots[i].chunk_index);
        if (bytes[0] != expected || bytes[OBJECT_SIZE - 1] != expected)
            abort();
        w->reads++;
    }
}

static void retrieve_some(worker *w, int prompt, const char *id, size_t end,
                          uint64_t connection) {
    lmc_cache_key key = as_worker(key_on(w, prompt, id, (size_t)below(w, (int)end), end));
    lmc_transfer transfer;
    bool remember = below(w, 3) > 0;
    lmc_arena_reset(&w->arena);
    pthread_rwlock_rdlock(&time_passes);
    lmc_status status = lmc_cache_prepare_retrieve(w->f->cache, &key, w->number, connection,
                                                   remember, &w->arena, &transfer, NULL);
    if (status == LMC_OK)
        check(w, prompt, &transfer, (size_t)key.start / CHUNK);
    pthread_rwlock_unlock(&time_passes);
    if (status != LMC_OK)
        return;
    lmc_cache_finish_copy_out(w->f->cache, &transfer);
    if (below(w, 10) > 0)
        lmc_cache_commit_retrieve(w->f->cache, &key, w->number, connection);
}

static void one_request(worker *w, int round) {
    char id[32];
    int prompt = below(w, PROMPTS);
    uint64_t connection = (uint64_t)(w->number * 1000 + round / 100 + 1);
    (void)snprintf(id, sizeof(id), "r%d", below(w, 20)); /* shared between threads */
    lmc_cache_key key = key_on(w, prompt, id, 0, 1 + (size_t)below(w, CHUNKS));
    int64_t chunks = 0;
    lmc_cache_lookup(w->f->cache, &key, 1, connection);
    (void)lmc_cache_query(w->f->cache, key.request_id, &chunks);
    w->hits += chunks > 0;
    if (chunks > 0 && chunks <= CHUNKS && below(w, 3) > 0)
        retrieve_some(w, prompt, id, (size_t)chunks, connection);
    store_some(w, prompt, id, connection);
    key.token_ids.ids = NULL;
    if (below(w, 2) == 0)
        (void)lmc_cache_free_locks(w->f->cache, &key, 1, NULL);
    if (below(w, 2) == 0)
        lmc_cache_end_session(w->f->cache, key.request_id);
    if (round % 100 == 99)
        lmc_cache_connection_closed(w->f->cache, connection);
}

static void *run(void *arg) {
    worker *w = arg;
    for (int round = 0; round < ROUNDS; round++) {
        lmc_chunk_layout layout = layout_of(-1);
        lmc_instance_config config = {.instance_id = w->number,
                                      .model_name = lmc_text("model"),
                                      .world_size = 1,
                                      .groups = &layout,
                                      .group_count = 1};
        bool created;
        (void)lmc_cache_register(w->f->cache, &config, 1, &created, NULL);
        config.instance_id += 100;
        (void)lmc_cache_register(w->f->cache, &config, 1, &created, NULL);
        one_request(w, round);
        if (below(w, 60) == 0)
            (void)lmc_cache_unregister(w->f->cache, w->number);
        if (below(w, 200) == 0)
            lmc_cache_clear(w->f->cache, below(w, 2) == 0);
        if (below(w, 10) == 0) {
            pthread_rwlock_wrlock(&time_passes);
            atomic_fetch_add(&w->f->clock.now, below(w, 8) * S);
            pthread_rwlock_unlock(&time_passes);
            lmc_cache_tick(w->f->cache);
            lmc_cache_reap(w->f->cache, LMC_TRANSFER_ENGINE_DRIVEN, 120 * S, 300 * S, NULL,
                           NULL);
        }
    }
    return NULL;
}

static void threads_leave_nothing_held(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.l1.capacity = config.l1.init_size = 256 * 48; /* less than all prompts need */
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    f.cache->observer = (lmc_cache_observer){0}; /* the fixture's counters are not shared */
    f.cache->l1->observer = (lmc_l1_observer){0};
    for (uint32_t p = 0; p < PROMPTS; p++) {
        for (uint32_t i = 0; i < CHUNKS * CHUNK; i++)
            prompts[p][i] = p * 100000 + i;
    }
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.f = &f, .seed = (unsigned)i + 1, .number = i + 1};
        lmc_arena_init(&workers[i].arena, 1 << 16);
        assert_int_equal(pthread_create(&workers[i].handle, NULL, run, &workers[i]), 0);
    }
    size_t hits = 0, reads = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].handle, NULL), 0);
        lmc_arena_fini(&workers[i].arena);
        hits += workers[i].hits;
        reads += workers[i].reads;
    }
    assert_true(hits > 100 && reads > 100);
    for (int64_t id = 1; id <= THREADS; id++) {
        (void)lmc_cache_unregister(f.cache, id);
        (void)lmc_cache_unregister(f.cache, id + 100);
    }
    advance(&f, 600);
    advance(&f, 30);
    assert_at_rest(&f);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 0);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    lmc_cache_clear(f.cache, true);
    assert_int_equal(report_of(&f).used_bytes, 0);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_leave_nothing_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
