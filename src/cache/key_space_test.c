#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "cache/key_space.h"
#include "support/alloc_fault.h"

#define MANY 20000

static void equal_texts_are_one_space(void **state) {
    (void)state;
    lmc_key_spaces spaces;
    assert_int_equal(lmc_key_spaces_init(&spaces), LMC_OK);
    lmc_key_space *a = lmc_key_spaces_get(&spaces, lmc_text("model"), lmc_text("salt"));
    lmc_key_space *b = lmc_key_spaces_get(&spaces, lmc_text("model"), lmc_text("salt"));
    lmc_key_space *c = lmc_key_spaces_get(&spaces, lmc_text("models"), lmc_text("alt"));
    lmc_key_space *d = lmc_key_spaces_get(&spaces, lmc_text(""), lmc_text(""));
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ptr_equal(lmc_key_spaces_at(&spaces, c->index), c);
    assert_int_equal(lmc_key_space_model(d).size, 0);
    lmc_key_spaces_drop(&spaces, a);
    assert_true(lmc_slice_is(lmc_key_space_salt(b), "salt"));
    assert_int_equal(spaces.table.count, 3);
    lmc_key_spaces_drop(&spaces, b);
    assert_int_equal(spaces.table.count, 2);
    lmc_key_spaces_fini(&spaces); /* frees what is left */
}

static void the_last_reference_needs_the_lock(void **state) {
    (void)state;
    lmc_key_spaces spaces;
    assert_int_equal(lmc_key_spaces_init(&spaces), LMC_OK);
    lmc_key_space *space = lmc_key_spaces_get(&spaces, lmc_text("m"), lmc_text(""));
    (void)lmc_key_space_keep(space);
    assert_true(lmc_key_space_drop_shared(space));
    assert_false(lmc_key_space_drop_shared(space));
    lmc_key_spaces_drop(&spaces, space);
    assert_int_equal(spaces.bytes, 0);
    lmc_key_spaces_fini(&spaces);
}

static void many_spaces_come_and_go(void **state) {
    (void)state;
    lmc_key_spaces spaces;
    assert_int_equal(lmc_key_spaces_init(&spaces), LMC_OK);
    lmc_key_space **all = calloc(MANY, sizeof *all);
    assert_non_null(all);
    char salt[32];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(salt, sizeof salt, "tenant-%d", i);
        all[i] = lmc_key_spaces_get(&spaces, lmc_text("model"), lmc_text(salt));
        assert_non_null(all[i]);
    }
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(salt, sizeof salt, "tenant-%d", i);
        assert_true(lmc_slice_is(lmc_key_space_salt(all[i]), salt));
        lmc_key_spaces_drop(&spaces, all[i]);
    }
    assert_int_equal(spaces.table.count, 0);
    assert_int_equal(spaces.bytes, 0);
    free(all);
    lmc_key_spaces_fini(&spaces);
}

static void missing_memory_is_told_and_leaves_nothing(void **state) {
    (void)state;
    lmc_key_spaces spaces;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        lmc_fault_arm(nth, false);
        assert_int_equal(lmc_key_spaces_init(&spaces), LMC_NO_MEMORY);
        lmc_fault_disarm();
    }
    assert_int_equal(lmc_key_spaces_init(&spaces), LMC_OK);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        lmc_fault_arm(nth, false);
        assert_null(lmc_key_spaces_get(&spaces, lmc_text("m"), lmc_text("s")));
        lmc_fault_disarm();
    }
    assert_int_equal(spaces.table.count, 0);
    assert_non_null(lmc_key_spaces_get(&spaces, lmc_text("m"), lmc_text("s")));
    lmc_key_spaces_fini(&spaces);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_are_one_space),
        cmocka_unit_test(the_last_reference_needs_the_lock),
        cmocka_unit_test(many_spaces_come_and_go),
        cmocka_unit_test(missing_memory_is_told_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
