/*
 * heap.h: how the process's allocator treats large buffers.
 *
 * A received frame is one malloc by libzmq's I/O thread and one free by the thread that took
 * it. Beyond 32 MiB glibc always maps, unless it may not map at all, and the page faults of a
 * fresh mapping cost more than filling it: half of the rate of byte copies. Kept memory is used
 * again by the next frame; a trim gives back what a pause in such traffic leaves over.
 */
#ifndef LMC_BASE_HEAP_H
#define LMC_BASE_HEAP_H

#include <stddef.h>

void lmc_heap_keep_large(void); /* first thing in a program, before there are threads */
void lmc_heap_trim(void);       /* any thread; takes milliseconds */

/* Any thread. Bytes of the process's own memory, heap and other, that have pages; 0: unknown.
 */
size_t lmc_heap_resident(void);
/* Bytes of the heap that nobody has freed, touched or not; 0: unknown. */
size_t lmc_heap_in_use(void);

#endif
