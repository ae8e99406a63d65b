/* From the first line of a file to a command. */
#include "runtime_plugin/plugin_case.h"

#include "base/error.h"
#include "runtime_plugin/interpreter.h"
#include "runtime_plugin/words.h"
#include "support/alloc_fault.h"

static char search_path[600];

/* The folder has a bin with python, python3, other and "with blank". */
static void make_programs(void) {
    static const char *const names[] = {"bin/python", "bin/python3", "bin/other",
                                        "bin/with blank"};
    mkdir(lmc_case_path("bin"), 0755);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        lmc_case_program(names[i]);
    lmc_case_file("bin/not_executable", "");
    mkdir(lmc_case_path("bin/folder"), 0755);
    snprintf(search_path, sizeof search_path, "/nonexistent::%s", lmc_case_path("bin"));
}

/* %s in the expected words is the folder. */
static void expect(const char *name, const char *head, size_t size, const char *expected) {
    char wanted[1024];
    lmc_plugin_command command;
    lmc_error error = LMC_ERROR_INIT;
    lmc_buffer seen = LMC_BUFFER_INIT;
    const char *file = lmc_case_bytes(name, head, size);
    assert_int_equal(lmc_plugin_command_find(&command, file, search_path, &error), LMC_OK);
    for (size_t i = 0; i < command.assignment_count; i++)
        lmc_buffer_printf(&seen, "%s ", command.assignments[i]);
    lmc_plugin_command_interpreter(&command, &seen);
    const char *mark = strstr(expected, "%s");
    snprintf(wanted, sizeof wanted, "%.*s%s%s",
             (int)(mark != NULL ? mark - expected : (ptrdiff_t)strlen(expected)), expected,
             mark != NULL ? lmc_case_folder : "", mark != NULL ? mark + 2 : "");
    assert_string_equal(seen.data, wanted);
    assert_string_equal(command.words[command.count - 1], file);
    assert_null(command.words[command.count]);
    lmc_buffer_fini(&seen);
    lmc_plugin_command_fini(&command);
}
#define EXPECT(name, head, wanted) expect(name, head, sizeof head - 1, wanted)

static void every_row_of_the_table(void **state) {
    (void)state;
    make_programs();
    EXPECT("a.py", "#!/bin/sh\n", "/bin/sh");
    EXPECT("a.sh", "#! /bin/sh \n", "/bin/sh");
    EXPECT("a.py", "#!python3", "%s/bin/python3");
    EXPECT("a.py", "#!/usr/bin/env python3\n", "%s/bin/python3");
    EXPECT("a.py", "#!/usr/bin/env nosuch\n", "%s/bin/python");
    EXPECT("a.sh", "#!/bin/sh -e\n", "/bin/sh -e");
    EXPECT("a.sh", "#!/bin/sh -e\t-u \n", "/bin/sh -e -u");
    EXPECT("a.py", "#!/usr/bin/env -S python3 -u\n", "%s/bin/python3 -u");
    EXPECT("a.py", "#!/usr/bin/env -S A=1 B='x y' python3 -u\n", "A=1 B=x y %s/bin/python3 -u");
    EXPECT("a.py", "#!/usr/bin/env --split-string=other -x\n", "%s/bin/other -x");
    EXPECT("a.py", "#!/usr/bin/env --split-string other -x\n", "%s/bin/other -x");
    EXPECT("a.py", "#!/usr/bin/env -i other\n", "/usr/bin/env -i other");
    EXPECT("a.py", "#!/no/such/env other\n", "%s/bin/other");
    EXPECT("a.py", "#!/usr/bin/env A=1\n", "%s/bin/python");
    EXPECT("a.py", "#!/opt/venv/bin/python\n", "%s/bin/python");
    EXPECT("a.py", "#!/opt/venv/bin/python,other\n", "%s/bin/other");
    EXPECT("a.py", "#!/opt/venv/bin/python , other -q, python3\n", "%s/bin/other -q");
    EXPECT("a.py", "#!,,\n", "%s/bin/python");
    EXPECT("a.py", "#!with blank\n", "%s/bin/with blank");
    EXPECT("a.py", "#!not_executable\n", "%s/bin/python");
    EXPECT("a.py", "#!folder\n", "%s/bin/python");
    EXPECT("a.py", "#!\n", "%s/bin/python");
    EXPECT("a.py", "", "%s/bin/python");
    EXPECT("a.py", "#", "%s/bin/python");
    EXPECT("a.sh", "#!/bin/sh\r\necho\r\n", "/bin/sh");
    EXPECT("a.py", "\xEF\xBB\xBF#!python3\n", "%s/bin/python3");
    EXPECT("a.py", "#!python3\xFF\n", "%s/bin/python");
    EXPECT("a.py", "#!python3\0x\n", "%s/bin/python3");
    EXPECT("a.py", "\xFF\xFE\0\n", "%s/bin/python");
    EXPECT("a.py", "#!'python3\n", "%s/bin/python");
}

