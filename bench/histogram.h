/*
 * histogram.h: latencies counted in buckets that are at most 0.4 % wide.
 *
 * Fixed size, no allocation. Owned by one thread; merge after the threads have ended.
 */
#ifndef LMC_BENCH_HISTOGRAM_H
#define LMC_BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_SUB_BITS 8
#define HISTOGRAM_OCTAVES 40
#define HISTOGRAM_BUCKETS ((size_t)HISTOGRAM_OCTAVES << HISTOGRAM_SUB_BITS)

typedef struct histogram {
    uint64_t count, sum_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
} histogram;

/* Up to 2^9 each value has a bucket; above, each octave has 2^8 of them. */
static inline size_t histogram_bucket(uint64_t ns) {
    if (ns < (2u << HISTOGRAM_SUB_BITS))
        return (size_t)ns;
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns) - HISTOGRAM_SUB_BITS;
    size_t bucket = ((size_t)octave << HISTOGRAM_SUB_BITS) + (size_t)(ns >> octave);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The middle of a bucket. */
static inline double histogram_value(size_t bucket) {
    if (bucket < (2u << HISTOGRAM_SUB_BITS))
        return (double)bucket;
    unsigned octave = (unsigned)(bucket >> HISTOGRAM_SUB_BITS) - 1;
    double base = (double)(bucket - ((size_t)octave << HISTOGRAM_SUB_BITS));
    return (base + 0.5) * (double)(UINT64_C(1) << octave);
}

static inline void histogram_add(histogram *h, uint64_t ns) {
    h->count++;
    h->sum_ns += ns;
    h->buckets[histogram_bucket(ns)]++;
}

static inline void histogram_merge(histogram *into, const histogram *from) {
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

/* In nanoseconds; 0 when nothing was counted. */
static inline double histogram_quantile(const histogram *h, double quantile) {
    uint64_t wanted = (uint64_t)(quantile * (double)h->count);
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > wanted)
            return histogram_value(i);
    }
    return 0;
}

#endif
