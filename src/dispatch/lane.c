#include "dispatch/lane.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.dispatch"
#define QUICK_NS INT64_C(50000) /* news are not kept for longer, nor beside longer ones */
#define WARY_FOR 64u            /* requests after one that was not quick */

/* ---- lists ---- */

static void push_last(lmc_list *list, lmc_exchange *x) {
    x->next = NULL;
    if (list->last != NULL)
        list->last->next = x;
    else
        list->first = x;
    list->last = x;
    list->count++;
}

static void push_first(lmc_list *list, lmc_exchange *x) {
    x->next = list->first;
    list->first = x;
    if (list->last == NULL)
        list->last = x;
    list->count++;
}

static lmc_exchange *pop_first(lmc_list *list) {
    lmc_exchange *x = list->first;
    if (x == NULL)
        return NULL;
    list->first = x->next;
    if (x->next == NULL)
        list->last = NULL;
    list->count--;
    return x;
}

/* The oldest of one connection, taken out; NULL: none. */
static lmc_exchange *pop_of_peer(lmc_list *list, const lmc_peer *peer) {
    lmc_exchange *before = NULL;
    for (lmc_exchange *x = list->first; x != NULL; before = x, x = x->next) {
        if (x->peer != peer)
            continue;
        if (before == NULL)
            return pop_first(list);
        before->next = x->next;
        if (list->last == x)
            list->last = before;
        list->count--;
        return x;
    }
    return NULL;
}

/* Lock held. */
static void move_arrived(lmc_lane *lane) {
    /* Sequentially consistent, for the sake of wait_runnable(). */
    if (atomic_load(&lane->arrived.top) == NULL)
        return;
    lmc_mpsc_node *node = lmc_mpsc_take_all(&lane->arrived);
    while (node != NULL) {
        lmc_exchange *x = (lmc_exchange *)((char *)node - offsetof(lmc_exchange, node));
        node = node->next;
        push_last(&lane->queue, x);
    }
}

/* ---- the threads ---- */

/* Lock held. The next that may run; requests whose connection is busy step aside. */
static lmc_exchange *take_runnable(lmc_lane *lane) {
    lmc_exchange *x;
    if (lane->queue.first == NULL)
        move_arrived(lane);
    while ((x = pop_first(&lane->queue)) != NULL) {
        if (!lane->affinity || x->in_affinity)
            break;
        if (!x->peer->busy) {
            x->peer->busy = true;
            x->in_affinity = true;
            break;
        }
        push_last(&lane->held, x);
        if (lane->queue.first == NULL)
            move_arrived(lane);
    }
    lane->started += x != NULL;
    return x;
}

/*
 * Lock held. A pusher that does not see this thread idle has pushed before the second look, and
 * one that does takes the lock, which this thread gives up only when it waits.
 */
static lmc_exchange *wait_runnable(lmc_lane *lane) {
    lmc_exchange *x = take_runnable(lane);
    while (x == NULL && !atomic_load(&lane->stopping)) {
        atomic_fetch_add(&lane->idle, 1);
        x = take_runnable(lane);
        if (x == NULL && !atomic_load(&lane->stopping))
            lmc_cond_wait(&lane->work, &lane->lock);
        atomic_fetch_sub(&lane->idle, 1);
        if (x == NULL)
            x = take_runnable(lane);
    }
    return x;
}

static void tell_news(lmc_worker *self) {
    lmc_news news = self->news;
    self->news = (lmc_news){0};
    if (news.tell != NULL)
        news.tell(news.arg);
}

/*
 * Before a request that starts now. Handlers of this server complete as the last thing they do,
 * so that what is kept waits for the quick requests behind it and nothing else.
 */
static void mind_news(lmc_worker *self, int64_t now_ns) {
    if (self->before_ns != 0 && now_ns - self->before_ns > QUICK_NS)
        self->wary = WARY_FOR;
    else if (self->wary > 0)
        self->wary--;
    self->before_ns = now_ns;
    if (self->wary > 0 || now_ns - self->oldest_ns > QUICK_NS)
        tell_news(self);
    if (self->news.tell == NULL)
        self->oldest_ns = now_ns;
    lmc_news_here = self->lane->keeps_news && self->wary == 0 ? &self->news : NULL;
}

