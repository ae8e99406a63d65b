#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "dispatch/registry.h"
#include "support/alloc_fault.h"

static void nothing(void *self, lmc_call *call) {
    (void)self;
    (void)call;
}

static const lmc_operation pings[] = {
    {.name = "ping", .scheduling = LMC_NORMAL, .handle = nothing}, {.name = NULL}};

static lmc_registry *open_registry(void) {
    lmc_registry *registry;
    assert_int_equal(lmc_registry_create(&registry, NULL), LMC_OK);
    return registry;
}

static const lmc_handler *winner(const lmc_registry *registry, const char *name) {
    return lmc_registry_find(registry, lmc_operation_by_name(lmc_text(name)));
}

static lmc_status add(lmc_registry *registry, const lmc_operation *operation, const char *owner,
                      bool outside, lmc_error *error) {
    return lmc_registry_add(registry, operation, NULL, owner, outside, error);
}

static void an_operation_without_handler_has_no_winner(void **state) {
    (void)state;
    lmc_registry *registry = open_registry();
    assert_null(winner(registry, "ping"));
    assert_int_equal(lmc_registry_add(registry, NULL, NULL, "Empty", false, NULL), LMC_OK);
    assert_null(winner(registry, "ping"));
    lmc_registry_destroy(registry);
}

static void the_later_of_two_equals_wins_and_keeps_the_earlier(void **state) {
    (void)state;
    lmc_registry *registry = open_registry();
    assert_int_equal(add(registry, pings, "First", false, NULL), LMC_OK);
    assert_int_equal(add(registry, pings, "Second", false, NULL), LMC_OK);
    assert_string_equal(winner(registry, "ping")->owner, "Second");
    assert_string_equal(winner(registry, "ping")->replaced->owner, "First");
    lmc_registry_destroy(registry);
}

static void a_handler_from_outside_beats_a_built_in_one_that_came_later(void **state) {
    (void)state;
    lmc_registry *registry = open_registry();
    assert_int_equal(add(registry, pings, "LookupModule", false, NULL), LMC_OK);
    assert_int_equal(add(registry, pings, "Outside1", true, NULL), LMC_OK);
    assert_int_equal(add(registry, pings, "Outside2", true, NULL), LMC_OK);
    assert_int_equal(add(registry, pings, "ManagementModule", false, NULL), LMC_OK);
    const lmc_handler *handler = winner(registry, "ping");
    const char *expected[] = {"Outside2", "Outside1", "ManagementModule", "LookupModule"};
    for (size_t i = 0; i < 4; i++, handler = handler->replaced)
        assert_string_equal(handler->owner, expected[i]);
    assert_null(handler);
    lmc_registry_destroy(registry);
}

static void the_winner_decides_where_it_runs(void **state) {
    (void)state;
    const struct {
        uint32_t scheduling, flags;
        bool outside;
        lmc_place place;
    } rows[] = {{LMC_SYNC, 0, false, LMC_PLACE_INLINE},
                {LMC_NORMAL, 0, false, LMC_PLACE_NORMAL},
                {LMC_NORMAL, LMC_NEVER_WAITS, false, LMC_PLACE_INLINE},
                {LMC_AFFINITY, 0, false, LMC_PLACE_AFFINITY},
                {LMC_SYNC, 0, true, LMC_PLACE_SERIAL},
                {LMC_NORMAL, 0, true, LMC_PLACE_OUTSIDE},
                {LMC_AFFINITY, 0, true, LMC_PLACE_AFFINITY}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lmc_operation operations[] = {{.name = "clear",
                                       .scheduling = rows[i].scheduling,
                                       .flags = rows[i].flags,
                                       .handle = nothing},
                                      {.name = NULL}};
        lmc_registry *registry = open_registry();
        assert_int_equal(add(registry, operations, "M", rows[i].outside, NULL), LMC_OK);
        assert_int_equal(winner(registry, "clear")->place, rows[i].place);
        assert_true(lmc_registry_uses(registry, rows[i].place));
        lmc_registry_destroy(registry);
    }
}

static void expect_refusal(lmc_operation operation, bool outside, const char *text) {
    lmc_operation operations[] = {operation, {.name = NULL}};
    lmc_error error = LMC_ERROR_INIT;
    lmc_registry *registry = open_registry();
    assert_true(add(registry, operations, "BadModule", outside, &error) < 0);
    assert_non_null(strstr(error.text, text));
    assert_non_null(strstr(error.text, "BadModule"));
    lmc_registry_destroy(registry);
}

static void what_a_module_cannot_ask_for_is_refused_by_name(void **state) {
    (void)state;
    expect_refusal((lmc_operation){.name = "pong", .handle = nothing}, false, "'pong'");
    expect_refusal((lmc_operation){.name = "ping"}, false, "'ping'");
    expect_refusal((lmc_operation){.name = "ping", .scheduling = 3, .handle = nothing}, true,
                   "Non-blocking handler is not supported yet");
    expect_refusal((lmc_operation){.name = "ping", .flags = LMC_NEVER_WAITS, .handle = nothing},
                   true, "flags");
    expect_refusal((lmc_operation){.name = "ping", .flags = 64, .handle = nothing}, false,
                   "flags");
}

static void two_handlers_of_one_class_for_one_operation_are_refused(void **state) {
    (void)state;
    lmc_operation twice[] = {pings[0], pings[0], {.name = NULL}};
    lmc_error error = LMC_ERROR_INIT;
    lmc_registry *registry = open_registry();
    assert_true(add(registry, twice, "Twin", true, &error) < 0);
    assert_string_equal(error.text, "Twin has multiple handlers for 'ping'");
    lmc_registry_destroy(registry);
}

static void a_frozen_registry_takes_nothing(void **state) {
    (void)state;
    lmc_registry *registry = open_registry();
    lmc_registry_freeze(registry);
    assert_int_equal(add(registry, pings, "Late", false, NULL), LMC_CLOSED);
    assert_null(winner(registry, "ping"));
    lmc_registry_destroy(registry);
}

static void failing_allocations_leave_what_was_there(void **state) {
    (void)state;
    lmc_registry *registry = NULL;
    lmc_fault_arm(1, false);
    assert_int_equal(lmc_registry_create(&registry, NULL), LMC_NO_MEMORY);
    lmc_fault_disarm();
    registry = open_registry();
    assert_int_equal(add(registry, pings, "First", false, NULL), LMC_OK);
    lmc_fault_arm(1, false);
    assert_int_equal(add(registry, pings, "Second", false, NULL), LMC_NO_MEMORY);
    lmc_fault_disarm();
    assert_string_equal(winner(registry, "ping")->owner, "First");
    lmc_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_without_handler_has_no_winner),
        cmocka_unit_test(the_later_of_two_equals_wins_and_keeps_the_earlier),
        cmocka_unit_test(a_handler_from_outside_beats_a_built_in_one_that_came_later),
        cmocka_unit_test(the_winner_decides_where_it_runs),
        cmocka_unit_test(what_a_module_cannot_ask_for_is_refused_by_name),
        cmocka_unit_test(two_handlers_of_one_class_for_one_operation_are_refused),
        cmocka_unit_test(a_frozen_registry_takes_nothing),
        cmocka_unit_test(failing_allocations_leave_what_was_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
