#include "base/copy.h"

#include <stdint.h>
#include <string.h>

#define COLD_FROM ((size_t)1 << 20)

#ifdef __SSE2__

#include <emmintrin.h>

#define LINE 64

static void stream_line(uint8_t *to, const uint8_t *from) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
    _mm_stream_si128((__m128i *)(void *)to, a);
    _mm_stream_si128((__m128i *)(void *)(to + 16), b);
    _mm_stream_si128((__m128i *)(void *)(to + 32), c);
    _mm_stream_si128((__m128i *)(void *)(to + 48), d);
}

/* Whole lines, so that no write waits for another half; the ends as usual. */
static void stream(uint8_t *to, const uint8_t *from, size_t size) {
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + LINE <= size; at += LINE)
        stream_line(to + at, from + at);
    _mm_sfence(); /* visible before anything that says so */
    memcpy(to + at, from + at, size - at);
}

void lmc_copy_cold(void *to, const void *from, size_t size) {
    if (size >= COLD_FROM)
        stream(to, from, size);
    else if (size > 0)
        memcpy(to, from, size);
}

#else

void lmc_copy_cold(void *to, const void *from, size_t size) {
    if (size > 0)
        memcpy(to, from, size);
}

#endif
