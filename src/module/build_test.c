#include "module/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/error.h"
#include "module/own.h"
#include "module/status_writer.h"

static lmc_arena arena;

static lmc_build build_with(const char *config) {
    static const lmc_module_class class = {.size = sizeof class, .name = "TestModule"};
    lmc_arena_reset(&arena);
    return (lmc_build){.class = &class, .config = lmc_text(config), .arena = &arena};
}

static int open_arena(void **state) {
    (void)state;
    lmc_arena_init(&arena, 0);
    return 0;
}

static int close_arena(void **state) {
    (void)state;
    lmc_arena_fini(&arena);
    return 0;
}

static void options_are_read_by_type_and_missing_ones_keep_their_default(void **state) {
    (void)state;
    lmc_build build = build_with("{\"a\": {\"b\": 7, \"yes\": true}, \"r\": 0.5, \"i\": 3, "
                                 "\"t\": \"\\u00e4\", \"dot.ted\": 1}");
    int64_t number = -1;
    bool truth = false;
    double real = -1;
    lmc_slice text = {0};
    assert_int_equal(lmc_build_config_int(&build, "a.b", &number, NULL), LMC_OK);
    assert_int_equal(number, 7);
    assert_int_equal(lmc_build_config_bool(&build, "a.yes", &truth, NULL), LMC_OK);
    assert_true(truth);
    assert_int_equal(lmc_build_config_real(&build, "r", &real, NULL), LMC_OK);
    assert_true(real == 0.5);
    assert_int_equal(lmc_build_config_real(&build, "i", &real, NULL), LMC_OK);
    assert_true(real == 3);
    assert_int_equal(lmc_build_config_text(&build, "t", &text, NULL), LMC_OK);
    assert_true(lmc_slice_is(text, "\xc3\xa4"));
    assert_int_equal(lmc_build_config_int(&build, "nothing", &number, NULL), LMC_OK);
    assert_int_equal(lmc_build_config_int(&build, "a.b.c", &number, NULL), LMC_OK);
    assert_int_equal(lmc_build_config_int(&build, "i.j", &number, NULL), LMC_OK);
    assert_int_equal(number, 7);
}

static void a_wrong_type_is_named(void **state) {
    (void)state;
    lmc_build build = build_with("{\"a\": [1], \"t\": \"x\", \"big\": 99999999999999999999}");
    int64_t number = 5;
    double real = 5;
    bool truth = true;
    lmc_slice text = {0};
    struct {
        lmc_status status;
        const char *text;
    } seen[5];
    lmc_error errors[5] = {LMC_ERROR_INIT, LMC_ERROR_INIT, LMC_ERROR_INIT, LMC_ERROR_INIT,
                           LMC_ERROR_INIT};
    seen[0].status = lmc_build_config_int(&build, "a", &number, &errors[0]);
    seen[0].text = "config 'a' must be an integer, not [1]";
    seen[1].status = lmc_build_config_real(&build, "t", &real, &errors[1]);
    seen[1].text = "config 't' must be a number, not \"x\"";
    seen[2].status = lmc_build_config_bool(&build, "t", &truth, &errors[2]);
    seen[2].text = "config 't' must be true or false, not \"x\"";
    seen[3].status = lmc_build_config_text(&build, "a", &text, &errors[3]);
    seen[3].text = "config 'a' must be a text, not [1]";
    seen[4].status = lmc_build_config_int(&build, "big", &number, &errors[4]);
    seen[4].text = "config 'big' must be an integer, not 99999999999999999999";
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(seen[i].status, LMC_INVALID);
        assert_string_equal(errors[i].text, seen[i].text);
    }
    assert_int_equal(number, 5);
}

static void a_module_has_a_logger_and_a_prefix_of_its_own(void **state) {
    (void)state;
    static const struct {
        const char *name, *prefix;
    } cases[] = {{"HelloModule", "lmcached_module_hello_module"},
                 {"P2PController", "lmcached_module_p2p_controller"},
                 {"KVEventModule", "lmcached_module_kv_event_module"},
                 {"already_snake", "lmcached_module_already_snake"},
                 {"X", "lmcached_module_x"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_module_record record = {0};
        lmc_context shared = {0};
        lmc_module_record_init(&record, cases[i].name, true, &shared);
        assert_string_equal(record.own.prefix, cases[i].prefix);
        assert_ptr_equal(record.context.own, &record.own);
        assert_true(record.own.account.outside);
        assert_string_equal(record.own.logger + strlen("lmcache.module."), cases[i].name);
        lmc_module_record_fini(&record);
    }
}

static void json_in_a_report_is_checked_and_copied(void **state) {
    (void)state;
    lmc_writer writer;
    lmc_writer_init(&writer);
    lmc_write_json(&writer, "a", lmc_text(" {\"b\" : [1 , null]} "));
    lmc_write_json(&writer, "is_healthy", lmc_text("false"));
    assert_int_equal(lmc_writer_finish(&writer), LMC_OK);
    assert_true(lmc_slice_is(lmc_writer_value(&writer, 0), "{\"b\":[1,null]}"));
    assert_true(writer.members[1].is_bool && !writer.members[1].is_true);
    lmc_writer_fini(&writer);
    static const char *const bad[] = {"", "{", "nonsense", "{} {}", "[1,]", NULL};
    for (size_t i = 0; bad[i] != NULL; i++) {
        lmc_writer_init(&writer);
        lmc_write_json(&writer, "a", lmc_text(bad[i]));
        assert_int_equal(lmc_writer_finish(&writer), LMC_INVALID);
        lmc_writer_fini(&writer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_read_by_type_and_missing_ones_keep_their_default),
        cmocka_unit_test(a_wrong_type_is_named),
        cmocka_unit_test(a_module_has_a_logger_and_a_prefix_of_its_own),
        cmocka_unit_test(json_in_a_report_is_checked_and_copied),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
