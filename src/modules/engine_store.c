#include "modules/engine_driven.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/call_arena.h"
#include "modules/engine_tensors.h"
#include "modules/request_events.h"
#include "observe/server_metrics.h"

#define LMC_LOGGER "lmcache.transfer"
#define FILL_BATCH 256

int64_t lmc_engine_range_tokens(const lmc_cache_key *key, uint32_t chunk_size) {
    int64_t size = chunk_size;
    if (key->start < 0 || key->end <= key->start)
        return 0;
    return key->end / size * size - key->start / size * size;
}

uint64_t lmc_engine_transfer_bytes(const lmc_transfer *transfer) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < transfer->slot_count; i++)
        bytes += transfer->groups[transfer->slots[i].group].size;
    return bytes;
}

/* Only what can be read from now on: not what was there, nor what found no memory. */
static void log_stored(const lmc_engine_driven *module, size_t chunks, int64_t began_ns) {
    if (chunks == 0)
        return;
    LMC_INFO("Stored %llu tokens in %.3f seconds",
             (unsigned long long)chunks * lmc_cache_chunk_size(module->cache),
             (double)(lmc_now(module->context->clock) - began_ns) / (double)LMC_NS_PER_S);
}

void lmc_engine_prepare_store(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_prepare_store_request *request = lmc_call_request(call);
    lmc_prepare_store_reply *reply = lmc_call_reply(call);
    lmc_error error = LMC_ERROR_INIT;
    lmc_transfer transfer = {0};
    lmc_tell_transfer(module->context, "mp.store.submitted", &request->key,
                      request->instance_id);
    lmc_status status = lmc_cache_prepare_store(module->cache, &request->key,
                                                request->instance_id, lmc_call_connection(call),
                                                lmc_call_arena(call), &transfer, &error);
    if (status != LMC_OK) {
        lmc_tell_stored(module->context, &request->key, request->instance_id, false, 0);
        lmc_fail(call, status, error.text);
        return;
    }
    lmc_tell_transfer(module->context, "mp.store.start", &request->key, request->instance_id);
    lmc_tell_tokens(module->context, &request->key);
    if (!transfer.by_copy) {
        reply->context = lmc_slot_context(&transfer, LMC_CONTEXT_SLOTS | LMC_CONTEXT_INDICES,
                                          lmc_call_arena(call));
        status = reply->context.data != NULL ? LMC_OK : LMC_NO_MEMORY;
    }
    lmc_complete(call, status);
}

/* The payload in one piece, as the transport usually has it. */
static lmc_slice joined(const lmc_pieces *data, lmc_arena *arena) {
    if (data->count == 1)
        return data->items[0];
    unsigned char *all = lmc_arena_alloc(arena, data->size);
    size_t used = 0;
    for (size_t i = 0; i < data->count && all != NULL; i++) {
        memcpy(all + used, data->items[i].data, data->items[i].size);
        used += data->items[i].size;
    }
    return lmc_slice_of(all, used);
}

/* Bytes that are no list of tensors are as good as a list without elements. */
static void read_tensors(const lmc_commit_store_request *request, lmc_arena *arena,
                         lmc_tensor_lists *lists) {
    static lmc_log_limit limit;
    lmc_error error = LMC_ERROR_INIT;
    *lists = (lmc_tensor_lists){0};
    if (lmc_tensors_read(joined(&request->data, arena), arena, lists, &error) == LMC_OK)
        return;
    *lists = (lmc_tensor_lists){0};
    if (lmc_log_allow(&limit, NULL))
        LMC_WARNING("commit_store of instance %lld: its tensors cannot be read: %s",
                    (long long)request->instance_id, error.text);
}

/* Fills and finishes the slots, so many at a time that no memory is needed for the marks. */
static size_t copy_batches(lmc_cache *cache, const lmc_transfer *transfer,
                           const lmc_object_tensors *tensors, const lmc_tensor_lists *lists,
                           lmc_stored *stored) {
    bool filled[FILL_BATCH];
    size_t count = 0;
    for (size_t at = 0; at < transfer->slot_count; at += FILL_BATCH) {
        lmc_transfer batch = *transfer;
        batch.slots += at;
        batch.slot_count -= at;
        if (batch.slot_count > FILL_BATCH)
            batch.slot_count = FILL_BATCH;
        count += lmc_tensors_copy_in(lmc_cache_l1(cache), &batch, tensors, lists, filled);
        lmc_cache_finish_copy_in(cache, &batch, filled, stored);
    }
    return count;
}

/* The chunks came with the call: into L1, in one copy. */
static lmc_status store_tensors(const lmc_engine_driven *module, lmc_call *call, bool *success,
                                size_t *chunks, lmc_error *error) {
    const lmc_commit_store_request *request = lmc_call_request(call);
    lmc_arena *arena = lmc_call_arena(call);
    lmc_object_tensors tensors;
    lmc_tensor_lists lists;
    lmc_transfer transfer;
    lmc_status status =
        lmc_tensor_shapes_get(module->shapes, request->instance_id, arena, &tensors);
    if (status != LMC_OK)
        return status;
    read_tensors(request, arena, &lists);
    status = lmc_cache_begin_copy_in(module->cache, &request->key, request->instance_id,
                                     lmc_call_connection(call), arena, &transfer, error);
    if (status != LMC_OK)
        return status;
    int64_t began = lmc_now(module->context->clock);
    lmc_stored stored = {0};
    size_t count = copy_batches(module->cache, &transfer, &tensors, &lists, &stored);
    lmc_metrics_transfer_speed(module->context->metrics, LMC_TRANSFER_STORE,
                               request->instance_id, "cpu", request->key.model_name,
                               lmc_engine_transfer_bytes(&transfer),
                               lmc_now(module->context->clock) - began);
    *chunks = stored.chunks;
    *success = lists.count > 0 && count == transfer.slot_count;
    return LMC_OK;
}

static lmc_status commit_pool(const lmc_engine_driven *module, lmc_call *call, bool *success,
                              size_t *chunks, lmc_error *error) {
    const lmc_commit_store_request *request = lmc_call_request(call);
    lmc_status status =
        lmc_cache_commit_store(module->cache, &request->key, request->instance_id,
                               lmc_call_connection(call), chunks, error);
    *success = status == LMC_OK;
    if (status != LMC_NOT_FOUND)
        return status;
    /* Nothing is pending, as after a store that was answered without slots. */
    lmc_engine_is_unknown(module, "commit_store", &request->key, request->instance_id);
    return LMC_OK;
}

void lmc_engine_commit_store(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_commit_store_request *request = lmc_call_request(call);
    lmc_commit_store_reply *reply = lmc_call_reply(call);
    int64_t began = lmc_now(module->context->clock);
    bool stored = false;
    size_t chunks = 0;
    lmc_metrics_transfer_submitted(module->context->metrics, LMC_TRANSFER_STORE, "cpu");
    lmc_error error = LMC_ERROR_INIT;
    lmc_status status = request->data.size > 0
                            ? store_tensors(module, call, &stored, &chunks, &error)
                            : commit_pool(module, call, &stored, &chunks, &error);
    lmc_metrics_transfer_finished(module->context->metrics, LMC_TRANSFER_STORE, "cpu");
    reply->success = stored;
    log_stored(module, chunks, began);
    lmc_tell_stored(module->context, &request->key, request->instance_id, stored, chunks);
    if (status == LMC_OK)
        lmc_complete(call, status);
    else
        lmc_fail(call, status, error.text);
}
