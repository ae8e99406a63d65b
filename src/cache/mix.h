/*
 * mix.h: one step of seeded hashing for tables whose keys peers choose.
 *
 * The two halves of a 64 x 64 bit product folded together. With a secret seed a peer cannot aim
 * at a bucket. Pure functions.
 */
#ifndef LMC_CACHE_MIX_H
#define LMC_CACHE_MIX_H

#include <stdint.h>

static inline uint64_t lmc_mix(uint64_t value, uint64_t seed) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(value ^ seed) * (seed | UINT64_C(0x9e3779b97f4a7c15));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
