#include "base/heap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT_AT_THE_TOP \
    (512 << 20) /* free bytes; what lies between used blocks is kept anyway */

void lmc_heap_keep_large(void) {
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* only the main arena can hold more than 64 MiB and be trimmed */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, KEPT_AT_THE_TOP);
#endif
}

void lmc_heap_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

size_t lmc_heap_resident(void) {
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    char *at = text;
    (void)strtoul(at, &at, 10); /* the address space */
    size_t resident = strtoul(at, &at, 10), shared = strtoul(at, &at, 10);
    return resident > shared ? (resident - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

size_t lmc_heap_in_use(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}
