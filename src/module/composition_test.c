#include "module/composition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "module/context.h"
#include "support/alloc_fault.h"

static char trace[256]; /* what happened, in order */
static lmc_context context;
static atomic_bool release_hung;

static void note(const char *what, const char *name) {
    size_t used = strlen(trace);
    assert_true(used + strlen(what) + strlen(name) + 2 < sizeof trace);
    snprintf(trace + used, sizeof trace - used, "%s%s ", what, name);
}

/* ---- classes ---- */

static lmc_status create_plain(void **self, const char *name) {
    note("+", name);
    *self = (void *)(uintptr_t)name;
    return LMC_OK;
}

static void close_plain(void *self) { note("-", self); }

static lmc_status create_alpha(lmc_build *build, void **self, lmc_error *error) {
    (void)error;
    assert_ptr_equal(lmc_build_context(build), &context);
    return create_plain(self, "Alpha");
}

static lmc_status create_beta(lmc_build *build, void **self, lmc_error *error) {
    assert_non_null(lmc_build_require(build, "Alpha", error));
    return create_plain(self, "Beta");
}

static lmc_status create_declined(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    lmc_error_set(error, LMC_DECLINED, "it was switched off");
    return LMC_DECLINED;
}

static lmc_status create_needy(lmc_build *build, void **self, lmc_error *error) {
    return lmc_build_require(build, "Declined", error) != NULL ? create_plain(self, "Needy")
                                                               : LMC_FAILED;
}

static lmc_status create_nameless(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    (void)error;
    return LMC_NO_MEMORY;
}

static lmc_status create_configured(lmc_build *build, void **self, lmc_error *error) {
    (void)error;
    assert_true(lmc_slice_is(lmc_build_config(build), "{\"a\":1}"));
    return create_plain(self, "Configured");
}

static lmc_status create_unconfigured(lmc_build *build, void **self, lmc_error *error) {
    (void)error;
    (void)self;
    assert_true(lmc_slice_is(lmc_build_config(build), "{}"));
    return LMC_OK;
}

