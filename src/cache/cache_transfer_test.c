/* Stores and retrieves: what is reserved, remembered, copied, dropped (D7, D39, D43, D73, D74).
 */
#include "cache/cache_fixture.h"

static lmc_status begin_copy_in(cache_fixture *f, int64_t instance, lmc_cache_key key,
                                lmc_transfer *transfer) {
    lmc_arena_reset(&f->arena);
    return lmc_cache_begin_copy_in(f->cache, &key, instance, 0, &f->arena, transfer, NULL);
}

static void a_store_reserves_only_what_is_missing(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    assert_int_equal(store(&f, 1, worker_key(&f, "a", 0, 1, 3)), 2);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 5);
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 3);
    assert_int_equal(transfer.chunk_count, 5);
    assert_int_equal(transfer.group_count, 1);
    assert_string_equal(transfer.groups[0].dtype, "uint8");
    const int64_t expected[3] = {0, 3, 4};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(transfer.slots[i].chunk_index, expected[i]);
    lmc_transfer second;
    assert_int_equal(prepare_store(&f, 1, worker_key(&f, "b", 0, 0, 5), &second), 0);
    size_t chunks = 99;
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, &chunks, NULL), LMC_OK);
    assert_int_equal(chunks, 3); /* two were there */
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, &chunks, NULL), LMC_NOT_FOUND);
    assert_int_equal(chunks, 0);
    assert_int_equal(report_of(&f).resident_count, 5);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void bytes_come_back_as_they_were_written(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 6));
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 1, worker_key(&f, "b", 0, 2, 6), &transfer), LMC_OK);
    assert_int_equal(transfer.slot_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *bytes = lmc_l1_data(f.cache->l1, transfer.slots[i].object);
        assert_int_equal(transfer.slots[i].chunk_index, i);
        assert_int_equal(bytes[0], 2 + i);
        assert_int_equal(bytes[OBJECT_SIZE - 1], 2 + i);
    }
    fixture_fini(&f);
}

static void unacceptable_keys_are_refused_as_listed(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 2);
    lmc_cache_key good = world2(worker_key(&f, "a", 1, 1, 4)), bad[11];
    for (size_t i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].start = 1;
    bad[1].start = -CHUNK;
    bad[2].end = 4 * CHUNK + 1;
    bad[3].worker_id = 2;
    bad[4].worker_id = -1;
    bad[5].present = 0;
    bad[6].world_size = 0;
    bad[7].model_name = lmc_text("mo@del");
    bad[8].cache_salt = lmc_text("a/b");
    bad[9].token_ids.out_of_range = true;
    bad[10].cache_salt = (lmc_slice){"a\0b", 3};
    for (size_t i = 0; i < 11; i++) {
        lmc_transfer transfer;
        lmc_arena_reset(&f.arena);
        assert_int_equal(
            lmc_cache_prepare_store(f.cache, &bad[i], 1, 0, &f.arena, &transfer, NULL),
            LMC_INVALID);
        assert_int_equal(prepare_retrieve(&f, 1, bad[i], &transfer), LMC_INVALID);
        assert_int_equal(begin_copy_in(&f, 1, bad[i], &transfer), LMC_INVALID);
        assert_int_equal(lmc_cache_commit_store(f.cache, &bad[i], 1, 0, NULL, NULL),
                         LMC_INVALID);
    }
    assert_int_equal(lmc_cache_active_sessions(f.cache), 0);
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 7, good, &transfer), LMC_NOT_FOUND);
    assert_int_equal(lmc_cache_active_sessions(f.cache), 0);
    good.end = good.start - 1; /* nothing is asked for */
    assert_int_equal(prepare_store(&f, 1, good, &transfer), 0);
    assert_int_equal(prepare_retrieve(&f, 1, good, &transfer), LMC_OK);
    good.end = 4 * CHUNK - 1; /* floored */
    assert_int_equal(prepare_store(&f, 1, good, &transfer), 2);
    fixture_fini(&f);
}

