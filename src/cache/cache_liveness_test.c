/* Registration, reaping, closed connections (storage.md 8, D46) and the registry of layouts. */
#include "cache/cache_fixture.h"

static lmc_instance_config config_of(int64_t id, int64_t world_size,
                                     const lmc_chunk_layout *layout) {
    return (lmc_instance_config){.instance_id = id,
                                 .kind = LMC_TRANSFER_ENGINE_DRIVEN,
                                 .model_name = lmc_text("model"),
                                 .world_size = world_size,
                                 .block_size = 16,
                                 .groups = layout,
                                 .group_count = 1};
}

static void a_live_id_is_refreshed_not_replaced(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 5, 1);
    lmc_chunk_layout other = layout_of(-1);
    other.size = 3 * OBJECT_SIZE;
    lmc_instance_config config = config_of(5, 1, &other);
    bool created = true;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_OK);
    assert_false(created);
    lmc_transfer transfer;
    prepare_store(&f, 5, worker_key(&f, "a", 0, 0, 1), &transfer);
    assert_int_equal(transfer.groups[0].size, OBJECT_SIZE);
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 1);
    assert_true(lmc_cache_unregister(f.cache, 5));
    assert_false(lmc_cache_unregister(f.cache, 5));
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void unusable_registrations_are_refused_with_a_text(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout layout = layout_of(-1);
    lmc_instance_config config = config_of(1, 1, &layout);
    config.model_name = lmc_text("a@b");
    lmc_error error = LMC_ERROR_INIT;
    bool created;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, &error), LMC_INVALID);
    assert_string_equal(error.text, "model_name must not contain '@' (got 'a@b')");
    config = config_of(1, 0, &layout);
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_INVALID);
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 0);
    fixture_fini(&f);
}

static void a_layout_lives_as_long_as_its_last_registration(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 2);
    register_one(&f, 2, 2);
    store(&f, 1, world2(worker_key(&f, "w", 0, 0, 2)));
    store(&f, 2, world2(worker_key(&f, "w", 1, 0, 2)));
    assert_int_equal(lookup(&f, world2(scheduler_key(&f, "r", 2))), 2);
    lmc_cache_unregister(f.cache, 1);
    assert_int_equal(lookup(&f, world2(scheduler_key(&f, "r", 2))), 2);
    assert_int_equal(lookup(&f, scheduler_key(&f, "r1", 2)), 0);
    lmc_cache_unregister(f.cache, 2);
    assert_int_equal(lookup(&f, world2(scheduler_key(&f, "r", 2))), 0);
    assert_string_equal(f.lookups.early, "no_gpu_context");
    assert_int_equal(report_of(&f).resident_count, 4); /* objects stay */
    fixture_fini(&f);
}

static void unregister_discards_writes_and_releases_reads(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 1, worker_key(&f, "a", 0, 0, 2), &transfer), LMC_OK);
    assert_int_equal(prepare_store(&f, 1, worker_key(&f, "a", 0, 2, 4), &transfer), 2);
    assert_true(lmc_cache_unregister(f.cache, 1));
    assert_at_rest(&f);
    assert_int_equal(report_of(&f).resident_count, 2); /* half-written ones are gone */
    lmc_cache_key key = worker_key(&f, "a", 0, 2, 4);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    fixture_fini(&f);
}

static void destroy_needs_no_farewell(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(lookup_on(&f, scheduler_key(&f, "r", 2), 3), 2);
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 1, worker_key(&f, "r", 0, 0, 1), &transfer), LMC_OK);
    assert_int_equal(prepare_store(&f, 1, worker_key(&f, "r", 0, 2, 4), &transfer), 2);
    lmc_cache_connection_closed(f.cache, 3);
    end_session(&f, "r");
    fixture_fini(&f); /* the leak check of ASan is the assertion */
}

/* ---- reaping ---- */

typedef struct found_ids {
    size_t count;
    int64_t ids[8];
} found_ids;

static void note_found(void *arg, int64_t id) {
    found_ids *found = arg;
    lmc_lock_assert_none();
    found->ids[found->count++] = id;
}

static found_ids reap(cache_fixture *f) {
    found_ids found = {0};
    lmc_cache_reap(f->cache, LMC_TRANSFER_ENGINE_DRIVEN, 120 * S, 3600 * S, note_found, &found);
    return found;
}