static void refuse(const char *file, const char *path, const char *expected) {
    char wanted[1200];
    lmc_plugin_command command;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(lmc_plugin_command_find(&command, file, path, &error), LMC_INVALID);
    snprintf(wanted, sizeof wanted, "%s", expected);
    assert_string_equal(error.text, wanted);
    lmc_plugin_command_fini(&command);
}

static void what_cannot_run_says_why(void **state) {
    (void)state;
    char text[1200];
    refuse(lmc_case_file("a.txt", "#!/bin/sh\n"), NULL, "Plugin type .txt not supported ");
    refuse(lmc_case_file(".py", "#!/bin/sh\n"), NULL, "Plugin type  not supported ");
    refuse(lmc_case_path("gone.py"), NULL, "No such file or directory");
    assert_int_equal(mkfifo(lmc_case_path("pipe.py"), 0600), 0);
    refuse(lmc_case_path("pipe.py"), NULL, "it cannot be read: Invalid argument");
    const char *file = lmc_case_file("a.py", "#!/no/it's\n");
    snprintf(text, sizeof text,
             "No valid interpreter found for %s from [\"/no/it's\", 'python', 'python3']",
             file);
    refuse(file, "/nonexistent", text);
    file = lmc_case_file("b.sh", "");
    snprintf(text, sizeof text, "No valid interpreter found for %s from ['bash']", file);
    refuse(file, "", text);
}

static void a_file_that_looks_like_an_option_is_none(void **state) {
    (void)state;
    lmc_plugin_command command;
    char *before = getcwd(NULL, 0);
    lmc_case_file("-c.sh", "#!/bin/sh\n");
    assert_int_equal(chdir(lmc_case_folder), 0);
    assert_int_equal(lmc_plugin_command_find(&command, "-c.sh", NULL, NULL), LMC_OK);
    assert_string_equal(command.words[1], "./-c.sh");
    lmc_plugin_command_fini(&command);
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void words_without_end_are_refused(void **state) {
    (void)state;
    lmc_plugin_command command;
    lmc_buffer head = LMC_BUFFER_INIT;
    make_programs();
    lmc_buffer_text(&head, "#!/bin/sh");
    for (int i = 0; i < 100; i++)
        lmc_buffer_text(&head, " -x");
    const char *file = lmc_case_bytes("a.py", head.data, head.size);
    assert_int_equal(lmc_plugin_command_find(&command, file, search_path, NULL), LMC_OK);
    assert_int_equal(command.count, 2); /* python, as if the line were not there */
    lmc_plugin_command_fini(&command);
    lmc_buffer_fini(&head);
}

static void running_out_of_memory_leaks_nothing(void **state) {
    (void)state;
    make_programs();
    const char *file = lmc_case_file("a.py", "#!/usr/bin/env -S A=1 python3 -u, other\n");
    for (uint64_t nth = 1; nth < 30; nth++) {
        lmc_plugin_command command;
        lmc_fault_arm(nth, true);
        lmc_plugin_command_find(&command, file, search_path, NULL);
        lmc_fault_disarm();
        lmc_plugin_command_fini(&command);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        LMC_FOLDER_TEST(every_row_of_the_table),
        LMC_FOLDER_TEST(what_cannot_run_says_why),
        LMC_FOLDER_TEST(a_file_that_looks_like_an_option_is_none),
        LMC_FOLDER_TEST(words_without_end_are_refused),
        LMC_FOLDER_TEST(running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
