/*
 * hash.h: a keyed hash for tables whose keys peers choose.
 *
 * SipHash-1-3: without the seed nobody can make keys that collide. Not for chunk hashes, which
 * others compare (cache/hasher.h). Pure; any thread.
 */
#ifndef LMC_BASE_HASH_H
#define LMC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct lmc_hash_seed {
    uint64_t words[2];
} lmc_hash_seed;

void lmc_hash_seed_init(lmc_hash_seed *seed); /* from the kernel's random bytes */
uint64_t lmc_hash_keyed(const lmc_hash_seed *seed, const void *data, size_t size);

#endif
