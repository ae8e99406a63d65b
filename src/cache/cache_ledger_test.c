/* Who holds which shares, event by event (storage.md 4.6, 4.7, 4.9, D5, D38). */
#include "cache/cache_fixture.h"

static void the_worked_example_ends_at_zero(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 2);
    register_one(&f, 2, 2);
    assert_int_equal(store(&f, 1, world2(worker_key(&f, "w", 0, 0, 7))), 7);
    assert_int_equal(store(&f, 2, world2(worker_key(&f, "w", 1, 0, 7))), 7);
    assert_int_equal(store(&f, 1, world2(worker_key(&f, "w", 0, 8, 9))), 1);
    lmc_cache_key key = world2(scheduler_key(&f, "r", 10));
    assert_int_equal(lookup(&f, key), 7);
    const int held[9] = {1, 1, 1, 1, 1, 1, 1, -1, 0};
    assert_shares(&f, 2, 0, held, 9);
    assert_shares(&f, 2, 1, held, 7);
    key.end = 3 * CHUNK;
    free_locks(&f, key);
    const int freed[9] = {0, 0, 0, 1, 1, 1, 1, -1, 0};
    assert_shares(&f, 2, 0, freed, 9);
    assert_shares(&f, 2, 1, freed, 7);
    assert_int_equal(retrieve(&f, 1, world2(worker_key(&f, "r", 0, 3, 7))), LMC_OK);
    const int gone[7] = {0};
    assert_shares(&f, 2, 0, gone, 7);
    assert_shares(&f, 2, 1, freed, 7);
    assert_int_equal(retrieve(&f, 2, world2(worker_key(&f, "r", 1, 3, 7))), LMC_OK);
    assert_shares(&f, 2, 1, gone, 7);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void shared_objects_have_one_share_per_reader(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    register_one(&f, 2, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 4));
    lmc_cache_key key = scheduler_key(&f, "r", 4);
    key.num_kv_readers = 2;
    assert_int_equal(lookup(&f, key), 4);
    assert_shares(&f, 1, 0, (const int[]){2, 2, 2, 2}, 4);
    key.end = CHUNK;
    free_locks(&f, key);
    assert_shares(&f, 1, 0, (const int[]){0, 2, 2, 2}, 4);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 1, 4)), LMC_OK);
    assert_shares(&f, 1, 0, (const int[]){0, 1, 1, 1}, 4);
    assert_int_equal(retrieve(&f, 2, worker_key(&f, "r", 0, 1, 4)), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void old_clients_get_readers_from_tp_size(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    lmc_cache_key key = scheduler_key(&f, "r", 2);
    key.num_kv_readers = 0;
    int64_t chunks;
    lmc_cache_lookup(f.cache, &key, 4, 0);
    assert_int_equal(lmc_cache_query(f.cache, key.request_id, &chunks), LMC_OK);
    assert_int_equal(chunks, 2);
    assert_shares(&f, 1, 0, (const int[]){4, 4}, 2);
    assert_int_equal(lmc_cache_free_locks(f.cache, &key, 4, NULL), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void the_transfer_has_the_share_between_prepare_and_commit(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 3));
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 3)), 3);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "r", 0, 0, 3);
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    assert_true(transfer.remembered);
    assert_int_equal(transfer.slot_count, 3);
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1}, 3);
    free_locks(&f, scheduler_key(&f, "r", 3)); /* the session holds nothing any more */
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1}, 3);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    assert_int_equal(f.reads, 3);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0); /* nothing is remembered: harmless */
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_retrieve_without_a_lookup_takes_fresh_shares(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 3));
    assert_int_equal(lookup(&f, scheduler_key(&f, "other", 3)), 3);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "r", 0, 0, 3);
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    assert_shares(&f, 1, 0, (const int[]){2, 2, 2}, 3);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1}, 3); /* the other session's */
    fixture_fini(&f);
}

