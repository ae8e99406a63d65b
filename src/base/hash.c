#include "base/hash.h"

#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"

typedef struct sip {
    uint64_t a, b, c, d;
} sip;

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void sip_round(sip *s) {
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate(s->b, 17) ^ s->c;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c = rotate(s->c, 32);
}

static inline void sip_word(sip *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

void lmc_hash_seed_init(lmc_hash_seed *seed) {
    if (lmc_random(seed->words, sizeof seed->words) == LMC_OK)
        return;
    seed->words[0] = (uint64_t)lmc_now(&lmc_system_clock);
    seed->words[1] = (uint64_t)(uintptr_t)seed;
}

uint64_t lmc_hash_keyed(const lmc_hash_seed *seed, const void *data, size_t size) {
    uint64_t k0 = seed->words[0], k1 = seed->words[1];
    sip s = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
             k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *at = data;
    size_t left = size;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = 0;
        for (int i = 0; i < 8; i++)
            word |= (uint64_t)at[i] << (8 * i);
        sip_word(&s, word);
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)at[i] << (8 * i);
    sip_word(&s, last);
    s.c ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
