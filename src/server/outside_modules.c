#include "server/outside_modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "config/json_value.h"
#include "modules/modules.h"

#define LMC_LOGGER "lmcache.module"

/* ---- specs ---- */

/* The value without what does not matter: blanks and forms of numbers stay comparable. */
static bool normalize(const char *json, lmc_buffer *out) {
    const lmc_json_value *value = NULL;
    lmc_json_writer writer;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    bool read = lmc_json_read(&arena, lmc_text(json), &value, NULL) == LMC_OK;
    if (read) {
        lmc_json_start(&writer, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
        lmc_json_copy(&writer, value, false);
        read = lmc_json_finish(&writer) == LMC_OK;
    }
    lmc_arena_fini(&arena);
    return read && !out->failed;
}

static bool same_config(const char *a, const char *b) {
    lmc_buffer one = LMC_BUFFER_INIT, other = LMC_BUFFER_INIT;
    bool same = normalize(a, &one) && normalize(b, &other) && strcmp(one.data, other.data) == 0;
    lmc_buffer_fini(&one);
    lmc_buffer_fini(&other);
    return same;
}

/* LMC_DECLINED: the path was given before, with the same configuration. */
static lmc_status check_repeated(const lmc_outside_modules *modules,
                                 const lmc_module_spec *spec, lmc_error *error) {
    for (size_t i = 0; i < modules->count; i++) {
        if (strcmp(modules->specs[i]->module_path, spec->module_path) != 0)
            continue;
        if (!same_config(modules->specs[i]->config, spec->config))
            return lmc_error_set(error, LMC_INVALID,
                                 "duplicate server module path with different config: %s",
                                 spec->module_path);
        LMC_WARNING("server module %s is named twice; loaded once", spec->module_path);
        return LMC_DECLINED;
    }
    return LMC_OK;
}

static lmc_status load(lmc_outside_modules *modules, const lmc_module_spec *spec,
                       lmc_error *error) {
    lmc_native_file *file = NULL;
    lmc_status status = check_repeated(modules, spec, error);
    if (status != LMC_OK)
        return status == LMC_DECLINED ? LMC_OK : status;
    status = lmc_native_open(spec->module_path, &file, NULL, error);
    if (status != LMC_OK)
        return status;
    LMC_INFO("Loaded server module %s (module ABI %u.%u%s%s)", spec->module_path,
             (unsigned)file->abi_major, (unsigned)file->abi_minor,
             file->built_with != NULL ? ", " : "",
             file->built_with != NULL ? file->built_with : "");
    modules->files[modules->count] = file;
    modules->specs[modules->count++] = spec;
    return LMC_OK;
}

/* ---- classes ---- */

static lmc_status list_classes(lmc_outside_modules *modules, const lmc_module_class *last,
                               lmc_error *error) {
    size_t total;
    const lmc_module_class *const *built_in = lmc_built_in_modules(&total);
    modules->built_in_count = total;
    for (size_t i = 0; i < modules->count; i++)
        total += modules->files[i]->class_count;
    modules->classes = calloc(total + 1, sizeof(const lmc_module_class *));
    if (modules->classes == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    for (size_t i = 0; i < modules->built_in_count; i++)
        modules->classes[modules->class_count++] = built_in[i];
    for (size_t i = 0; i < modules->count; i++)
        for (size_t k = 0; k < modules->files[i]->class_count; k++)
            modules->classes[modules->class_count++] = &modules->files[i]->classes[k];
    if (last != NULL)
        modules->classes[modules->class_count++] = last;
    return LMC_OK;
}

lmc_status lmc_outside_modules_load(lmc_outside_modules *modules, const lmc_mp_config *config,
                                    const lmc_module_class *last, lmc_error *error) {
    size_t room = config->server_module_count + 1;
    *modules = (lmc_outside_modules){0};
    modules->files = calloc(room, sizeof *modules->files);
    modules->specs = calloc(room, sizeof(const lmc_module_spec *));
    lmc_status status = LMC_OK;
    if (modules->files == NULL || modules->specs == NULL)
        status = lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    for (size_t i = 0; i < config->server_module_count && status == LMC_OK; i++)
        status = load(modules, &config->server_modules[i], error);
    return status == LMC_OK ? list_classes(modules, last, error) : status;
}

void lmc_outside_modules_fini(lmc_outside_modules *modules) {
    for (size_t i = 0; i < modules->count; i++)
        lmc_native_free(modules->files[i]);
    free(modules->classes);
    free(modules->specs);
    free(modules->files);
    *modules = (lmc_outside_modules){0};
}

lmc_slice lmc_outside_modules_config(const lmc_outside_modules *modules,
                                     const char *class_name) {
    for (size_t i = 0; i < modules->count; i++)
        for (size_t k = 0; k < modules->files[i]->class_count; k++)
            if (strcmp(modules->files[i]->classes[k].name, class_name) == 0)
                return lmc_text(modules->specs[i]->config);
    return (lmc_slice){0};
}
