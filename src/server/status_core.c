/*
 * status_core.c: the members of /status that the server itself contributes
 * (http-observability.md 5): the engine's, and the storage manager's as the cache core reports
 * it.
 */
#include "base/bytes.h"
#include "module/status_writer.h"
#include "server/plugins.h"
#include "server/state.h"

typedef struct storage_view {
    const lmc_config *config;
    const lmc_l1_manager_config *manager;
    lmc_l1_report l1;
} storage_view;

static void write_l1(lmc_writer *w, const char *name, const storage_view *view) {
    const lmc_l1_report *l1 = &view->l1;
    lmc_write_object_begin(w, name);
    lmc_write_bool(w, "is_healthy", l1->is_sound);
    lmc_write_int(w, "total_object_count", (int64_t)(l1->resident_count + l1->staging_count));
    lmc_write_int(w, "write_locked_count", (int64_t)l1->staging_count);
    lmc_write_int(w, "read_locked_count", (int64_t)l1->read_locked_count);
    lmc_write_int(w, "temporary_count", 0);
    lmc_write_int(w, "staging_object_count", (int64_t)l1->staging_count);
    lmc_write_int(w, "staging_bytes", (int64_t)l1->staging_bytes);
    lmc_write_int(w, "memory_used_bytes", (int64_t)l1->used_bytes);
    lmc_write_int(w, "memory_total_bytes", (int64_t)l1->capacity_bytes);
    lmc_write_int(w, "memory_configured_bytes", (int64_t)l1->capacity_bytes);
    lmc_write_int(w, "memory_supplied_bytes", (int64_t)l1->supplied_bytes);
    lmc_write_real(w, "memory_usage_ratio",
                   l1->capacity_bytes > 0 ? (double)l1->used_bytes / (double)l1->capacity_bytes
                                          : 0);
    lmc_write_object_begin(w, "capacity_bytes_by_backend");
    lmc_write_int(w, "dram", (int64_t)l1->capacity_bytes);
    lmc_write_object_end(w);
    lmc_write_int(w, "write_ttl_seconds", view->manager->write_ttl_seconds);
    lmc_write_int(w, "read_ttl_seconds", view->manager->read_ttl_seconds);
    lmc_write_object_end(w);
}

/* Nothing is below L1 yet: no work waits, and nothing is ill. */
static void write_store_controller(lmc_writer *w, const char *name) {
    lmc_write_object_begin(w, name);
    lmc_write_bool(w, "is_healthy", true);
    lmc_write_bool(w, "thread_alive", true);
    lmc_write_int(w, "pending_keys_count", 0);
    lmc_write_int(w, "in_flight_task_count", 0);
    lmc_write_int(w, "num_l2_adapters", 0);
    lmc_write_int(w, "num_active_adapters", 0);
    lmc_write_int(w, "num_draining_adapters", 0);
    lmc_write_object_end(w);
}

static void write_eviction(lmc_writer *w, const char *name, const storage_view *view) {
    const lmc_eviction_config *eviction = &view->manager->eviction;
    lmc_write_object_begin(w, name);
    lmc_write_bool(w, "is_healthy", true);
    lmc_write_bool(w, "thread_alive", true);
    lmc_write_text(w, "eviction_policy", lmc_text(eviction->eviction_policy));
    lmc_write_real(w, "trigger_watermark", eviction->trigger_watermark);
    lmc_write_real(w, "eviction_ratio", eviction->eviction_ratio);
    lmc_write_object_end(w);
}

static void write_prefetch(lmc_writer *w, const storage_view *view) {
    lmc_write_object_begin(w, "prefetch_controller");
    lmc_write_bool(w, "is_healthy", true);
    lmc_write_bool(w, "thread_alive", true);
    lmc_write_int(w, "max_in_flight", view->config->storage_manager.prefetch_max_in_flight);
    lmc_write_int(w, "submission_queue_size", 0);
    lmc_write_int(w, "pending_queue_size", 0);
    lmc_write_int(w, "in_flight_request_count", 0);
    lmc_write_int(w, "lookup_phase_count", 0);
    lmc_write_int(w, "load_phase_count", 0);
    lmc_write_int(w, "completed_results_count", 0);
    lmc_write_object_end(w);
}

