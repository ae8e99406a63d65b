#include "module/closing.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"

#define LMC_LOGGER "lmcache.module"

typedef struct closing_run {
    const lmc_closing *steps;
    size_t count;
    int64_t limit_ns;
    void (*take_over)(void *arg);
    void *arg;
    lmc_lock lock;
    lmc_cond changed;
    size_t at; /* the step that is running */
    bool finished, abandoned;
} closing_run;

/* Waits until every step is done or one is too late; false when the guard has to take over. */
static bool watch(closing_run *run) {
    lmc_lock_take(&run->lock);
    while (!run->finished) {
        size_t at = run->at;
        int64_t deadline = lmc_now(&lmc_system_clock) + run->limit_ns;
        bool in_time = true;
        while (!run->finished && run->at == at && in_time)
            in_time = lmc_cond_wait_until(&run->changed, &run->lock, deadline);
        if (!run->finished && run->at == at)
            break;
    }
    run->abandoned = !run->finished;
    bool finished = run->finished;
    lmc_lock_drop(&run->lock);
    return finished;
}

static void guard_closing(void *arg) {
    closing_run *run = arg;
    if (watch(run))
        return;
    LMC_ERROR("closing %s takes longer than %.1f s; abandoned", run->steps[run->at].name,
              (double)run->limit_ns / (double)LMC_NS_PER_S);
    size_t next = run->at + 1;
    if (lmc_close_in_order(run->steps + next, run->count - next, run->limit_ns, run->take_over,
                           run->arg))
        run->take_over(run->arg);
}

/* The step before `at` is done; false when the guard has taken over. */
static bool advance(closing_run *run, size_t at) {
    lmc_lock_take(&run->lock);
    bool mine = !run->abandoned;
    if (mine) {
        run->at = at;
        run->finished = at == run->count;
        lmc_cond_broadcast(&run->changed);
    }
    lmc_lock_drop(&run->lock);
    return mine;
}

bool lmc_close_in_order(const lmc_closing *steps, size_t count, int64_t limit_ns,
                        void (*take_over)(void *arg), void *arg) {
    closing_run run = {.steps = steps,
                       .count = count,
                       .limit_ns = limit_ns,
                       .take_over = take_over,
                       .arg = arg};
    lmc_error error = LMC_ERROR_INIT;
    lmc_thread guard = {0};
    if (count == 0)
        return true;
    lmc_lock_init(&run.lock, LMC_RANK_MODULES, "closing");
    lmc_cond_init(&run.changed);
    if (lmc_thread_start(&guard, "lmc-closing", guard_closing, &run, &error) != LMC_OK)
        LMC_WARNING("modules are closed without a time limit: %s", error.text);
    bool mine = true;
    for (size_t i = 0; i < count && mine; i++) {
        lmc_lock_assert_none();
        if (steps[i].close != NULL)
            steps[i].close(steps[i].self);
        mine = advance(&run, i + 1);
    }
    lmc_thread_join(&guard);
    lmc_cond_fini(&run.changed);
    lmc_lock_fini(&run.lock);
    return mine;
}
