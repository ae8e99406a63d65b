/*
 * alloc_fault.h: makes the n-th allocation of a scenario fail.
 *
 * The linker routes malloc, calloc, realloc and aligned_alloc of the program under test through
 * here (-Wl,--wrap); libraries linked dynamically are not affected. Counts over all threads.
 */
#ifndef LMC_TESTS_ALLOC_FAULT_H
#define LMC_TESTS_ALLOC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* 1 = the next one; persistent: all after it too. */
void lmc_fault_arm(uint64_t nth, bool persistent);
void lmc_fault_disarm(void);
bool lmc_fault_hit(void);       /* an allocation failed since arming */
uint64_t lmc_fault_count(void); /* allocations since arming */

#endif