/* NULL: the lane stops and its queue is empty. */
static lmc_exchange *next_exchange(lmc_worker *self) {
    lmc_lane *lane = self->lane;
    lmc_lock_take(&lane->lock);
    lmc_exchange *x = take_runnable(lane);
    if (x == NULL) {
        lmc_lock_drop(&lane->lock);
        tell_news(self);
        self->before_ns = 0;
        lmc_lock_take(&lane->lock);
        x = wait_runnable(lane);
    }
    lmc_lock_drop(&lane->lock);
    return x;
}

static void run(lmc_worker *self, lmc_exchange *x) {
    x->started_ns = lmc_now(&lmc_system_clock);
    mind_news(self, x->started_ns);
    atomic_store_explicit(&self->since_ns, x->started_ns, memory_order_relaxed);
    atomic_store_explicit(&self->running, x->operation, memory_order_relaxed);
    if (atomic_load_explicit(&self->lane->stopping, memory_order_relaxed))
        lmc_exchange_refuse(x, LMC_CLOSED);
    else
        lmc_exchange_run(x);
    atomic_store_explicit(&self->running, NULL, memory_order_relaxed);
    atomic_store_explicit(&self->busy.account, NULL, memory_order_relaxed);
}

static void serve(void *arg) {
    lmc_worker *self = arg;
    lmc_lane *lane = self->lane;
    lmc_exchange *x;
    lmc_busy_here = &self->busy;
    while ((x = next_exchange(self)) != NULL)
        run(self, x);
    lmc_lock_take(&lane->lock);
    lane->alive--;
    lmc_cond_broadcast(&lane->gone);
    lmc_lock_drop(&lane->lock);
}

/* ---- queueing ---- */

bool lmc_lane_push(lmc_lane *lane, lmc_exchange *x) {
    x->queued_ns = lmc_now(&lmc_system_clock);
    lmc_mpsc_push(&lane->arrived, &x->node);
    if (atomic_load(&lane->stopping)) {
        lmc_lane_refuse(lane);
        return false;
    }
    return atomic_load(&lane->idle) > 0;
}

void lmc_lane_wake(lmc_lane *lane, uint32_t threads) {
    lmc_lock_take(&lane->lock);
    if (threads == 1)
        lmc_cond_signal(&lane->work);
    else
        lmc_cond_broadcast(&lane->work);
    lmc_lock_drop(&lane->lock);
}

void lmc_lane_end_turn(lmc_lane *lane, lmc_exchange *x) {
    lmc_lock_take(&lane->lock);
    x->peer->busy = false;
    lmc_exchange *next = pop_of_peer(&lane->held, x->peer);
    if (next != NULL) {
        /* To the front: later ones of this connection may be in the queue already. */
        push_first(&lane->queue, next);
        lmc_cond_signal(&lane->work);
    }
    lmc_lock_drop(&lane->lock);
}

static void refuse_list(lmc_list *taken) {
    lmc_exchange *x;
    while ((x = pop_first(taken)) != NULL)
        lmc_exchange_refuse(x, LMC_CLOSED);
}

void lmc_lane_refuse(lmc_lane *lane) {
    lmc_lock_take(&lane->lock);
    move_arrived(lane);
    lmc_list held = lane->held, queue = lane->queue;
    lane->held = (lmc_list){0};
    lane->queue = (lmc_list){0};
    lmc_lock_drop(&lane->lock);
    refuse_list(&held);
    refuse_list(&queue);
}

/* ---- start and stop ---- */

static lmc_status start_worker(lmc_lane *lane, uint32_t number, lmc_error *error) {
    lmc_worker *worker = &lane->workers[lane->count];
    char label[16];
    snprintf(label, sizeof label, "lmc-%.6s-%u", lane->pool, number % 10000);
    worker->lane = lane;
    lane->count++;
    lane->alive++; /* before the thread can end */
    lmc_status status = lmc_thread_start(&worker->thread, label, serve, worker, error);
    if (status != LMC_OK)
        lane->alive--;
    return status;
}