static void close_hung(void *self) {
    (void)self;
    while (!atomic_load(&release_hung))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void answer_nothing(void *self, lmc_call *call) {
    (void)self;
    (void)call;
}

static lmc_status report_name(void *self, lmc_writer *writer) {
    lmc_write_text(writer, "name", lmc_text(self));
    return LMC_OK;
}

static const lmc_envelope echo_methods[] = {{.method = "x.echo", .handle = answer_nothing},
                                            {.method = NULL}};
static const lmc_envelope bare_methods[] = {{.method = "echo", .handle = answer_nothing},
                                            {.method = NULL}};
static const lmc_operation noop_operation[] = {
    {.name = "noop", .scheduling = LMC_SYNC, .handle = answer_nothing}, {.name = NULL}};
static const lmc_operation bad_operation[] = {
    {.name = "brew_coffee", .scheduling = LMC_SYNC, .handle = answer_nothing}, {.name = NULL}};
static const char *const on_alpha[] = {"Alpha", NULL};
static const char *const on_declined[] = {"Declined", NULL};

#define SIZE .size = sizeof(lmc_module_class)
static const lmc_module_class alpha = {SIZE,
                                       .name = "Alpha",
                                       .create = create_alpha,
                                       .close = close_plain,
                                       .report_status = report_name,
                                       .envelopes = echo_methods,
                                       .operations = noop_operation};
static const lmc_module_class beta = {SIZE, .name = "Beta", .depends = on_alpha,
                                      .create = create_beta, .close = close_plain};
static const lmc_module_class declined = {SIZE, .name = "Declined", .create = create_declined};
static const lmc_module_class needy = {SIZE, .name = "Needy", .depends = on_declined,
                                       .create = create_needy};
static const lmc_module_class nameless = {SIZE, .name = "Nameless", .create = create_nameless};
static const lmc_module_class configured = {SIZE, .name = "Configured",
                                            .create = create_configured};
static const lmc_module_class unconfigured = {SIZE, .name = "Unconfigured",
                                              .create = create_unconfigured};
static const lmc_module_class twin = {SIZE, .name = "Twin", .create = create_unconfigured,
                                      .envelopes = echo_methods};
static const lmc_module_class bare = {SIZE, .name = "Bare", .create = create_unconfigured,
                                      .envelopes = bare_methods};
static const lmc_module_class barista = {SIZE, .name = "Barista", .create = create_unconfigured,
                                         .operations = bad_operation};
static const lmc_module_class hung = {SIZE, .name = "Hung", .create = create_unconfigured,
                                      .close = close_hung};
static const lmc_module_class strange = {SIZE, .name = "Strange", .flags = 4,
                                         .create = create_unconfigured};
static const lmc_module_class older = {.size = offsetof(lmc_module_class, report_status),
                                       .name = "Older",
                                       .create = create_unconfigured,
                                       .report_status = report_name,
                                       .envelopes = bare_methods};

/* ---- helpers ---- */

static lmc_slice config_for(void *arg, const char *class_name) {
    (void)arg;
    return strcmp(class_name, "Configured") == 0 ? lmc_text("{\"a\":1}") : (lmc_slice){0};
}

static lmc_status compose(const lmc_module_class *const *classes, size_t count,
                          lmc_composition **composition, lmc_error *error) {
    return lmc_composition_create(&(lmc_composition_options){.classes = classes,
                                                             .class_count = count,
                                                             .built_in_count = count,
                                                             .context = &context,
                                                             .config_for = config_for,
                                                             .close_limit_ns = LMC_NS_PER_S},
                                  composition, error);
}

#define COUNT(classes) (sizeof(classes) / sizeof((classes)[0]))

static void close_all(lmc_composition *composition) {
    assert_true(lmc_composition_close(composition));
    lmc_composition_destroy(composition);
}

static void expect_failure(const lmc_module_class *const *classes, size_t count,
                           const char *text) {
    lmc_error error = LMC_ERROR_INIT;
    lmc_composition *composition = NULL;
    assert_true(compose(classes, count, &composition, &error) < 0);
    assert_null(composition);
    assert_string_equal(error.text, text);
}

static int set_up(void **state) {
    (void)state;
    trace[0] = '\0';
    atomic_store(&release_hung, false);
    context = (lmc_context){.clock = &lmc_system_clock, .liveness = lmc_liveness_create()};
    return context.liveness == NULL;
}

static int tear_down(void **state) {
    (void)state;
    lmc_liveness_destroy(context.liveness);
    return 0;
}

/* ---- tests ---- */

static void modules_are_built_in_order_and_closed_in_reverse(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&beta, &declined, &alpha};
    lmc_composition *composition;
    assert_int_equal(compose(classes, COUNT(classes), &composition, NULL), LMC_OK);
    assert_int_equal(lmc_composition_count(composition), 2);
    assert_non_null(lmc_composition_find(composition, "Beta"));
    assert_null(lmc_composition_find(composition, "Declined"));
    close_all(composition);
    assert_string_equal(trace, "+Alpha +Beta -Beta -Alpha ");
}

static void a_failing_create_closes_what_was_built(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha, &beta, &declined, &needy};
    expect_failure(
        classes, COUNT(classes),
        "Needy: Module 'Declined' is not built yet; built so far: ['Alpha', 'Beta']");
    assert_string_equal(trace, "+Alpha +Beta -Beta -Alpha ");
}

static void a_failure_without_a_text_gets_one(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&nameless};
    lmc_error error = LMC_ERROR_INIT;
    lmc_composition *composition;
    assert_int_equal(compose(classes, 1, &composition, &error), LMC_NO_MEMORY);
    assert_non_null(strstr(error.text, "Nameless: "));
}

static void each_class_gets_its_own_configuration(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&configured, &unconfigured};
    lmc_composition *composition;
    assert_int_equal(compose(classes, COUNT(classes), &composition, NULL), LMC_OK);
    close_all(composition);
}

static void two_handlers_of_one_method_fail_the_start(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha, &twin};
    expect_failure(classes, COUNT(classes), "duplicate server module method: x.echo");
    const lmc_module_class *plain[] = {&bare};
    expect_failure(plain, 1, "server module handler method must be namespaced (Bare: 'echo')");
}

static void an_unknown_flag_is_refused(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&strange};
    expect_failure(classes, 1, "Strange has unknown flags 0x4");
}

static void members_beyond_a_classes_size_are_not_read(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&older};
    lmc_composition *composition;
    assert_int_equal(compose(classes, 1, &composition, NULL), LMC_OK);
    close_all(composition);
}