static void an_expired_lookup_lock_does_not_fail_the_retrieve(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 2)), 2);
    advance(&f, 299);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    advance(&f, 1);
    assert_shares(&f, 1, 0, (const int[]){0, 0}, 2);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 0, 2)), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void nobody_releases_what_another_session_holds(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 3));
    assert_int_equal(lookup(&f, scheduler_key(&f, "a", 3)), 3);
    assert_int_equal(lookup(&f, scheduler_key(&f, "b", 3)), 3);
    for (int i = 0; i < 3; i++)
        free_locks(&f, scheduler_key(&f, "a", 3));
    free_locks(&f, scheduler_key(&f, "unknown", 3));
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1}, 3);
    lmc_cache_key other = scheduler_key(&f, "b", 3);
    other.cache_salt = lmc_text("salt");
    free_locks(&f, other);
    other = scheduler_key(&f, "b", 3);
    other.model_name = lmc_text("other");
    free_locks(&f, other);
    free_locks(&f, world2(scheduler_key(&f, "b", 3)));
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1}, 3);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 3); /* freeing created none */
    fixture_fini(&f);
}

static void freeing_cuts_the_range_as_decided(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 4));
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 4)), 4);
    lmc_cache_key key = scheduler_key(&f, "r", 4);
    key.start = key.end = CHUNK;
    free_locks(&f, key);
    key.start = 2 * CHUNK;
    free_locks(&f, key);
    assert_shares(&f, 1, 0, (const int[]){1, 1, 1, 1}, 4);
    key.start = 0;
    key.end = CHUNK + 2; /* the chunk that is covered in part stays */
    free_locks(&f, key);
    assert_shares(&f, 1, 0, (const int[]){0, 1, 1, 1}, 4);
    key.start = 2 * CHUNK;
    key.end = 1000; /* beyond the tokens */
    free_locks(&f, key);
    assert_shares(&f, 1, 0, (const int[]){0, 1, 0, 0}, 4);
    key = scheduler_key(&f, "r", 4);
    key.num_kv_readers = 100; /* no more than what is held */
    free_locks(&f, key);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void end_session_starts_a_lease(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    lmc_cache_key key = scheduler_key(&f, "r", 2);
    lmc_cache_lookup(f.cache, &key, 1, 0);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 1);
    end_session(&f, "r");
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    int64_t chunks = -1;
    assert_int_equal(lmc_cache_query(f.cache, key.request_id, &chunks), LMC_OK);
    assert_int_equal(chunks, 0);
    assert_int_equal(f.lookups.count, 0); /* abandoned: counts nowhere */
    advance(&f, 29);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 0, 2)), LMC_OK); /* was queued */
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    advance(&f, 1);
    assert_at_rest(&f);
    end_session(&f, "never-seen");
    fixture_fini(&f);
}

static void a_second_lookup_leaves_the_first_ones_shares_to_the_lease(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 2)), 2);
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 2)), 2);
    assert_shares(&f, 1, 0, (const int[]){2, 2}, 2);
    free_locks(&f, scheduler_key(&f, "r", 2));
    free_locks(&f, scheduler_key(&f, "r", 2)); /* not the replaced one's */
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    advance(&f, 30);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_session_lives_from_its_last_use(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.read_ttl_ns = 10000 * S;
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 2)), 2);
    int64_t chunks;
    for (int i = 0; i < 5; i++) {
        advance(&f, 500);
        assert_int_equal(lmc_cache_query(f.cache, lmc_text("r"), &chunks), LMC_OK);
    }
    assert_int_equal(lmc_cache_active_sessions(f.cache), 1);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    advance(&f, 600);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 0);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2); /* its lease runs */
    advance(&f, 30);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_failed_retrieve_releases_its_range_once(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 4));
    lmc_cache_key key = scheduler_key(&f, "r", 4);
    key.num_kv_readers = 2;
    assert_int_equal(lookup(&f, key), 4);
    /* A range that goes on beyond the hit: chunk 4 is not there. */
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 2, 5)), LMC_NOT_FOUND);
    assert_int_equal(f.read_failures, 1);
    assert_shares(&f, 1, 0, (const int[]){2, 2, 1, 1}, 4);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 2, 5)), LMC_NOT_FOUND);
    assert_shares(&f, 1, 0, (const int[]){2, 2, 1, 1}, 4);
    /* Another worker, not registered any more, has its own share to lose. */
    assert_int_equal(retrieve(&f, 9, worker_key(&f, "r", 0, 2, 5)), LMC_NOT_FOUND);
    assert_shares(&f, 1, 0, (const int[]){2, 2, 0, 0}, 4);
    free_locks(&f, key);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_failed_retrieve_of_other_tokens_releases_nothing(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    assert_int_equal(lookup(&f, scheduler_key(&f, "0", 2)), 2);
    uint32_t other[2 * CHUNK] = {5, 5, 5};
    lmc_cache_key key = worker_key(&f, "0", 0, 0, 2);
    key.token_ids.ids = other; /* a second engine that numbers its requests alike */
    assert_int_equal(retrieve(&f, 9, key), LMC_NOT_FOUND);
    assert_int_equal(retrieve(&f, 1, key), LMC_NOT_FOUND);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    fixture_fini(&f);
}

