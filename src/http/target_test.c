#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "http/target.h"

static void assert_text(lmc_slice actual, const char *expected) {
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

static void a_path_is_split_and_decoded(void **state) {
    (void)state;
    lmc_http_target target;
    assert_int_equal(lmc_http_target_init(&target, "/quota/al%69ce%20b+c?x=1"), LMC_OK);
    assert_int_equal(target.segment_count, 2);
    assert_text(target.segments[0], "quota");
    assert_text(target.segments[1], "alice b+c");
    assert_false(target.unroutable);
    lmc_http_target_fini(&target);
}

static void the_root_has_no_segments(void **state) {
    (void)state;
    lmc_http_target target;
    assert_int_equal(lmc_http_target_init(&target, "/"), LMC_OK);
    assert_int_equal(target.segment_count, 0);
    assert_false(target.unroutable);
    lmc_http_target_fini(&target);
}

static void a_trailing_slash_does_not_count(void **state) {
    (void)state;
    lmc_http_target target;
    assert_int_equal(lmc_http_target_init(&target, "/status/"), LMC_OK);
    assert_int_equal(target.segment_count, 1);
    assert_false(target.unroutable);
    lmc_http_target_fini(&target);
}

static void a_proxy_may_send_the_absolute_form(void **state) {
    (void)state;
    lmc_http_target target;
    assert_int_equal(lmc_http_target_init(&target, "http://host:8080/status?a=b"), LMC_OK);
    assert_int_equal(target.segment_count, 1);
    assert_text(target.segments[0], "status");
    assert_int_equal(target.param_count, 1);
    lmc_http_target_fini(&target);
    assert_int_equal(lmc_http_target_init(&target, "HTTP://host"), LMC_OK);
    assert_int_equal(target.segment_count, 0);
    lmc_http_target_fini(&target);
}

static void what_cannot_be_a_route_is_marked(void **state) {
    (void)state;
    const char *const bad[] = {"*",      "",       "//status",           "/a//b",
                               "/q/%2f", "/q/%00", "/a/b/c/d/e/f/g/h/i", "status"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lmc_http_target target;
        assert_int_equal(lmc_http_target_init(&target, bad[i]), LMC_OK);
        assert_true(target.unroutable);
        lmc_http_target_fini(&target);
    }
}

static void query_parameters_are_decoded_in_order(void **state) {
    (void)state;
    lmc_http_target target;
    assert_int_equal(
        lmc_http_target_init(&target, "/x?a=1&b=x+y%21&&c&d=%zz%4&e=1=2#fragment?f=3"), LMC_OK);
    assert_int_equal(target.param_count, 5);
    assert_text(target.params[0].name, "a");
    assert_text(target.params[1].value, "x y!");
    assert_text(target.params[2].name, "c");
    assert_text(target.params[2].value, "");
    assert_text(target.params[3].value, "%zz%4");
    assert_text(target.params[4].value, "1=2");
    lmc_http_target_fini(&target);
}

static void more_parameters_than_fit_are_ignored(void **state) {
    (void)state;
    lmc_http_target target;
    char text[512] = "/x?";
    for (size_t at = strlen(text); at + 5 < sizeof text; at += 4)
        memcpy(text + at, "a=1&", 5);
    assert_int_equal(lmc_http_target_init(&target, text), LMC_OK);
    assert_int_equal(target.param_count, LMC_HTTP_PARAMS_MAX);
    lmc_http_target_fini(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_split_and_decoded),
        cmocka_unit_test(the_root_has_no_segments),
        cmocka_unit_test(a_trailing_slash_does_not_count),
        cmocka_unit_test(a_proxy_may_send_the_absolute_form),
        cmocka_unit_test(what_cannot_be_a_route_is_marked),
        cmocka_unit_test(query_parameters_are_decoded_in_order),
        cmocka_unit_test(more_parameters_than_fit_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
