#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "config/secret.h"

static void keys_are_secret_by_the_words_in_them(void **state) {
    (void)state;
    static const char *const secret[] = {"password",    "DB_PassWd",         "my.secret.name",
                                         "credentials", "aws_access_key_id", "API_KEY",
                                         "apikey",      "private_key_pem",   "token",
                                         "hub-token",   "auth.TOKEN"};
    static const char *const open[] = {"tokens", "token_file", "accesstoken", "key", "keyboard",
                                       "pass",   "",           "max_tokens"};
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        assert_true(lmc_is_secret_key(lmc_text(secret[i])));
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_false(lmc_is_secret_key(lmc_text(open[i])));
}

static void the_password_of_a_url_is_masked_wherever_it_stands(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"http://u:p@h/x", "http://u:***@h/x"},
        {"redis://:p@h", "redis://:***@h"},
        {"a http://u:p@h and s3://k:v@b", "a http://u:***@h and s3://k:***@b"},
        {"http://u:p@ss:w@h", "http://u:***@h"},
        {"http://u@h:80", "http://u@h:80"},
        {"http://h:80/u:p@x", "http://h:80/u:p@x"},
        {"http://u:@h", "http://u:@h"},
        {"u:p@h", "u:p@h"},
        {"://u:p@h", "://u:p@h"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_buffer out = LMC_BUFFER_INIT;
        lmc_mask_urls(&out, lmc_text(cases[i][0]));
        assert_string_equal(out.data != NULL ? out.data : "", cases[i][1]);
        lmc_buffer_fini(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_secret_by_the_words_in_them),
        cmocka_unit_test(the_password_of_a_url_is_masked_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
