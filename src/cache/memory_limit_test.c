#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/memory_limit.h"

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/lmc_memory_limit_XXXXXX";

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int empty_root(void **state) {
    if (remove_root(state) != 0)
        return -1;
    return mkdir(root, 0700);
}

static void put(const char *path, const char *text) {
    char full[512];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_machine(void) {
    put("/proc/meminfo",
        "MemTotal:       1048576 kB\nMemFree: 5 kB\nMemAvailable:  524288 kB\n");
}

static uint64_t limit_of(char source[256]) {
    lmc_memory_limit limit;
    lmc_memory_limit_find(root, &limit);
    memcpy(source, limit.source, sizeof limit.source);
    return limit.bytes;
}

static void without_groups_the_machine_is_the_limit(void **state) {
    (void)state;
    char source[256];
    put_machine();
    assert_int_equal(limit_of(source), 1024 * MIB);
    assert_string_equal(source, "the machine's memory");
    assert_int_equal(lmc_memory_left(root), 512 * MIB);
}

static void nothing_readable_means_nothing_known(void **state) {
    (void)state;
    char source[256];
    assert_true(limit_of(source) == UINT64_MAX);
    assert_true(lmc_memory_left(root) == UINT64_MAX);
}

static void the_tightest_group_above_us_counts(void **state) {
    (void)state;
    char source[256];
    put_machine();
    put("/proc/self/cgroup", "0::/pod/box\n");
    put("/sys/fs/cgroup/pod/box/memory.max", "max\n");
    put("/sys/fs/cgroup/pod/memory.max", "268435456\n");
    put("/sys/fs/cgroup/pod/memory.current", "209715200\n");
    put("/sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 104857600\nslab 3\n");
    assert_int_equal(limit_of(source), 256 * MIB);
    assert_non_null(strstr(source, "/pod/memory.max"));
    assert_int_equal(lmc_memory_left(root), (256 - 200 + 100) * MIB);
}

static void a_group_over_its_limit_has_nothing_left(void **state) {
    (void)state;
    put_machine();
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "1048576\n");
    put("/sys/fs/cgroup/memory.current", "2097152\n");
    assert_int_equal(lmc_memory_left(root), 0);
}

static void version_1_groups_count_too(void **state) {
    (void)state;
    char source[256];
    put_machine();
    put("/proc/self/cgroup", "9:cpu,cpuacct:/a\n7:memory:/docker/0123\n0::/a\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "52428800\n");
    assert_int_equal(limit_of(source), 100 * MIB);
    assert_non_null(strstr(source, "memory.limit_in_bytes"));
    assert_int_equal(lmc_memory_left(root), 50 * MIB);
}

static void this_machine_can_be_read(void **state) {
    (void)state;
    lmc_memory_limit limit;
    lmc_memory_limit_find("", &limit);
    assert_true(limit.bytes > MIB);
    assert_true(lmc_memory_left("") <= limit.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_groups_the_machine_is_the_limit, empty_root),
        cmocka_unit_test_setup(nothing_readable_means_nothing_known, empty_root),
        cmocka_unit_test_setup(the_tightest_group_above_us_counts, empty_root),
        cmocka_unit_test_setup(a_group_over_its_limit_has_nothing_left, empty_root),
        cmocka_unit_test_setup(version_1_groups_count_too, empty_root),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
