/*
 * management.c: small questions every client asks, pings, and the watch over silent instances.
 *
 * Built last, so that it sees every module that keeps state for instances, and closed first.
 */
#include <stdlib.h>

#include <lmcached/messages.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "cache/cache.h"
#include "module/context.h"
#include "modules/modules.h"
#include "modules/request_events.h"

static lmc_status create_management(lmc_build *build, void **self, lmc_error *error) {
    lmc_context *context = lmc_build_context(build);
    const lmc_mp_config *mp = &context->config->mp;
    *self = context;
    if (mp->worker_reap_timeout_seconds <= 0)
        return LMC_OK;
    return lmc_liveness_start(context->liveness,
                              lmc_ns_of_seconds(mp->worker_reap_timeout_seconds),
                              lmc_ns_of_seconds(mp->worker_registration_grace_seconds), error);
}

static void handle_noop(void *self, lmc_call *call) {
    lmc_noop_reply *reply = lmc_call_reply(call);
    (void)self;
    reply->message = lmc_text("OK");
    lmc_complete(call, LMC_OK);
}

static void handle_get_chunk_size(void *self, lmc_call *call) {
    const lmc_context *context = self;
    lmc_get_chunk_size_reply *reply = lmc_call_reply(call);
    reply->chunk_size = lmc_cache_chunk_size(context->cache);
    lmc_complete(call, LMC_OK);
}

static void handle_get_experimental(void *self, lmc_call *call) {
    (void)self; /* the list stays empty: no experimental feature is built */
    lmc_complete(call, LMC_OK);
}

/* What a ping with an id is answered: false exactly once to an id that nobody knows (D4). */
static bool is_known(const lmc_context *context, int64_t instance_id, uint64_t connection) {
    if (lmc_cache_touch_instance(context->cache, instance_id, connection)) {
        lmc_unknown_ids_forget(context->unknown_ids, instance_id);
        return true;
    }
    return lmc_liveness_has_outside(context->liveness) ||
           !lmc_unknown_ids_tell(context->unknown_ids, instance_id);
}

static void handle_ping(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_ping_request *request = lmc_call_request(call);
    lmc_ping_reply *reply = lmc_call_reply(call);
    bool has_id = (request->present & LMC_PING_REQUEST_HAS_INSTANCE_ID) != 0;
    int64_t instance_id = request->instance_id;
    reply->ok = !has_id || is_known(context, instance_id, lmc_call_connection(call));
    lmc_complete(call, LMC_OK);
    if (has_id)
        lmc_liveness_touch(context->liveness, instance_id);
}

static void handle_clear(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_clear_request *request = lmc_call_request(call);
    lmc_cache_clear(context->cache, request->force);
    lmc_complete(call, LMC_OK);
}

static void handle_report_block_allocation(void *self, lmc_call *call) {
    const lmc_context *context = self;
    const lmc_report_block_allocation_request *request = lmc_call_request(call);
    lmc_tell_block_allocation(context, request);
    lmc_complete(call, LMC_OK);
}

static lmc_status report_management(void *self, lmc_writer *writer) {
    const lmc_context *context = self;
    const lmc_mp_config *mp = &context->config->mp;
    if (lmc_liveness_members(context->liveness) == 0)
        return LMC_OK;
    lmc_write_object_begin(writer, "worker_liveness");
    lmc_write_bool(writer, "enabled", mp->worker_reap_timeout_seconds > 0);
    lmc_write_real(writer, "reap_timeout_seconds", mp->worker_reap_timeout_seconds);
    lmc_write_real(writer, "registration_grace_seconds", mp->worker_registration_grace_seconds);
    lmc_write_int(writer, "tracked_instances", lmc_liveness_tracked(context->liveness));
    lmc_write_object_end(writer);
    return LMC_OK;
}

static const lmc_operation operations[] = {
    {.name = "noop", .scheduling = LMC_SYNC, .flags = LMC_NEVER_WAITS, .handle = handle_noop},
    {.name = "ping", .scheduling = LMC_NORMAL, .flags = LMC_NEVER_WAITS, .handle = handle_ping},
    {.name = "get_chunk_size",
     .scheduling = LMC_SYNC,
     .flags = LMC_NEVER_WAITS,
     .handle = handle_get_chunk_size},
    {.name = "get_experimental",
     .scheduling = LMC_SYNC,
     .flags = LMC_NEVER_WAITS,
     .handle = handle_get_experimental},
    {.name = "clear", .scheduling = LMC_NORMAL, .handle = handle_clear},
    {.name = "report_block_allocation",
     .scheduling = LMC_NORMAL,
     .handle = handle_report_block_allocation},
    {.name = NULL},
};

const lmc_module_class lmc_management_module = {
    .size = sizeof(lmc_module_class),
    .flags = LMC_MODULE_DEFERRED,
    .name = "ManagementModule",
    .create = create_management,
    .report_status = report_management,
    .operations = operations,
};
