/*
 * event.h: one event as the bus carries it. Private to this room.
 *
 * Filled by one thread, then constant until it is freed.
 */
#ifndef LMC_OBSERVE_EVENT_H
#define LMC_OBSERVE_EVENT_H

#include "base/work_queue.h"
#include "observe/events.h"

lmc_event *lmc_event_make(lmc_events *events, const char *name, lmc_slice session);
void lmc_event_free(lmc_event *event);
lmc_mpsc_node *lmc_event_node(lmc_event *event);
lmc_event *lmc_event_of_node(lmc_mpsc_node *node);
int64_t lmc_event_published_ns(const lmc_event *event); /* monotonic */
size_t lmc_event_bytes(const lmc_event *event);         /* memory that it takes */

/* A copied list in one allocation; items NULL with a count: no memory. */
typedef struct lmc_event_list {
    void *items;
    size_t count, bytes;
} lmc_event_list;
lmc_event_list lmc_event_copy_keys(const lmc_object_key *keys, size_t count);
lmc_event_list lmc_event_copy_ints(const int64_t *values, size_t count);
lmc_event_list lmc_event_copy_int_lists(const lmc_ints *lists, size_t count);
lmc_event_list lmc_event_copy_slices(const lmc_slice *slices, size_t count);

/* The queue takes the event, or drops it. */
void lmc_events_post(lmc_events *events, lmc_event *event);

#endif
