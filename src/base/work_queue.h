/*
 * work_queue.h: a lock-free list from many threads to one, for completions and wake-ups.
 *
 * Intrusive: the queue borrows its nodes; a node is in at most one queue and belongs to the
 * queue from push until it is taken. Any thread may push; one thread at a time takes, always
 * everything, in the order in which it was pushed. Never waits and never allocates.
 */
#ifndef LMC_BASE_WORK_QUEUE_H
#define LMC_BASE_WORK_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct lmc_mpsc_node {
    struct lmc_mpsc_node *next;
} lmc_mpsc_node;

typedef struct lmc_mpsc {
    _Atomic(lmc_mpsc_node *) top;
} lmc_mpsc;

#define LMC_MPSC_INIT \
    { NULL }

/* True when the queue was empty, so that exactly one pusher per batch wakes the taker. */
bool lmc_mpsc_push(lmc_mpsc *queue, lmc_mpsc_node *node);

/* Everything pushed so far, oldest first, linked through next; NULL: nothing. */
lmc_mpsc_node *lmc_mpsc_take_all(lmc_mpsc *queue);

static inline bool lmc_mpsc_is_empty(lmc_mpsc *queue) {
    return atomic_load_explicit(&queue->top, memory_order_acquire) == NULL;
}

#endif
