/*
 * storage_rules.h: pieces of the L1 configuration that both of its forms use. Private to this
 * room.
 */
#ifndef LMC_CONFIG_STORAGE_RULES_H
#define LMC_CONFIG_STORAGE_RULES_H

#include "config/parsing.h"

/* trunc(gib * 2^30); false when that is no positive 64-bit number. */
bool lmc_gib_to_bytes(double gib, int64_t *bytes);
int64_t lmc_initial_size(double gib, int64_t size); /* capped at size */
/* Rules between lazy supply, huge pages, shared memory and Device-DAX. */
lmc_status lmc_check_memory(lmc_parsing *parsing, lmc_l1_memory_config *memory);
lmc_status lmc_copy_eviction(const lmc_eviction_config *from, lmc_eviction_config *to);
/* A zeroed element at the end; NULL: out of memory. Pointers to earlier ones become invalid. */
lmc_l1_manager_config *lmc_add_l1_manager(lmc_storage_config *storage);

#endif
