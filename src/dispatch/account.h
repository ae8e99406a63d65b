/*
 * account.h: what the handlers of one module have done: calls, errors, time.
 *
 * Owned by whoever owns the module, and outlives its calls. A call is charged to the module
 * whose handler has it, from the handler's start to the call's completion. Everything here is
 * atomic; any thread.
 */
#ifndef LMC_DISPATCH_ACCOUNT_H
#define LMC_DISPATCH_ACCOUNT_H

#include <stdatomic.h>

#include "observe/metrics.h"

#define LMC_SLOW_CALL_NS INT64_C(1000000000) /* a call longer than this counts as slow */

typedef struct lmc_account {
    const char *owner; /* class name */
    bool outside;
    lmc_histogram *latency; /* seconds, of calls that ran on a pool; NULL: not measured */
    _Atomic uint64_t calls, errors, slow;
    _Atomic uint64_t measured, busy_ns; /* calls that ran on a pool, and their time together */
    _Atomic int64_t longest_ns;
    _Atomic int64_t in_flight; /* begun and not completed */
} lmc_account;

/* A handler starts. `account` may be NULL. */
static inline void lmc_account_begin(lmc_account *account) {
    if (account == NULL)
        return;
    atomic_fetch_add_explicit(&account->calls, 1, memory_order_relaxed);
    if (account->outside)
        atomic_fetch_add_explicit(&account->in_flight, 1, memory_order_relaxed);
}
/* Its call ends, or goes on to another module. took_ns < 0: not measured. */
void lmc_account_end(lmc_account *account, bool failed, int64_t took_ns);

#endif
