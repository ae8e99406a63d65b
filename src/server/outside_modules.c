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

/* Of what is wrong the first ends the start; the rest, and what to do, are lines before it. */
static lmc_status open_file(const char *path, lmc_native_file **file, lmc_error *error) {
    lmc_violations wrong = {0};
    lmc_status status = lmc_native_open(path, file, &wrong, error);
    for (size_t i = 0; i < wrong.count; i++)
        LMC_WARNING("server module %s: %s%s%s", path, i > 0 ? wrong.items[i].text : "",
                    i > 0 ? "; " : "", wrong.items[i].fix);
    lmc_violations_fini(&wrong);
    return status;
}

static lmc_status load(lmc_outside_modules *modules, const lmc_module_spec *spec,
                       lmc_error *error) {
    lmc_native_file *file = NULL;
    lmc_status status = check_repeated(modules, spec, error);
    if (status != LMC_OK)
        return status == LMC_DECLINED ? LMC_OK : status;
    status = open_file(spec->module_path, &file, error);
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

static void append(lmc_outside_modules *modules, const lmc_module_class *class) {
    modules->classes[modules->class_count++] = class;
}

static lmc_status make_room(lmc_outside_modules *modules, size_t room, lmc_error *error) {
    const lmc_module_class **classes =
        realloc(modules->classes, room * sizeof(const lmc_module_class *));
    if (classes == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    modules->classes = classes;
    return LMC_OK;
}

/* Built-in ones, then those of shared objects. */
static lmc_status list_classes(lmc_outside_modules *modules, lmc_error *error) {
    size_t total;
    const lmc_module_class *const *built_in = lmc_built_in_modules(&total);
    modules->built_in_count = total;
    for (size_t i = 0; i < modules->count; i++)
        total += modules->files[i]->class_count;
    lmc_status status = make_room(modules, total + 1, error);
    if (status != LMC_OK)
        return status;
    for (size_t i = 0; i < modules->built_in_count; i++)
        append(modules, built_in[i]);
    for (size_t i = 0; i < modules->count; i++)
        for (size_t k = 0; k < modules->files[i]->class_count; k++)
            append(modules, &modules->files[i]->classes[k]);
    return LMC_OK;
}

/* ---- Python ---- */

static const char *first_python_path(const lmc_mp_config *config) {
    for (size_t i = 0; i < config->server_module_count; i++)
        if (!lmc_module_path_is_native(config->server_modules[i].module_path))
            return config->server_modules[i].module_path;
    return NULL;
}

/* The classes that one spec brings, which is not listed yet. */
static void append_of(lmc_outside_modules *modules, const char *path) {
    const lmc_pyhost *host = modules->python.host;
    for (size_t i = 0; i < modules->count; i++)
        for (size_t k = 0; strcmp(modules->specs[i]->module_path, path) == 0 &&
                           k < modules->files[i]->class_count;
             k++)
            append(modules, &modules->files[i]->classes[k]);
    for (size_t i = 0; i < host->class_count(); i++) {
        const char *from;
        const lmc_module_class *class = host->class_at(i, &from);
        if (strcmp(from, path) == 0)
            append(modules, class);
    }
}

static bool is_repeated(const lmc_mp_config *config, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(config->server_modules[i].module_path,
                   config->server_modules[index].module_path) == 0)
            return true;
    return false;
}

/* Takes in the classes that are written in Python, and puts all from outside in the order of
 * the command line. */
static lmc_status load_python(lmc_outside_modules *modules, const lmc_config *config,
                              const lmc_python_world *world, lmc_error *error) {
    const lmc_mp_config *mp = &config->mp;
    const char *path = first_python_path(mp);
    if (path == NULL)
        return LMC_OK;
    lmc_status status =
        lmc_python_host_open(&modules->python, config, world, path, modules->classes,
                             modules->class_count, modules->built_in_count, error);
    const lmc_module_class **seen = modules->classes; /* by the host, until the end */
    modules->python_saw = seen;
    modules->classes = NULL;
    if (status == LMC_OK)
        status = make_room(
            modules, modules->class_count + modules->python.host->class_count() + 1, error);
    if (status != LMC_OK)
        return status;
    modules->class_count = modules->built_in_count;
    memcpy(modules->classes, seen, modules->class_count * sizeof(const lmc_module_class *));
    for (size_t i = 0; i < mp->server_module_count; i++)
        if (!is_repeated(mp, i))
            append_of(modules, mp->server_modules[i].module_path);
    return LMC_OK;
}

lmc_status lmc_outside_modules_load(lmc_outside_modules *modules, const lmc_config *config,
                                    const lmc_python_world *world, const lmc_module_class *last,
                                    lmc_error *error) {
    const lmc_mp_config *mp = &config->mp;
    size_t room = mp->server_module_count + 1;
    *modules = (lmc_outside_modules){
        .files = calloc(room, sizeof *modules->files),
        .specs = calloc(room, sizeof(const lmc_module_spec *)),
    };
    lmc_status status = LMC_OK;
    if (modules->files == NULL || modules->specs == NULL)
        status = lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    for (size_t i = 0; i < mp->server_module_count && status == LMC_OK; i++)
        if (lmc_module_path_is_native(mp->server_modules[i].module_path))
            status = load(modules, &mp->server_modules[i], error);
    if (status == LMC_OK)
        status = list_classes(modules, error);
    if (status == LMC_OK)
        status = load_python(modules, config, world, error);
    if (status == LMC_OK && last != NULL)
        append(modules, last);
    return status;
}

void lmc_outside_modules_fini(lmc_outside_modules *modules) {
    lmc_python_host_fini(&modules->python);
    free(modules->python_saw);
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

const char *lmc_outside_modules_origin(const lmc_outside_modules *modules,
                                       const char *class_name) {
    const lmc_pyhost *host = modules->python.host;
    const char *path;
    for (size_t i = 0; host != NULL && i < host->class_count(); i++)
        if (strcmp(host->class_at(i, &path)->name, class_name) == 0)
            return "python";
    return "native";
}
