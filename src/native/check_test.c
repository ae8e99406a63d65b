#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "native/native.h"
#include "support/alloc_fault.h"

/* A module as LMC_MODULE would describe it, in this program. */
static void *slot_complete, *slot_future;
static const lmc_import imports[] = {{"lmc_complete", &slot_complete, 1, 0},
                                     {"lmc_from_the_future", &slot_future, 0, 9},
                                     {NULL, NULL, 0, 0}};

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    (void)error;
    return LMC_OK;
}

static void handle(void *self, lmc_call *call) {
    (void)self;
    (void)call;
}

static void touch(void *self, int64_t id) {
    (void)self;
    (void)id;
}

static void reap(void *self, int64_t timeout, int64_t grace,
                 void (*found)(void *arg, int64_t id), void *arg) {
    (void)self, (void)timeout, (void)grace, (void)found, (void)arg;
}

static int64_t count(void *self) {
    (void)self;
    return 0;
}

static const lmc_liveness liveness = {touch, reap, count, touch, {0}};
static const lmc_operation operations[] = {{"noop", LMC_SYNC, 0, handle, {0}},
                                           {"clear", LMC_NORMAL, 0, handle, {0}},
                                           {NULL, 0, 0, NULL, {0}}};
static const lmc_envelope envelopes[] = {
    {"a.one", handle, {0}}, {"a.two", handle, {0}}, {NULL, NULL, {0}}};
static const char *const depends[] = {"LookupModule", NULL};

static lmc_module_class good_class(void) {
    return (lmc_module_class){.size = sizeof(lmc_module_class),
                              .name = "GoodModule",
                              .depends = depends,
                              .create = create,
                              .operations = operations,
                              .envelopes = envelopes,
                              .liveness = &liveness};
}

static lmc_module_image good_image(const lmc_module_class *const *classes) {
    return (lmc_module_image){.magic = LMC_MODULE_MAGIC,
                              .size = sizeof(lmc_module_image),
                              .abi_major = LMC_ABI_MAJOR,
                              .abi_minor = LMC_ABI_MINOR,
                              .operation_size = sizeof(lmc_operation),
                              .envelope_size = sizeof(lmc_envelope),
                              .liveness_size = sizeof(lmc_liveness),
                              .import_size = sizeof(lmc_import),
                              .built_with = "a test",
                              .classes = classes,
                              .imports = imports};
}

/* The texts of all violations, one a line. */
static char *check(const lmc_module_image *image) {
    lmc_violations violations = {0};
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_native_check("./m.so", image, &violations);
    lmc_buffer_text(&text, "");
    for (size_t i = 0; i < violations.count; i++) {
        assert_true(violations.items[i].fix[0] != '\0');
        lmc_buffer_printf(&text, "%s\n", violations.items[i].text);
    }
    lmc_violations_fini(&violations);
    return lmc_buffer_take(&text);
}

static void expect(const lmc_module_image *image, const char *wanted) {
    char *text = check(image);
    assert_string_equal(text != NULL ? text : "", wanted);
    free(text);
}

static void expect_class(const lmc_module_class *class, const char *wanted) {
    const lmc_module_class *classes[] = {class, NULL};
    lmc_module_image image = good_image(classes);
    expect(&image, wanted);
}

static void a_whole_module_has_no_violation(void **state) {
    (void)state;
    lmc_module_class class = good_class();
    expect_class(&class, "");
}