static void masked_chunks_are_left_out_but_counted(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout groups[2] = {layout_of(-1), layout_of(-1)};
    register_groups(&f, 1, 1, groups, 2, 0);
    const bool row0[2] = {true, false}, row1[9] = {false, false, true};
    const lmc_bools rows[3] = {{row0, 2}, {row1, 9}, {row0, 2}};
    lmc_cache_key key = worker_key(&f, "a", 0, 1, 4);
    key.null_chunk_mask = (lmc_bool_lists){rows, 3};
    lmc_transfer transfer;
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 4);
    const int64_t chunks[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(transfer.slots[i].chunk_index, chunks[i]);
        assert_int_equal(transfer.slots[i].list_index, i);
    }
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_OK);
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    assert_int_equal(transfer.slot_count, 4);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    key.null_chunk_mask = (lmc_bool_lists){0};
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_NOT_FOUND);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_windowed_group_needs_the_last_chunks_requested(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout groups[2] = {layout_of(-1), layout_of(2)};
    register_groups(&f, 1, 1, groups, 2, 0);
    const bool gone[3] = {true, true, false};
    const lmc_bools rows[2] = {{gone, 0}, {gone, 3}};
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 4);
    key.null_chunk_mask = (lmc_bool_lists){rows, 2};
    assert_int_equal(store(&f, 1, key), 4 + 2);
    key.null_chunk_mask = (lmc_bool_lists){0};
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 1, key, &transfer), LMC_OK);
    assert_int_equal(transfer.slot_count, 6);
    assert_int_equal(transfer.slots[4].chunk_index, 4 + 2);
    lmc_cache_commit_retrieve(f.cache, &key, 1, 0);
    /* [0, 3): chunk 1 of the window is missing. */
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "a", 0, 0, 3)), LMC_NOT_FOUND);
    /* [2, 3): a shorter range needs only itself. */
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "a", 0, 2, 3)), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void memory_for_some_groups_of_a_chunk_is_not_kept(void **state) {
    (void)state;
    cache_fixture f;
    lmc_cache_config config = default_config();
    config.l1.capacity = config.l1.init_size = 1 << 20;
    config.l1.policy = LMC_EVICT_NONE;
    assert_int_equal(fixture_open(&f, &config), LMC_OK);
    lmc_chunk_layout groups[2] = {layout_of(-1), layout_of(-1)};
    groups[0].size = groups[1].size = (1 << 20) / 8;
    register_groups(&f, 1, 1, groups, 2, 0);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 10);
    size_t count = prepare_store(&f, 1, key, &transfer);
    assert_true(count >= 6 && count % 2 == 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(transfer.slots[i].group, i / (count / 2));
        assert_int_equal(transfer.slots[i].chunk_index % 10, i % (count / 2));
    }
    assert_true(f.no_memory > 0);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_commit_finds_its_own_request_first(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "w", 0, 0, 2));
    lmc_transfer transfer;
    lmc_cache_key a = worker_key(&f, "a", 0, 0, 2), b = worker_key(&f, "b", 0, 0, 2);
    assert_int_equal(prepare_retrieve(&f, 1, a, &transfer), LMC_OK);
    assert_int_equal(prepare_retrieve(&f, 1, b, &transfer), LMC_OK);
    lmc_cache_commit_retrieve(f.cache, &b, 1, 0);
    lmc_cache_commit_retrieve(f.cache, &b, 1, 0); /* none of its own: takes the other's */
    assert_shares(&f, 1, 0, (const int[]){0, 0}, 2);
    lmc_cache_commit_retrieve(f.cache, &a, 1, 0);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_commit_needs_equal_fields(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    register_one(&f, 2, 1);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 2);
    key.token_ids.count++; /* with a tail */
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 2);
    lmc_cache_key other = key;
    other.token_ids.count--;
    assert_int_equal(lmc_cache_commit_store(f.cache, &other, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    uint32_t changed[2 * CHUNK + 1];
    memcpy(changed, f.tokens, sizeof(changed));
    changed[2 * CHUNK]++;
    other = key;
    other.token_ids.ids = changed;
    assert_int_equal(lmc_cache_commit_store(f.cache, &other, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    other = key;
    other.cache_salt = lmc_text("x");
    assert_int_equal(lmc_cache_commit_store(f.cache, &other, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    other = key;
    other.end--;
    assert_int_equal(lmc_cache_commit_store(f.cache, &other, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 2, 0, NULL, NULL), LMC_NOT_FOUND);
    other = key;
    other.num_kv_readers = 9;
    other.request_id = lmc_text("b");
    other.token_ids.ids = NULL; /* counted only */
    assert_int_equal(lmc_cache_commit_store(f.cache, &other, 1, 0, NULL, NULL), LMC_OK);
    assert_int_equal(report_of(&f).resident_count, 2);
    fixture_fini(&f);
}

static void repeated_prepares_are_committed_together(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 3);
    const bool mask[3] = {false, true, true};
    const lmc_bools row = {mask, 3};
    key.null_chunk_mask = (lmc_bool_lists){&row, 1};
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 1);
    key.null_chunk_mask = (lmc_bool_lists){0};
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 2);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_OK);
    assert_int_equal(report_of(&f).resident_count, 3);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_reservation_ends_with_the_write_ttl(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 3);
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 3);
    advance(&f, 599);
    assert_int_equal(report_of(&f).staging_count, 3);
    advance(&f, 1);
    assert_at_rest(&f);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    assert_int_equal(report_of(&f).resident_count, 0);
    fixture_fini(&f);
}

