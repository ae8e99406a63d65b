/* --l1-manager: one L1 as a JSON object (cli-config.md 2.4). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/json_value.h"
#include "config/option_value.h"
#include "config/python_text.h"
#include "config/storage_rules.h"

typedef enum l1_type { L1_DRAM, L1_DEVDAX, L1_GDS, L1_TYPES } l1_type;

static const char *const type_names[L1_TYPES] = {"DRAM", "DEVDAX", "GDS"};
static const char shared_fields[] =
    "type,tag,size_gb,align_bytes,read_ttl_seconds,write_ttl_seconds,eviction";
static const char *const own_fields[L1_TYPES] = {"use_lazy,init_size_gb,shm_name,use_hugepages",
                                                 "path", "path,backend,direct_io"};

/* One object being read. */
typedef struct entry {
    lmc_parsing *parsing;
    const lmc_json_value *object;
    l1_type type;
    lmc_l1_manager_config *l1;
} entry;

static lmc_status reject(const entry *e, const char *text) {
    return lmc_error_set(e->parsing->error, LMC_INVALID, "%s", text);
}

static lmc_status reject_name(const entry *e, const char *name, const char *text) {
    return lmc_error_set(e->parsing->error, LMC_INVALID, "%s %s", name, text);
}

/* ---- single fields; an absent one leaves the default ---- */

static lmc_status read_positive(const entry *e, const char *name, int64_t *out) {
    const lmc_json_value *value = lmc_json_get(e->object, name);
    int64_t read = 0;
    if (value == NULL)
        return LMC_OK;
    if (!lmc_json_integer(value, &read) || read <= 0)
        return reject_name(e, name, "must be a positive integer");
    *out = read;
    return LMC_OK;
}

static lmc_status read_bool(const entry *e, const char *name, bool *out) {
    const lmc_json_value *value = lmc_json_get(e->object, name);
    if (value == NULL)
        return LMC_OK;
    if (value->kind != LMC_JSON_IS_BOOL)
        return reject_name(e, name, "must be a boolean");
    *out = value->truth;
    return LMC_OK;
}

static bool positive_number(const lmc_json_value *value, double *out) {
    if (!lmc_json_is_number(value))
        return false;
    *out = lmc_json_number(value);
    return isfinite(*out) && *out > 0;
}

static lmc_status copy_text(const char *text, char **out) {
    char *copy = strdup(text);
    if (copy == NULL)
        return LMC_NO_MEMORY;
    free(*out);
    *out = copy;
    return LMC_OK;
}

/* ---- the parts, in the order in which they are checked ---- */

