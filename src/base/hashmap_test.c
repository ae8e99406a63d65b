#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hashmap.h"
#include "support/alloc_fault.h"

static int values[5000];

static lmc_slice numbered(char text[16], int number) {
    return lmc_slice_of(text, (size_t)snprintf(text, 16, "key-%d", number));
}

static void what_is_put_is_found_until_removed(void **state) {
    (void)state;
    lmc_hashmap *map = lmc_hashmap_create();
    char text[16];
    for (int i = 0; i < 5000; i++)
        assert_int_equal(lmc_hashmap_put(map, numbered(text, i), &values[i], NULL), LMC_OK);
    assert_int_equal(lmc_hashmap_count(map), 5000);
    for (int i = 0; i < 5000; i += 2)
        assert_ptr_equal(lmc_hashmap_remove(map, numbered(text, i)), &values[i]);
    for (int i = 0; i < 5000; i++)
        assert_ptr_equal(lmc_hashmap_get(map, numbered(text, i)), i % 2 ? &values[i] : NULL);
    assert_null(lmc_hashmap_remove(map, numbered(text, 0)));
    assert_int_equal(lmc_hashmap_count(map), 2500);
    lmc_hashmap_destroy(map);
}

static void put_replaces_and_returns_the_former_value(void **state) {
    (void)state;
    lmc_hashmap *map = lmc_hashmap_create();
    void *old = &values[9];
    lmc_hashmap_put(map, lmc_text("a"), &values[0], &old);
    assert_null(old);
    lmc_hashmap_put(map, lmc_text("a"), &values[1], &old);
    assert_ptr_equal(old, &values[0]);
    assert_int_equal(lmc_hashmap_count(map), 1);
    assert_int_equal(lmc_hashmap_put(map, lmc_text("a"), NULL, NULL), LMC_INVALID);
    assert_ptr_equal(lmc_hashmap_get(map, lmc_text("a")), &values[1]);
    lmc_hashmap_destroy(map);
}

static void ids_and_texts_do_not_meet(void **state) {
    (void)state;
    lmc_hashmap *map = lmc_hashmap_create();
    lmc_hashmap_put_id(map, 0, &values[0], NULL);
    lmc_hashmap_put_id(map, UINT64_MAX, &values[1], NULL);
    lmc_hashmap_put(map, (lmc_slice){NULL, 0}, &values[2], NULL);
    lmc_hashmap_put(map, lmc_slice_of("\0\0\0\0\0\0\0\0", 8), &values[3], NULL);
    assert_ptr_equal(lmc_hashmap_get_id(map, 0), &values[0]);
    assert_ptr_equal(lmc_hashmap_get_id(map, UINT64_MAX), &values[1]);
    assert_ptr_equal(lmc_hashmap_get(map, lmc_text("")), &values[2]);
    assert_ptr_equal(lmc_hashmap_get(map, lmc_slice_of("\0\0\0\0\0\0\0\0", 8)), &values[3]);
    assert_null(lmc_hashmap_get_id(map, 7));
    assert_ptr_equal(lmc_hashmap_remove_id(map, 0), &values[0]);
    assert_null(lmc_hashmap_get_id(map, 0));
    lmc_hashmap_destroy(map);
}

static void every_entry_is_visited_once_even_when_removed_meanwhile(void **state) {
    (void)state;
    lmc_hashmap *map = lmc_hashmap_create();
    for (uint64_t i = 0; i < 1000; i++)
        lmc_hashmap_put_id(map, i, &values[i], NULL);
    int visits[1000] = {0};
    size_t at = 0;
    lmc_slice key;
    void *value;
    while (lmc_hashmap_next(map, &at, &key, &value)) {
        uint64_t id;
        assert_int_equal(key.size, sizeof id);
        memcpy(&id, key.data, sizeof id);
        assert_ptr_equal(value, &values[id]);
        visits[id]++;
        if (id % 3 != 0)
            assert_ptr_equal(lmc_hashmap_remove_id(map, id), value);
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(visits[i], 1);
    assert_int_equal(lmc_hashmap_count(map), 334);
    lmc_hashmap_destroy(map);
}

static void endless_churn_keeps_the_table_small(void **state) {
    (void)state;
    lmc_hashmap *map = lmc_hashmap_create();
    lmc_hashmap_put_id(map, 0, &values[0], NULL);
    for (uint64_t i = 1; i < 100000; i++) {
        lmc_hashmap_put_id(map, i, &values[1], NULL);
        assert_ptr_equal(lmc_hashmap_remove_id(map, i - 1), i == 1 ? &values[0] : &values[1]);
    }
    size_t at = 0;
    lmc_slice key;
    assert_true(lmc_hashmap_next(map, &at, &key, NULL));
    assert_false(lmc_hashmap_next(map, &at, &key, NULL));
    assert_true(at <= 64);
    lmc_hashmap_destroy(map);
}

static void a_put_that_runs_out_of_memory_changes_nothing(void **state) {
    (void)state;
    lmc_fault_arm(1, false);
    assert_null(lmc_hashmap_create());
    lmc_fault_disarm();
    lmc_hashmap *map = lmc_hashmap_create();
    char text[16];
    int done = 0;
    for (uint64_t nth = 1; done < 100; nth = 1 + (nth % 2)) {
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_hashmap_put(map, numbered(text, done), &values[done], NULL);
        lmc_fault_disarm();
        if (status == LMC_OK) {
            done++;
        } else {
            assert_int_equal(status, LMC_NO_MEMORY);
            assert_null(lmc_hashmap_get(map, numbered(text, done)));
        }
        assert_int_equal(lmc_hashmap_count(map), done);
    }
    for (int i = 0; i < 100; i++)
        assert_ptr_equal(lmc_hashmap_get(map, numbered(text, i)), &values[i]);
    lmc_hashmap_destroy(map);
    lmc_hashmap_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_until_removed),
        cmocka_unit_test(put_replaces_and_returns_the_former_value),
        cmocka_unit_test(ids_and_texts_do_not_meet),
        cmocka_unit_test(every_entry_is_visited_once_even_when_removed_meanwhile),
        cmocka_unit_test(endless_churn_keeps_the_table_small),
        cmocka_unit_test(a_put_that_runs_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