static void a_retrieve_ends_with_the_read_ttl(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 1, worker_key(&f, "a", 0, 0, 2), &transfer), LMC_OK);
    advance(&f, 299);
    assert_int_equal(report_of(&f).read_locked_count, 2);
    advance(&f, 1);
    assert_at_rest(&f);
    fixture_fini(&f);
}

/* ---- clear ---- */

static void a_forced_clear_hides_everything_and_keeps_bytes_in_use(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(lookup(&f, scheduler_key(&f, "held", 2)), 2);
    lmc_transfer reading, writing;
    lmc_cache_key read = worker_key(&f, "a", 0, 0, 2), write = worker_key(&f, "a", 0, 2, 4);
    assert_int_equal(prepare_retrieve(&f, 1, read, &reading), LMC_OK);
    lmc_object_ref ref = reading.slots[1].object;
    assert_int_equal(prepare_store(&f, 1, write, &writing), 2);
    lmc_cache_clear(f.cache, true);
    assert_int_equal(shares_on(&f, 1, 0, 0, 0), -1);
    assert_int_equal(lookup(&f, scheduler_key(&f, "b", 4)), 0);
    assert_int_equal(((const uint8_t *)lmc_l1_data(f.cache->l1, ref))[0], 1);
    assert_true(report_of(&f).used_bytes > 0);
    assert_int_equal(lmc_cache_commit_store(f.cache, &write, 1, 0, NULL, NULL), LMC_OK);
    assert_int_equal(report_of(&f).resident_count, 0); /* its data was dropped */
    lmc_cache_commit_retrieve(f.cache, &read, 1, 0);
    assert_at_rest(&f);
    assert_int_equal(report_of(&f).used_bytes, 0); /* what the lookup held went at once */
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "held", 0, 0, 2)), LMC_NOT_FOUND);
    fixture_fini(&f);
}

static void a_gentle_clear_keeps_what_is_locked(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 4));
    assert_int_equal(lookup(&f, scheduler_key(&f, "held", 2)), 2);
    lmc_transfer writing;
    lmc_cache_key write = worker_key(&f, "a", 0, 4, 5);
    assert_int_equal(prepare_store(&f, 1, write, &writing), 1);
    lmc_cache_clear(f.cache, false);
    assert_int_equal(report_of(&f).resident_count, 2);
    assert_shares(&f, 1, 0, (const int[]){1, 1, -1, -1}, 4);
    assert_int_equal(lmc_cache_commit_store(f.cache, &write, 1, 0, NULL, NULL), LMC_OK);
    assert_int_equal(report_of(&f).resident_count, 3);
    fixture_fini(&f);
}

/* ---- copies ---- */

