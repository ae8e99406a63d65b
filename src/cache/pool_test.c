#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "cache/pool.h"
#include "cache/pool_segment.h"

#define MIB (UINT64_C(1) << 20)

/* Names of this process's own, so that tests of other processes are not disturbed. */
typedef struct pool_name {
    char given[64], file[128];
} pool_name;

static pool_name name_for(const char *tag) {
    pool_name name;
    (void)snprintf(name.given, sizeof name.given, "test_%d_%s", (int)getpid(), tag);
    (void)snprintf(name.file, sizeof name.file, "/dev/shm/" LMC_POOL_PREFIX "%s", name.given);
    return name;
}

static lmc_status open_pool(const char *shm_name, uint64_t capacity, lmc_pool *pool,
                            lmc_error *error) {
    lmc_pool_config config = {.capacity = capacity, .shm_name = shm_name, .shm_mode = 0600};
    return lmc_pool_open(&config, pool, error);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void names_are_normalised(void **state) {
    (void)state;
    char name[LMC_POOL_NAME_MAX + 1];
    assert_int_equal(lmc_pool_name("", name, NULL), LMC_OK);
    assert_string_equal(name, "");
    assert_int_equal(lmc_pool_name("a", name, NULL), LMC_OK);
    assert_string_equal(name, "lmcache_l1_pool_a");
    assert_int_equal(lmc_pool_name("//lmcache_l1_pool_a", name, NULL), LMC_OK);
    assert_string_equal(name, "lmcache_l1_pool_a");
    assert_int_equal(lmc_pool_name("/", name, NULL), LMC_OK);
    assert_string_equal(name, "lmcache_l1_pool_");
    assert_int_equal(lmc_pool_name("a/b", name, NULL), LMC_INVALID);
    char longest[LMC_POOL_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[LMC_POOL_NAME_MAX - (sizeof LMC_POOL_PREFIX - 1)] = '\0';
    assert_int_equal(lmc_pool_name(longest, name, NULL), LMC_OK);
    assert_int_equal(strlen(name), LMC_POOL_NAME_MAX);
    longest[LMC_POOL_NAME_MAX - (sizeof LMC_POOL_PREFIX - 1)] = 'x';
    longest[LMC_POOL_NAME_MAX + 1 - (sizeof LMC_POOL_PREFIX - 1)] = '\0';
    assert_int_equal(lmc_pool_name(longest, name, NULL), LMC_INVALID);
}

static void a_client_sees_what_is_in_the_pool(void **state) {
    (void)state;
    pool_name name = name_for("client");
    lmc_pool pool;
    assert_int_equal(open_pool(name.given, MIB + 1, &pool, NULL), LMC_OK);
    assert_int_equal(lmc_pool_supply(&pool, 0, MIB + 4096), LMC_OK);
    memcpy(pool.base + MIB, "x", 1);
    int fd = open(name.file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true((uint64_t)info.st_size >= MIB + 1);
    unsigned char *view = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    assert_int_equal(view[MIB], 'x');
    (void)munmap(view, (size_t)info.st_size);
    close(fd);
    lmc_pool_close(&pool);
    assert_false(exists(name.file));
}

static void the_mode_is_as_asked_for(void **state) {
    (void)state;
    pool_name name = name_for("mode");
    lmc_pool_config config = {.capacity = MIB, .shm_name = name.given, .shm_mode = 0666};
    lmc_pool pool;
    assert_int_equal(lmc_pool_open(&config, &pool, NULL), LMC_OK);
    struct stat info;
    assert_int_equal(stat(name.file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666);
    lmc_pool_close(&pool);
}

/* A server in a process of its own; killed without warning. */
typedef struct server_process {
    pid_t pid;
} server_process;

static server_process start_server(const char *shm_name) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    server_process server = {fork()};
    assert_true(server.pid >= 0);
    if (server.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        lmc_pool pool;
        char ok = open_pool(shm_name, MIB, &pool, NULL) == LMC_OK ? 'y' : 'n';
        if (write(ready[1], &ok, 1) == 1)
            (void)pause();
        _exit(1);
    }
    char ok = 'n';
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 'y');
    close(ready[0]);
    close(ready[1]);
    return server;
}

static void kill_server(server_process server) {
    assert_int_equal(kill(server.pid, SIGKILL), 0);
    assert_int_equal(waitpid(server.pid, NULL, 0), server.pid);
}

static void a_pool_of_a_living_server_is_refused_by_name(void **state) {
    (void)state;
    pool_name name = name_for("living");
    server_process other = start_server(name.given);
    lmc_pool pool;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(open_pool(name.given, MIB, &pool, &error), LMC_BUSY);
    assert_non_null(strstr(error.text, "--shm-name"));
    assert_non_null(strstr(error.text, name.given));
    char process[32];
    (void)snprintf(process, sizeof process, "process %d", (int)other.pid);
    assert_non_null(strstr(error.text, process));
    assert_true(exists(name.file));
    kill_server(other);
    assert_int_equal(open_pool(name.given, MIB, &pool, NULL), LMC_OK);
    lmc_pool_close(&pool);
    assert_false(exists(name.file));
}

static void the_pool_of_a_killed_server_is_swept_by_any_other(void **state) {
    (void)state;
    pool_name dead = name_for("dead"), live = name_for("live");
    server_process killed = start_server(dead.given), living = start_server(live.given);
    kill_server(killed);
    assert_true(exists(dead.file));
    lmc_pool pool;
    assert_int_equal(open_pool("", MIB, &pool, NULL), LMC_OK);
    assert_false(exists(dead.file));
    assert_true(exists(live.file));
    lmc_pool_close(&pool);
    kill_server(living);
    assert_true(lmc_segment_sweep() >= 1);
    assert_false(exists(live.file));
}

static void make_foreign(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * 4096), 0);
    close(fd);
}

