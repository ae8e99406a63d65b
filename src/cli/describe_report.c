#include "cli/describe_report.h"

#include <stdarg.h>

#include "config/json_value.h"

#define GIB 1073741824.0

/* ---- reaching into the body ---- */

/* The member at the end of a path; NULL when any step is missing. */
static const lmc_json_value *reach(const lmc_json_value *from, const char *const *names,
                                   size_t count) {
    for (size_t i = 0; i < count && from != NULL; i++)
        from = lmc_json_get(from, names[i]);
    return from != NULL && from->kind != LMC_JSON_IS_NULL ? from : NULL;
}

static const lmc_json_value *member(const lmc_json_value *from, const char *name) {
    return from != NULL ? reach(from, &name, 1) : NULL;
}

static bool number_of(const lmc_json_value *from, const char *name, double *out) {
    const lmc_json_value *value = member(from, name);
    if (value == NULL || !lmc_json_is_number(value))
        return false;
    *out = lmc_json_number(value);
    return true;
}

/* ---- adding to the report ---- */

static void add_value(lmc_report *report, const char *key, const char *label,
                      const lmc_json_value *value) {
    lmc_buffer text = LMC_BUFFER_INIT;
    if (value == NULL) {
        lmc_report_none(report, key, label);
    } else if (value->kind == LMC_JSON_IS_TEXT) {
        lmc_report_text(report, key, label, value->text);
    } else if (value->kind == LMC_JSON_IS_BOOL) {
        lmc_report_bool(report, key, label, value->truth);
    } else if (value->kind == LMC_JSON_IS_INT) {
        lmc_report_number(report, key, label, value->source);
    } else if (value->kind == LMC_JSON_IS_FLOAT) {
        lmc_report_float(report, key, label, lmc_json_number(value));
    } else {
        lmc_json_repr(&text, value);
        lmc_report_text(report, key, label, lmc_slice_of(text.data, text.size));
    }
    report->failed |= text.failed;
    lmc_buffer_fini(&text);
}

/* The same, but nothing when the member is missing. */
static void add_present(lmc_report *report, const char *key, const char *label,
                        const lmc_json_value *from) {
    const lmc_json_value *value = member(from, key);
    if (value != NULL)
        add_value(report, key, label, value);
}