static void handlers_are_registered_and_the_router_always(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha};
    lmc_composition *composition;
    lmc_registry *registry;
    assert_int_equal(compose(classes, 1, &composition, NULL), LMC_OK);
    assert_int_equal(lmc_registry_create(&registry, NULL), LMC_OK);
    assert_int_equal(lmc_composition_register(composition, registry, NULL), LMC_OK);
    const lmc_operation_def *noop = lmc_operation_by_name(lmc_text("noop"));
    const lmc_operation_def *envelope = lmc_operation_by_name(lmc_text("server_module_call"));
    assert_string_equal(lmc_registry_find(registry, noop)->owner, "Alpha");
    assert_string_equal(lmc_registry_find(registry, envelope)->owner, "EnvelopeRouter");
    lmc_registry_destroy(registry);
    close_all(composition);
}

static void an_unknown_operation_fails_registration(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&barista};
    lmc_composition *composition;
    lmc_registry *registry;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(compose(classes, 1, &composition, NULL), LMC_OK);
    assert_int_equal(lmc_registry_create(&registry, NULL), LMC_OK);
    assert_true(lmc_composition_register(composition, registry, &error) < 0);
    assert_non_null(strstr(error.text, "brew_coffee"));
    lmc_registry_destroy(registry);
    close_all(composition);
}

static lmc_status report_core(void *arg, lmc_writer *writer) {
    (void)arg;
    lmc_write_bool(writer, "is_healthy", true);
    return LMC_OK;
}

static void status_has_modules_in_order_and_the_router_last(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha};
    lmc_composition *composition;
    lmc_buffer out = LMC_BUFFER_INIT;
    assert_int_equal(compose(classes, 1, &composition, NULL), LMC_OK);
    assert_int_equal(
        lmc_status_collect(lmc_composition_status(composition), report_core, NULL, &out),
        LMC_OK);
    assert_string_equal(out.data, "{\"is_healthy\":true,\"server_modules\":{\"Alpha\":"
                                  "{\"origin\":\"built-in\",\"calls\":0,\"errors\":0,"
                                  "\"slow_calls\":0,\"seconds\":{\"count\":0,\"sum\":0.0,"
                                  "\"max\":0.0}}},\"name\":\"Alpha\","
                                  "\"server_module_plugins\":{\"methods\":[\"x.echo\"]}}");
    lmc_buffer_fini(&out);
    close_all(composition);
}

static void note_take_over(void *arg) {
    *(bool *)arg = true;
    atomic_store(&release_hung, true);
}

static void a_module_that_hangs_in_close_is_abandoned(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha, &hung};
    lmc_composition *composition;
    bool taken_over = false;
    lmc_composition_options options = {.classes = classes,
                                       .class_count = 2,
                                       .built_in_count = 2,
                                       .context = &context,
                                       .take_over = note_take_over,
                                       .arg = &taken_over,
                                       .close_limit_ns = 20 * LMC_NS_PER_MS};
    assert_int_equal(lmc_composition_create(&options, &composition, NULL), LMC_OK);
    assert_false(lmc_composition_close(composition));
    assert_true(taken_over);
    assert_string_equal(trace, "+Alpha -Alpha ");
    lmc_composition_destroy(composition);
}

static void every_failed_allocation_fails_cleanly(void **state) {
    (void)state;
    const lmc_module_class *classes[] = {&alpha, &beta};
    for (uint64_t nth = 1;; nth++) {
        lmc_composition *composition = NULL;
        trace[0] = '\0';
        lmc_fault_arm(nth, false);
        lmc_status status = compose(classes, COUNT(classes), &composition, NULL);
        bool hit = lmc_fault_hit();
        lmc_fault_disarm();
        if (status == LMC_OK)
            close_all(composition);
        assert_int_equal(strstr(trace, "+Alpha") != NULL, strstr(trace, "-Alpha") != NULL);
        if (!hit)
            break;
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(modules_are_built_in_order_and_closed_in_reverse),
        TEST(a_failing_create_closes_what_was_built),
        TEST(a_failure_without_a_text_gets_one),
        TEST(each_class_gets_its_own_configuration),
        TEST(two_handlers_of_one_method_fail_the_start),
        TEST(an_unknown_flag_is_refused),
        TEST(members_beyond_a_classes_size_are_not_read),
        TEST(handlers_are_registered_and_the_router_always),
        TEST(an_unknown_operation_fails_registration),
        TEST(status_has_modules_in_order_and_the_router_last),
        TEST(a_module_that_hangs_in_close_is_abandoned),
        TEST(every_failed_allocation_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
