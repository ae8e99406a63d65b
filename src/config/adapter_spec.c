/* --l2-adapter: the keys that all adapter types share (cli-config.md 2.6). */
#include <stdlib.h>
#include <string.h>

#include "config/json_value.h"
#include "config/option_value.h"
#include "config/parsing.h"

#define KNOWN_TYPES                                                                           \
    "aerospike, bigtable, dax, fault_inject, fs, fs_native, hfbucket, mock, mooncake_store, " \
    "native_plugin, nixl_store, nixl_store_dynamic, plugin, raw_block, resp, s3, "            \
    "sagemaker-hyperpod, valkey"

static bool is_known_type(lmc_slice type) {
    const char *at = KNOWN_TYPES;
    while (*at != '\0') {
        size_t size = strcspn(at, ",");
        if (lmc_slice_equal(lmc_slice_of(at, size), type))
            return true;
        at += size + strspn(at + size, ", ");
    }
    return false;
}

static lmc_status reject_type(lmc_parsing *parsing, size_t number, const lmc_json_value *type) {
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_printf(&message, "--l2-adapter #%zu: unknown adapter type '", number);
    if (type->kind == LMC_JSON_IS_TEXT)
        lmc_buffer_append(&message, type->text.data, type->text.size);
    else
        lmc_json_repr(&message, type);
    lmc_buffer_text(&message, "'. Known: " KNOWN_TYPES);
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

static lmc_status check_eviction(lmc_parsing *parsing, const lmc_json_value *object) {
    const lmc_json_value *eviction = lmc_json_get(object, "eviction");
    static const lmc_json_value none = {.kind = LMC_JSON_IS_NULL};
    if (eviction == NULL || eviction->kind == LMC_JSON_IS_NULL)
        return LMC_OK;
    const lmc_json_value *policy = lmc_json_get(eviction, "eviction_policy");
    if (policy != NULL && policy->kind == LMC_JSON_IS_TEXT &&
        lmc_word_in("LRU,IsolatedLRU,noop", policy->text.data))
        return LMC_OK;
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_text(&message, "eviction.eviction_policy must be 'LRU', 'IsolatedLRU', or "
                              "'noop', got ");
    lmc_json_repr(&message, policy != NULL ? policy : &none);
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

static lmc_status check_serde(lmc_parsing *parsing, const lmc_json_value *object) {
    const lmc_json_value *serde = lmc_json_get(object, "serde");
    if (serde == NULL || serde->kind == LMC_JSON_IS_NULL)
        return LMC_OK;
    if (serde->kind != LMC_JSON_IS_OBJECT)
        return lmc_error_set(parsing->error, LMC_INVALID, "'serde' must be a dict, got %s",
                             lmc_json_type_name(serde));
    if (lmc_json_get(serde, "type") == NULL)
        return lmc_error_set(parsing->error, LMC_INVALID,
                             "'serde' dict must include a 'type' field");
    return LMC_OK;
}

static lmc_status check_affinity(lmc_parsing *parsing, lmc_slice tag) {
    const lmc_storage_config *storage = &parsing->config->storage_manager;
    for (size_t i = 0; i < storage->l1_manager_count; i++) {
        if (!lmc_slice_is(tag, storage->l1_managers[i].tag))
            continue;
        if (storage->l1_managers[i].gds_l1_config.file_location != NULL)
            return lmc_error_set(parsing->error, LMC_INVALID,
                                 "L2 affinity requires a host-backed DRAM or DEVDAX L1");
        return LMC_OK;
    }
    return lmc_error_set(parsing->error, LMC_INVALID, "Unknown L1 affinity_tag: '%.*s'",
                         LMC_SLICE_ARGS(tag));
}

static lmc_status keep(lmc_storage_config *storage, lmc_slice type, lmc_slice tag,
                       lmc_slice json) {
    size_t count = storage->adapter_count;
    lmc_adapter_spec *grown = realloc(storage->adapters, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return LMC_NO_MEMORY;
    storage->adapters = grown;
    grown[count].type = strndup(type.data, type.size);
    grown[count].affinity_tag = strndup(tag.data, tag.size);
    grown[count].json = strndup(json.data, json.size);
    storage->adapter_count++;
    return grown[count].type != NULL && grown[count].affinity_tag != NULL &&
                   grown[count].json != NULL
               ? LMC_OK
               : LMC_NO_MEMORY;
}

static lmc_status read_object(lmc_parsing *parsing, size_t number,
                              const lmc_json_value *object) {
    const lmc_json_value *type = lmc_json_get(object, "type");
    const lmc_json_value *tag = lmc_json_get(object, "affinity_tag");
    lmc_slice tag_text = lmc_text("_default");
    if (object->kind != LMC_JSON_IS_OBJECT)
        return lmc_error_set(parsing->error, LMC_INVALID,
                             "--l2-adapter #%zu: expected a JSON object, got %s", number,
                             lmc_json_type_name(object));
    if (type == NULL)
        return lmc_error_set(parsing->error, LMC_INVALID,
                             "--l2-adapter #%zu: missing 'type' field", number);
    if (type->kind != LMC_JSON_IS_TEXT || !is_known_type(type->text))
        return reject_type(parsing, number, type);
    if (tag != NULL && tag->kind != LMC_JSON_IS_NULL)
        tag_text = tag->kind == LMC_JSON_IS_TEXT ? tag->text : tag->source;
    lmc_status status = check_eviction(parsing, object);
    if (status == LMC_OK)
        status = check_serde(parsing, object);
    if (status == LMC_OK)
        status = check_affinity(parsing, tag_text);
    if (status == LMC_OK)
        status = keep(&parsing->config->storage_manager, type->text, tag_text, object->source);
    return status;
}

lmc_status lmc_parse_adapters(lmc_parsing *parsing) {
    const lmc_text_list *texts = &parsing->config->storage_manager.flags.adapters;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < texts->count && status == LMC_OK; i++) {
        lmc_error detail = LMC_ERROR_INIT;
        const lmc_json_value *value = NULL;
        lmc_arena arena;
        lmc_arena_init(&arena, 0);
        status = lmc_json_read(&arena, lmc_text(texts->items[i]), &value, &detail);
        if (status == LMC_OK)
            status = read_object(parsing, i + 1, value);
        else if (status == LMC_MALFORMED)
            status =
                lmc_error_set(parsing->error, LMC_INVALID,
                              "Invalid JSON for --l2-adapter #%zu: %s", i + 1, detail.text);
        lmc_arena_fini(&arena);
    }
    return status;
}

/* No adapter type is built so far. */
lmc_status lmc_check_adapters_built(lmc_parsing *parsing) {
    const lmc_storage_config *storage = &parsing->config->storage_manager;
    if (storage->adapter_count == 0)
        return LMC_OK;
    return lmc_error_set(parsing->error, LMC_INVALID,
                         "--l2-adapter #1: adapter type '%s' is not built yet",
                         storage->adapters[0].type);
}
