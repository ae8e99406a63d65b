#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"

#define TIMER_NAME_SIZE 32
#define NOT_QUEUED SIZE_MAX

struct lmc_timer {
    lmc_timers *timers;
    lmc_timer *next, *previous; /* all timers of the service */
    int64_t deadline_ns;
    int64_t period_ns;
    int64_t last_run_ns; /* -1: never */
    uint64_t runs;
    size_t at; /* place in the heap, or NOT_QUEUED */
    void (*fire)(void *arg);
    void *arg;
    bool owned; /* the caller has a handle and will cancel */
    bool cancelled;
    char name[TIMER_NAME_SIZE];
};

struct lmc_timers {
    lmc_lock lock;
    lmc_cond wake; /* deadlines changed, or stop */
    lmc_cond idle; /* a callback returned */
    const lmc_clock *clock;
    lmc_thread thread;
    lmc_timer *all;
    lmc_timer *running;
    size_t count; /* of all */
    lmc_timer **heap;
    size_t queued, capacity;
    bool stopping;
};

/* --- The heap, earliest deadline first. Room for every timer is made when it is started. ---
 */

static void place(lmc_timers *timers, size_t at, lmc_timer *timer) {
    timers->heap[at] = timer;
    timer->at = at;
}

static void sift_up(lmc_timers *timers, size_t at, lmc_timer *timer) {
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (timers->heap[parent]->deadline_ns <= timer->deadline_ns)
            break;
        place(timers, at, timers->heap[parent]);
        at = parent;
    }
    place(timers, at, timer);
}

static void sift_down(lmc_timers *timers, size_t at, lmc_timer *timer) {
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->queued)
            break;
        if (child + 1 < timers->queued &&
            timers->heap[child + 1]->deadline_ns < timers->heap[child]->deadline_ns)
            child++;
        if (timers->heap[child]->deadline_ns >= timer->deadline_ns)
            break;
        place(timers, at, timers->heap[child]);
        at = child;
    }
    place(timers, at, timer);
}

static void enqueue(lmc_timers *timers, lmc_timer *timer) {
    sift_up(timers, timers->queued++, timer);
}

static void dequeue(lmc_timers *timers, lmc_timer *timer) {
    size_t at = timer->at;
    timer->at = NOT_QUEUED;
    lmc_timer *last = timers->heap[--timers->queued];
    if (last == timer)
        return;
    if (at > 0 && timers->heap[(at - 1) / 2]->deadline_ns > last->deadline_ns)
        sift_up(timers, at, last);
    else
        sift_down(timers, at, last);
}

