#include "modules/engine_driven.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/call_arena.h"
#include "modules/engine_tensors.h"
#include "modules/request_events.h"
#include "observe/server_metrics.h"

#define LMC_LOGGER "lmcache.transfer"

static void log_retrieved(const lmc_engine_driven *module, const lmc_cache_key *key,
                          int64_t began_ns) {
    LMC_INFO("Retrieved %lld tokens in %.3f seconds",
             (long long)lmc_engine_range_tokens(key, lmc_cache_chunk_size(module->cache)),
             (double)(lmc_now(module->context->clock) - began_ns) / (double)LMC_NS_PER_S);
}

/* What a reply that points into L1 holds until its bytes are on their way. */
typedef struct held_objects {
    const lmc_engine_driven *module;
    const lmc_prepare_retrieve_request *request;
    int64_t copy_began_ns; /* 0: nothing was copied here */
    lmc_transfer transfer;
} held_objects;

/* The chunks have just been copied into the reply. */
static void measure_copy(const held_objects *held) {
    const lmc_context *context = held->module->context;
    lmc_metrics_transfer_speed(context->metrics, LMC_TRANSFER_RETRIEVE,
                               held->request->instance_id, "cpu", held->request->key.model_name,
                               lmc_engine_transfer_bytes(&held->transfer),
                               lmc_now(context->clock) - held->copy_began_ns);
}

static void release_objects(void *arg) {
    const held_objects *held = arg;
    if (held->copy_began_ns != 0)
        measure_copy(held);
    lmc_cache_finish_copy_out(held->module->cache, &held->transfer);
    lmc_metrics_transfer_finished(held->module->context->metrics, LMC_TRANSFER_RETRIEVE, "cpu");
}

/* Chunks stand in the order of the range, so that nobody needs their places, unless some that
 * the client did not mask are left out (D43). */
static unsigned places_of(const lmc_transfer *transfer) {
    size_t count = transfer->slot_count;
    bool gaps = count > 0 && transfer->slots[count - 1].list_index != (int64_t)count - 1;
    return gaps ? LMC_CONTEXT_INDICES : 0;
}

/* The chunks go with the reply, in pickle form. */
static lmc_status answer_tensors(const lmc_engine_driven *module, lmc_call *call,
                                 held_objects *held) {
    const lmc_prepare_retrieve_request *request = lmc_call_request(call);
    lmc_prepare_retrieve_reply *reply = lmc_call_reply(call);
    lmc_arena *arena = lmc_call_arena(call);
    lmc_object_tensors tensors;
    lmc_tensor_lists lists;
    lmc_status status =
        lmc_tensor_shapes_get(module->shapes, request->instance_id, arena, &tensors);
    if (status == LMC_OK)
        status = lmc_tensors_of_slots(lmc_cache_l1(module->cache), &held->transfer, &tensors,
                                      arena, &lists);
    if (status == LMC_OK)
        status = lmc_tensors_write(&lists, arena, &reply->data);
    if (status == LMC_OK)
        reply->context = lmc_slot_context(&held->transfer, places_of(&held->transfer), arena);
    if (status == LMC_OK && held->transfer.slot_count > 0)
        held->copy_began_ns = lmc_now(module->context->clock);
    return status;
}

/* The chunks stay in the pool, held until commit_retrieve. */
static lmc_status answer_slots(lmc_call *call, const held_objects *held) {
    lmc_prepare_retrieve_reply *reply = lmc_call_reply(call);
    reply->context = lmc_slot_context(
        &held->transfer, LMC_CONTEXT_SLOTS | places_of(&held->transfer), lmc_call_arena(call));
    return reply->context.data != NULL ? LMC_OK : LMC_NO_MEMORY;
}

static void tell(const char *name, const lmc_engine_driven *module,
                 const lmc_prepare_retrieve_request *request) {
    lmc_tell_transfer(module->context, name, &request->key, request->instance_id);
}

/* `done`: what was delivered; NULL: nothing. */
static void tell_end(const lmc_engine_driven *module,
                     const lmc_prepare_retrieve_request *request, const lmc_transfer *done) {
    bool counts = done != NULL && lmc_events_any(module->context->events);
    lmc_tell_retrieved(module->context, &request->key, request->instance_id,
                       done != NULL ? done->slot_count : 0,
                       counts ? lmc_engine_transfer_bytes(done) : 0);
}

void lmc_engine_prepare_retrieve(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_prepare_retrieve_request *request = lmc_call_request(call);
    lmc_prepare_retrieve_reply *reply = lmc_call_reply(call);
    int64_t began = lmc_now(module->context->clock);
    lmc_error error = LMC_ERROR_INIT;
    held_objects *held = lmc_call_alloc(call, sizeof *held);
    if (held == NULL || !lmc_call_on_done(call, release_objects, held)) {
        lmc_complete(call, LMC_NO_MEMORY);
        return;
    }
    *held = (held_objects){.module = module, .request = request};
    lmc_metrics_transfer_submitted(module->context->metrics, LMC_TRANSFER_RETRIEVE, "cpu");
    tell("mp.retrieve.submitted", module, request);
    tell("mp.retrieve.start", module, request);
    lmc_status status = lmc_cache_prepare_retrieve(
        module->cache, &request->key, request->instance_id, lmc_call_connection(call), true,
        lmc_call_arena(call), &held->transfer, &error);
    if (status == LMC_NOT_FOUND) { /* a miss is an answer, not a fault */
        if (!lmc_engine_is_unknown(module, "prepare_retrieve", &request->key,
                                   request->instance_id))
            LMC_INFO("Nothing retrieved: %s", error.text);
        tell_end(module, request, NULL);
        lmc_complete(call, LMC_DECLINED);
        return;
    }
    if (status != LMC_OK) {
        tell_end(module, request, NULL);
        lmc_fail(call, status, error.text);
        return;
    }
    status =
        held->transfer.by_copy ? answer_tensors(module, call, held) : answer_slots(call, held);
    reply->success = status == LMC_OK;
    if (status == LMC_OK) {
        lmc_metrics_chunks_loaded(module->context->metrics, request->key.worker_id,
                                  request->key.model_name, request->key.cache_salt,
                                  held->transfer.slot_count);
        log_retrieved(module, &request->key, began);
    }
    tell_end(module, request, status == LMC_OK ? &held->transfer : NULL);
    lmc_complete(call, status);
}

void lmc_engine_commit_retrieve(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_commit_retrieve_request *request = lmc_call_request(call);
    lmc_commit_retrieve_reply *reply = lmc_call_reply(call);
    lmc_cache_commit_retrieve(module->cache, &request->key, request->instance_id,
                              lmc_call_connection(call));
    reply->success = true; /* also when there was nothing to release */
    lmc_complete(call, LMC_OK);
}
