#include "modules/engine_driven.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/call_arena.h"

#define LMC_LOGGER "lmcache.transfer"

int64_t lmc_engine_range_tokens(const lmc_cache_key *key, uint32_t chunk_size) {
    int64_t size = chunk_size;
    if (key->start < 0 || key->end <= key->start)
        return 0;
    return key->end / size * size - key->start / size * size;
}

static void log_stored(const lmc_context *context, const lmc_cache_key *key, int64_t began_ns) {
    LMC_INFO("Stored %lld tokens in %.3f seconds",
             (long long)lmc_engine_range_tokens(key, lmc_cache_chunk_size(context->cache)),
             (double)(lmc_now(context->clock) - began_ns) / (double)LMC_NS_PER_S);
}

void lmc_engine_prepare_store(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_prepare_store_request *request = lmc_call_request(call);
    lmc_prepare_store_reply *reply = lmc_call_reply(call);
    lmc_error error = LMC_ERROR_INIT;
    lmc_transfer transfer = {0};
    lmc_status status = lmc_cache_prepare_store(context->cache, &request->key,
                                                request->instance_id, lmc_call_connection(call),
                                                lmc_call_arena(call), &transfer, &error);
    if (status != LMC_OK) {
        lmc_fail(call, status, error.text);
        return;
    }
    if (!transfer.by_copy) {
        reply->context =
            lmc_slot_context(context->cache, &transfer, true, lmc_call_arena(call));
        status = reply->context.data != NULL ? LMC_OK : LMC_NO_MEMORY;
    }
    lmc_complete(call, status);
}

void lmc_engine_commit_store(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_commit_store_request *request = lmc_call_request(call);
    lmc_commit_store_reply *reply = lmc_call_reply(call);
    int64_t began = lmc_now(context->clock);
    lmc_status status = lmc_cache_commit_store(context->cache, &request->key,
                                               request->instance_id, lmc_call_connection(call));
    reply->success = status == LMC_OK;
    if (status == LMC_OK)
        log_stored(context, &request->key, began);
    lmc_complete(call, status == LMC_NOT_FOUND ? LMC_OK : status);
}
