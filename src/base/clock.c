#include "base/clock.h"

#include <math.h>
#include <time.h>

#define LONGEST_S (50 * 365.25 * 24 * 60 * 60)

static int64_t read_clock(clockid_t id) {
    struct timespec now = {0};
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * LMC_NS_PER_S + now.tv_nsec;
}

static int64_t system_monotonic(const lmc_clock *clock) {
    (void)clock;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_wall(const lmc_clock *clock) {
    (void)clock;
    return read_clock(CLOCK_REALTIME);
}

const lmc_clock lmc_system_clock = {.monotonic_ns = system_monotonic, .wall_ns = system_wall};

int64_t lmc_ns_of_seconds(double seconds) {
    if (isnan(seconds))
        return 0;
    if (seconds > LONGEST_S)
        seconds = LONGEST_S;
    else if (seconds < -LONGEST_S)
        seconds = -LONGEST_S;
    return (int64_t)(seconds * (double)LMC_NS_PER_S);
}
