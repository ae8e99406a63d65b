#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/report.h"
#include "support/alloc_fault.h"

static void fill(lmc_report *report) {
    lmc_report_text(report, "status", "Status", lmc_text("OK"));
    lmc_report_float(report, "ms", "Time", 1.5);
    lmc_report_none(report, "gone", "Gone");
    lmc_report_bool(report, "flag", "Flag", true);
    lmc_report_section_begin(report, "models", "M\xc3\xa9");
    lmc_report_number(report, "id", "Id", lmc_text("18446744073709551615"));
    lmc_report_section_begin(report, "models", "Model");
    lmc_report_text(report, "name", "A long label", lmc_text("\xc3\xa9"));
    lmc_report_section_begin(report, "others", "Other");
    lmc_report_bool(report, "flag", "Flag", false);
}

static void a_table_is_centred_and_right_aligned(void **state) {
    (void)state;
    lmc_report report;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_report_init(&report, "Title", 20);
    fill(&report);
    lmc_report_terminal(&report, &out);
    assert_string_equal(out.data, "====== Title =======\n"
                                  "Status:           OK\n"
                                  "Time:           1.50\n"
                                  "Gone:            N/A\n"
                                  "Flag:           True\n"
                                  "-------- M\xc3\xa9 --------\n"
                                  "Id: 18446744073709551615\n"
                                  "------ Model -------\n"
                                  "A long label:      \xc3\xa9\n"
                                  "------ Other -------\n"
                                  "Flag:          False\n"
                                  "====================\n");
    lmc_buffer_fini(&out);
    lmc_report_fini(&report);
}

static void the_odd_blank_goes_left_only_in_an_odd_width(void **state) {
    (void)state;
    static const struct {
        size_t width;
        const char *line;
    } cases[] = {
        {10, "== abc ===\n"}, {11, "=== abc ===\n"}, {9, "== abc ==\n"}, {3, " abc \n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_report report;
        lmc_buffer out = LMC_BUFFER_INIT;
        lmc_report_init(&report, "abc", cases[i].width);
        lmc_report_terminal(&report, &out);
        assert_int_equal(strncmp(out.data, cases[i].line, strlen(cases[i].line)), 0);
        lmc_buffer_fini(&out);
        lmc_report_fini(&report);
    }
    lmc_report report;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_report_init(&report, "ab", 9);
    lmc_report_terminal(&report, &out);
    assert_int_equal(strncmp(out.data, "=== ab ==\n", 10), 0);
    lmc_buffer_fini(&out);
    lmc_report_fini(&report);
}

static void json_groups_the_sections_of_a_list(void **state) {
    (void)state;
    lmc_report report;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_report_init(&report, "Title", 20);
    fill(&report);
    lmc_report_json(&report, &out);
    assert_string_equal(out.data, "{\n"
                                  "  \"title\": \"Title\",\n"
                                  "  \"metrics\": {\n"
                                  "    \"status\": \"OK\",\n"
                                  "    \"ms\": 1.5,\n"
                                  "    \"gone\": null,\n"
                                  "    \"flag\": true,\n"
                                  "    \"models\": [\n"
                                  "      {\n"
                                  "        \"id\": 18446744073709551615\n"
                                  "      },\n"
                                  "      {\n"
                                  "        \"name\": \"\\u00e9\"\n"
                                  "      }\n"
                                  "    ],\n"
                                  "    \"others\": [\n"
                                  "      {\n"
                                  "        \"flag\": false\n"
                                  "      }\n"
                                  "    ]\n"
                                  "  }\n"
                                  "}\n");
    lmc_buffer_fini(&out);
    lmc_report_fini(&report);
}

static void running_out_of_memory_shows_nothing_by_half(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        lmc_report report;
        lmc_buffer table = LMC_BUFFER_INIT, json = LMC_BUFFER_INIT;
        lmc_report_init(&report, "Title", 20);
        lmc_fault_arm(n, false);
        fill(&report);
        lmc_report_terminal(&report, &table);
        lmc_report_json(&report, &json);
        failed = lmc_fault_hit();
        lmc_fault_disarm();
        assert_int_equal(table.failed || json.failed, failed);
        lmc_buffer_fini(&table);
        lmc_buffer_fini(&json);
        lmc_report_fini(&report);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_centred_and_right_aligned),
        cmocka_unit_test(the_odd_blank_goes_left_only_in_an_odd_width),
        cmocka_unit_test(json_groups_the_sections_of_a_list),
        cmocka_unit_test(running_out_of_memory_shows_nothing_by_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
