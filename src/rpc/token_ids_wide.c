/*
 * Twelve token ids at a time with AVX-512: they lie within one 64-byte register whatever their
 * widths, so mixed widths cost no mispredicted branches.
 *
 * next1[i] is where the integer after one that begins at byte i begins; next2, next4 and next8
 * follow it 2, 4 and 8 times. From these come the places of all twelve at once and, on a
 * shorter way, that of the thirteenth, where the next round begins.
 */
#include "rpc/token_ids.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#define AT_ONCE 12
#define REGISTER 64
#define AHEAD 1024 /* the frame came in on another processor */
#define OF_LANES_WITH_1 UINT64_C(0xf0f0f0f0f0f0f0f0) /* bytes of 32-bit lanes 1, 3, 5, ... */
#define OF_LANES_WITH_2 UINT64_C(0xff00ff00ff00ff00)
#define OF_LANES_WITH_4 UINT64_C(0xffff0000ffff0000)
#define OF_LANES_WITH_8 UINT64_C(0xffffffff00000000)
#define OF_LANES_IN_USE UINT64_C(0x0000ffffffffffff)

bool lmc_token_ids_wide_works(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi");
}

typedef struct wide_round {
    __m512i next1;
    __m512i place; /* lane k: where integer k begins, in each of its four bytes */
    uint32_t size; /* bytes of all of them; the next round waits for nothing else */
    bool plain;    /* all of them are unsigned, of at most 32 bits */
} wide_round;

WIDE static inline __m512i follow(__m512i next, __m512i place) {
    return _mm512_permutexvar_epi8(place, next);
}

WIDE static inline wide_round look(__m512i bytes) {
    static const uint8_t counting[REGISTER] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    __m512i here = _mm512_loadu_si512(counting);
    __mmask64 is8 = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8((char)0xcc));
    __mmask64 is16 = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8((char)0xcd));
    __mmask64 is32 = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8((char)0xce));
    __mmask64 strange = _mm512_movepi8_mask(bytes) & ~(is8 | is16 | is32);
    wide_round round;
    round.next1 = _mm512_add_epi8(here, _mm512_set1_epi8(1));
    round.next1 = _mm512_mask_add_epi8(round.next1, is8, here, _mm512_set1_epi8(2));
    round.next1 = _mm512_mask_add_epi8(round.next1, is16, here, _mm512_set1_epi8(3));
    round.next1 = _mm512_mask_add_epi8(round.next1, is32, here, _mm512_set1_epi8(5));
    __m512i next2 = follow(round.next1, round.next1);
    __m512i next4 = follow(next2, next2);
    __m512i next8 = follow(next4, next4);
    __m512i next12 = follow(next8, next4);
    round.size = (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(next12)) & (REGISTER - 1);
    __m512i place = _mm512_setzero_si512();
    place = _mm512_mask_permutexvar_epi8(place, OF_LANES_WITH_1, place, round.next1);
    place = _mm512_mask_permutexvar_epi8(place, OF_LANES_WITH_2, place, next2);
    place = _mm512_mask_permutexvar_epi8(place, OF_LANES_WITH_4, place, next4);
    place = _mm512_mask_permutexvar_epi8(place, OF_LANES_WITH_8, place, next8);
    round.place = place;
    __mmask64 odd = _mm512_movepi8_mask(follow(_mm512_movm_epi8(strange), place));
    round.plain = strange == 0 || (odd & OF_LANES_IN_USE) == 0;
    return round;
}

/* The bytes of each integer from its last one back, as a little-endian lane. */
WIDE static inline void take(__m512i bytes, const wide_round *round, uint32_t *ids) {
    __m512i ones = _mm512_set1_epi8(1);
    __m512i back = _mm512_set1_epi32(0x03020100);
    __m512i last = _mm512_sub_epi8(follow(round->next1, round->place), ones);
    __m512i width = _mm512_max_epu8(_mm512_sub_epi8(last, round->place), ones);
    __mmask64 used = _mm512_cmplt_epu8_mask(back, width);
    __m512i lanes = _mm512_maskz_permutexvar_epi8(used, _mm512_sub_epi8(last, back), bytes);
    _mm512_mask_storeu_epi32(ids, (__mmask16)((1u << AT_ONCE) - 1), lanes);
}

WIDE size_t lmc_token_ids_wide(lmc_mp_reader *reader, size_t count, uint32_t *ids) {
    const uint8_t *at = reader->at;
    size_t done = 0;
    while (count - done >= AT_ONCE && reader->end - at >= REGISTER) {
        if (reader->end - at > AHEAD)
            _mm_prefetch((const char *)at + AHEAD, _MM_HINT_T0);
        __m512i bytes = _mm512_loadu_si512(at);
        wide_round round = look(bytes);
        if (!round.plain)
            break;
        if (ids != NULL)
            take(bytes, &round, ids + done);
        done += AT_ONCE;
        at += round.size;
    }
    reader->at = at;
    return done;
}

#else

bool lmc_token_ids_wide_works(void) { return false; }

size_t lmc_token_ids_wide(lmc_mp_reader *reader, size_t count, uint32_t *ids) {
    (void)reader;
    (void)count;
    (void)ids;
    return 0;
}

#endif