static void write_l2(lmc_writer *w) {
    lmc_write_object_begin(w, "l2_eviction_controller");
    lmc_write_bool(w, "is_healthy", true);
    lmc_write_object_end(w);
    lmc_write_list_begin(w, "l2_adapters");
    lmc_write_list_end(w);
    lmc_write_int(w, "num_l2_adapters", 0);
}

static void write_usage(lmc_writer *w, const storage_view *view) {
    lmc_write_list_begin(w, "l1_usage");
    lmc_write_int(w, NULL, (int64_t)view->l1.used_bytes);
    lmc_write_int(w, NULL, (int64_t)view->l1.capacity_bytes);
    lmc_write_list_end(w);
    lmc_write_object_begin(w, "l1_capacity_bytes_by_backend");
    lmc_write_int(w, "dram", (int64_t)view->l1.capacity_bytes);
    lmc_write_object_end(w);
}

static void write_storage(lmc_writer *w, const storage_view *view) {
    const char *tag = view->manager->tag;
    lmc_write_object_begin(w, "storage_manager");
    lmc_write_bool(w, "is_healthy", view->l1.is_sound);
    lmc_write_object_begin(w, "l1_managers");
    write_l1(w, tag, view);
    lmc_write_object_end(w);
    lmc_write_object_begin(w, "store_controllers");
    write_store_controller(w, tag);
    lmc_write_object_end(w);
    lmc_write_object_begin(w, "l1_eviction_controllers");
    write_eviction(w, tag, view);
    lmc_write_object_end(w);
    write_prefetch(w, view);
    write_l2(w);
    write_usage(w, view);
    write_l1(w, "l1_manager", view); /* the same again under the names for a single L1 */
    write_store_controller(w, "store_controller");
    write_eviction(w, "l1_eviction_controller", view);
    write_eviction(w, "eviction_controller", view);
    lmc_write_object_end(w);
}

static storage_view view_storage(const lmc_server *server) {
    storage_view view = {.config = server->config,
                         .manager = &server->config->storage_manager.l1_managers[0]};
    lmc_l1_report_get(lmc_cache_l1(server->cache), &view.l1);
    return view;
}

lmc_status lmc_server_storage_status(void *arg, lmc_buffer *out) {
    storage_view view = view_storage(arg);
    lmc_writer writer;
    lmc_writer_init(&writer);
    write_storage(&writer, &view);
    lmc_status status = lmc_writer_finish(&writer);
    if (status == LMC_OK) {
        lmc_slice value = lmc_writer_value(&writer, 0);
        lmc_buffer_append(out, value.data, value.size);
        status = out->failed ? LMC_NO_MEMORY : LMC_OK;
    }
    lmc_writer_fini(&writer);
    return status;
}

lmc_status lmc_server_report_core(void *arg, lmc_writer *writer) {
    const lmc_server *server = arg;
    storage_view view = view_storage(server);
    lmc_write_bool(writer, "is_healthy", view.l1.is_sound);
    lmc_write_text(writer, "engine_type", lmc_text("MPCacheServer"));
    lmc_write_int(writer, "chunk_size", server->config->mp.chunk_size);
    lmc_write_text(writer, "hash_algorithm", lmc_text(server->config->mp.hash_algorithm));
    lmc_write_int(writer, "active_sessions", (int64_t)lmc_cache_active_sessions(server->cache));
    write_storage(writer, &view);
    /* What the module for device memory reports once it is built (D58). */
    lmc_write_list_begin(writer, "registered_gpu_ids");
    lmc_write_list_end(writer);
    lmc_write_object_begin(writer, "cache_context_meta");
    lmc_write_object_end(writer);
    lmc_server_report_plugins(server, writer);
    lmc_write_text(writer, "boot_id", lmc_text(server->boot_id));
    return LMC_OK;
}
