#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host.h"

static void brackets_are_not_part_of_an_address(void **state) {
    (void)state;
    char out[64];
    lmc_host_bare("[::1]", out, sizeof out);
    assert_string_equal(out, "::1");
    lmc_host_bare("[]", out, sizeof out);
    assert_string_equal(out, "");
    lmc_host_bare("[::1", out, sizeof out);
    assert_string_equal(out, "[::1");
    lmc_host_bare("a.b", out, sizeof out);
    assert_string_equal(out, "a.b");
    lmc_host_bare("[0123456789]", out, 5);
    assert_string_equal(out, "0123");
}

static void localhost_needs_no_resolver(void **state) {
    (void)state;
    assert_string_equal(lmc_host_address("localhost"), "127.0.0.1");
    assert_string_equal(lmc_host_address("LocalHost"), "127.0.0.1");
    assert_string_equal(lmc_host_address("localhost.example"), "localhost.example");
    assert_string_equal(lmc_host_address("::1"), "::1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brackets_are_not_part_of_an_address),
        cmocka_unit_test(localhost_needs_no_resolver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
