#include "modules/engine_driven.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/call_arena.h"

#define LMC_LOGGER "lmcache.transfer"

static void log_retrieved(const lmc_context *context, const lmc_cache_key *key,
                          int64_t began_ns) {
    LMC_INFO("Retrieved %lld tokens in %.3f seconds",
             (long long)lmc_engine_range_tokens(key, lmc_cache_chunk_size(context->cache)),
             (double)(lmc_now(context->clock) - began_ns) / (double)LMC_NS_PER_S);
}

void lmc_engine_prepare_retrieve(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_prepare_retrieve_request *request = lmc_call_request(call);
    lmc_prepare_retrieve_reply *reply = lmc_call_reply(call);
    int64_t began = lmc_now(context->clock);
    lmc_error error = LMC_ERROR_INIT;
    lmc_transfer transfer = {0};
    lmc_status status = lmc_cache_prepare_retrieve(
        context->cache, &request->key, request->instance_id, lmc_call_connection(call), true,
        lmc_call_arena(call), &transfer, &error);
    if (status != LMC_OK) {
        lmc_fail(call, status, error.text);
        return;
    }
    reply->context = lmc_slot_context(context->cache, &transfer, false, lmc_call_arena(call));
    reply->success = reply->context.data != NULL;
    if (reply->success)
        log_retrieved(context, &request->key, began);
    lmc_complete(call, LMC_OK);
}

void lmc_engine_commit_retrieve(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_commit_retrieve_request *request = lmc_call_request(call);
    lmc_commit_retrieve_reply *reply = lmc_call_reply(call);
    lmc_cache_commit_retrieve(context->cache, &request->key, request->instance_id,
                              lmc_call_connection(call));
    reply->success = true; /* also when there was nothing to release */
    lmc_complete(call, LMC_OK);
}
