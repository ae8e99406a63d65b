#include <stdlib.h>
#include <string.h>

#include "cache/instances.h"

static char *append(char *at, lmc_slice *text) {
    if (text->size > 0)
        memcpy(at, text->data, text->size);
    text->data = at;
    return at + text->size;
}

lmc_pending *lmc_pending_create(lmc_pending_kind kind, const lmc_pending_id *id,
                                const lmc_object_ref *refs, const lmc_place *places,
                                size_t count) {
    size_t text = id->model_name.size + id->cache_salt.size + id->request_id.size;
    lmc_pending *pending =
        malloc(sizeof(*pending) + count * (sizeof(*refs) + sizeof(*places)) + text);
    if (pending == NULL)
        return NULL;
    *pending = (lmc_pending){.kind = kind, .id = *id, .count = count};
    lmc_link_init(&pending->of_instance);
    lmc_link_init(&pending->expiring);
    pending->places = (lmc_place *)(void *)(pending + 1);
    pending->refs = (lmc_object_ref *)(void *)(pending->places + count);
    memcpy(pending->places, places, count * sizeof(*places));
    memcpy(pending->refs, refs, count * sizeof(*refs));
    char *at = (char *)(pending->refs + count);
    at = append(at, &pending->id.model_name);
    at = append(at, &pending->id.cache_salt);
    append(at, &pending->id.request_id);
    return pending;
}

void lmc_pending_abandon(lmc_l1 *l1, lmc_pending *pending) {
    if (pending == NULL)
        return;
    if (pending->kind == LMC_PENDING_STORE)
        lmc_l1_discard(l1, pending->refs, pending->count);
    else
        lmc_l1_release(l1, pending->refs, pending->count, 1, false);
    free(pending);
}

void lmc_pending_complete(lmc_l1 *l1, lmc_pending *pending) {
    if (pending->kind == LMC_PENDING_STORE)
        lmc_l1_commit(l1, pending->refs, pending->count);
    else
        lmc_l1_release(l1, pending->refs, pending->count, 1, true);
    free(pending);
}