static void add_printed(lmc_report *report, const char *key, const char *label,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
static void add_printed(lmc_report *report, const char *key, const char *label,
                        const char *format, ...) {
    lmc_buffer text = LMC_BUFFER_INIT;
    va_list args;
    va_start(args, format);
    lmc_buffer_vprintf(&text, format, args);
    va_end(args);
    report->failed |= text.failed;
    lmc_report_text(report, key, label, lmc_slice_of(text.data, text.size));
    lmc_buffer_fini(&text);
}

/* ---- the service ---- */

static void add_memory(lmc_report *report, const lmc_json_value *l1) {
    double total = 0, used = 0, ratio = 0;
    if (number_of(l1, "memory_total_bytes", &total))
        lmc_report_float(report, "l1_capacity_gb", "L1 capacity (GB)",
                         lmc_two_decimals(total / GIB));
    else
        lmc_report_none(report, "l1_capacity_gb", "L1 capacity (GB)");
    if (number_of(l1, "memory_used_bytes", &used) &&
        number_of(l1, "memory_usage_ratio", &ratio))
        add_printed(report, "l1_used_gb", "L1 used (GB)", "%.2f (%.1f%%)", used / GIB,
                    ratio * 100);
    else
        lmc_report_none(report, "l1_used_gb", "L1 used (GB)");
}

static void add_service(lmc_report *report, const char *url, const lmc_json_value *body) {
    const lmc_json_value *healthy = member(body, "is_healthy");
    const lmc_json_value *storage = member(body, "storage_manager");
    const lmc_json_value *l1 = member(storage, "l1_manager");
    const lmc_json_value *eviction = member(storage, "eviction_controller");
    if (eviction == NULL)
        eviction = member(storage, "l1_eviction_controller");
    bool ok = healthy != NULL && healthy->kind == LMC_JSON_IS_BOOL && healthy->truth;
    lmc_report_text(report, "health", "Health", lmc_text(ok ? "OK" : "UNHEALTHY"));
    lmc_report_text(report, "url", "URL", lmc_text(url));
    add_value(report, "engine_type", "Engine type", member(body, "engine_type"));
    add_value(report, "chunk_size", "Chunk size", member(body, "chunk_size"));
    add_memory(report, l1);
    add_value(report, "eviction_policy", "Eviction policy",
              member(eviction, "eviction_policy"));
    add_value(report, "cached_objects", "Cached objects", member(l1, "total_object_count"));
    add_value(report, "active_sessions", "Active sessions", member(body, "active_sessions"));
}

/* ---- models ---- */

static bool same_value(const lmc_json_value *a, const lmc_json_value *b) {
    if (a == NULL || b == NULL)
        return a == b;
    return a->kind == b->kind && lmc_slice_equal(a->source, b->source);
}

static bool same_model(const lmc_json_value *a, const lmc_json_value *b) {
    return same_value(member(a, "model_name"), member(b, "model_name")) &&
           same_value(member(a, "world_size"), member(b, "world_size"));
}

static bool is_first_of_model(const lmc_json_value *contexts, const lmc_json_value *context) {
    for (const lmc_json_value *at = contexts->first; at != context; at = at->next)
        if (same_model(at, context))
            return false;
    return true;
}

static void add_ids(lmc_report *report, const char *key, const char *label,
                    const lmc_json_value *contexts, const lmc_json_value *context) {
    lmc_buffer ids = LMC_BUFFER_INIT;
    for (const lmc_json_value *at = contexts->first; at != NULL; at = at->next) {
        if (!same_model(at, context))
            continue;
        lmc_buffer_text(&ids, ids.size > 0 ? ", " : "");
        lmc_buffer_append(&ids, at->name.data, at->name.size);
    }
    report->failed |= ids.failed;
    lmc_report_text(report, key, label, lmc_slice_of(ids.data, ids.size));
    lmc_buffer_fini(&ids);
}

static void add_model(lmc_report *report, const lmc_json_value *contexts,
                      const lmc_json_value *context) {
    const lmc_json_value *layout = member(context, "kv_cache_layout");
    lmc_report_section_begin(report, "models", "Model");
    add_value(report, "model", "Model", member(context, "model_name"));
    add_value(report, "world_size", "World size", member(context, "world_size"));
    add_ids(report, "gpu_ids", "GPU IDs", contexts, context);
    add_value(report, "num_layers", "Layers", member(layout, "num_layers"));
    add_value(report, "num_blocks", "Blocks", member(layout, "num_blocks"));
    add_value(report, "cache_size_per_token", "Cache size per token",
              member(layout, "cache_size_per_token"));
}

/* Workers that move their bytes themselves; ours, the original shows none of them. */
static void add_engine_driven(lmc_report *report, const lmc_json_value *contexts,
                              const lmc_json_value *context) {
    lmc_report_section_begin(report, "engine_driven_models", "Model (engine-driven)");
    add_value(report, "model", "Model", member(context, "model_name"));
    add_value(report, "world_size", "World size", member(context, "world_size"));
    add_ids(report, "worker_ids", "Worker IDs", contexts, context);
    add_present(report, "block_size", "Block size", context);
}

static void add_kernel_groups(lmc_report *report, const lmc_json_value *context) {
    static const char *const keys[][2] = {
        {"kernel_group_idx", "Kernel group"},
        {"engine_group_idx", "Engine group"},
        {"object_group_idx", "Object group"},
        {"num_layers", "Layers"},
        {"tokens_per_block", "Tokens per block"},
        {"slots_per_block", "Slots per block"},
        {"dtype", "Data type"},
        {"is_mla", "MLA"},
        {"attention_backend", "Attention backend"},
        {"engine_kv_shape", "Engine KV shape"},
        {"engine_kv_concrete_shape", "Engine KV concrete shape"},
    };
    const lmc_json_value *groups = member(member(context, "kv_cache_layout"), "kernel_groups");
    const lmc_json_value *group = groups != NULL ? groups->first : NULL;
    for (; group != NULL; group = group->next) {
        lmc_report_section_begin(report, "kernel_groups", "Kernel group");
        add_value(report, "model", "Model", member(context, "model_name"));
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            add_present(report, keys[i][0], keys[i][1], group);
    }
}

typedef void add_context(lmc_report *, const lmc_json_value *, const lmc_json_value *);

static void each_model(lmc_report *report, const lmc_json_value *contexts, add_context *add) {
    const lmc_json_value *at = contexts != NULL ? contexts->first : NULL;
    for (; at != NULL; at = at->next)
        if (is_first_of_model(contexts, at))
            add(report, contexts, at);
}

static void add_groups_of(lmc_report *report, const lmc_json_value *contexts,
                          const lmc_json_value *context) {
    (void)contexts;
    add_kernel_groups(report, context);
}

/* ---- adapters ---- */

static double part(double of, double whole) { return whole > 0 ? of / whole * 100 : 0; }

static void add_adapter(lmc_report *report, const lmc_json_value *adapter) {
    const lmc_json_value *healthy = member(adapter, "is_healthy");
    double used = 0, capacity = 0, slots = 0, unused = 0;
    bool ok = healthy != NULL && healthy->kind == LMC_JSON_IS_BOOL && healthy->truth;
    lmc_report_section_begin(report, "l2_adapters", "L2 adapter");
    add_value(report, "type", "Type", member(adapter, "type"));
    lmc_report_text(report, "health", "Health", lmc_text(ok ? "OK" : "UNHEALTHY"));
    add_present(report, "backend", "Backend", adapter);
    add_present(report, "base_path", "Base path", adapter);
    add_present(report, "stored_object_count", "Stored objects", adapter);
    if (number_of(adapter, "current_size_bytes", &used) &&
        number_of(adapter, "max_capacity_bytes", &capacity))
        add_printed(report, "used", "Used (GB)", "%.2f / %.2f (%.1f%%)", used / GIB,
                    capacity / GIB, part(used, capacity));
    if (number_of(adapter, "pool_size", &slots) &&
        number_of(adapter, "pool_free_slots", &unused))
        add_printed(report, "pool_used", "Pool used", "%.0f / %.0f (%.1f%%)", slots - unused,
                    slots, part(slots - unused, slots));
}

lmc_status lmc_describe_status(lmc_report *report, const char *url, lmc_slice body,
                               lmc_error *error) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_json_read(&arena, body, &value, error);
    if (status == LMC_OK) {
        const lmc_json_value *contexts = member(value, "cache_context_meta");
        const lmc_json_value *adapters =
            member(member(value, "storage_manager"), "l2_adapters");
        add_service(report, url, value);
        each_model(report, contexts, add_model);
        each_model(report, contexts, add_groups_of);
        each_model(report, member(value, "non_cuda_context_meta"), add_engine_driven);
        const lmc_json_value *adapter = adapters != NULL ? adapters->first : NULL;
        for (; adapter != NULL; adapter = adapter->next)
            add_adapter(report, adapter);
    }
    lmc_arena_fini(&arena);
    return status;
}