static void a_segment_that_others_made_is_never_swept(void **state) {
    (void)state;
    pool_name name = name_for("foreign");
    make_foreign(name.file);
    (void)lmc_segment_sweep();
    assert_true(exists(name.file));
    assert_int_equal(unlink(name.file), 0);
}

static void a_stale_segment_of_the_same_name_is_replaced(void **state) {
    (void)state;
    pool_name name = name_for("same");
    make_foreign(name.file);
    struct stat before, after;
    assert_int_equal(stat(name.file, &before), 0);
    lmc_pool pool;
    assert_int_equal(open_pool(name.given, MIB, &pool, NULL), LMC_OK);
    assert_int_equal(stat(name.file, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    lmc_pool_close(&pool);
}

/* Tries to open the pool as another user than the file's, with nobody's rights. */
static void open_as_stranger(const pool_name *name, mode_t mode, lmc_error *error) {
    make_foreign(name->file);
    assert_int_equal(chmod(name->file, mode), 0);
    assert_int_equal(seteuid(64321), 0);
    lmc_pool pool;
    lmc_status status = open_pool(name->given, MIB, &pool, error);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, LMC_FAILED);
    assert_true(exists(name->file));
    assert_int_equal(unlink(name->file), 0);
}

/* Whether it cannot be opened or, being open to all, cannot be removed. */
static void a_pool_of_another_user_is_refused_with_file_and_owner(void **state) {
    (void)state;
    struct stat directory;
    if (geteuid() != 0 || stat(LMC_SEGMENT_DIRECTORY, &directory) != 0 ||
        (directory.st_mode & S_ISVTX) == 0)
        skip();
    pool_name name = name_for("stranger");
    const mode_t modes[] = {0600, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        lmc_error error = LMC_ERROR_INIT;
        open_as_stranger(&name, modes[i], &error);
        assert_non_null(strstr(error.text, name.file));
        assert_non_null(strstr(error.text, "belongs to user root (uid 0)"));
        assert_non_null(strstr(error.text, "runs as uid 64321"));
    }
}

static void what_is_no_file_is_named_where_it_is(void **state) {
    (void)state;
    pool_name name = name_for("directory");
    assert_int_equal(mkdir(name.file, 0700), 0);
    lmc_pool pool;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(open_pool(name.given, MIB, &pool, &error), LMC_FAILED);
    assert_int_equal(rmdir(name.file), 0);
    assert_non_null(strstr(error.text, name.file));
    assert_non_null(strstr(error.text, strerror(EISDIR)));
}

static void closing_leaves_a_pool_that_replaced_ours(void **state) {
    (void)state;
    pool_name name = name_for("replaced");
    lmc_pool pool;
    assert_int_equal(open_pool(name.given, MIB, &pool, NULL), LMC_OK);
    assert_int_equal(unlink(name.file), 0);
    make_foreign(name.file);
    lmc_pool_close(&pool);
    assert_true(exists(name.file));
    assert_int_equal(unlink(name.file), 0);
}

static void the_lock_lasts_while_clients_come_and_go(void **state) {
    (void)state;
    pool_name name = name_for("clients");
    lmc_pool pool, second;
    assert_int_equal(open_pool(name.given, MIB, &pool, NULL), LMC_OK);
    int fd = open(name.file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(open_pool(name.given, MIB, &second, NULL), LMC_BUSY);
    lmc_pool_close(&pool);
}

static void a_pool_larger_than_dev_shm_is_refused(void **state) {
    (void)state;
    struct statvfs space;
    assert_int_equal(statvfs("/dev/shm", &space), 0);
    if (space.f_blocks == 0)
        skip();
    pool_name name = name_for("large");
    uint64_t total = (uint64_t)space.f_blocks * space.f_frsize;
    lmc_pool pool;
    lmc_error error = LMC_ERROR_INIT;
    assert_int_equal(open_pool(name.given, total + 4096, &pool, &error), LMC_NO_MEMORY);
    assert_non_null(strstr(error.text, "/dev/shm"));
    assert_non_null(strstr(error.text, "--l1-size-gb"));
    assert_false(exists(name.file));
}

static void private_memory_can_be_larger_than_the_machine(void **state) {
    (void)state;
    lmc_pool pool;
    assert_int_equal(open_pool("", UINT64_C(1) << 38, &pool, NULL), LMC_OK);
    assert_string_equal(pool.name, "");
    assert_int_equal(lmc_pool_supply(&pool, UINT64_C(1) << 37, 5 * 4096), LMC_OK);
    memset(pool.base + (UINT64_C(1) << 37), 1, 5 * 4096);
    assert_int_equal(lmc_pool_supply(&pool, UINT64_C(1) << 38, 4096), LMC_INVALID);
    lmc_pool_close(&pool);
}

static void anonymous_memory_serves_where_there_is_no_memfd(void **state) {
    (void)state;
    lmc_pool pool;
    assert_int_equal(open_pool("", 8 * MIB, &pool, NULL), LMC_OK);
    (void)munmap(pool.base, pool.mapped);
    close(pool.fd);
    pool.fd = -1;
    pool.base = mmap(NULL, pool.mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(pool.base, MAP_FAILED);
    assert_int_equal(lmc_pool_supply(&pool, 4096, 7 * MIB), LMC_OK);
    unsigned char resident[2];
    assert_int_equal(mincore(pool.base + 7 * MIB, 2 * 4096, resident), 0);
    assert_int_equal(resident[0] & 1, 1);
    assert_int_equal(resident[1] & 1, 0);
    lmc_pool_close(&pool);
}

static void huge_pages_exclude_a_name_and_are_counted_first(void **state) {
    (void)state;
    lmc_pool pool;
    lmc_error error = LMC_ERROR_INIT;
    lmc_pool_config config = {.capacity = MIB, .shm_name = "x", .use_hugepages = true};
    assert_int_equal(lmc_pool_open(&config, &pool, &error), LMC_INVALID);
    assert_non_null(strstr(error.text, "l1-use-hugepages is incompatible with shared memory"));
    if (!exists("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"))
        skip();
    lmc_error_clear(&error);
    config.shm_name = "";
    config.capacity = UINT64_C(1) << 50;
    assert_int_equal(lmc_pool_open(&config, &pool, &error), LMC_NO_MEMORY);
    assert_non_null(strstr(error.text, "Insufficient hugepages: "));
    assert_non_null(strstr(error.text, "536870912 required for a 1125899906842624 byte L1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_normalised),
        cmocka_unit_test(a_client_sees_what_is_in_the_pool),
        cmocka_unit_test(the_mode_is_as_asked_for),
        cmocka_unit_test(a_pool_of_a_living_server_is_refused_by_name),
        cmocka_unit_test(the_pool_of_a_killed_server_is_swept_by_any_other),
        cmocka_unit_test(a_segment_that_others_made_is_never_swept),
        cmocka_unit_test(a_stale_segment_of_the_same_name_is_replaced),
        cmocka_unit_test(a_pool_of_another_user_is_refused_with_file_and_owner),
        cmocka_unit_test(what_is_no_file_is_named_where_it_is),
        cmocka_unit_test(closing_leaves_a_pool_that_replaced_ours),
        cmocka_unit_test(the_lock_lasts_while_clients_come_and_go),
        cmocka_unit_test(a_pool_larger_than_dev_shm_is_refused),
        cmocka_unit_test(private_memory_can_be_larger_than_the_machine),
        cmocka_unit_test(anonymous_memory_serves_where_there_is_no_memfd),
        cmocka_unit_test(huge_pages_exclude_a_name_and_are_counted_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
