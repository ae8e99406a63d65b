#include "observe/events.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/work_queue.h"
#include "observe/event.h"

#define LMC_LOGGER "lmcache.events"

typedef struct subscription {
    char *name;
    const char *owner;
    void (*receive)(void *arg, const lmc_event *event);
    void *arg;
    atomic_bool dropped;
    _Atomic uint64_t failures; /* of its owner, with the owner's first one */
    struct subscription *_Atomic next;
} subscription;

typedef struct watch {
    const char *name;
    _Atomic uint32_t *interest;
    uint32_t bits;
} watch;

struct lmc_events {
    size_t queue_max;
    lmc_mpsc queue;
    _Atomic size_t queued, queued_bytes;
    _Atomic uint64_t dropped, delivered;
    _Atomic int64_t lag_ns;
    atomic_bool closed;
    subscription *_Atomic first;  /* appended to, never shortened */
    _Atomic(const char *) inside; /* owner of the subscriber that runs */
    lmc_lock lock;
    lmc_cond changed;
    subscription *last;
    watch watches[LMC_EVENT_WATCHES_MAX];
    size_t watch_count;
    bool running; /* the thread */
    lmc_thread thread;
};

lmc_status lmc_events_create(size_t queue_max, lmc_events **events, lmc_error *error) {
    lmc_events *made = calloc(1, sizeof *made);
    *events = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the event bus");
    made->queue_max = queue_max;
    lmc_lock_init(&made->lock, LMC_RANK_EVENTS, "events");
    lmc_cond_init(&made->changed);
    return LMC_OK;
}

/* ---- delivery ---- */

static void call(lmc_events *events, subscription *s, const lmc_event *event) {
    lmc_lock_assert_none();
    atomic_store(&events->inside, s->owner); /* before the look: see lmc_events_drop() */
    if (!atomic_load(&s->dropped))
        s->receive(s->arg, event);
    atomic_store(&events->inside, NULL);
}

static void deliver(lmc_events *events, const lmc_event *event) {
    const char *name = lmc_event_name(event);
    for (subscription *s = atomic_load(&events->first); s != NULL; s = atomic_load(&s->next)) {
        if (strcmp(s->name, name) == 0)
            call(events, s, event);
    }
    atomic_store_explicit(&events->lag_ns,
                          lmc_now(&lmc_system_clock) - lmc_event_published_ns(event),
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&events->delivered, 1, memory_order_relaxed);
}

/* False: the bus stops, and the queue is empty. */
static bool wait_for_events(lmc_events *events) {
    lmc_lock_take(&events->lock);
    while (lmc_mpsc_is_empty(&events->queue) && !atomic_load(&events->closed))
        lmc_cond_wait(&events->changed, &events->lock);
    bool some = !lmc_mpsc_is_empty(&events->queue);
    if (!some) {
        events->running = false;
        lmc_cond_broadcast(&events->changed);
    }
    lmc_lock_drop(&events->lock);
    return some;
}

static void run_delivery(void *arg) {
    lmc_events *events = arg;
    while (wait_for_events(events)) {
        lmc_mpsc_node *node = lmc_mpsc_take_all(&events->queue);
        while (node != NULL) {
            lmc_event *event = lmc_event_of_node(node);
            node = node->next;
            atomic_fetch_sub(&events->queued, 1);
            atomic_fetch_sub(&events->queued_bytes, lmc_event_bytes(event));
            deliver(events, event);
            lmc_event_free(event);
        }
    }
}

/* ---- subscribers ---- */

static lmc_status start_locked(lmc_events *events, lmc_error *error) {
    if (events->running)
        return LMC_OK;
    lmc_status status =
        lmc_thread_start(&events->thread, "lmc-events", run_delivery, events, error);
    events->running = status == LMC_OK;
    return status;
}

