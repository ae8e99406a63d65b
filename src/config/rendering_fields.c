/* Fields of the configuration JSON that are lists of objects, or JSON themselves. */
#include <string.h>

#include "config/json_value.h"
#include "config/option_render.h"
#include "config/secret.h"

/* JSON that was checked when it came in. */
static void put_json(const lmc_option_render *how, const char *text, bool mask) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    if (lmc_json_read(&arena, lmc_text(text), &value, NULL) == LMC_OK) {
        lmc_json_copy(how->writer, value, mask);
    } else {
        how->writer->out->failed = true;
        lmc_json_null(how->writer);
    }
    lmc_arena_fini(&arena);
}

void lmc_render_plugin_extra(const lmc_config *config, const lmc_option_render *how) {
    put_json(how, config->mp.runtime_plugin_config.extra_config, how->mask_plugins);
}

void lmc_render_server_modules(const lmc_config *config, const lmc_option_render *how) {
    lmc_json_list_begin(how->writer);
    for (size_t i = 0; i < config->mp.server_module_count; i++) {
        const lmc_module_spec *spec = &config->mp.server_modules[i];
        lmc_json_object_begin(how->writer);
        lmc_json_member_text(how->writer, "module_path", spec->module_path);
        if (spec->factory_name != NULL)
            lmc_json_member_text(how->writer, "factory_name", spec->factory_name);
        lmc_json_name(how->writer, "config");
        put_json(how, spec->config, how->mask);
        lmc_json_object_end(how->writer);
    }
    lmc_json_list_end(how->writer);
}

static void put_memory(lmc_json_writer *w, const lmc_l1_memory_config *memory) {
    lmc_json_object_begin(w);
    lmc_json_member_int(w, "size_in_bytes", memory->size_in_bytes);
    lmc_json_member_bool(w, "use_lazy", memory->use_lazy);
    lmc_json_member_int(w, "init_size_in_bytes", memory->init_size_in_bytes);
    lmc_json_member_int(w, "align_bytes", memory->align_bytes);
    lmc_json_member_text(w, "shm_name", memory->shm_name);
    lmc_json_member_bool(w, "use_hugepages", memory->use_hugepages);
    lmc_json_member_text(w, "devdax_path", memory->devdax_path);
    lmc_json_member_int(w, "devdax_size_in_bytes", memory->devdax_size_in_bytes);
    lmc_json_object_end(w);
}

static void put_gds(lmc_json_writer *w, const lmc_l1_gds_config *gds) {
    if (gds->file_location == NULL) {
        lmc_json_null(w);
        return;
    }
    lmc_json_object_begin(w);
    lmc_json_member_text(w, "file_location", gds->file_location);
    lmc_json_member_bool(w, "use_direct_io", gds->use_direct_io);
    lmc_json_member_text(w, "backend", gds->backend);
    lmc_json_object_end(w);
}

static void put_eviction(lmc_json_writer *w, const lmc_eviction_config *eviction) {
    lmc_json_object_begin(w);
    lmc_json_member_text(w, "eviction_policy", eviction->eviction_policy);
    lmc_json_member_real(w, "trigger_watermark", eviction->trigger_watermark);
    lmc_json_member_real(w, "eviction_ratio", eviction->eviction_ratio);
    lmc_json_member_bool(w, "extra_logging_enabled", eviction->extra_logging_enabled);
    lmc_json_member_real(w, "extra_logging_interval", eviction->extra_logging_interval);
    lmc_json_object_end(w);
}

static void put_l1(lmc_json_writer *w, const lmc_l1_manager_config *l1) {
    lmc_json_object_begin(w);
    lmc_json_name(w, "memory_config");
    put_memory(w, &l1->memory_config);
    lmc_json_name(w, "gds_l1_config");
    put_gds(w, &l1->gds_l1_config);
    lmc_json_member_int(w, "write_ttl_seconds", l1->write_ttl_seconds);
    lmc_json_member_int(w, "read_ttl_seconds", l1->read_ttl_seconds);
    lmc_json_member_text(w, "tag", l1->tag);
    lmc_json_name(w, "eviction");
    put_eviction(w, &l1->eviction);
    lmc_json_object_end(w);
}

void lmc_render_l1_manager(const lmc_config *config, const lmc_option_render *how) {
    put_l1(how->writer, &config->storage_manager.l1_managers[0]);
}

void lmc_render_l1_managers(const lmc_config *config, const lmc_option_render *how) {
    lmc_json_list_begin(how->writer);
    for (size_t i = 0; i < config->storage_manager.l1_manager_count; i++)
        put_l1(how->writer, &config->storage_manager.l1_managers[i]);
    lmc_json_list_end(how->writer);
}

void lmc_render_adapters(const lmc_config *config, const lmc_option_render *how) {
    lmc_json_list_begin(how->writer);
    for (size_t i = 0; i < config->storage_manager.adapter_count; i++)
        put_json(how, config->storage_manager.adapters[i].json, how->mask);
    lmc_json_list_end(how->writer);
}

void lmc_render_hash_log(const lmc_config *config, const lmc_option_render *how) {
    const lmc_hash_log_config *log = &config->observability.lookup_hash_log;
    lmc_json_writer *w = how->writer;
    lmc_json_object_begin(w);
    lmc_json_member_text(w, "output_dir", log->output_dir);
    lmc_json_member_int(w, "rotation_interval_sec", log->rotation_interval_sec);
    lmc_json_member_int(w, "rotation_max_size", log->rotation_max_size);
    lmc_json_member_int(w, "max_files", log->max_files);
    lmc_json_object_end(w);
}

void lmc_render_grpc_metrics(const lmc_config *config, const lmc_option_render *how) {
    if (config->observability.grpc_metrics_disabled)
        lmc_json_bool(how->writer, false);
    else
        lmc_json_null(how->writer);
}
