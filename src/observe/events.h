/*
 * events.h: the event bus: what happens in the server, for whoever subscribed to it.
 *
 * Producers never wait: an event goes into one bounded queue, and when that is full, or holds
 * LMC_EVENT_BYTES_MAX, the newest is dropped and counted. One thread delivers to subscribers,
 * in order. An event that nobody has subscribed to is not even made. The thread starts with the
 * first subscription.
 *
 * The bus owns events from publish on and subscriptions until destroy; names, owners and
 * arguments of subscriptions are borrowed. create, stop and destroy belong to the main thread,
 * the rest to any. A NULL bus is accepted everywhere and means that there is none.
 *
 * Filling and reading events: lmc_event_put_... and lmc_event_... of lmcached/module.h, which
 * are defined here.
 */
#ifndef LMC_OBSERVE_EVENTS_H
#define LMC_OBSERVE_EVENTS_H

#include <lmcached/module.h>

#include <stdatomic.h>

#define LMC_EVENT_BYTES_MAX ((size_t)64 << 20)

typedef struct lmc_events lmc_events;

lmc_status lmc_events_create(size_t queue_max, lmc_events **events, lmc_error *error);
/*
 * No event is taken any more; those in the queue are delivered, then the thread ends. False: a
 * subscriber has not returned within wait_ns; an ERROR line has named its owner, and the bus
 * must stay. After true no subscriber runs.
 */
bool lmc_events_stop(lmc_events *events, int64_t wait_ns);
void lmc_events_destroy(
    lmc_events *events); /* after stop; accepts NULL, and keeps a stuck one */

/* Calls receive(arg, event) for events of this name. `owner` names it in the log. */
lmc_status lmc_events_subscribe(lmc_events *events, const char *owner, const char *name,
                                void (*receive)(void *arg, const lmc_event *event), void *arg,
                                lmc_error *error);
/* Ends an owner's subscriptions; waits for one that runs, but no longer than wait_ns. */
void lmc_events_drop(lmc_events *events, const char *owner, int64_t wait_ns);
/* True while the delivering thread is inside a subscriber of this owner. */
bool lmc_events_is_in(lmc_events *events, const char *owner);

/* A subscriber of this owner has failed at an event, which its owner has logged. */
void lmc_events_failed(lmc_events *events, const char *owner);
/* Calls visit once for every owner with how often its subscribers have failed. */
void lmc_events_each_owner(lmc_events *events,
                           void (*visit)(void *arg, const char *owner, uint64_t failures),
                           void *arg);

/* NULL: nobody has subscribed to it, the bus has stopped, or there is no memory. */
lmc_event *lmc_events_begin(lmc_events *events, const char *name, lmc_slice session);

bool lmc_events_wanted(lmc_events *events, const char *name); /* somebody has subscribed */
bool lmc_events_any(lmc_events *events); /* somebody has subscribed to something; one load */
/*
 * Sets `bits` of *interest as soon as somebody has subscribed to `name`, and never clears them:
 * for producers that look often and know no bus. At most LMC_EVENT_WATCHES_MAX; *interest must
 * outlive the bus. Main thread.
 */
#define LMC_EVENT_WATCHES_MAX 16
void lmc_events_watch(lmc_events *events, const char *name, _Atomic uint32_t *interest,
                      uint32_t bits);

/*
 * Lets an event carry an object of its publisher's kind beside its members; release(object) is
 * called once, by whoever frees the event, on any thread. `kind` is an address that only that
 * kind knows. Once per event, before it is published.
 */
void lmc_event_attach(lmc_event *event, const void *kind, void *object,
                      void (*release)(void *object));
void *lmc_event_attached(const lmc_event *event,
                         const void *kind); /* NULL: none of that kind */

/* Shows every member of an event, in the order in which they were put. */
typedef struct lmc_event_visitor {
    void (*integer)(void *arg, const char *member, int64_t value);
    void (*real)(void *arg, const char *member, double value);
    void (*text)(void *arg, const char *member, lmc_slice value);
    void (*keys)(void *arg, const char *member, const lmc_object_key_list *value);
    void (*ints)(void *arg, const char *member, const lmc_ints *value);
    void (*int_lists)(void *arg, const char *member, const lmc_int_lists *value);
    /* Texts, or byte strings. */
    void (*slices)(void *arg, const char *member, const lmc_slices *value, bool are_text);
} lmc_event_visitor;
void lmc_event_each(const lmc_event *event, const lmc_event_visitor *visitor, void *arg);

typedef struct lmc_events_report {
    uint64_t dropped, delivered;
    size_t queued;
    int64_t lag_ns; /* age of the event that was delivered last, then */
} lmc_events_report;
void lmc_events_report_get(lmc_events *events, lmc_events_report *report);

#endif
