#include "cache/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "cache/pool_segment.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

#define LMC_LOGGER "lmcache.storage"
#define HUGE_PAGE UINT64_C(0x200000)
#define HUGE_FREE "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
/* Filling the page table holds the kernel's lock on our address space; not for long at once. */
#define POPULATE_STEP UINT64_C(0x200000)

static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

lmc_status lmc_pool_name(const char *shm_name, char name[LMC_POOL_NAME_MAX + 1],
                         lmc_error *error) {
    const char *rest = shm_name + strspn(shm_name, "/");
    name[0] = '\0';
    if (shm_name[0] == '\0')
        return LMC_OK;
    bool has_prefix = strncmp(rest, LMC_POOL_PREFIX, sizeof LMC_POOL_PREFIX - 1) == 0;
    size_t prefix = has_prefix ? 0 : sizeof LMC_POOL_PREFIX - 1, size = strlen(rest);
    if (strchr(rest, '/') != NULL)
        return lmc_error_set(error, LMC_INVALID, "--shm-name: '%s' must not contain '/'", rest);
    if (prefix + size > LMC_POOL_NAME_MAX)
        return lmc_error_set(error, LMC_INVALID, "--shm-name: longer than %d characters",
                             LMC_POOL_NAME_MAX);
    memcpy(name, LMC_POOL_PREFIX, prefix);
    memcpy(name + prefix, rest, size + 1);
    return LMC_OK;
}

/* /dev/shm as a whole must be able to hold the pool; what others use now may go away. */
static lmc_status check_shm_space(uint64_t size, lmc_error *error) {
    struct statvfs space;
    if (statvfs(LMC_SEGMENT_DIRECTORY, &space) != 0 || space.f_blocks == 0)
        return LMC_OK;
    uint64_t total = (uint64_t)space.f_blocks * space.f_frsize;
    uint64_t available = (uint64_t)space.f_bavail * space.f_frsize;
    if (total < size)
        return lmc_error_set(error, LMC_NO_MEMORY,
                             "--l1-size-gb: %s holds %" PRIu64
                             " bytes, a shared memory pool of "
                             "%" PRIu64 " bytes was asked for; enlarge it (mount -o "
                             "remount,size=..., docker --shm-size) or lower --l1-size-gb",
                             LMC_SEGMENT_DIRECTORY, total, size);
    if (available < size)
        LMC_WARNING("--l1-size-gb: only %" PRIu64 " of the pool's %" PRIu64
                    " bytes are free in "
                    "%s; L1 stays smaller until others give theirs back",
                    available, size, LMC_SEGMENT_DIRECTORY);
    return LMC_OK;
}

static lmc_status open_named(const lmc_pool_config *config, lmc_pool *pool, lmc_error *error) {
    lmc_status status = check_shm_space(pool->file_size, error);
    if (status != LMC_OK)
        return status;
    return lmc_segment_create(pool->name, pool->file_size, config->shm_mode, &pool->fd, error);
}

static void open_private(lmc_pool *pool) {
    pool->map_ahead = true;
    pool->fd = memfd_create("lmcached-l1", MFD_CLOEXEC);
    if (pool->fd >= 0 && ftruncate(pool->fd, (off_t)pool->file_size) != 0) {
        close(pool->fd);
        pool->fd = -1;
    }
}

static lmc_status check_hugepages(uint64_t capacity, lmc_error *error) {
    uint64_t need = (capacity + HUGE_PAGE - 1) / HUGE_PAGE, available = 0;
    FILE *file = fopen(HUGE_FREE, "re");
    bool known = file != NULL && fscanf(file, "%" SCNu64, &available) == 1;
    if (file != NULL)
        (void)fclose(file);
    if (!known) {
        LMC_WARNING("Cannot read %s; not checking for free huge pages", HUGE_FREE);
        return LMC_OK;
    }
    if (available >= need)
        return LMC_OK;
    return lmc_error_set(error, LMC_NO_MEMORY,
                         "Insufficient hugepages: %" PRIu64 " free, %" PRIu64
                         " required for a %" PRIu64 " byte L1 buffer. Grow the 2 MiB hugepage "
                         "pool (e.g. sysctl vm.nr_hugepages=%" PRIu64 ").",
                         available, need, capacity, need);
}

