#include "cache/pool_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/pool.h"

#define LMC_LOGGER "lmcache.storage"
#define LOCK_TRIES 5 /* somebody who only looks whether a segment is stale locks it briefly */
#define LOCK_PAUSE_NS 10000000L

/* What the last page of a segment of ours starts with. */
typedef struct segment_mark {
    char magic[24];
    uint32_t version;
    int32_t pid;
    uint64_t file_size;
} segment_mark;

#define MARK_MAGIC "lmcached L1 pool, ours"
#define MARK_VERSION 1u

static uint64_t page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

/* A path under /dev/shm; names are bounded by LMC_POOL_NAME_MAX. */
typedef struct segment_path {
    char text[sizeof LMC_SEGMENT_DIRECTORY + LMC_POOL_NAME_MAX + 8];
} segment_path;

static segment_path path_of(const char *name) {
    segment_path path;
    (void)snprintf(path.text, sizeof path.text, "%s/%.*s", LMC_SEGMENT_DIRECTORY,
                   LMC_POOL_NAME_MAX, name);
    return path;
}

static bool read_mark(int fd, segment_mark *mark) {
    struct stat info;
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size < page_size())
        return false;
    off_t at = info.st_size - (off_t)page_size();
    if (pread(fd, mark, sizeof *mark, at) != (ssize_t)sizeof *mark)
        return false;
    return memcmp(mark->magic, MARK_MAGIC, sizeof MARK_MAGIC) == 0 &&
           mark->version == MARK_VERSION && mark->file_size == (uint64_t)info.st_size;
}

static bool write_mark(int fd, uint64_t size) {
    segment_mark mark = {.magic = MARK_MAGIC,
                         .version = MARK_VERSION,
                         .pid = (int32_t)getpid(),
                         .file_size = size};
    /* Pages first: a write that finds none must fail here and not later as a signal. */
    off_t at = (off_t)(size - page_size());
    if (fallocate(fd, 0, at, (off_t)page_size()) != 0)
        return false;
    return pwrite(fd, &mark, sizeof mark, at) == (ssize_t)sizeof mark;
}

/* Whether the name still leads to the open file. */
static bool is_linked(const char *path, int fd) {
    struct stat by_path, by_fd;
    return lstat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
           by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

static bool lock_file(int fd) {
    struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static lmc_status owner_lives(const char *name, int fd, lmc_error *error) {
    segment_mark mark;
    if (read_mark(fd, &mark))
        return lmc_error_set(error, LMC_BUSY,
                             "--shm-name: shared memory pool '%s' belongs to a running server "
                             "(process %d); give each server its own name",
                             name, (int)mark.pid);
    return lmc_error_set(
        error, LMC_BUSY,
        "--shm-name: shared memory pool '%s' belongs to a running server; give "
        "each server its own name",
        name);
}

typedef struct user_text {
    char text[96];
} user_text;

static user_text describe_user(uid_t uid) {
    user_text user;
    struct passwd entry, *found = NULL;
    char names[1024];
    if (getpwuid_r(uid, &entry, names, sizeof names, &found) == 0 && found != NULL)
        (void)snprintf(user.text, sizeof user.text, "user %.64s (uid %u)", entry.pw_name, uid);
    else
        (void)snprintf(user.text, sizeof user.text, "uid %u", uid);
    return user;
}

/* The file of this name is in the way and cannot be opened or removed. */
static lmc_status in_the_way(const char *path, int number, lmc_error *error) {
    struct stat info;
    if (lstat(path, &info) != 0 || info.st_uid == geteuid())
        return lmc_error_set_errno(error, LMC_FAILED, number,
                                   "--shm-name: cannot create shared memory pool %s", path);
    return lmc_error_set_errno(
        error, LMC_FAILED, number,
        "--shm-name: shared memory pool %s belongs to %s, and this server "
        "runs as %s; choose another name, or remove it as its owner once "
        "no server uses it",
        path, describe_user(info.st_uid).text, describe_user(geteuid()).text);
}

/* Opens the existing file, or makes one; only the latter may be used, whoever made the former.
 */
static int open_segment(const char *path, bool *made) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    for (int i = 0; i < LOCK_TRIES; i++) {
        *made = false;
        int fd = open(path, flags);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        *made = true;
        fd = open(path, flags | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/*
 * One try to own the name. LMC_OK: *out is a new, locked file that the name leads to.
 * LMC_AGAIN: an old file was in the way and is gone, or somebody else replaced ours.
 */
static lmc_status own_name(const char *name, int *out, lmc_error *error) {
    segment_path path = path_of(name);
    bool made;
    int fd = open_segment(path.text, &made);
    if (fd < 0)
        return in_the_way(path.text, errno, error);
    lmc_status status = LMC_AGAIN;
    if (!lock_file(fd))
        status = owner_lives(name, fd, error);
    else if (!is_linked(path.text, fd))
        status = LMC_AGAIN;
    else if (made)
        status = LMC_OK;
    else if (unlink(path.text) != 0)
        status = in_the_way(path.text, errno, error);
    else
        LMC_INFO("Replaced the stale shared memory pool %s", name);
    if (status == LMC_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

lmc_status lmc_segment_create(const char *name, uint64_t size, uint32_t mode, int *fd,
                              lmc_error *error) {
    lmc_status status = LMC_AGAIN;
    for (int i = 0; status == LMC_AGAIN && i < LOCK_TRIES; i++)
        status = own_name(name, fd, error);
    if (status == LMC_AGAIN)
        status = lmc_error_set(error, LMC_BUSY,
                               "--shm-name: another server is creating shared memory pool '%s'",
                               name);
    if (status != LMC_OK)
        return status;
    if (ftruncate(*fd, (off_t)size) == 0 && write_mark(*fd, size) &&
        fchmod(*fd, (mode_t)mode) == 0)
        return LMC_OK;
    status = lmc_error_set_errno(
        error, LMC_FAILED, errno,
        "--shm-name: cannot set up shared memory pool '%s' of %" PRIu64 " bytes", name, size);
    lmc_segment_unlink(name, *fd);
    close(*fd);
    return status;
}

void lmc_segment_unlink(const char *name, int fd) {
    segment_path path = path_of(name);
    if (is_linked(path.text, fd))
        (void)unlink(path.text);
}

static bool sweep_one(const char *name) {
    segment_path path = path_of(name);
    int fd = open(path.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    struct stat info;
    segment_mark mark;
    bool stale = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && read_mark(fd, &mark) &&
                 flock(fd, LOCK_EX | LOCK_NB) == 0 && is_linked(path.text, fd);
    bool gone = stale && unlink(path.text) == 0;
    if (gone)
        LMC_INFO("Removed shared memory pool %s of a server that is gone (process %d)", name,
                 (int)mark.pid);
    close(fd);
    return gone;
}

unsigned lmc_segment_sweep(void) {
    unsigned swept = 0;
    DIR *directory = opendir(LMC_SEGMENT_DIRECTORY);
    if (directory == NULL)
        return 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (strncmp(entry->d_name, LMC_POOL_PREFIX, sizeof LMC_POOL_PREFIX - 1) == 0 &&
            strlen(entry->d_name) <= LMC_POOL_NAME_MAX)
            swept += sweep_one(entry->d_name);
    }
    closedir(directory);
    return swept;
}