lmc_status lmc_lane_init(lmc_lane *lane, const lmc_lane_options *options, uint32_t first,
                         lmc_error *error) {
    lmc_lock_init(&lane->lock, LMC_RANK_DISPATCH, options->pool);
    lmc_cond_init(&lane->work);
    lmc_cond_init(&lane->gone);
    lane->pool = options->pool;
    lane->affinity = options->affinity;
    lane->keeps_news = options->keeps_news;
    lane->workers = calloc(options->threads, sizeof *lane->workers);
    if (lane->workers == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the %s pool", options->pool);
    lmc_status status = LMC_OK;
    for (uint32_t i = 0; i < options->threads && status == LMC_OK; i++)
        status = start_worker(lane, first + i, error);
    return status;
}

void lmc_lane_fini(lmc_lane *lane) {
    free(lane->workers);
    lmc_cond_fini(&lane->work);
    lmc_cond_fini(&lane->gone);
    lmc_lock_fini(&lane->lock);
}

void lmc_lane_tell_to_stop(lmc_lane *lane) {
    lmc_lock_take(&lane->lock);
    atomic_store(&lane->stopping, true);
    lmc_cond_broadcast(&lane->work);
    lmc_lock_drop(&lane->lock);
}

static void name_stuck(const lmc_lane *lane) {
    for (uint32_t i = 0; i < lane->count; i++) {
        const lmc_operation_def *running =
            atomic_load_explicit(&lane->workers[i].running, memory_order_relaxed);
        if (running != NULL)
            LMC_ERROR("a handler of '%s' on the %s pool has not returned in time",
                      running->name, lane->pool);
    }
}

bool lmc_lane_await(lmc_lane *lane, int64_t deadline_ns) {
    bool in_time = true;
    lmc_lock_take(&lane->lock);
    while (lane->alive > 0 && in_time) {
        if (deadline_ns == INT64_MAX)
            lmc_cond_wait(&lane->gone, &lane->lock);
        else
            in_time = lmc_cond_wait_until(&lane->gone, &lane->lock, deadline_ns);
    }
    bool gone = lane->alive == 0;
    lmc_lock_drop(&lane->lock);
    if (!gone)
        name_stuck(lane);
    for (uint32_t i = 0; gone && i < lane->count; i++)
        lmc_thread_join(&lane->workers[i].thread);
    return gone;
}

/* ---- reports ---- */

/* A handler is told of when it has run for the limit, and then each time that has doubled. */
static void watch_worker(lmc_worker *worker, int64_t now_ns,
                         const lmc_pools_watch_options *options) {
    lmc_account *account = atomic_load_explicit(&worker->busy.account, memory_order_acquire);
    int64_t since = atomic_load_explicit(&worker->since_ns, memory_order_relaxed);
    if (account == NULL || now_ns - since < options->limit_ns)
        return;
    if (worker->told_of != since)
        worker->told_ns = 0;
    if (now_ns - since < 2 * worker->told_ns)
        return;
    worker->told_of = since;
    worker->told_ns = now_ns - since;
    lmc_slow_handler slow = {.pool = worker->lane->pool,
                             .account = account,
                             .what =
                                 atomic_load_explicit(&worker->busy.what, memory_order_relaxed),
                             .running_ns = now_ns - since};
    options->visit(options->arg, &slow);
}

void lmc_lane_watch(lmc_lane *lane, int64_t now_ns, const lmc_pools_watch_options *options) {
    for (uint32_t i = 0; i < lane->count; i++)
        watch_worker(&lane->workers[i], now_ns, options);
}

static void report_worker(lmc_worker *worker, int64_t now_ns, lmc_pool_report *report) {
    const lmc_operation_def *running =
        atomic_load_explicit(&worker->running, memory_order_relaxed);
    if (running == NULL)
        return;
    report->busy++;
    int64_t since = atomic_load_explicit(&worker->since_ns, memory_order_relaxed);
    if (now_ns - since > report->longest_ns) {
        report->longest_ns = now_ns - since;
        report->longest = running->name;
    }
}

void lmc_lane_report(lmc_lane *lane, int64_t now_ns, lmc_pool_report *report) {
    lmc_lock_take(&lane->lock);
    move_arrived(lane);
    report->threads += lane->count;
    report->queued += lane->queue.count + lane->held.count;
    report->started += lane->started;
    int64_t waits = lane->queue.first != NULL ? now_ns - lane->queue.first->queued_ns : 0;
    lmc_lock_drop(&lane->lock);
    if (waits > report->oldest_ns)
        report->oldest_ns = waits;
    for (uint32_t i = 0; i < lane->count; i++)
        report_worker(&lane->workers[i], now_ns, report);
}