static lmc_status open_huge(const lmc_pool_config *config, lmc_pool *pool, lmc_error *error) {
    if (pool->name[0] != '\0')
        return lmc_error_set(error, LMC_INVALID,
                             "l1-use-hugepages is incompatible with shared memory. Please set "
                             "--shm-name \"\" to disable SHM when enabling hugepages.");
    lmc_status status = check_hugepages(config->capacity, error);
    if (status != LMC_OK)
        return status;
    pool->page_size = HUGE_PAGE;
    pool->mapped = round_up(config->capacity, HUGE_PAGE);
    pool->file_size = pool->mapped;
    pool->fd = memfd_create("lmcached-l1", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
    if (pool->fd >= 0 && ftruncate(pool->fd, (off_t)pool->file_size) != 0) {
        close(pool->fd);
        pool->fd = -1;
    }
    return LMC_OK;
}

/* Huge pages are set aside by the mapping itself; all others come with lmc_pool_supply(). */
static lmc_status map(const lmc_pool_config *config, lmc_pool *pool, lmc_error *error) {
    int flags = pool->fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    if (!config->use_hugepages)
        flags |= MAP_NORESERVE;
    else if (pool->fd < 0)
        flags |= MAP_HUGETLB | MAP_HUGE_2MB;
    void *base = mmap(NULL, pool->mapped, PROT_READ | PROT_WRITE, flags, pool->fd, 0);
    if (base == MAP_FAILED)
        return lmc_error_set_errno(error, LMC_NO_MEMORY, errno,
                                   "--l1-size-gb: cannot map %" PRIu64 " bytes for L1",
                                   pool->mapped);
    pool->base = base;
    (void)madvise(base, pool->mapped, MADV_DONTDUMP); /* a core dump is for the program */
    return LMC_OK;
}

lmc_status lmc_pool_open(const lmc_pool_config *config, lmc_pool *pool, lmc_error *error) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *pool = (lmc_pool){.capacity = config->capacity, .fd = -1, .page_size = page};
    if (config->capacity == 0 || config->capacity > INT64_MAX / 2)
        return lmc_error_set(error, LMC_INVALID, "--l1-size-gb: no such size of L1");
    pool->mapped = round_up(config->capacity, page);
    pool->file_size = pool->mapped;
    lmc_status status =
        lmc_pool_name(config->shm_name != NULL ? config->shm_name : "", pool->name, error);
    if (status != LMC_OK)
        return status;
    (void)lmc_segment_sweep();
    if (config->use_hugepages) {
        status = open_huge(config, pool, error);
    } else if (pool->name[0] != '\0') {
        pool->file_size += page;
        status = open_named(config, pool, error);
    } else {
        open_private(pool);
    }
    if (status == LMC_OK)
        status = map(config, pool, error);
    if (status != LMC_OK)
        lmc_pool_close(pool);
    return status;
}

void lmc_pool_close(lmc_pool *pool) {
    if (pool->base != NULL)
        (void)munmap(pool->base, pool->mapped);
    if (pool->fd >= 0 && pool->name[0] != '\0')
        lmc_segment_unlink(pool->name, pool->fd);
    if (pool->fd >= 0)
        close(pool->fd);
    pool->base = NULL;
    pool->fd = -1;
}

static bool allocate_pages(const lmc_pool *pool, uint64_t offset, uint64_t length) {
    int rc;
    do {
        rc = fallocate(pool->fd, 0, (off_t)offset, (off_t)length);
    } while (rc != 0 && errno == EINTR);
    return rc == 0;
}

/* Anonymous memory on kernels without MADV_POPULATE_WRITE: nothing but touching is left. */
static void touch_pages(unsigned char *data, uint64_t length, uint64_t page) {
    for (uint64_t at = 0; at < length; at += page)
        *(volatile unsigned char *)(data + at) = 0;
}

static bool populate(const lmc_pool *pool, uint64_t offset, uint64_t length) {
    for (uint64_t at = 0; at < length; at += POPULATE_STEP) {
        uint64_t step = length - at < POPULATE_STEP ? length - at : POPULATE_STEP;
        unsigned char *data = pool->base + offset + at;
        int rc;
        do {
            rc = madvise(data, step, MADV_POPULATE_WRITE);
        } while (rc != 0 && errno == EINTR);
        if (rc == 0)
            continue;
        if (errno != EINVAL || pool->fd >= 0)
            return false;
        touch_pages(data, step, pool->page_size);
    }
    return true;
}

lmc_status lmc_pool_supply(const lmc_pool *pool, uint64_t offset, uint64_t length) {
    if (offset + length > pool->mapped || length == 0)
        return LMC_INVALID;
    if (pool->fd < 0)
        return populate(pool, offset, length) ? LMC_OK : LMC_NO_MEMORY;
    if (!allocate_pages(pool, offset, length))
        return LMC_NO_MEMORY;
    if (pool->map_ahead)
        (void)populate(pool, offset, length); /* only saves faults later */
    return LMC_OK;
}
