#include "module/unknown_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/alloc_fault.h"

static void an_id_is_told_once(void **state) {
    (void)state;
    lmc_unknown_ids *ids = lmc_unknown_ids_create(4);
    assert_true(lmc_unknown_ids_tell(ids, 7));
    assert_false(lmc_unknown_ids_tell(ids, 7));
    assert_true(lmc_unknown_ids_tell(ids, INT64_MAX));
    assert_false(lmc_unknown_ids_tell(ids, INT64_MAX));
    assert_true(lmc_unknown_ids_tell(ids, 0));
    assert_false(lmc_unknown_ids_tell(ids, 0));
    lmc_unknown_ids_destroy(ids);
}

static void a_registered_id_is_told_anew_when_it_is_lost_again(void **state) {
    (void)state;
    lmc_unknown_ids *ids = lmc_unknown_ids_create(4);
    lmc_unknown_ids_forget(ids, 7);
    assert_true(lmc_unknown_ids_tell(ids, 7));
    lmc_unknown_ids_forget(ids, 7);
    assert_true(lmc_unknown_ids_tell(ids, 7));
    assert_false(lmc_unknown_ids_tell(ids, 7));
    lmc_unknown_ids_destroy(ids);
}

static void beyond_the_limit_the_oldest_is_forgotten(void **state) {
    (void)state;
    lmc_unknown_ids *ids = lmc_unknown_ids_create(3);
    for (int64_t id = 1; id <= 4; id++)
        assert_true(lmc_unknown_ids_tell(ids, id));
    for (int64_t id = 2; id <= 4; id++)
        assert_false(lmc_unknown_ids_tell(ids, id));
    assert_true(lmc_unknown_ids_tell(ids, 1));
    lmc_unknown_ids_destroy(ids);
}

static void an_id_that_cannot_be_remembered_is_not_told(void **state) {
    (void)state;
    lmc_unknown_ids *ids = lmc_unknown_ids_create(3);
    lmc_fault_arm(1, true);
    bool told = lmc_unknown_ids_tell(ids, 9);
    lmc_fault_disarm();
    assert_false(told);
    assert_true(lmc_unknown_ids_tell(ids, 9));
    lmc_unknown_ids_destroy(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_told_once),
        cmocka_unit_test(a_registered_id_is_told_anew_when_it_is_lost_again),
        cmocka_unit_test(beyond_the_limit_the_oldest_is_forgotten),
        cmocka_unit_test(an_id_that_cannot_be_remembered_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