static void append_locked(lmc_events *events, subscription *added) {
    if (events->last == NULL)
        atomic_store(&events->first, added);
    else
        atomic_store(&events->last->next, added);
    events->last = added;
    for (size_t i = 0; i < events->watch_count; i++)
        if (strcmp(events->watches[i].name, added->name) == 0)
            atomic_fetch_or(events->watches[i].interest, events->watches[i].bits);
}

static bool is_wanted(lmc_events *events, const char *name) {
    for (subscription *s = atomic_load_explicit(&events->first, memory_order_acquire);
         s != NULL; s = atomic_load_explicit(&s->next, memory_order_acquire))
        if (strcmp(s->name, name) == 0)
            return true;
    return false;
}

void lmc_events_watch(lmc_events *events, const char *name, _Atomic uint32_t *interest,
                      uint32_t bits) {
    if (events == NULL)
        return;
    lmc_lock_take(&events->lock);
    assert(events->watch_count < LMC_EVENT_WATCHES_MAX);
    events->watches[events->watch_count++] = (watch){name, interest, bits};
    if (is_wanted(events, name))
        atomic_fetch_or(interest, bits);
    lmc_lock_drop(&events->lock);
}

lmc_status lmc_events_subscribe(lmc_events *events, const char *owner, const char *name,
                                void (*receive)(void *arg, const lmc_event *event), void *arg,
                                lmc_error *error) {
    if (events == NULL)
        return LMC_DECLINED;
    if (name == NULL || receive == NULL)
        return lmc_error_set(error, LMC_INVALID,
                             "%s: an event subscriber needs a name and a "
                             "function",
                             owner);
    subscription *added = calloc(1, sizeof *added);
    char *copy = strdup(name);
    if (added == NULL || copy == NULL) {
        free(added);
        free(copy);
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for a subscription of %s", owner);
    }
    added->name = copy;
    added->owner = owner;
    added->receive = receive;
    added->arg = arg;
    lmc_lock_take(&events->lock);
    lmc_status status = start_locked(events, error);
    if (status == LMC_OK)
        append_locked(events, added);
    lmc_lock_drop(&events->lock);
    if (status != LMC_OK) {
        free(copy);
        free(added);
    }
    return status;
}

void lmc_events_drop(lmc_events *events, const char *owner, int64_t wait_ns) {
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    if (events == NULL)
        return;
    for (subscription *s = atomic_load(&events->first); s != NULL; s = atomic_load(&s->next))
        if (strcmp(s->owner, owner) == 0)
            atomic_store(&s->dropped, true);
    while (lmc_events_is_in(events, owner) && lmc_now(&lmc_system_clock) < deadline)
        nanosleep(&(struct timespec){.tv_nsec = LMC_NS_PER_MS}, NULL);
}

/* The one that counts for an owner; NULL: it has none. */
static subscription *first_of(lmc_events *events, const char *owner) {
    subscription *s = events != NULL ? atomic_load(&events->first) : NULL;
    while (s != NULL && strcmp(s->owner, owner) != 0)
        s = atomic_load(&s->next);
    return s;
}

void lmc_events_failed(lmc_events *events, const char *owner) {
    subscription *s = first_of(events, owner);
    if (s != NULL)
        atomic_fetch_add_explicit(&s->failures, 1, memory_order_relaxed);
}

void lmc_events_each_owner(lmc_events *events,
                           void (*visit)(void *arg, const char *owner, uint64_t failures),
                           void *arg) {
    subscription *s = events != NULL ? atomic_load(&events->first) : NULL;
    for (; s != NULL; s = atomic_load(&s->next))
        if (first_of(events, s->owner) == s)
            visit(arg, s->owner, atomic_load_explicit(&s->failures, memory_order_relaxed));
}

bool lmc_events_is_in(lmc_events *events, const char *owner) {
    const char *inside = events != NULL ? atomic_load(&events->inside) : NULL;
    return inside != NULL && strcmp(inside, owner) == 0;
}