static void a_silent_worker_is_reaped_by_the_timeout_that_applies(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    register_one(&f, 2, 1);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 0));
    assert_false(lmc_cache_touch_instance(f.cache, 9, 0));
    lmc_transfer transfer;
    prepare_store(&f, 1, worker_key(&f, "a", 0, 0, 3), &transfer);
    advance(&f, 120);
    assert_int_equal(reap(&f).count, 0);
    advance(&f, 1);
    found_ids found = reap(&f);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.ids[0], 1);
    assert_at_rest(&f);
    assert_false(lmc_cache_touch_instance(f.cache, 1, 0));
    advance(&f, 3479);
    assert_int_equal(reap(&f).count, 0);
    advance(&f, 1);
    assert_int_equal(reap(&f).ids[0], 2); /* never pinged: the grace */
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 0);
    fixture_fini(&f);
}

static void every_call_that_names_it_keeps_a_worker(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 0));
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 1);
    advance(&f, 119);
    prepare_store(&f, 1, key, &transfer);
    advance(&f, 119);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_OK);
    advance(&f, 119);
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    advance(&f, 119);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    advance(&f, 119);
    lmc_chunk_layout layout = layout_of(-1);
    lmc_instance_config config = config_of(1, 1, &layout);
    bool created;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_OK);
    advance(&f, 119);
    assert_int_equal(reap(&f).count, 0);
    lmc_cache_reap(f.cache, LMC_TRANSFER_ENGINE_DRIVEN, 0, 0, note_found, NULL); /* off */
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 1);
    fixture_fini(&f);
}

static void an_open_connection_delays_reaping_to_the_grace(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 77));
    assert_true(
        lmc_cache_touch_instance(f.cache, 1, 0)); /* who does not know changes nothing */
    advance(&f, 3600);
    assert_int_equal(reap(&f).count, 0);
    advance(&f, 1);
    assert_int_equal(reap(&f).count, 1);
    register_one(&f, 1, 1);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 77));
    lmc_cache_connection_closed(f.cache, 77);
    advance(&f, 121);
    assert_int_equal(reap(&f).count, 1);
    fixture_fini(&f);
}

/* ---- closed connections ---- */

static void a_dead_client_gives_back_after_the_disconnect_lease(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(lookup_on(&f, scheduler_key(&f, "r", 2), 50), 2);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 60));
    lmc_arena_reset(&f.arena);
    lmc_transfer transfer;
    lmc_cache_key write = worker_key(&f, "a", 0, 2, 4), read = worker_key(&f, "b", 0, 0, 2);
    assert_int_equal(lmc_cache_prepare_store(f.cache, &write, 1, 60, &f.arena, &transfer, NULL),
                     LMC_OK);
    assert_int_equal(
        lmc_cache_prepare_retrieve(f.cache, &read, 1, 60, true, &f.arena, &transfer, NULL),
        LMC_OK);
    lmc_cache_connection_closed(f.cache, 50);
    lmc_cache_connection_closed(f.cache, 60);
    advance(&f, 29);
    assert_shares(&f, 1, 0, (const int[]){2, 2}, 2);
    assert_int_equal(report_of(&f).staging_count, 2);
    advance(&f, 1);
    assert_at_rest(&f);
    /* The registration lives on. */
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_ENGINE_DRIVEN), 1);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 3);
    fixture_fini(&f);
}

static void a_dead_client_s_answer_is_dropped_after_the_disconnect_lease(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    lmc_cache_key one = scheduler_key(&f, "r", 2), other = scheduler_key(&f, "s", 2);
    lmc_cache_lookup(f.cache, &one, 1, 50);
    lmc_cache_lookup(f.cache, &other, 1, 50);
    lmc_cache_connection_closed(f.cache, 50);
    advance(&f, 29);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 2);
    advance(&f, 1);
    assert_int_equal(lmc_cache_active_jobs(f.cache), 0);
    int64_t chunks = -1;
    assert_int_equal(lmc_cache_query(f.cache, lmc_text("r"), &chunks), LMC_OK);
    assert_int_equal(chunks, 0); /* not a number whose objects nobody holds */
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_client_that_only_reconnected_keeps_all(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(lookup_on(&f, scheduler_key(&f, "r", 2), 50), 2);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 60));
    lmc_transfer transfer;
    lmc_cache_key write = worker_key(&f, "a", 0, 2, 4);
    prepare_store(&f, 1, write, &transfer);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 60));
    lmc_cache_connection_closed(f.cache, 50);
    lmc_cache_connection_closed(f.cache, 60);
    advance(&f, 20);
    assert_true(lmc_cache_touch_instance(f.cache, 1, 61));
    int64_t chunks;
    assert_int_equal(lmc_cache_query(f.cache, lmc_text("r"), &chunks), LMC_OK);
    advance(&f, 100);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    assert_int_equal(lmc_cache_commit_store(f.cache, &write, 1, 61, NULL, NULL), LMC_OK);
    free_locks(&f, scheduler_key(&f, "r", 2));
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_request_that_comes_after_its_connection_closed_starts_the_lease(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    lmc_cache_connection_closed(f.cache, 50);
    assert_int_equal(lookup_on(&f, scheduler_key(&f, "r", 2), 50), 2);
    lmc_arena_reset(&f.arena);
    lmc_transfer transfer;
    lmc_cache_key write = worker_key(&f, "a", 0, 2, 4);
    assert_int_equal(lmc_cache_prepare_store(f.cache, &write, 1, 50, &f.arena, &transfer, NULL),
                     LMC_OK);
    advance(&f, 29);
    assert_int_equal(report_of(&f).staging_count, 2);
    advance(&f, 1);
    assert_int_equal(report_of(&f).staging_count, 0);
    fixture_fini(&f);
}