static bool make_room(lmc_timers *timers) {
    if (timers->count < timers->capacity)
        return true;
    size_t capacity = timers->capacity == 0 ? 16 : timers->capacity * 2;
    lmc_timer **grown = realloc(timers->heap, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    timers->heap = grown;
    timers->capacity = capacity;
    return true;
}

/* --- The list of all timers. --- */

static void link_timer(lmc_timers *timers, lmc_timer *timer) {
    timer->previous = NULL;
    timer->next = timers->all;
    if (timers->all != NULL)
        timers->all->previous = timer;
    timers->all = timer;
    timers->count++;
}

static void unlink_timer(lmc_timers *timers, lmc_timer *timer) {
    if (timer->previous != NULL)
        timer->previous->next = timer->next;
    else
        timers->all = timer->next;
    if (timer->next != NULL)
        timer->next->previous = timer->previous;
    timers->count--;
}

/* --- The thread. --- */

/* Runs that were missed are skipped, but for one. */
static int64_t next_deadline(const lmc_timer *timer, int64_t now) {
    int64_t next = timer->deadline_ns + timer->period_ns;
    return next > now ? next : now + timer->period_ns;
}

/* The lock is held on entry and on return, and not during the callback. */
static void fire(lmc_timers *timers, lmc_timer *timer, int64_t now) {
    dequeue(timers, timer);
    timer->deadline_ns = next_deadline(timer, now);
    timers->running = timer;
    lmc_lock_drop(&timers->lock);
    timer->fire(timer->arg);
    lmc_lock_take(&timers->lock);
    timer->last_run_ns = lmc_now(timers->clock);
    timer->runs++;
    timers->running = NULL;
    lmc_cond_broadcast(&timers->idle);
    if (timer->cancelled || (timer->period_ns == 0 && !timer->owned)) {
        unlink_timer(timers, timer);
        free(timer);
    } else if (timer->period_ns > 0) {
        enqueue(timers, timer);
    }
}

static void wait_for_next(lmc_timers *timers, int64_t now) {
    if (timers->queued == 0) {
        lmc_cond_wait(&timers->wake, &timers->lock);
        return;
    }
    int64_t remaining = timers->heap[0]->deadline_ns - now;
    lmc_cond_wait_until(&timers->wake, &timers->lock, lmc_now(&lmc_system_clock) + remaining);
}

static void run_timers(void *arg) {
    lmc_timers *timers = arg;
    lmc_lock_take(&timers->lock);
    while (!timers->stopping) {
        int64_t now = lmc_now(timers->clock);
        if (timers->queued > 0 && timers->heap[0]->deadline_ns <= now)
            fire(timers, timers->heap[0], now);
        else
            wait_for_next(timers, now);
    }
    lmc_lock_drop(&timers->lock);
}

lmc_status lmc_timers_create(const lmc_clock *clock, lmc_timers **timers, lmc_error *error) {
    lmc_timers *made = calloc(1, sizeof *made);
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for timers");
    made->clock = clock;
    lmc_lock_init(&made->lock, LMC_RANK_TIMER, "timers");
    lmc_cond_init(&made->wake);
    lmc_cond_init(&made->idle);
    lmc_status status = lmc_thread_start(&made->thread, "lmc-timer", run_timers, made, error);
    if (status != LMC_OK) {
        lmc_timers_destroy(made);
        return status;
    }
    *timers = made;
    return LMC_OK;
}

void lmc_timers_destroy(lmc_timers *timers) {
    if (timers == NULL)
        return;
    lmc_lock_take(&timers->lock);
    timers->stopping = true;
    lmc_cond_broadcast(&timers->wake);
    lmc_lock_drop(&timers->lock);
    lmc_thread_join(&timers->thread);
    while (timers->all != NULL) {
        lmc_timer *timer = timers->all;
        timers->all = timer->next;
        free(timer);
    }
    free(timers->heap);
    lmc_cond_fini(&timers->idle);
    lmc_cond_fini(&timers->wake);
    lmc_lock_fini(&timers->lock);
    free(timers);
}

lmc_status lmc_timer_start(lmc_timers *timers, int64_t delay_ns, int64_t period_ns,
                           const char *name, void (*fire_fn)(void *arg), void *arg,
                           lmc_timer **timer, lmc_error *error) {
    lmc_timer *made = calloc(1, sizeof *made);
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for timer %s", name);
    *made = (lmc_timer){.timers = timers,
                        .period_ns = period_ns > 0 ? period_ns : 0,
                        .last_run_ns = -1,
                        .fire = fire_fn,
                        .arg = arg,
                        .owned = timer != NULL};
    snprintf(made->name, sizeof made->name, "%s", name);
    made->deadline_ns = lmc_now(timers->clock) + (delay_ns > 0 ? delay_ns : 0);

    lmc_lock_take(&timers->lock);
    bool room = make_room(timers);
    if (room) {
        link_timer(timers, made);
        enqueue(timers, made);
        if (timer != NULL)
            *timer = made;
        if (timers->heap[0] == made)
            lmc_cond_signal(&timers->wake);
    }
    lmc_lock_drop(&timers->lock);
    if (room)
        return LMC_OK;
    free(made);
    return lmc_error_set(error, LMC_NO_MEMORY, "no memory for timer %s", name);
}

void lmc_timer_cancel(lmc_timer *timer) {
    if (timer == NULL)
        return;
    lmc_timers *timers = timer->timers;
    bool on_service = pthread_equal(pthread_self(), timers->thread.handle) != 0;
    lmc_lock_take(&timers->lock);
    if (timers->running == timer) {
        timer->cancelled = true; /* whoever runs it frees it */
        while (!on_service && timers->running == timer)
            lmc_cond_wait(&timers->idle, &timers->lock);
        lmc_lock_drop(&timers->lock);
        return;
    }
    if (timer->at != NOT_QUEUED)
        dequeue(timers, timer);
    unlink_timer(timers, timer);
    lmc_lock_drop(&timers->lock);
    free(timer);
}

void lmc_timers_poke(lmc_timers *timers) {
    lmc_lock_take(&timers->lock);
    lmc_cond_signal(&timers->wake);
    lmc_lock_drop(&timers->lock);
}

typedef struct row {
    lmc_timer_report report;
    char name[TIMER_NAME_SIZE];
} row;

/* Under the lock. Returns the number of rows; NULL rows when there is no memory. */
static size_t copy_rows(lmc_timers *timers, row **rows) {
    size_t count = 0;
    *rows = calloc(timers->count > 0 ? timers->count : 1, sizeof **rows);
    if (*rows == NULL)
        return 0;
    int64_t now = lmc_now(timers->clock);
    for (const lmc_timer *timer = timers->all; timer != NULL; timer = timer->next) {
        if (timer->period_ns == 0 || timer->cancelled)
            continue;
        row *to = &(*rows)[count++];
        memcpy(to->name, timer->name, sizeof to->name);
        to->report = (lmc_timer_report){.name = to->name,
                                        .period_ns = timer->period_ns,
                                        .last_run_ago_ns = -1,
                                        .runs = timer->runs};
        if (timer->last_run_ns >= 0)
            to->report.last_run_ago_ns = now - timer->last_run_ns;
    }
    return count;
}

void lmc_timers_each(lmc_timers *timers,
                     void (*visit)(void *arg, const lmc_timer_report *report), void *arg) {
    row *rows;
    lmc_lock_take(&timers->lock);
    size_t count = copy_rows(timers, &rows);
    lmc_lock_drop(&timers->lock);
    for (size_t i = 0; i < count; i++)
        visit(arg, &rows[i].report);
    free(rows);
}