static void every_fault_of_a_class_is_found_at_once(void **state) {
    (void)state;
    static const lmc_operation bad[] = {{"brew", LMC_SYNC, 0, handle, {0}},
                                        {"noop", 9, 0, handle, {0}},
                                        {"noop", LMC_SYNC, 4, NULL, {0}},
                                        {NULL, 0, 0, NULL, {0}}};
    static const lmc_envelope worse[] = {{"bare", handle, {0}},
                                         {"a.b", NULL, {0}},
                                         {"a.b", handle, {(void *)(uintptr_t)1, NULL}},
                                         {NULL, NULL, {0}}};
    static const lmc_liveness hole = {touch, reap, NULL, touch, {0}};
    static const char *const nonsense[] = {"LookupModule", "", NULL};
    lmc_module_class class = {.size = sizeof class,
                              .flags = 8,
                              .name = "BadModule",
                              .depends = nonsense,
                              .operations = bad,
                              .envelopes = worse,
                              .liveness = &hole};
    expect_class(
        &class,
        "server module ./m.so: BadModule has unknown flags 0x8\n"
        "server module ./m.so: BadModule cannot be created: it has no create function\n"
        "server module ./m.so: BadModule has an invalid dependency: ''\n"
        "server module ./m.so: BadModule: unknown operation 'brew'\n"
        "server module ./m.so: BadModule: operation 'noop': Non-blocking handler is not "
        "supported yet\n"
        "server module ./m.so: BadModule: operation 'noop' has no handler function\n"
        "server module ./m.so: BadModule: operation 'noop' has flags or members that this "
        "server does not know\n"
        "server module ./m.so: BadModule has multiple handlers for 'noop'\n"
        "server module ./m.so: server module handler method must be namespaced (BadModule: "
        "'bare')\n"
        "server module ./m.so: BadModule has no handler for server module method a.b\n"
        "server module ./m.so: BadModule: method a.b has members that this server does not "
        "know\n"
        "server module ./m.so: duplicate server module method: a.b\n"
        "server module ./m.so: BadModule has an incomplete liveness table\n");
}

static void names_are_identifiers(void **state) {
    (void)state;
    static const char *const bad[] = {"", "a b", "1a", "\xc3\xa4", "a-b", "a.b", NULL};
    lmc_module_class class = good_class();
    for (size_t i = 0; bad[i] != NULL; i++) {
        class.name = bad[i];
        char *text;
        const lmc_module_class *classes[] = {&class, NULL};
        lmc_module_image image = good_image(classes);
        text = check(&image);
        assert_non_null(strstr(text, "class 1 has no valid name"));
        free(text);
    }
    class.name = "A_1";
    expect_class(&class, "");
}

static void a_damaged_head_hides_the_rest(void **state) {
    (void)state;
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    image.magic = 0;
    image.classes = NULL;
    expect(&image, "server module ./m.so is no lmcached module: its symbol 'lmcached_module' "
                   "begins with 0x00000000, needs 0x4d434d4c\n");
    image = good_image(classes);
    image.abi_major = 7;
    image.abi_minor = 2;
    expect(&image, "server module ./m.so was built for module ABI 7.2; this server has 1.0 and "
                   "needs major 1\n");
    image = good_image(classes);
    image.size = 1u << 20;
    char *text = check(&image);
    assert_non_null(strstr(text, "its module data has 1048576 bytes"));
    free(text);
    image = good_image(classes);
    image.operation_size = 8;
    image.import_size = 3;
    text = check(&image);
    assert_non_null(strstr(text, "its lmc_operation struct has 8 bytes, needs at least 40"));
    assert_non_null(strstr(text, "its lmc_import struct has 3 bytes, needs at least 24"));
    free(text);
}

static void a_function_that_is_missing_is_named_unless_it_is_optional(void **state) {
    (void)state;
    static const lmc_import wants[] = {{"lmc_complete", &slot_complete, 1, 0},
                                       {"lmc_from_the_future", &slot_future, 1, 9},
                                       {"lmc_fail", NULL, 1, 0},
                                       {NULL, NULL, 0, 0}};
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    image.imports = wants;
    expect(&image,
           "server module ./m.so needs the function 'lmc_from_the_future' of module ABI "
           "1.9; this server has 1.0\n"
           "server module ./m.so: its import 'lmc_fail' has nowhere to go\n");
}

static void imports_are_filled_in_by_name(void **state) {
    (void)state;
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    slot_future = &slot_future;
    lmc_native_link(&image);
    void (*complete)(lmc_call *, lmc_status);
    memcpy(&complete, &slot_complete, sizeof complete);
    assert_true(complete == lmc_complete);
    assert_null(slot_future);
}

/* A class as a later header would have it, in an array with another stride. */
typedef struct later_operation {
    lmc_operation known;
    void *more;
} later_operation;