static void a_copy_in_takes_over_what_was_prepared(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    store(&f, 1, worker_key(&f, "a", 0, 0, 1));
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 4);
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 3);
    assert_false(transfer.by_copy);
    assert_int_equal(begin_copy_in(&f, 1, key, &transfer), LMC_OK);
    assert_true(transfer.by_copy);
    assert_int_equal(transfer.slot_count, 3);
    assert_int_equal(transfer.slots[0].list_index, 1);
    const bool filled[3] = {true, false, true};
    lmc_stored stored = {0};
    lmc_cache_finish_copy_in(f.cache, &transfer, filled, &stored);
    assert_int_equal(stored.chunks, 2);
    assert_at_rest(&f);
    assert_shares(&f, 1, 0, (const int[]){0, 0, -1, 0}, 4);
    assert_int_equal(lmc_cache_commit_store(f.cache, &key, 1, 0, NULL, NULL), LMC_NOT_FOUND);
    /* From now on it is answered in pickle form. */
    assert_int_equal(prepare_store(&f, 1, key, &transfer), 0);
    assert_true(transfer.by_copy);
    assert_int_equal(report_of(&f).staging_count, 0);
    assert_int_equal(prepare_retrieve(&f, 1, worker_key(&f, "a", 0, 0, 2), &transfer), LMC_OK);
    assert_true(transfer.by_copy);
    assert_false(transfer.remembered);
    assert_int_equal(report_of(&f).read_locked_count, 2);
    lmc_cache_finish_copy_out(f.cache, &transfer);
    assert_int_equal(f.reads, 2);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void a_copy_in_without_a_prepare_reserves_all(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    lmc_chunk_layout groups[2] = {layout_of(-1), layout_of(1)};
    lmc_instance_config config = {.instance_id = 1,
                                  .model_name = lmc_text("model"),
                                  .world_size = 1,
                                  .groups = groups,
                                  .group_count = 2,
                                  .by_copy = true};
    bool created;
    assert_int_equal(lmc_cache_register(f.cache, &config, 0, &created, NULL), LMC_OK);
    lmc_transfer transfer;
    lmc_cache_key key = worker_key(&f, "a", 0, 0, 3);
    assert_int_equal(begin_copy_in(&f, 1, key, &transfer), LMC_OK);
    assert_int_equal(transfer.slot_count, 6);
    assert_int_equal(transfer.slots[5].chunk_index, 5);
    lmc_cache_finish_copy_in(f.cache, &transfer, NULL, NULL);
    assert_int_equal(report_of(&f).resident_count, 6);
    assert_int_equal(lookup(&f, scheduler_key(&f, "r", 3)), 3);
    fixture_fini(&f);
}

static void an_object_of_another_size_is_not_served(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    lmc_chunk_layout larger = layout_of(-1);
    larger.size = 2 * OBJECT_SIZE;
    register_groups(&f, 2, 1, &larger, 1, 0);
    store(&f, 1, worker_key(&f, "a", 0, 0, 2));
    assert_int_equal(retrieve(&f, 2, worker_key(&f, "a", 0, 0, 2)), LMC_NOT_FOUND);
    assert_int_equal(retrieve(&f, 1, worker_key(&f, "a", 0, 0, 2)), LMC_OK);
    assert_at_rest(&f);
    fixture_fini(&f);
}

static void request_numbers_used_by_two_engines_do_not_mix_prompts(void **state) {
    (void)state;
    cache_fixture f;
    fixture_init(&f);
    register_one(&f, 1, 1);
    register_one(&f, 2, 1);
    uint32_t other[3 * CHUNK];
    for (size_t i = 0; i < 3 * CHUNK; i++)
        other[i] = 1000 + (uint32_t)i;
    store(&f, 1, worker_key(&f, "0", 0, 0, 3));
    lmc_cache_key key = worker_key(&f, "0", 0, 0, 3);
    key.token_ids.ids = other;
    lmc_transfer transfer;
    assert_int_equal(prepare_retrieve(&f, 2, key, &transfer), LMC_NOT_FOUND);
    assert_int_equal(store(&f, 2, key), 3);
    assert_int_equal(report_of(&f).resident_count, 6);
    assert_int_equal(lookup(&f, scheduler_key(&f, "0", 3)), 3);
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_reserves_only_what_is_missing),
        cmocka_unit_test(bytes_come_back_as_they_were_written),
        cmocka_unit_test(unacceptable_keys_are_refused_as_listed),
        cmocka_unit_test(masked_chunks_are_left_out_but_counted),
        cmocka_unit_test(a_windowed_group_needs_the_last_chunks_requested),
        cmocka_unit_test(memory_for_some_groups_of_a_chunk_is_not_kept),
        cmocka_unit_test(a_commit_finds_its_own_request_first),
        cmocka_unit_test(a_commit_needs_equal_fields),
        cmocka_unit_test(repeated_prepares_are_committed_together),
        cmocka_unit_test(a_reservation_ends_with_the_write_ttl),
        cmocka_unit_test(a_retrieve_ends_with_the_read_ttl),
        cmocka_unit_test(a_forced_clear_hides_everything_and_keeps_bytes_in_use),
        cmocka_unit_test(a_gentle_clear_keeps_what_is_locked),
        cmocka_unit_test(a_copy_in_takes_over_what_was_prepared),
        cmocka_unit_test(a_copy_in_without_a_prepare_reserves_all),
        cmocka_unit_test(an_object_of_another_size_is_not_served),
        cmocka_unit_test(request_numbers_used_by_two_engines_do_not_mix_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
