#include "base/work_queue.h"

bool lmc_mpsc_push(lmc_mpsc *queue, lmc_mpsc_node *node) {
    lmc_mpsc_node *top = atomic_load_explicit(&queue->top, memory_order_relaxed);
    do {
        node->next = top;
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->top, &top, node, memory_order_seq_cst, memory_order_relaxed));
    return top == NULL;
}

lmc_mpsc_node *lmc_mpsc_take_all(lmc_mpsc *queue) {
    /* The whole stack goes at once, so no node can return underneath a push (no ABA). */
    lmc_mpsc_node *node = atomic_exchange_explicit(&queue->top, NULL, memory_order_seq_cst);
    lmc_mpsc_node *oldest_first = NULL;
    while (node != NULL) {
        lmc_mpsc_node *next = node->next;
        node->next = oldest_first;
        oldest_first = node;
        node = next;
    }
    return oldest_first;
}
