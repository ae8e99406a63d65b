/*
 * plugin_case.h: for the tests of this room: a folder of its own, and files in it.
 */
#ifndef LMC_RUNTIME_PLUGIN_PLUGIN_CASE_H
#define LMC_RUNTIME_PLUGIN_PLUGIN_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char lmc_case_folder[] = "/tmp/lmc-plugin-case-XXXXXX";

static inline int lmc_case_setup(void **state) {
    (void)state;
    memcpy(lmc_case_folder + sizeof lmc_case_folder - 7, "XXXXXX", 6);
    return mkdtemp(lmc_case_folder) != NULL ? 0 : -1;
}

static inline int lmc_case_teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- %s", lmc_case_folder);
    FILE *done = popen(command, "r");
    return done != NULL && pclose(done) == 0 ? 0 : -1;
}

/* The path of a name in the folder; valid until the eighth call after. */
static inline char *lmc_case_path(const char *name) {
    static char paths[8][512];
    static size_t at;
    char *path = paths[at++ % 8];
    snprintf(path, 512, "%s%s%s", lmc_case_folder, *name != '\0' ? "/" : "", name);
    return path;
}

static inline char *lmc_case_bytes(const char *name, const char *bytes, size_t size) {
    char *path = lmc_case_path(name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline char *lmc_case_file(const char *name, const char *text) {
    return lmc_case_bytes(name, text, strlen(text));
}

static inline char *lmc_case_program(const char *name) {
    char *path = lmc_case_file(name, "#!/bin/sh\n");
    assert_int_equal(chmod(path, 0755), 0);
    return path;
}

#define LMC_FOLDER_TEST(test) \
    cmocka_unit_test_setup_teardown(test, lmc_case_setup, lmc_case_teardown)

#endif
