#include "modules/engine_driven.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "modules/modules.h"

#define LMC_LOGGER "lmcache.transfer"

static lmc_status create_engine_driven(lmc_build *build, void **self, lmc_error *error) {
    const lmc_context *context = lmc_build_context(build);
    const char *mode = context->config->mp.supported_transfer_mode;
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "engine_driven") != 0) {
        lmc_error_set(error, LMC_DECLINED, "--supported-transfer-mode is %s", mode);
        return LMC_DECLINED;
    }
    lmc_engine_driven *module = calloc(1, sizeof *module);
    if (module == NULL)
        return LMC_NO_MEMORY;
    *module = (lmc_engine_driven){context, context->cache, lmc_tensor_shapes_create()};
    if (module->shapes == NULL) {
        free(module);
        return LMC_NO_MEMORY;
    }
    *self = module;
    return LMC_OK;
}

static void close_engine_driven(void *self) {
    lmc_engine_driven *module = self;
    lmc_tensor_shapes_destroy(module->shapes);
    free(module);
}

/* ---- liveness ---- */

static void touch_instance(void *self, int64_t instance_id) {
    const lmc_engine_driven *module = self;
    lmc_cache_touch_instance(module->cache, instance_id, 0);
}

bool lmc_engine_is_unknown(const lmc_engine_driven *module, const char *operation,
                           const lmc_cache_key *key, int64_t instance_id) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    if (lmc_cache_has_instance(module->cache, instance_id))
        return false;
    if (lmc_log_allow(&limit, &suppressed))
        LMC_WARNING("%s refused: instance %lld is not registered (model %.*s); its worker must "
                    "register again%s",
                    operation, (long long)instance_id, LMC_SLICE_ARGS(key->model_name),
                    lmc_log_more(suppressed).text);
    return true;
}

typedef struct reaping {
    const lmc_engine_driven *module;
    void (*found)(void *arg, int64_t instance_id);
    void *arg;
} reaping;

static void report_reaped(void *arg, int64_t instance_id) {
    const reaping *r = arg;
    LMC_WARNING("instance %lld has been silent for too long; its registration is dropped",
                (long long)instance_id);
    lmc_tensor_shapes_forget(r->module->shapes, instance_id);
    r->found(r->arg, instance_id);
}

static void reap_stale_instances(void *self, int64_t reap_timeout_ns, int64_t grace_ns,
                                 void (*found)(void *arg, int64_t instance_id), void *arg) {
    const lmc_engine_driven *module = self;
    reaping r = {module, found, arg};
    lmc_cache_reap(module->cache, LMC_TRANSFER_ENGINE_DRIVEN, reap_timeout_ns, grace_ns,
                   report_reaped, &r);
}

static int64_t tracked_instance_count(void *self) {
    const lmc_engine_driven *module = self;
    return (int64_t)lmc_cache_instance_count(module->cache, LMC_TRANSFER_ENGINE_DRIVEN);
}

/* Nothing: this module's own reap has decided about the id, and a worker that has registered
 * again meanwhile must not lose that. */
static void drop_instance_state(void *self, int64_t instance_id) {
    (void)self;
    (void)instance_id;
}

/* ---- status ---- */

static void write_id(void *arg, const lmc_instance_report *row) {
    lmc_write_int(arg, NULL, row->instance_id);
}

static void write_meta(void *arg, const lmc_instance_report *row) {
    lmc_writer *writer = arg;
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, row->instance_id);
    lmc_write_object_begin(writer, id);
    lmc_write_text(writer, "model_name", row->model_name);
    lmc_write_int(writer, "world_size", row->world_size);
    lmc_write_int(writer, "block_size", row->block_size);
    lmc_write_bool(writer, "use_mla", row->use_mla);
    lmc_write_object_end(writer);
}

static lmc_status report_engine_driven(void *self, lmc_writer *writer) {
    const lmc_engine_driven *module = self;
    lmc_write_list_begin(writer, "registered_non_cuda_instance_ids");
    lmc_cache_each_instance(module->cache, LMC_TRANSFER_ENGINE_DRIVEN, write_id, writer);
    lmc_write_list_end(writer);
    lmc_write_object_begin(writer, "non_cuda_context_meta");
    lmc_cache_each_instance(module->cache, LMC_TRANSFER_ENGINE_DRIVEN, write_meta, writer);
    lmc_write_object_end(writer);
    return LMC_OK;
}

/* ---- the class ---- */

static const lmc_operation operations[] = {
    {.name = "register_kv_cache_engine_driven_context",
     .scheduling = LMC_SYNC,
     .handle = lmc_engine_register},
    {.name = "unregister_kv_cache_engine_driven_context",
     .scheduling = LMC_SYNC,
     .handle = lmc_engine_unregister},
    {.name = "prepare_store", .scheduling = LMC_AFFINITY, .handle = lmc_engine_prepare_store},
    {.name = "commit_store", .scheduling = LMC_AFFINITY, .handle = lmc_engine_commit_store},
    {.name = "prepare_retrieve",
     .scheduling = LMC_AFFINITY,
     .handle = lmc_engine_prepare_retrieve},
    {.name = "commit_retrieve",
     .scheduling = LMC_AFFINITY,
     .handle = lmc_engine_commit_retrieve},
    /* until the module that serves these is built, which then replaces them */
    {.name = "register_kv_cache",
     .scheduling = LMC_SYNC,
     .handle = lmc_engine_refuse_register_kv_cache},
    {.name = "unregister_kv_cache",
     .scheduling = LMC_SYNC,
     .handle = lmc_engine_unregister_kv_cache},
    {.name = "store", .scheduling = LMC_AFFINITY, .handle = lmc_engine_refuse_store},
    {.name = "retrieve", .scheduling = LMC_AFFINITY, .handle = lmc_engine_refuse_store},
    {.name = NULL},
};

static const lmc_liveness liveness = {
    .touch_instance = touch_instance,
    .reap_stale_instances = reap_stale_instances,
    .tracked_instance_count = tracked_instance_count,
    .drop_instance_state = drop_instance_state,
};

const lmc_module_class lmc_engine_driven_transfer_module = {
    .size = sizeof(lmc_module_class),
    .name = "EngineDrivenTransferModule",
    .create = create_engine_driven,
    .close = close_engine_driven,
    .report_status = report_engine_driven,
    .operations = operations,
    .liveness = &liveness,
};
