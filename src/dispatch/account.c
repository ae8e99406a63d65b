#include "dispatch/account.h"

#include "base/clock.h"

static void measure(lmc_account *account, int64_t took_ns) {
    atomic_fetch_add_explicit(&account->measured, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->busy_ns, (uint64_t)took_ns, memory_order_relaxed);
    if (took_ns > LMC_SLOW_CALL_NS)
        atomic_fetch_add_explicit(&account->slow, 1, memory_order_relaxed);
    int64_t longest = atomic_load_explicit(&account->longest_ns, memory_order_relaxed);
    while (took_ns > longest &&
           !atomic_compare_exchange_weak_explicit(&account->longest_ns, &longest, took_ns,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    lmc_histogram_observe(account->latency, (double)took_ns / (double)LMC_NS_PER_S);
}

void lmc_account_end(lmc_account *account, bool failed, int64_t took_ns) {
    if (account == NULL)
        return;
    if (account->outside)
        atomic_fetch_sub_explicit(&account->in_flight, 1, memory_order_relaxed);
    if (failed)
        atomic_fetch_add_explicit(&account->errors, 1, memory_order_relaxed);
    if (took_ns >= 0)
        measure(account, took_ns);
}
