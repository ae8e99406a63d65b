/* Which files locations stand for. */
#include "runtime_plugin/plugin_case.h"

#include "base/error.h"
#include "runtime_plugin/discovery.h"
#include "support/alloc_fault.h"

static void expect_paths(const lmc_plugin_files *files, const char *const *names) {
    size_t count = 0;
    for (; names[count] != NULL; count++) {
        assert_true(count < files->count);
        assert_string_equal(files->items[count].path, lmc_case_path(names[count]));
    }
    assert_int_equal(files->count, count);
}

static void a_folder_is_its_python_files_and_then_its_shell_files(void **state) {
    (void)state;
    lmc_plugin_files files = {0};
    static const char *const names[] = {".h.py", "a.py",   "d/.x/z.py", "d/b.py",
                                        "B.sh",  "d/a.sh", NULL};
    mkdir(lmc_case_path("d"), 0755);
    mkdir(lmc_case_path("d/.x"), 0755);
    for (size_t i = 0; names[i] != NULL; i++)
        lmc_case_file(names[i], "");
    lmc_case_file("c.PY", "");
    lmc_case_file("c.txt", "");
    lmc_case_file("py", "");
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_folder, NULL), LMC_OK);
    expect_paths(&files, names);
    lmc_plugin_files_fini(&files);
}

static void what_is_no_file_is_skipped_and_linked_folders_are_not_entered(void **state) {
    (void)state;
    lmc_plugin_files files = {0};
    mkdir(lmc_case_path("dir.py"), 0755);
    lmc_case_file("dir.py/in.py", "");
    assert_int_equal(mkfifo(lmc_case_path("fifo.py"), 0600), 0);
    assert_int_equal(symlink("gone", lmc_case_path("broken.py")), 0);
    assert_int_equal(symlink("loop.py", lmc_case_path("loop.py")), 0);
    assert_int_equal(symlink(".", lmc_case_path("again")), 0);
    assert_int_equal(symlink("dir.py", lmc_case_path("linked.py")), 0);
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_folder, NULL), LMC_OK);
    expect_paths(&files, (const char *const[]){"dir.py/in.py", NULL});
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_path("fifo.py"), NULL), LMC_OK);
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_path("none"), NULL), LMC_OK);
    assert_int_equal(lmc_plugin_discover(&files, "", NULL), LMC_OK);
    assert_int_equal(files.count, 1);
    lmc_plugin_files_fini(&files);
}

static void a_file_is_listed_once_by_whatever_name(void **state) {
    (void)state;
    lmc_plugin_files files = {0};
    char twice[600];
    lmc_case_file("a.py", "");
    assert_int_equal(symlink("a.py", lmc_case_path("b.py")), 0);
    snprintf(twice, sizeof twice, "%s/.//./a.py", lmc_case_folder);
    assert_int_equal(lmc_plugin_discover(&files, twice, NULL), LMC_OK);
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_folder, NULL), LMC_OK);
    expect_paths(&files, (const char *const[]){"a.py", NULL});
    lmc_plugin_files_fini(&files);
}

static void a_named_file_counts_whatever_its_suffix(void **state) {
    (void)state;
    lmc_plugin_files files = {0};
    lmc_case_file("tool.txt", "");
    assert_int_equal(lmc_plugin_discover(&files, lmc_case_path("tool.txt"), NULL), LMC_OK);
    expect_paths(&files, (const char *const[]){"tool.txt", NULL});
    assert_false(files.items[0].listed);
    lmc_plugin_files_fini(&files);
}

static void suffixes_are_those_of_python(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"a.py", ".py"}, {"a.b.py", ".py"}, {".py", ""},
                                           {"a", ""},       {"a.", ""},        {"..py", ".py"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(lmc_plugin_suffix(cases[i][0]), cases[i][1]);
    assert_string_equal(lmc_plugin_file_name("a/b/c.py"), "c.py");
    assert_string_equal(lmc_plugin_file_name("c.py"), "c.py");
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    lmc_status status = LMC_NO_MEMORY;
    lmc_case_file("a.py", "");
    lmc_case_file("b.sh", "");
    for (uint64_t nth = 1; status != LMC_OK; nth++) {
        lmc_plugin_files files = {0};
        lmc_fault_arm(nth, true);
        status = lmc_plugin_discover(&files, lmc_case_folder, NULL);
        lmc_fault_disarm();
        assert_true(status == LMC_OK || status == LMC_NO_MEMORY);
        lmc_plugin_files_fini(&files);
        assert_true(nth < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        LMC_FOLDER_TEST(a_folder_is_its_python_files_and_then_its_shell_files),
        LMC_FOLDER_TEST(what_is_no_file_is_skipped_and_linked_folders_are_not_entered),
        LMC_FOLDER_TEST(a_file_is_listed_once_by_whatever_name),
        LMC_FOLDER_TEST(a_named_file_counts_whatever_its_suffix),
        cmocka_unit_test(suffixes_are_those_of_python),
        LMC_FOLDER_TEST(running_out_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
