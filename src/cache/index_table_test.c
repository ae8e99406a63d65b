#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "cache/index_table.h"
#include "cache/mix.h"
#include "support/alloc_fault.h"

#define ENTRIES 200000u

typedef struct entries {
    uint32_t next[ENTRIES + 1];
    unsigned long moved; /* hashes asked for by splitting */
} entries;

static uint64_t hash_number(uint32_t index) { return lmc_mix(index, 77); }

static uint64_t entry_hash(const void *owner, uint32_t index) {
    ((entries *)(uintptr_t)owner)->moved++;
    return hash_number(index);
}

static uint32_t *entry_next(const void *owner, uint32_t index) {
    return &((entries *)(uintptr_t)owner)->next[index];
}

static entries *make(lmc_index_table *table) {
    entries *all = calloc(1, sizeof *all);
    assert_non_null(all);
    lmc_index_entries callbacks = {entry_hash, entry_next, all};
    assert_int_equal(lmc_index_table_init(table, ENTRIES, callbacks), LMC_OK);
    return all;
}

static bool holds(const lmc_index_table *table, const entries *all, uint32_t index) {
    uint32_t at = *lmc_index_table_bucket(table, hash_number(index));
    while (at != 0 && at != index)
        at = all->next[at];
    return at == index;
}

static void everything_added_is_found_until_removed(void **state) {
    (void)state;
    lmc_index_table table;
    entries *all = make(&table);
    for (uint32_t i = 1; i <= ENTRIES; i++)
        lmc_index_table_add(&table, i, hash_number(i));
    for (uint32_t i = 1; i <= ENTRIES; i++)
        assert_true(holds(&table, all, i));
    for (uint32_t i = 1; i <= ENTRIES; i += 2)
        lmc_index_table_remove(&table, i, hash_number(i));
    for (uint32_t i = 1; i <= ENTRIES; i++)
        assert_int_equal(holds(&table, all, i), i % 2 == 0);
    assert_int_equal(table.count, ENTRIES / 2);
    lmc_index_table_fini(&table);
    free(all);
}

static void no_insertion_moves_more_than_one_bucket(void **state) {
    (void)state;
    lmc_index_table table;
    entries *all = make(&table);
    unsigned long most = 0;
    for (uint32_t i = 1; i <= ENTRIES; i++) {
        all->moved = 0;
        lmc_index_table_add(&table, i, hash_number(i));
        most = all->moved > most ? all->moved : most;
    }
    assert_true(most < 32);
    assert_true(lmc_index_table_bytes(&table) < 8 * (size_t)ENTRIES);
    lmc_index_table_fini(&table);
    free(all);
}

static void without_memory_for_buckets_chains_grow(void **state) {
    (void)state;
    lmc_index_table table;
    entries *all = make(&table);
    lmc_fault_arm(1, true);
    for (uint32_t i = 1; i <= 20000; i++)
        lmc_index_table_add(&table, i, hash_number(i));
    assert_true(lmc_fault_hit());
    lmc_fault_disarm();
    for (uint32_t i = 1; i <= 20000; i++)
        assert_true(holds(&table, all, i));
    for (uint32_t i = 20001; i <= ENTRIES; i++)
        lmc_index_table_add(&table, i, hash_number(i));
    for (uint32_t i = 1; i <= ENTRIES; i++)
        assert_true(holds(&table, all, i));
    lmc_index_table_fini(&table);
    free(all);
}

static void init_reports_missing_memory(void **state) {
    (void)state;
    lmc_index_table table;
    lmc_index_entries callbacks = {entry_hash, entry_next, NULL};
    for (uint64_t nth = 1; nth <= 2; nth++) {
        lmc_fault_arm(nth, false);
        assert_int_equal(lmc_index_table_init(&table, 10, callbacks), LMC_NO_MEMORY);
        lmc_fault_disarm();
        lmc_index_table_fini(&table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_added_is_found_until_removed),
        cmocka_unit_test(no_insertion_moves_more_than_one_bucket),
        cmocka_unit_test(without_memory_for_buckets_chains_grow),
        cmocka_unit_test(init_reports_missing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
