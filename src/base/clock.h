/*
 * clock.h: time as an interface, so that the cache core can be tested without waiting.
 *
 * Monotonic time is for deadlines and TTLs, wall time for people. Both in nanoseconds. The
 * functions of a clock may be called from any thread.
 */
#ifndef LMC_BASE_CLOCK_H
#define LMC_BASE_CLOCK_H

#include <stdint.h>

#define LMC_NS_PER_S INT64_C(1000000000)
#define LMC_NS_PER_MS INT64_C(1000000)

typedef struct lmc_clock {
    int64_t (*monotonic_ns)(const struct lmc_clock *clock);
    int64_t (*wall_ns)(const struct lmc_clock *clock);
} lmc_clock;

/* The machine's clocks; static, always usable. */
extern const lmc_clock lmc_system_clock;

static inline int64_t lmc_now(const lmc_clock *clock) { return clock->monotonic_ns(clock); }

/*
 * A number of seconds that somebody wrote. Beyond fifty years it is fifty years, so
 * that sums with times of the clocks do not overflow; what is no number is 0.
 */
int64_t lmc_ns_of_seconds(double seconds);

#endif
