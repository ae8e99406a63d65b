#include "modules/request_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "cache/cache.h"

#define LMC_LOGGER "lmcache.transfer"

/* An event about one key, with what all of them have. */
static lmc_event *begin(const lmc_context *context, const char *name,
                        const lmc_cache_key *key) {
    lmc_event *event = lmc_events_begin(context->events, name, key->request_id);
    lmc_event_put_text(event, "model_name", key->model_name);
    lmc_event_put_text(event, "cache_salt", key->cache_salt);
    return event;
}

/* ---- lookups and sessions ---- */

void lmc_tell_lookup_began(const lmc_context *context, const lmc_lookup_request *request) {
    if (!lmc_events_any(context->events))
        return;
    lmc_event_publish(begin(context, "mp.request.start", &request->key));
    lmc_event *event = begin(context, "mp.lookup_prefetch.start", &request->key);
    lmc_event_put_int(event, "requested_tokens", (int64_t)request->key.token_ids.count);
    lmc_event_publish(event);
}

static void put_hashes(lmc_event *event, const uint8_t *hashes, size_t count) {
    lmc_slice *slices = malloc((count + 1) * sizeof *slices);
    for (size_t i = 0; slices != NULL && i < count; i++)
        slices[i] = lmc_slice_of(hashes + i * LMC_HASH_SIZE, LMC_HASH_SIZE);
    if (slices != NULL)
        lmc_event_put_blobs(event, "chunk_hashes", slices, count);
    free(slices);
}

void lmc_tell_looked_up(const lmc_context *context, const lmc_lookup_request *request) {
    if (!lmc_events_any(context->events))
        return;
    lmc_event *event = begin(context, "mp.lookup", &request->key);
    if (event == NULL)
        return;
    size_t chunk = lmc_cache_chunk_size(context->cache);
    size_t room = request->key.token_ids.count / chunk;
    uint8_t *hashes = malloc(room * LMC_HASH_SIZE + 1);
    size_t known =
        hashes != NULL
            ? lmc_cache_session_hashes(context->cache, request->key.request_id, 0, hashes, room)
            : 0;
    lmc_event_put_int(event, "chunk_size", (int64_t)chunk);
    lmc_event_put_int(event, "seq_len", (int64_t)request->key.token_ids.count);
    put_hashes(event, hashes, known < room ? known : room);
    lmc_event_publish(event);
    free(hashes);
}

void lmc_tell_session_ended(const lmc_context *context,
                            const lmc_end_session_request *request) {
    lmc_event_publish(
        lmc_events_begin(context->events, "mp.vllm.end_session", request->request_id));
    lmc_event_publish(lmc_events_begin(context->events, "mp.request.end", request->request_id));
}

/* ---- block allocations ---- */

/* The records as three lists, side by side. */
static void put_records(lmc_event *event, const lmc_block_allocation_record *records,
                        size_t count) {
    lmc_slice *ids = malloc((count + 1) * sizeof *ids);
    lmc_ints *blocks = malloc((count + 1) * sizeof *blocks);
    lmc_ints *tokens = malloc((count + 1) * sizeof *tokens);
    if (ids != NULL && blocks != NULL && tokens != NULL) {
        for (size_t i = 0; i < count; i++) {
            ids[i] = records[i].req_id;
            blocks[i] = records[i].new_block_ids;
            tokens[i] = records[i].new_token_ids;
        }
        lmc_event_put_texts(event, "req_ids", ids, count);
        lmc_event_put_int_lists(event, "new_block_ids", blocks, count);
        lmc_event_put_int_lists(event, "new_token_ids", tokens, count);
    }
    free(ids);
    free(blocks);
    free(tokens);
}

void lmc_tell_block_allocation(const lmc_context *context,
                               const lmc_report_block_allocation_request *request) {
    lmc_event *event =
        lmc_events_begin(context->events, "mp.vllm.block_allocation", (lmc_slice){0});
    if (event == NULL)
        return;
    lmc_event_put_int(event, "instance_id", request->instance_id);
    lmc_event_put_text(event, "model_name", request->model_name);
    lmc_event_put_int(event, "record_count", (int64_t)request->records.count);
    put_records(event, request->records.items, request->records.count);
    lmc_event_publish(event);
}

/* ---- transfers ---- */

static lmc_event *begin_transfer(const lmc_context *context, const char *name,
                                 const lmc_cache_key *key, int64_t instance_id) {
    lmc_event *event = begin(context, name, key);
    lmc_event_put_text(event, "device", lmc_text("cpu"));
    lmc_event_put_int(event, "engine_id", instance_id);
    lmc_event_put_int(event, "worker_id", key->worker_id);
    return event;
}