static void without_a_disconnect_lease_only_ttls_apply(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.disconnect_lease_ns = 0;
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(lookup_on(&f, scheduler_key(&f, "r", 2), 50), 2);
    lmc_cache_connection_closed(f.cache, 50);
    advance(&f, 299);
    assert_shares(&f, 1, 0, (const int[]){1, 1}, 2);
    advance(&f, 1);
    assert_at_rest(&f);
    fixture_fini(&f);
}

/* ---- reports ---- */

static void count_row(void *arg, const lmc_instance_report *row) {
    size_t *count = arg;
    lmc_lock_assert_none();
    assert_true(lmc_slice_is(row->model_name, "model"));
    assert_int_equal(row->world_size, 2);
    *count += (size_t)row->instance_id;
}

static void instances_are_listed_by_kind(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 10, 2);
    register_one(&f, 20, 2);
    lmc_chunk_layout layout = layout_of(-1);
    lmc_instance_config config = config_of(20, 2, &layout);
    config.kind = LMC_TRANSFER_LMCACHE_DRIVEN;
    bool created;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_OK);
    assert_true(created); /* another kind of client took the id over */
    size_t engine = 0, lmcache = 0;
    lmc_cache_each_instance(f.cache, LMC_TRANSFER_ENGINE_DRIVEN, count_row, &engine);
    lmc_cache_each_instance(f.cache, LMC_TRANSFER_LMCACHE_DRIVEN, count_row, &lmcache);
    assert_int_equal(engine, 10);
    assert_int_equal(lmcache, 20);
    assert_int_equal(lmc_cache_instance_count(f.cache, LMC_TRANSFER_LMCACHE_DRIVEN), 1);
    fixture_fini(&f);
}

static void early_exits_are_told_apart(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    lmc_cache_key key = scheduler_key(&f, "r", 2);
    key.end = CHUNK - 1;
    assert_int_equal(lookup(&f, key), 0);
    assert_string_equal(f.lookups.early, "empty_chunk_hashes");
    lmc_instance_config config = config_of(2, 2, NULL);
    config.group_count = 0;
    bool created;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_OK);
    assert_int_equal(lookup(&f, world2(scheduler_key(&f, "r", 2))), 0);
    assert_string_equal(f.lookups.early, "no_group_layout_descs");
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 2)), 0);
    assert_string_equal(f.lookups.early, "");
    assert_int_equal(f.lookups.requested, 2 * CHUNK);
    assert_int_equal(f.lookups.count, 3);
    key = scheduler_key(&f, "r", 2);
    key.cache_salt = lmc_text("a@b");
    assert_int_equal(lookup(&f, key), 0);
    assert_int_equal(f.lookups.count, 3);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_live_id_is_refreshed_not_replaced),
        cmocka_unit_test(unusable_registrations_are_refused_with_a_text),
        cmocka_unit_test(a_layout_lives_as_long_as_its_last_registration),
        cmocka_unit_test(unregister_discards_writes_and_releases_reads),
        cmocka_unit_test(destroy_needs_no_farewell),
        cmocka_unit_test(a_silent_worker_is_reaped_by_the_timeout_that_applies),
        cmocka_unit_test(every_call_that_names_it_keeps_a_worker),
        cmocka_unit_test(an_open_connection_delays_reaping_to_the_grace),
        cmocka_unit_test(a_dead_client_gives_back_after_the_disconnect_lease),
        cmocka_unit_test(a_dead_client_s_answer_is_dropped_after_the_disconnect_lease),
        cmocka_unit_test(a_client_that_only_reconnected_keeps_all),
        cmocka_unit_test(a_request_that_comes_after_its_connection_closed_starts_the_lease),
        cmocka_unit_test(without_a_disconnect_lease_only_ttls_apply),
        cmocka_unit_test(instances_are_listed_by_kind),
        cmocka_unit_test(early_exits_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