static void free_before_the_answer_skips_windows(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout groups[2] = {layout_of(-1), layout_of(2)};
    register_groups(&f, 1, 1, groups, 2, 0);
    store(&f, 1, worker_key(&f, "w", 0, 0, 4));
    lmc_cache_key key = scheduler_key(&f, "r", 4);
    lmc_cache_lookup(f.cache, &key, 1, 0);
    free_locks(&f, key);
    assert_int_equal(shares_on(&f, 1, 0, 0, 3), 0);
    assert_int_equal(shares_on(&f, 1, 0, 1, 3), 1);
    int64_t chunks;
    assert_int_equal(lmc_cache_query(f.cache, key.request_id, &chunks), LMC_OK);
    assert_int_equal(chunks, 4);
    free_locks(&f, key);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void windowed_rows_keep_the_tail_of_the_hit(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout groups[3] = {layout_of(-1), layout_of(2), layout_of(-1)};
    groups[2].extra = true;
    register_groups(&f, 1, 1, groups, 3, 0);
    assert_int_equal(store(&f, 1, worker_key(&f, "w", 0, 0, 5)), 15);
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 6)), 5);
    for (size_t c = 0; c < 5; c++) {
        assert_int_equal(shares_on(&f, 1, 0, 0, c), 1);
        assert_int_equal(shares_on(&f, 1, 0, 1, c), c >= 3);
        assert_int_equal(shares_on(&f, 1, 0, 2, c), 0); /* no row */
    }
    assert_int_equal(f.lookups.keys, 7);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "r", 0, 1, 5);
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    assert_int_equal(transfer.slot_count, 4 + 2);
    assert_int_equal(transfer.slots[4].group, 1);
    assert_int_equal(transfer.slots[4].chunk_index, 4 + 2);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    assert_int_equal(shares_on(&f, 1, 0, 0, 0), 1);
    lmc_cache_key rest = scheduler_key(&f, "r", 5);
    rest.end = CHUNK;
    free_locks(&f, rest);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void long_prompts_are_freed_in_batches(void **state) {
    (void)state;
    enum { CHUNKS = 700 };
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    assert_int_equal(store(&f, 1, worker_key(&f, "w", 0, 0, CHUNKS)), CHUNKS);
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", CHUNKS)), CHUNKS);
    assert_int_equal(report_of(&f).read_locked_count, CHUNKS);
    lmc_cache_key key = scheduler_key(&f, "r", CHUNKS);
    key.start = CHUNK;
    free_locks(&f, key);
    assert_int_equal(report_of(&f).read_locked_count, 1);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "r", 0, 0, CHUNKS)), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_ends_at_zero),
        cmocka_unit_test(shared_objects_have_one_share_per_reader),
        cmocka_unit_test(old_clients_get_readers_from_tp_size),
        cmocka_unit_test(the_transfer_has_the_share_between_prepare_and_commit),
        cmocka_unit_test(a_retrieve_without_a_lookup_takes_fresh_shares),
        cmocka_unit_test(an_expired_lookup_lock_does_not_fail_the_retrieve),
        cmocka_unit_test(nobody_releases_what_another_session_holds),
        cmocka_unit_test(freeing_cuts_the_range_as_decided),
        cmocka_unit_test(end_session_starts_a_lease),
        cmocka_unit_test(a_second_lookup_leaves_the_first_ones_shares_to_the_lease),
        cmocka_unit_test(a_session_lives_from_its_last_use),
        cmocka_unit_test(a_failed_retrieve_releases_its_range_once),
        cmocka_unit_test(a_failed_retrieve_of_other_tokens_releases_nothing),
        cmocka_unit_test(free_before_the_answer_skips_windows),
        cmocka_unit_test(windowed_rows_keep_the_tail_of_the_hit),
        cmocka_unit_test(long_prompts_are_freed_in_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