/* ---- producers ---- */

bool lmc_events_any(lmc_events *events) {
    return events != NULL && atomic_load_explicit(&events->first, memory_order_relaxed) != NULL;
}

bool lmc_events_wanted(lmc_events *events, const char *name) {
    return events != NULL && !atomic_load_explicit(&events->closed, memory_order_relaxed) &&
           is_wanted(events, name);
}

lmc_event *lmc_events_begin(lmc_events *events, const char *name, lmc_slice session) {
    if (!lmc_events_any(events))
        return NULL;
    return !lmc_events_wanted(events, name) ? NULL : lmc_event_make(events, name, session);
}

static void count_dropped(lmc_events *events) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    atomic_fetch_add_explicit(&events->dropped, 1, memory_order_relaxed);
    if (lmc_log_allow(&limit, &suppressed))
        LMC_WARNING("event dropped: %zu wait already%s", atomic_load(&events->queued),
                    lmc_log_more(suppressed).text);
}

/* False: the queue is full. */
static bool enter_queue(lmc_events *events, size_t bytes) {
    bool room = atomic_fetch_add(&events->queued, 1) < events->queue_max;
    room &= atomic_fetch_add(&events->queued_bytes, bytes) < LMC_EVENT_BYTES_MAX;
    if (room && !atomic_load(&events->closed))
        return true;
    atomic_fetch_sub(&events->queued, 1);
    atomic_fetch_sub(&events->queued_bytes, bytes);
    return false;
}

void lmc_events_post(lmc_events *events, lmc_event *event) {
    if (!enter_queue(events, lmc_event_bytes(event))) {
        if (!atomic_load(&events->closed))
            count_dropped(events);
        lmc_event_free(event);
        return;
    }
    if (!lmc_mpsc_push(&events->queue, lmc_event_node(event)))
        return;
    lmc_lock_take(&events->lock);
    lmc_cond_signal(&events->changed);
    lmc_lock_drop(&events->lock);
}

void lmc_events_report_get(lmc_events *events, lmc_events_report *report) {
    *report = (lmc_events_report){0};
    if (events == NULL)
        return;
    report->dropped = atomic_load(&events->dropped);
    report->delivered = atomic_load(&events->delivered);
    report->queued = atomic_load(&events->queued);
    report->lag_ns = atomic_load(&events->lag_ns);
}

/* ---- the end ---- */

bool lmc_events_stop(lmc_events *events, int64_t wait_ns) {
    if (events == NULL)
        return true;
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    bool in_time = true;
    lmc_lock_take(&events->lock);
    atomic_store(&events->closed, true);
    lmc_cond_broadcast(&events->changed);
    while (events->running && in_time)
        in_time = lmc_cond_wait_until(&events->changed, &events->lock, deadline);
    bool stopped = !events->running;
    lmc_lock_drop(&events->lock);
    if (stopped) {
        lmc_thread_join(&events->thread);
        return true;
    }
    const char *inside = atomic_load(&events->inside);
    LMC_ERROR("an event subscriber of %s has not returned; abandoned",
              inside != NULL ? inside : "a module");
    return false;
}

static void free_queue(lmc_events *events) {
    lmc_mpsc_node *node = lmc_mpsc_take_all(&events->queue);
    while (node != NULL) {
        lmc_event *event = lmc_event_of_node(node);
        node = node->next;
        lmc_event_free(event);
    }
}

void lmc_events_destroy(lmc_events *events) {
    if (events == NULL)
        return;
    lmc_lock_take(&events->lock);
    bool running = events->running;
    lmc_lock_drop(&events->lock);
    if (running)
        return;
    free_queue(events);
    for (subscription *s = events->first; s != NULL;) {
        subscription *next = s->next;
        free(s->name);
        free(s);
        s = next;
    }
    lmc_cond_fini(&events->changed);
    lmc_lock_fini(&events->lock);
    free(events);
}