static void rows_are_copied_in_the_stride_of_the_module(void **state) {
    (void)state;
    static const later_operation later[] = {{{"noop", LMC_SYNC, 0, handle, {0}}, NULL},
                                            {{"clear", LMC_AFFINITY, 0, handle, {0}}, NULL},
                                            {{NULL, 0, 0, NULL, {0}}, NULL}};
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    image.operation_size = sizeof later[0];
    class.operations = &later[0].known;
    class.size = offsetof(lmc_module_class, liveness); /* and the class as an earlier one */
    expect(&image, "");
    lmc_native_file *file = calloc(1, sizeof *file);
    assert_int_equal(lmc_native_copy(&image, file), LMC_OK);
    assert_int_equal(file->class_count, 1);
    assert_string_equal(file->classes[0].operations[1].name, "clear");
    assert_int_equal(file->classes[0].operations[1].scheduling, LMC_AFFINITY);
    assert_null(file->classes[0].operations[2].name);
    assert_string_equal(file->classes[0].envelopes[1].method, "a.two");
    assert_null(file->classes[0].liveness);
    lmc_native_free(file);
}

static void what_a_later_header_sets_is_refused(void **state) {
    (void)state;
    static const later_operation later[] = {
        {{"noop", LMC_SYNC, 0, handle, {0}}, (void *)(uintptr_t)1},
        {{NULL, 0, 0, NULL, {0}}, NULL}};
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    image.operation_size = sizeof later[0];
    class.operations = &later[0].known;
    expect(&image,
           "server module ./m.so: GoodModule: operation 'noop' has flags or members that "
           "this server does not know\n");
}

static void the_whole_abi_can_be_imported(void **state) {
    (void)state;
#define IS_THERE(name, since) assert_non_null(lmc_native_function(#name));
    LMC_FUNCTIONS(IS_THERE)
    assert_null(lmc_native_function("lmc_lock_take"));
    assert_int_equal(lmc_abi_minor(), LMC_ABI_MINOR);
}

static void what_is_no_shared_object_is_refused_by_name(void **state) {
    (void)state;
    lmc_native_file *file;
    lmc_violations violations = {0};
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_native_open("/nowhere/m.so", &file, &violations, &error), LMC_INVALID);
    assert_null(file);
    assert_int_equal(violations.count, 1);
    assert_string_equal(
        error.text, "server module /nowhere/m.so cannot be loaded: /nowhere/m.so: cannot open "
                    "shared object file: No such file or directory");
    lmc_violations_fini(&violations);
    assert_int_equal(lmc_native_open("./CMakeLists.txt", &file, NULL, NULL), LMC_INVALID);
}

static void failed_allocations_are_told(void **state) {
    (void)state;
    lmc_module_class class = good_class();
    const lmc_module_class *classes[] = {&class, NULL};
    lmc_module_image image = good_image(classes);
    lmc_status status = LMC_NO_MEMORY;
    for (uint64_t nth = 1; status != LMC_OK; nth++) {
        lmc_native_file *file = calloc(1, sizeof *file);
        lmc_fault_arm(nth, false);
        status = lmc_native_copy(&image, file);
        lmc_fault_disarm();
        lmc_native_free(file);
        assert_true(nth < 100);
    }
    image.magic = 0;
    for (uint64_t nth = 1; nth < 3; nth++) { /* the list, the text */
        lmc_violations violations = {0};
        lmc_fault_arm(nth, false);
        lmc_native_check("./m.so", &image, &violations);
        lmc_fault_disarm();
        assert_true(violations.failed && violations.count == 0);
        lmc_violations_fini(&violations);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_module_has_no_violation),
        cmocka_unit_test(every_fault_of_a_class_is_found_at_once),
        cmocka_unit_test(names_are_identifiers),
        cmocka_unit_test(a_damaged_head_hides_the_rest),
        cmocka_unit_test(a_function_that_is_missing_is_named_unless_it_is_optional),
        cmocka_unit_test(imports_are_filled_in_by_name),
        cmocka_unit_test(rows_are_copied_in_the_stride_of_the_module),
        cmocka_unit_test(what_a_later_header_sets_is_refused),
        cmocka_unit_test(the_whole_abi_can_be_imported),
        cmocka_unit_test(what_is_no_shared_object_is_refused_by_name),
        cmocka_unit_test(failed_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
