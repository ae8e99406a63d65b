#include "module/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/alloc_fault.h"

#define CLASS(id, class_flags, class_depends)                             \
    static const lmc_module_class id = {.size = sizeof(lmc_module_class), \
                                        .flags = (class_flags),           \
                                        .name = #id,                      \
                                        .depends = (class_depends)}

static const char *const on_alpha[] = {"Alpha", NULL};
static const char *const on_management[] = {"Management", NULL};
static const char *const on_self[] = {"Self", NULL};
static const char *const on_left[] = {"Left", NULL};
static const char *const on_right[] = {"Right", NULL};
static const char *const on_lookup[] = {"Lookup", NULL};

CLASS(Alpha, 0, NULL);
CLASS(Beta, 0, on_alpha);
CLASS(Gamma, 0, NULL);
CLASS(Management, LMC_MODULE_DEFERRED, NULL);
CLASS(Outside, 0, NULL);
CLASS(AfterManagement, 0, on_management);
CLASS(Self, 0, on_self);
CLASS(Left, 0, on_right);
CLASS(Right, 0, on_left);
CLASS(Downstream, 0, on_left);
CLASS(Misspelt, 0, on_lookup);

static void expect_order(const lmc_module_class *classes, size_t count,
                         const char *const *names) {
    size_t order[16];
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_graph_order(classes, count, order, &error), LMC_OK);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(classes[order[i]].name, names[i]);
}

static void expect_error(const lmc_module_class *classes, size_t count, const char *text) {
    size_t order[16];
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_graph_order(classes, count, order, &error), LMC_INVALID);
    assert_string_equal(error.text, text);
}

static void classes_without_dependencies_keep_their_order(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Gamma, Alpha, Outside};
    expect_order(classes, 3, (const char *[]){"Gamma", "Alpha", "Outside"});
}

static void a_dependency_comes_before_its_dependent(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Beta, Gamma, Alpha};
    expect_order(classes, 3, (const char *[]){"Gamma", "Alpha", "Beta"});
}

static void a_deferred_class_waits_for_all_that_do_not_need_it(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Management, Alpha, Beta, Outside, AfterManagement};
    expect_order(classes, 5,
                 (const char *[]){"Alpha", "Beta", "Outside", "Management", "AfterManagement"});
}

static void an_unknown_dependency_is_named(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Alpha, Misspelt};
    expect_error(classes, 2,
                 "Misspelt depends on 'Lookup', which is not a discoverable module "
                 "(check the module_name spelling).");
}

static void a_cycle_names_its_members_sorted_and_nobody_else(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Right, Downstream, Alpha, Left};
    expect_error(classes, 4, "Module dependency cycle among: Left, Right");
}

static void a_class_that_needs_itself_is_a_cycle(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Self};
    expect_error(classes, 1, "Module dependency cycle among: Self");
}

static void two_classes_of_one_name_are_refused(void **state) {
    (void)state;
    const lmc_module_class twin = {.size = sizeof twin, .name = "Alpha"};
    const lmc_module_class classes[] = {Alpha, twin};
    expect_error(classes, 2, "duplicate server module class: Alpha");
}

static void no_class_at_all_is_no_error(void **state) {
    (void)state;
    expect_order(NULL, 0, NULL);
}

static void a_failed_allocation_is_an_error(void **state) {
    (void)state;
    const lmc_module_class classes[] = {Alpha, Beta};
    size_t order[2];
    for (uint64_t nth = 1;; nth++) {
        lmc_fault_arm(nth, false);
        lmc_status status = lmc_graph_order(classes, 2, order, NULL);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        if (!hit)
            break;
        assert_int_equal(status, LMC_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_without_dependencies_keep_their_order),
        cmocka_unit_test(a_dependency_comes_before_its_dependent),
        cmocka_unit_test(a_deferred_class_waits_for_all_that_do_not_need_it),
        cmocka_unit_test(an_unknown_dependency_is_named),
        cmocka_unit_test(a_cycle_names_its_members_sorted_and_nobody_else),
        cmocka_unit_test(a_class_that_needs_itself_is_a_cycle),
        cmocka_unit_test(two_classes_of_one_name_are_refused),
        cmocka_unit_test(no_class_at_all_is_no_error),
        cmocka_unit_test(a_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
