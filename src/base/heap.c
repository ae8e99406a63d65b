#include "base/heap.h"

#include <malloc.h>

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
