/*
 * core_events.c: what the cache core tells about single objects becomes events. What nobody
 * subscribed to the core does not even look at: `interest` is filled in by the bus.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "server/state.h"

#define EVENT_KEYS_MAX 256
#define L1_TAG "_default"
#define L1_MEDIUM "dram"

static const struct {
    uint32_t what;
    const char *name;
} told[] = {
    {LMC_L1_READ_RESERVED, "l1.read.reserved"},
    {LMC_L1_READ_FINISHED, "l1.read.finished"},
    {LMC_L1_READ_RELEASED, "sm.read.prefetched_finished"},
    {LMC_L1_WRITE_RESERVED, "l1.write.reserved"},
    {LMC_L1_WRITE_RESERVED, "sm.write.reserved"},
    {LMC_L1_WRITE_FINISHED, "l1.write.finished"},
    {LMC_L1_WRITE_FINISHED, "sm.write.finished"},
    {LMC_L1_EVICTED, "l1.keys.evicted"},
    {LMC_L1_ACCESSED, "l1.keys.accessed"},
    {LMC_L1_NO_MEMORY, "l1.allocation.failed"},
    {LMC_L1_READ_FAILED, "l1.read.failed"},
    {LMC_CACHE_LOOKUP_DONE, "mp.lookup_prefetch.end"},
};
#define TOLD_COUNT (sizeof told / sizeof told[0])

void lmc_server_watch_events(lmc_server *server) {
    for (size_t i = 0; i < TOLD_COUNT; i++)
        lmc_events_watch(server->events, told[i].name, &server->interest, told[i].what);
}

static lmc_object_key key_of(const lmc_l1_sight *sight) {
    return (lmc_object_key){.chunk_hash = lmc_slice_of(sight->hash, sizeof sight->hash),
                            .model_name = lmc_key_space_model(sight->space),
                            .kv_rank = (int64_t)sight->kv_rank,
                            .object_group_id = sight->group,
                            .cache_salt = lmc_key_space_salt(sight->space),
                            .present = LMC_OBJECT_KEY_HAS_CACHE_SALT};
}

/* Keys and sizes of some objects of one key space. */
static void put_sights(lmc_event *event, const lmc_l1_sight *sights, size_t count) {
    lmc_object_key *keys = malloc(count * sizeof *keys);
    int64_t *sizes = malloc(count * sizeof *sizes);
    if (keys != NULL && sizes != NULL) {
        for (size_t i = 0; i < count; i++) {
            keys[i] = key_of(&sights[i]);
            sizes[i] = (int64_t)sights[i].size;
        }
        lmc_event_put_keys(event, "keys", keys, count);
        if (sights[0].size != 0)
            lmc_event_put_ints(event, "sizes", sizes, count);
    }
    free(keys);
    free(sizes);
}

static void publish(lmc_server *server, const char *name, const lmc_l1_sight *sights,
                    size_t count) {
    lmc_event *event = lmc_events_begin(server->events, name, (lmc_slice){0});
    if (event == NULL)
        return;
    lmc_event_put_int(event, "count", (int64_t)count);
    lmc_event_put_text(event, "model_name", lmc_key_space_model(sights->space));
    lmc_event_put_text(event, "cache_salt", lmc_key_space_salt(sights->space));
    lmc_event_put_text(event, "medium", lmc_text(L1_MEDIUM));
    lmc_event_put_text(event, "l1_tag", lmc_text(L1_TAG));
    if (strcmp(name, "l1.read.failed") == 0)
        lmc_event_put_text(event, "reason", lmc_text("not_found"));
    put_sights(event, sights, count);
    lmc_event_publish(event);
}

void lmc_server_saw(void *arg, uint32_t what, const lmc_l1_sight *sights, size_t count) {
    lmc_server *server = arg;
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && end - at < EVENT_KEYS_MAX; end++)
            if (sights[end].space != sights[at].space)
                break;
        for (size_t i = 0; i < TOLD_COUNT; i++)
            if (told[i].what == what)
                publish(server, told[i].name, sights + at, end - at);
    }
}

void lmc_server_publish_capacity(lmc_server *server) {
    lmc_event *event = lmc_events_begin(server->events, "sm.capacity.changed", (lmc_slice){0});
    if (event == NULL)
        return;
    lmc_event_put_text(event, "tier", lmc_text("l1"));
    lmc_event_put_text(event, "medium", lmc_text(L1_MEDIUM));
    lmc_event_put_text(event, "l1_tag", lmc_text(L1_TAG));
    lmc_event_put_int(event, "capacity_bytes",
                      (int64_t)lmc_l1_capacity(lmc_cache_l1(server->cache)));
    lmc_event_publish(event);
}
