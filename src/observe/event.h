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

/* The queue takes the event, or drops it. */
void lmc_events_post(lmc_events *events, lmc_event *event);

#endif
