#include "base/copy.h"

#include <stdint.h>
#include <string.h>

#include "base/copy_crew.h"

#define COLD_FROM ((size_t)1 << 20)

#ifdef __SSE2__

#include <emmintrin.h>

#define LINE 64
#define PAGE 4096
#define PAGES_AT_ONCE 4
#define AHEAD 128

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

/* Line by line on several pages: while one waits for memory, the others go on. */
static void stream_pages(uint8_t *to, const uint8_t *from) {
    for (size_t at = 0; at < PAGE; at += LINE) {
        for (size_t page = 0; page < (size_t)PAGES_AT_ONCE * PAGE; page += PAGE) {
            _mm_prefetch((const char *)from + page + at + AHEAD, _MM_HINT_T0);
            stream_line(to + page + at, from + page + at);
        }
    }
}

/* Whole lines, so that no write waits for another half; the ends as usual. */
static void stream(void *to_bytes, const void *from_bytes, size_t size) {
    uint8_t *to = to_bytes;
    const uint8_t *from = from_bytes;
    size_t at = (LINE - (uintptr_t)to % LINE) % LINE;
    memcpy(to, from, at);
    for (; at + (size_t)PAGES_AT_ONCE * PAGE + AHEAD <= size;
         at += (size_t)PAGES_AT_ONCE * PAGE)
        stream_pages(to + at, from + at);
    for (; at + LINE <= size; at += LINE)
        stream_line(to + at, from + at);
    _mm_sfence(); /* visible before anything that says so */
    memcpy(to + at, from + at, size - at);
}

void lmc_copy_cold(void *to, const void *from, size_t size) {
    if (size >= COLD_FROM)
        lmc_copy_crew_share(to, from, size, stream);
    else if (size > 0)
        memcpy(to, from, size);
}

#else

void lmc_copy_cold(void *to, const void *from, size_t size) {
    if (size > 0)
        memcpy(to, from, size);
}

#endif
