/*
 * list.h: intrusive doubly linked lists, for orders that are kept by appending.
 *
 * The head is a link too. An unlinked link points to itself. Guarded by the owner's lock.
 */
#ifndef LMC_CACHE_LIST_H
#define LMC_CACHE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lmc_link {
    struct lmc_link *prev, *next;
} lmc_link;

#define LMC_OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void lmc_link_init(lmc_link *link) { link->prev = link->next = link; }
static inline bool lmc_link_is_alone(const lmc_link *link) { return link->next == link; }
static inline void lmc_link_remove(lmc_link *link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    lmc_link_init(link);
}
/* Moves `link` to the end of the list, from wherever it is. */
static inline void lmc_link_append(lmc_link *list, lmc_link *link) {
    lmc_link_remove(link);
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}
static inline lmc_link *lmc_link_first(const lmc_link *list) {
    return list->next == list ? NULL : list->next;
}

#endif