static lmc_status read_type(entry *e) {
    const lmc_json_value *type = lmc_json_get(e->object, "type");
    e->type = L1_TYPES;
    for (l1_type i = 0; type != NULL && i < L1_TYPES; i++)
        if (type->kind == LMC_JSON_IS_TEXT && lmc_slice_is(type->text, type_names[i]))
            e->type = i;
    return e->type < L1_TYPES ? LMC_OK
                              : reject(e, "--l1-manager requires type DRAM, DEVDAX or GDS");
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lmc_status reject_unknown(const entry *e, const char **names, size_t count) {
    lmc_buffer message = LMC_BUFFER_INIT;
    qsort(names, count, sizeof *names, compare_names);
    lmc_buffer_text(&message, "Unknown L1 fields: [");
    for (size_t i = 0; i < count; i++) {
        lmc_buffer_text(&message, i > 0 ? ", " : "");
        lmc_repr_text(&message, lmc_text(names[i]));
    }
    lmc_buffer_char(&message, ']');
    return lmc_parsing_reject(e->parsing, LMC_INVALID, &message);
}

static lmc_status check_fields(entry *e) {
    size_t unknown = 0;
    lmc_status status = LMC_OK;
    const char *own = e->type < L1_TYPES ? own_fields[e->type] : "";
    const char **names = calloc(e->object->count + 1, sizeof *names);
    if (names == NULL)
        return LMC_NO_MEMORY;
    for (const lmc_json_value *at = e->object->first; at != NULL; at = at->next) {
        const char *name = at->name.data;
        if (!lmc_word_in(shared_fields, name) && !lmc_word_in(own, name))
            names[unknown++] = name;
    }
    if (unknown > 0)
        status = reject_unknown(e, names, unknown);
    free(names);
    return status;
}

static lmc_status read_tag(entry *e) {
    const lmc_json_value *tag = lmc_json_get(e->object, "tag");
    if (!lmc_json_filled_text(tag))
        return reject(e, "tag must be a non-empty string");
    if (lmc_slice_is(tag->text, "_default") && e->type != L1_DRAM)
        return reject(e, "Only DRAM can use the _default tag");
    return copy_text(tag->text.data, &e->l1->tag);
}

static lmc_status read_times_and_alignment(entry *e) {
    const lmc_l1_flags *flags = &e->parsing->config->storage_manager.flags;
    lmc_l1_memory_config *memory = &e->l1->memory_config;
    memory->align_bytes = 4096;
    e->l1->read_ttl_seconds = flags->read_ttl_seconds;
    e->l1->write_ttl_seconds = flags->write_ttl_seconds;
    lmc_status status = read_positive(e, "align_bytes", &memory->align_bytes);
    if (status == LMC_OK && (memory->align_bytes & (memory->align_bytes - 1)) != 0)
        return reject(e, "align_bytes must be a power of two");
    if (status == LMC_OK)
        status = read_positive(e, "read_ttl_seconds", &e->l1->read_ttl_seconds);
    if (status == LMC_OK)
        status = read_positive(e, "write_ttl_seconds", &e->l1->write_ttl_seconds);
    return status;
}

static lmc_status read_size(entry *e) {
    const lmc_json_value *size = lmc_json_get(e->object, "size_gb");
    lmc_l1_memory_config *memory = &e->l1->memory_config;
    double gib = 0;
    if (size == NULL || !positive_number(size, &gib))
        return reject(e, "size_gb must be a finite positive number");
    if (!lmc_gib_to_bytes(gib, &memory->size_in_bytes) ||
        memory->size_in_bytes < memory->align_bytes)
        return reject(e, "size_gb must provide at least align_bytes bytes");
    return LMC_OK;
}

static lmc_status read_portion(entry *e, const lmc_json_value *eviction, const char *name,
                               double *out) {
    const lmc_json_value *value = lmc_json_get(eviction, name);
    if (value == NULL)
        return LMC_OK;
    double read = lmc_json_is_number(value) ? lmc_json_number(value) : NAN;
    if (!(read >= 0 && read <= 1))
        return reject_name(e, name, "must be between zero and one");
    *out = read;
    return LMC_OK;
}

static lmc_status read_policy(entry *e, const lmc_json_value *eviction) {
    const lmc_json_value *policy = lmc_json_get(eviction, "eviction_policy");
    if (policy == NULL || policy->kind == LMC_JSON_IS_NULL)
        return LMC_OK;
    if (policy->kind != LMC_JSON_IS_TEXT ||
        !lmc_word_in("LRU,ARC,IsolatedLRU,noop", policy->text.data)) {
        lmc_buffer message = LMC_BUFFER_INIT;
        lmc_buffer_text(&message,
                        "eviction.eviction_policy must be 'LRU', 'ARC', 'IsolatedLRU', "
                        "or 'noop', got ");
        lmc_json_repr(&message, policy);
        return lmc_parsing_reject(e->parsing, LMC_INVALID, &message);
    }
    return copy_text(policy->text.data, &e->l1->eviction.eviction_policy);
}

static bool only_eviction_fields(const lmc_json_value *eviction) {
    for (const lmc_json_value *at = eviction->first; at != NULL; at = at->next)
        if (!lmc_word_in("eviction_policy,trigger_watermark,eviction_ratio", at->name.data))
            return false;
    return eviction->kind == LMC_JSON_IS_OBJECT;
}

static lmc_status read_eviction(entry *e) {
    static const lmc_json_value nothing = {.kind = LMC_JSON_IS_OBJECT};
    const lmc_json_value *given = lmc_json_get(e->object, "eviction");
    const lmc_json_value *eviction = given != NULL ? given : &nothing;
    lmc_eviction_config *to = &e->l1->eviction;
    lmc_status status =
        lmc_copy_eviction(&e->parsing->config->storage_manager.eviction_config, to);
    if (status != LMC_OK)
        return status;
    if (eviction->kind != LMC_JSON_IS_OBJECT || !only_eviction_fields(eviction))
        return reject(e, "eviction must contain policy, watermark and ratio settings only");
    status = read_policy(e, eviction);
    if (status == LMC_OK && to->eviction_policy == NULL)
        return reject(e, "An eviction policy is required for each L1");
    if (status == LMC_OK)
        status = read_portion(e, eviction, "trigger_watermark", &to->trigger_watermark);
    if (status == LMC_OK)
        status = read_portion(e, eviction, "eviction_ratio", &to->eviction_ratio);
    return status;
}

/* The name in the object; the first L1 without one takes that of --shm-name. */
static lmc_status read_shm_name(entry *e) {
    const lmc_json_value *name = lmc_json_get(e->object, "shm_name");
    lmc_l1_memory_config *memory = &e->l1->memory_config;
    const lmc_config *config = e->parsing->config;
    if (name == NULL)
        return copy_text(config->storage_manager.l1_manager_count == 1 ? config->mp.shm_name
                                                                       : "",
                         &memory->shm_name);
    if (name->kind != LMC_JSON_IS_TEXT)
        return reject(e, "shm_name must be a string");
    if (name->text.size > 0 && memory->use_lazy)
        return reject(e, "shm_name cannot coexist with use_lazy");
    return copy_text(name->text.data, &memory->shm_name);
}

static lmc_status read_dram(entry *e) {
    lmc_l1_memory_config *memory = &e->l1->memory_config;
    const lmc_json_value *initial = lmc_json_get(e->object, "init_size_gb");
    double gib = 20;
    memory->use_lazy = true;
    lmc_status status = read_bool(e, "use_lazy", &memory->use_lazy);
    if (status == LMC_OK)
        status = read_bool(e, "use_hugepages", &memory->use_hugepages);
    if (status != LMC_OK)
        return status;
    if (initial != NULL && !positive_number(initial, &gib))
        return reject(e, "init_size_gb must be a finite positive number");
    memory->init_size_in_bytes = lmc_initial_size(gib, memory->size_in_bytes);
    status = read_shm_name(e);
    return status != LMC_OK ? status : lmc_check_memory(e->parsing, memory);
}

static lmc_status read_device(entry *e) {
    const lmc_json_value *path = lmc_json_get(e->object, "path");
    const lmc_json_value *backend = lmc_json_get(e->object, "backend");
    lmc_l1_gds_config *gds = &e->l1->gds_l1_config;
    if (e->type == L1_GDS && e->l1->memory_config.align_bytes < 4096)
        return reject(e, "GDS align_bytes must be at least 4096");
    if (!lmc_json_filled_text(path))
        return reject(e, "path must be a non-empty string");
    lmc_status status = copy_text("", &e->l1->memory_config.shm_name);
    if (status == LMC_OK && e->type == L1_DEVDAX)
        return copy_text(path->text.data, &e->l1->memory_config.devdax_path);
    if (status == LMC_OK)
        status = copy_text(path->text.data, &gds->file_location);
    gds->use_direct_io = true;
    if (status == LMC_OK)
        status = read_bool(e, "direct_io", &gds->use_direct_io);
    if (status == LMC_OK && backend != NULL && backend->kind != LMC_JSON_IS_TEXT)
        return reject(e, "backend must be a string");
    return status != LMC_OK
               ? status
               : copy_text(backend != NULL ? backend->text.data : "auto", &gds->backend);
}

static lmc_status read_kind(entry *e) {
    return e->type == L1_DRAM ? read_dram(e) : read_device(e);
}

static lmc_status read_entry(lmc_parsing *parsing, const lmc_json_value *object) {
    static lmc_status (*const steps[])(entry *) = {
        read_type, check_fields,  read_tag, read_times_and_alignment,
        read_size, read_eviction, read_kind};
    entry e = {.parsing = parsing, .object = object};
    e.l1 = lmc_add_l1_manager(&parsing->config->storage_manager);
    if (e.l1 == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        lmc_status status = steps[i](&e);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

static lmc_status read_text(lmc_parsing *parsing, size_t number, const char *text) {
    lmc_error detail = LMC_ERROR_INIT;
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_json_read(&arena, lmc_text(text), &value, &detail);
    if (status == LMC_OK)
        status = read_entry(parsing, value);
    else if (status == LMC_MALFORMED)
        status = lmc_error_set(parsing->error, LMC_INVALID,
                               "Invalid JSON for --l1-manager #%zu: %s", number, detail.text);
    lmc_arena_fini(&arena);
    return status;
}

/* ---- rules between managers ---- */

static const char *conflict(const lmc_l1_manager_config *a, const lmc_l1_manager_config *b) {
    if (strcmp(a->tag, b->tag) == 0)
        return "L1 tags must be unique";
    const char *shm = a->memory_config.shm_name;
    if (shm[0] != '\0' && strcmp(shm, b->memory_config.shm_name) == 0)
        return "DRAM L1 managers require distinct shm_name values";
    if (a->gds_l1_config.file_location != NULL && b->gds_l1_config.file_location != NULL)
        return "Only one GDS L1 slab is supported per process";
    return NULL;
}

static lmc_status check_together(lmc_parsing *parsing) {
    const lmc_storage_config *storage = &parsing->config->storage_manager;
    for (size_t i = 0; i < storage->l1_manager_count; i++) {
        for (size_t j = 0; j < i; j++) {
            const char *text = conflict(&storage->l1_managers[i], &storage->l1_managers[j]);
            if (text != NULL)
                return lmc_error_set(parsing->error, LMC_INVALID, "%s", text);
        }
    }
    return LMC_OK;
}

lmc_status lmc_parse_l1_managers(lmc_parsing *parsing) {
    lmc_storage_config *storage = &parsing->config->storage_manager;
    for (size_t i = 0; i < storage->flags.managers.count; i++) {
        lmc_status status = read_text(parsing, i + 1, storage->flags.managers.items[i]);
        if (status == LMC_INVALID &&
            lmc_parsing_notice(parsing, LMC_LOG_WARNING, "--l1-manager #%zu is not usable",
                               i + 1) != LMC_OK)
            return LMC_NO_MEMORY;
        if (status != LMC_OK)
            return status;
    }
    lmc_status status = check_together(parsing);
    if (status != LMC_OK)
        return status;
    return lmc_copy_eviction(&storage->l1_managers[0].eviction, &storage->eviction_config);
}
