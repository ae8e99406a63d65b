#include "modules/engine_driven.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatch/call_arena.h"
#include "modules/chunk_layouts.h"

#define LMC_LOGGER "lmcache.transfer"

typedef lmc_register_kv_cache_engine_driven_context_reply register_reply;

static bool has_pool(lmc_cache *cache) {
    return lmc_l1_pool_name(lmc_cache_l1(cache))[0] != '\0';
}

static void answer_pool(lmc_cache *cache, register_reply *reply) {
    lmc_l1 *l1 = lmc_cache_l1(cache);
    reply->shm_name = lmc_text(lmc_l1_pool_name(l1));
    reply->pool_size = (int64_t)lmc_l1_capacity(l1);
}

static void log_registered(const lmc_engine_registration *r, size_t groups,
                           const register_reply *reply) {
    if (reply->shm_name.size > 0)
        LMC_INFO("Registered KV cache for GPU ID %lld with %lld layers (engine-driven, model "
                 "%.*s, %zu object groups, shared memory pool %.*s)",
                 (long long)r->instance_id, (long long)r->num_layers,
                 LMC_SLICE_ARGS(r->model_name), groups, LMC_SLICE_ARGS(reply->shm_name));
    else
        LMC_INFO(
            "Registered KV cache for GPU ID %lld with %lld layers (engine-driven, model "
            "%.*s, %zu object groups, byte copy; --shm-name on this server avoids the copies)",
            (long long)r->instance_id, (long long)r->num_layers, LMC_SLICE_ARGS(r->model_name),
            groups);
}

/* The instance stays unregistered; a client that does not read `error` meets the negatives. */
static void answer_error(lmc_call *call, const lmc_engine_registration *r,
                         const lmc_error *error) {
    register_reply *reply = lmc_call_reply(call);
    static lmc_log_limit limit;
    if (lmc_log_allow(&limit, NULL))
        LMC_ERROR("registration of instance %lld (model %.*s) cannot be served: %s",
                  (long long)r->instance_id, LMC_SLICE_ARGS(r->model_name), error->text);
    reply->error = lmc_call_text(call, error->text);
    reply->present |= LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REPLY_HAS_ERROR;
    lmc_complete(call, LMC_OK);
}

static lmc_status register_instance(const lmc_engine_driven *module, lmc_call *call,
                                    lmc_instance_config *config, bool *created,
                                    lmc_error *error) {
    const lmc_engine_registration *r = lmc_call_request(call);
    lmc_chunk_layouts layouts;
    lmc_status status = lmc_chunk_layouts_read(r, lmc_cache_chunk_size(module->cache),
                                               lmc_call_arena(call), &layouts, error);
    if (status != LMC_OK)
        return status;
    config->groups = layouts.groups;
    config->group_count = layouts.group_count;
    config->by_copy = layouts.tensors.count > 0 || !has_pool(module->cache);
    status =
        lmc_cache_register(module->cache, config, lmc_call_connection(call), created, error);
    if (status != LMC_OK || !*created)
        return status;
    lmc_tensor_shapes_forget(module->shapes,
                             r->instance_id); /* of a registration that was reaped */
    if (layouts.tensors.count > 0)
        status = lmc_tensor_shapes_put(module->shapes, r->instance_id, &layouts.tensors);
    if (status != LMC_OK)
        lmc_cache_unregister(module->cache, r->instance_id);
    return status;
}

void lmc_engine_register(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_engine_registration *r = lmc_call_request(call);
    register_reply *reply = lmc_call_reply(call);
    lmc_instance_config config = {.instance_id = r->instance_id,
                                  .kind = LMC_TRANSFER_ENGINE_DRIVEN,
                                  .model_name = r->model_name,
                                  .world_size = r->world_size,
                                  .block_size = r->block_size,
                                  .use_mla = r->use_mla};
    lmc_error error = LMC_ERROR_INIT;
    bool created = false;
    lmc_status status = register_instance(module, call, &config, &created, &error);
    if (status != LMC_OK) {
        lmc_error_set(&error, status, "%s", lmc_status_name(status));
        answer_error(call, r, &error);
        return;
    }
    lmc_unknown_ids_forget(module->context->unknown_ids, r->instance_id);
    if (!config.by_copy)
        answer_pool(module->cache, reply);
    if (created)
        log_registered(r, config.group_count, reply);
    lmc_complete(call, LMC_OK);
}

/* Both unregister operations drop the id wherever it is registered. */
static void unregister(const lmc_engine_driven *module, int64_t instance_id) {
    lmc_tensor_shapes_forget(module->shapes, instance_id);
    if (lmc_cache_unregister(module->cache, instance_id))
        LMC_INFO("Unregistered KV cache for GPU ID %lld", (long long)instance_id);
}

void lmc_engine_unregister(void *self, lmc_call *call) {
    const lmc_unregister_kv_cache_engine_driven_context_request *request =
        lmc_call_request(call);
    unregister(self, request->instance_id);
    lmc_complete(call, LMC_OK);
}

void lmc_engine_unregister_kv_cache(void *self, lmc_call *call) {
    const lmc_unregister_kv_cache_request *request = lmc_call_request(call);
    unregister(self, request->instance_id);
    lmc_complete(call, LMC_OK);
}

/*
 * A worker that wants the server to copy for it. The protocol has no answer for it, and the
 * engine waits for minutes, so the log says what to change on the engine's side.
 */
void lmc_engine_refuse_register_kv_cache(void *self, lmc_call *call) {
    const lmc_engine_driven *module = self;
    const lmc_register_kv_cache_request *r = lmc_call_request(call);
    static lmc_log_limit limit;
    uint64_t suppressed = 0;
    if (lmc_log_allow(&limit, &suppressed))
        LMC_ERROR("register_kv_cache of instance %lld (model %.*s) cannot be served: transfers "
                  "driven by the server (lmcache_driven) are not built, so the engine gets no "
                  "answer. Set lmcache.mp.mp_transfer_mode=engine_driven on the engine (or "
                  "LMCACHE_MP_TRANSFER_MODE=engine_driven in its environment) and give this "
                  "server --shm-name NAME%s%s",
                  (long long)r->instance_id, LMC_SLICE_ARGS(r->model_name),
                  has_pool(module->cache) ? ", as it has" : "", lmc_log_more(suppressed).text);
    lmc_complete(call, LMC_DECLINED);
}

/* store and retrieve: no instance can be registered for them here, which has a negative. */
void lmc_engine_refuse_store(void *self, lmc_call *call) {
    (void)self;
    lmc_fail(call, LMC_NOT_FOUND,
             "the instance is not registered for lmcache_driven transfers");
}
