/* The configuration as JSON, row by row of the option table. */
#include <string.h>

#include "config/json_value.h"
#include "config/option_render.h"
#include "config/option_value.h"
#include "config/secret.h"

#define NESTING_MAX 4

/* The objects that are open below the section, as prefixes of a row's path. */
typedef struct path {
    const char *names[NESTING_MAX];
    size_t sizes[NESTING_MAX];
    size_t depth;
} path;

static void put_text(const lmc_option_render *how, const char *text) {
    if (text == NULL || !how->mask)
        lmc_json_text(how->writer, text);
    else
        lmc_json_masked_text(how->writer, lmc_text(text));
}

static void put_list(const lmc_option_render *how, const lmc_text_list *list) {
    lmc_json_list_begin(how->writer);
    for (size_t i = 0; i < list->count; i++)
        put_text(how, list->items[i]);
    lmc_json_list_end(how->writer);
}

static void put_octal(const lmc_option_render *how, uint32_t value) {
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_buffer_printf(&text, "%04o", (unsigned)value);
    if (text.failed)
        how->writer->out->failed = true;
    lmc_json_text(how->writer, text.data);
    lmc_buffer_fini(&text);
}

static void put_value(const lmc_config *config, const lmc_option *row,
                      const lmc_option_render *how) {
    const void *field = lmc_option_field_const(config, row);
    if (row->render != NULL) {
        row->render(config, how);
        return;
    }
    switch (row->type) {
    case LMC_TYPE_TEXT:
        put_text(how, *(char *const *)field);
        break;
    case LMC_TYPE_INT:
        if (*(const int64_t *)field == LMC_CONFIG_UNSET)
            lmc_json_null(how->writer);
        else
            lmc_json_int(how->writer, *(const int64_t *)field);
        break;
    case LMC_TYPE_FLOAT:
        lmc_json_real(how->writer, *(const double *)field);
        break;
    case LMC_TYPE_BOOL:
        lmc_json_bool(how->writer, *(const bool *)field);
        break;
    case LMC_TYPE_LIST:
        put_list(how, field);
        break;
    case LMC_TYPE_OCTAL:
        put_octal(how, *(const uint32_t *)field);
        break;
    case LMC_TYPE_NONE:
        lmc_json_null(how->writer);
        break;
    }
}

/* Closes and opens objects so that the row's last name is a member of the innermost. */
static const char *enter(lmc_json_writer *writer, path *open, const char *json) {
    size_t level = 0;
    for (;; level++) {
        size_t size = strcspn(json, ".");
        bool nested = json[size] == '.';
        bool same = nested && level < open->depth && open->sizes[level] == size &&
                    memcmp(open->names[level], json, size) == 0;
        if (!same) {
            for (; open->depth > level; open->depth--)
                lmc_json_object_end(writer);
            if (!nested || level == NESTING_MAX)
                return json;
            open->names[level] = json;
            open->sizes[level] = size;
            open->depth++;
            lmc_json_name_slice(writer, lmc_slice_of(json, size));
            lmc_json_object_begin(writer);
        }
        json += size + 1;
    }
}

static void put_section(const lmc_config *config, const lmc_option_section *section,
                        const lmc_option_render *how) {
    path open = {0};
    lmc_json_object_begin(how->writer);
    for (size_t i = 0; i < *section->count; i++) {
        const lmc_option *row = &section->rows[i];
        if (row->json == NULL)
            continue;
        lmc_json_name(how->writer, enter(how->writer, &open, row->json));
        put_value(config, row, how);
    }
    for (; open.depth > 0; open.depth--)
        lmc_json_object_end(how->writer);
    lmc_json_object_end(how->writer);
}

/* The object that is meant for plugins, at top level of their JSON; absent when empty. */
static void put_plugin_extra(const lmc_config *config, const lmc_option_render *how) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_slice text = lmc_text(config->mp.runtime_plugin_config.extra_config);
    if (lmc_json_read(&arena, text, &value, NULL) != LMC_OK)
        how->writer->out->failed = true;
    else if (value->count > 0) {
        lmc_json_name(how->writer, "runtime_plugin_extra_config");
        lmc_json_copy(how->writer, value, false);
    }
    lmc_arena_fini(&arena);
}

lmc_status lmc_config_render(const lmc_config *config, lmc_config_form form, lmc_buffer *out) {
    lmc_json_writer writer;
    bool plugin = form == LMC_CONFIG_PLUGIN;
    bool pass = plugin && strcmp(config->mp.runtime_plugin_secrets, "pass") == 0;
    lmc_option_render how = {.writer = &writer, .mask = !pass, .mask_plugins = !plugin};
    lmc_json_start(&writer, out, plugin ? LMC_JSON_SPACED : LMC_JSON_INDENTED,
                   plugin ? LMC_JSON_ASCII : LMC_JSON_UTF8);
    lmc_json_object_begin(&writer);
    for (size_t i = 0; i < LMC_OPTION_SECTIONS; i++) {
        const lmc_option_section *section = &lmc_option_sections[i];
        const char *name = plugin ? section->plugin_json : section->json;
        bool without_http = plugin && config->http.no_http && section->rows == lmc_http_options;
        if (name == NULL || without_http)
            continue;
        lmc_json_name(&writer, name);
        put_section(config, section, &how);
    }
    if (plugin)
        put_plugin_extra(config, &how);
    lmc_json_object_end(&writer);
    return lmc_json_finish(&writer);
}
