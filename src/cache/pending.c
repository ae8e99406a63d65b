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

void lmc_stored_add(lmc_stored *stored, uint32_t group, size_t count) {
    if (stored->group != group)
        stored->in_group = 0;
    stored->group = group;
    stored->in_group += count;
    if (stored->in_group > stored->chunks)
        stored->chunks = stored->in_group;
}

/* Group by group, so that the chunks can be told from their objects. */
static size_t commit_groups(lmc_l1 *l1, const lmc_pending *pending) {
    lmc_stored stored = {0};
    for (size_t at = 0, end; at < pending->count; at = end) {
        uint32_t group = pending->places[at].group;
        end = at + 1;
        while (end < pending->count && pending->places[end].group == group)
            end++;
        lmc_stored_add(&stored, group, lmc_l1_commit(l1, pending->refs + at, end - at));
    }
    return stored.chunks;
}

size_t lmc_pending_complete(lmc_l1 *l1, lmc_pending *pending) {
    size_t chunks = 0;
    if (pending->kind == LMC_PENDING_STORE)
        chunks = commit_groups(l1, pending);
    else
        lmc_l1_release(l1, pending->refs, pending->count, 1, true);
    free(pending);
    return chunks;
}