/* Whether single events may have a line (--disable-logging); the level decides after that. */
static bool logs_events(const lmc_context *context) {
    const lmc_observability_config *observability = &context->config->observability;
    return observability->enabled && observability->logging_enabled;
}

static void log_end(const lmc_context *context, const char *what, const lmc_cache_key *key,
                    const char *counted, size_t count) {
    if (logs_events(context))
        LMC_DEBUG("MP %s end: session=%.*s %s=%zu", what, LMC_SLICE_ARGS(key->request_id),
                  counted, count);
}

void lmc_tell_transfer(const lmc_context *context, const char *name, const lmc_cache_key *key,
                       int64_t instance_id) {
    bool is_store = strcmp(name, "mp.store.start") == 0;
    if ((is_store || strcmp(name, "mp.retrieve.start") == 0) && logs_events(context))
        LMC_DEBUG("MP %s start: session=%.*s device=cpu", is_store ? "store" : "retrieve",
                  LMC_SLICE_ARGS(key->request_id));
    if (lmc_events_any(context->events))
        lmc_event_publish(begin_transfer(context, name, key, instance_id));
}

/* The tokens of full chunks [first, end) as one list each. */
static void put_chunks(lmc_event *event, const lmc_tokens *tokens, size_t chunk, size_t first,
                       size_t end) {
    size_t count = end - first;
    lmc_ints *lists = malloc((count + 1) * sizeof *lists);
    int64_t *values = malloc((count * chunk + 1) * sizeof *values);
    if (lists != NULL && values != NULL) {
        for (size_t i = 0; i < count * chunk; i++)
            values[i] = tokens->ids[first * chunk + i];
        for (size_t i = 0; i < count; i++)
            lists[i] = (lmc_ints){values + i * chunk, chunk};
        lmc_event_put_int_lists(event, "token_chunks", lists, count);
    }
    free(lists);
    free(values);
}

void lmc_tell_tokens(const lmc_context *context, const lmc_cache_key *key) {
    const lmc_tokens *tokens = &key->token_ids;
    size_t chunk = lmc_cache_chunk_size(context->cache);
    size_t first = key->start > 0 ? (size_t)key->start / chunk : 0;
    size_t end = key->end > 0 ? (size_t)key->end / chunk : 0;
    lmc_event *event = key->worker_id == 0 ? begin(context, "mp.tokens", key)
                                           : NULL; /* the others store the same */
    if (event == NULL)
        return;
    if (tokens->ids == NULL || end > tokens->count / chunk)
        end = 0;
    uint8_t *hashes = end > first ? malloc(end * LMC_HASH_SIZE) : NULL;
    if (hashes != NULL &&
        lmc_cache_hash(context->cache, NULL, tokens->ids, end * chunk, hashes, end) == end) {
        put_hashes(event, hashes + first * LMC_HASH_SIZE, end - first);
        put_chunks(event, tokens, chunk, first, end);
    }
    lmc_event_publish(event);
    free(hashes);
}

/* Bytes of one chunk in all object groups of a model. */
static uint64_t chunk_bytes(const lmc_context *context, const lmc_cache_key *key) {
    lmc_chunk_layout layout;
    uint64_t bytes = 0;
    for (uint32_t group = 0; lmc_cache_layout(context->cache, key->model_name, key->world_size,
                                              group, &layout) == LMC_OK;
         group++)
        bytes += layout.size;
    return bytes;
}

void lmc_tell_stored(const lmc_context *context, const lmc_cache_key *key, int64_t instance_id,
                     bool success, size_t chunks) {
    log_end(context, "store", key, "stored_count", chunks);
    if (!lmc_events_any(context->events))
        return;
    lmc_event *event = begin_transfer(context, "mp.store.end", key, instance_id);
    if (event != NULL) {
        lmc_event_put_int(event, "success", success);
        lmc_event_put_int(event, "stored_count", (int64_t)chunks);
        lmc_event_put_int(event, "total_bytes", (int64_t)(chunks * chunk_bytes(context, key)));
        lmc_event_publish(event);
    }
}

void lmc_tell_retrieved(const lmc_context *context, const lmc_cache_key *key,
                        int64_t instance_id, size_t objects, uint64_t bytes) {
    log_end(context, "retrieve", key, "retrieved_count", objects);
    if (!lmc_events_any(context->events))
        return;
    lmc_event *event = begin_transfer(context, "mp.retrieve.end", key, instance_id);
    lmc_event_put_int(event, "retrieved_count", (int64_t)objects);
    lmc_event_put_int(event, "total_bytes", (int64_t)bytes);
    lmc_event_publish(event);
}
