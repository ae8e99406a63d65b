/* --server-module: which modules from outside to load (cli-config.md 2.8, plugins.md 2). */
#include <stdlib.h>
#include <string.h>

#include "config/json_value.h"
#include "config/parsing.h"
#include "config/python_text.h"

#define KEYS "module_path", "config", "factory_name"

/* The first one from this member on. */
static const lmc_json_value *unknown_key(const lmc_json_value *member) {
    static const char *const keys[] = {KEYS};
    for (const lmc_json_value *at = member; at != NULL; at = at->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            known |= lmc_slice_is(at->name, keys[i]);
        if (!known)
            return at;
    }
    return NULL;
}

/* A misspelt key is ignored, as prescribed, but not in silence. */
static lmc_status note_unknown_keys(lmc_parsing *parsing, const lmc_json_value *spec) {
    lmc_status status = LMC_OK;
    for (const lmc_json_value *at = unknown_key(spec->first); at != NULL && status == LMC_OK;
         at = unknown_key(at->next)) {
        lmc_buffer key = LMC_BUFFER_INIT;
        lmc_repr_text(&key, at->name);
        status = lmc_parsing_notice(parsing, LMC_LOG_INFO,
                                    "--server-module: %s has no effect; the keys are "
                                    "module_path, config and factory_name",
                                    key.failed ? "a key" : key.data);
        lmc_buffer_fini(&key);
    }
    return status;
}

/* What is right, in a line of its own, since the texts of the refusals are prescribed. */
static lmc_status show_form(lmc_parsing *parsing, const lmc_json_value *spec) {
    const lmc_json_value *stranger =
        spec != NULL && spec->kind == LMC_JSON_IS_OBJECT ? unknown_key(spec->first) : NULL;
    lmc_buffer key = LMC_BUFFER_INIT;
    if (stranger != NULL) {
        lmc_buffer_text(&key, "; ");
        lmc_repr_text(&key, stranger->name);
        lmc_buffer_text(&key, " is no key, they are module_path, config and factory_name");
    }
    lmc_status status = lmc_parsing_notice(
        parsing, LMC_LOG_WARNING,
        "--server-module takes an object such as "
        "'{\"module_path\": \"./hello.so\", \"config\": {}}', or a list of them%s",
        key.size > 0 && !key.failed ? key.data : "");
    lmc_buffer_fini(&key);
    return status;
}

static lmc_status reject(lmc_parsing *parsing, const lmc_json_value *spec, const char *text) {
    if (show_form(parsing, spec) != LMC_OK)
        return LMC_NO_MEMORY;
    return lmc_error_set(parsing->error, LMC_INVALID, "%s", text);
}

static lmc_status keep(lmc_mp_config *mp, const lmc_json_value *path,
                       const lmc_json_value *factory, const lmc_json_value *config) {
    size_t count = mp->server_module_count;
    lmc_module_spec *grown = realloc(mp->server_modules, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return LMC_NO_MEMORY;
    mp->server_modules = grown;
    lmc_slice json = config != NULL ? config->source : lmc_text("{}");
    grown[count] = (lmc_module_spec){
        .module_path = strndup(path->text.data, path->text.size),
        .factory_name =
            factory != NULL ? strndup(factory->text.data, factory->text.size) : NULL,
        .config = strndup(json.data, json.size),
    };
    mp->server_module_count++;
    bool complete = grown[count].module_path != NULL && grown[count].config != NULL &&
                    (factory == NULL || grown[count].factory_name != NULL);
    return complete ? LMC_OK : LMC_NO_MEMORY;
}

static lmc_status read_spec(lmc_parsing *parsing, const lmc_json_value *spec) {
    if (spec->kind != LMC_JSON_IS_OBJECT)
        return reject(parsing, spec, "--server-module entries must be JSON objects");
    const lmc_json_value *path = lmc_json_get(spec, "module_path");
    const lmc_json_value *factory = lmc_json_get(spec, "factory_name");
    const lmc_json_value *config = lmc_json_get(spec, "config");
    if (!lmc_json_filled_text(path))
        return reject(parsing, spec, "server module module_path must be a non-empty string");
    if (factory != NULL && !lmc_json_filled_text(factory))
        return reject(parsing, spec, "server module factory_name must be a non-empty string");
    if (config != NULL && config->kind != LMC_JSON_IS_OBJECT)
        return reject(parsing, spec, "server module config must be a JSON object");
    lmc_status status = note_unknown_keys(parsing, spec);
    return status == LMC_OK ? keep(&parsing->config->mp, path, factory, config) : status;
}

static lmc_status read_flag(lmc_parsing *parsing, const char *text) {
    lmc_error detail = LMC_ERROR_INIT;
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_json_read(&arena, lmc_text(text), &value, &detail);
    if (status == LMC_MALFORMED && show_form(parsing, NULL) != LMC_OK)
        status = LMC_NO_MEMORY;
    else if (status == LMC_MALFORMED)
        status = lmc_error_set(parsing->error, LMC_INVALID,
                               "--server-module must be valid JSON: %s", detail.text);
    else if (status == LMC_OK && value->kind != LMC_JSON_IS_LIST)
        status = read_spec(parsing, value);
    else if (status == LMC_OK)
        for (const lmc_json_value *at = value->first; at != NULL && status == LMC_OK;
             at = at->next)
            status = read_spec(parsing, at);
    lmc_arena_fini(&arena);
    return status;
}

lmc_status lmc_parse_server_modules(lmc_parsing *parsing) {
    const lmc_text_list *flags = &parsing->config->mp.server_module_flags;
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < flags->count && status == LMC_OK; i++)
        status = read_flag(parsing, flags->items[i]);
    return status;
}

bool lmc_module_path_is_native(const char *path) {
    size_t size = strlen(path);
    return strchr(path, '/') != NULL || (size > 3 && strcmp(path + size - 3, ".so") == 0);
}
