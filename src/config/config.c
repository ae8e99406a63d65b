/* The steps from words to a checked configuration, and giving it back. */
#include "config/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/option_value.h"
#include "config/parsing.h"

static const char *get_own_variable(void *arg, const char *name) {
    (void)arg;
    return getenv(name);
}

static const lmc_config_world own_world = {
    .get_variable = get_own_variable,
    .free_hugepages_path = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
};

bool lmc_parsing_given(const lmc_parsing *parsing, const char *flag) {
    size_t number = lmc_option_index(flag);
    return number < LMC_OPTION_LIMIT && parsing->source[number] != LMC_FROM_DEFAULT;
}

lmc_status lmc_parsing_notice(lmc_parsing *parsing, lmc_log_level level, const char *format,
                              ...) {
    lmc_config *config = parsing->config;
    lmc_buffer text = LMC_BUFFER_INIT;
    va_list args;
    va_start(args, format);
    lmc_buffer_vprintf(&text, format, args);
    va_end(args);
    lmc_config_notice *grown =
        realloc(config->notices, (config->notice_count + 1) * sizeof *grown);
    if (grown != NULL)
        config->notices = grown;
    char *taken = lmc_buffer_take(&text);
    if (grown == NULL || taken == NULL) {
        free(taken);
        return LMC_NO_MEMORY;
    }
    grown[config->notice_count++] = (lmc_config_notice){level, taken};
    return LMC_OK;
}

lmc_status lmc_parsing_reject(lmc_parsing *parsing, lmc_status status, lmc_buffer *text) {
    if (text->failed)
        status = lmc_error_set(parsing->error, LMC_NO_MEMORY, "out of memory");
    else
        status = lmc_error_set(parsing->error, status, "%s", text->data);
    lmc_buffer_fini(text);
    return status;
}

static lmc_status set_defaults(lmc_parsing *parsing) {
    const lmc_option *row;
    size_t i = 0;
    for (; (row = lmc_option_at(i)) != NULL; i++) {
        lmc_status status = lmc_option_reset(parsing->config, row);
        if (status != LMC_OK)
            return status;
    }
    return i <= LMC_OPTION_LIMIT ? LMC_OK : LMC_FAILED;
}

static lmc_status read_words(lmc_parsing *parsing, int count, char *const *words) {
    static lmc_status (*const checks[])(lmc_parsing *) = {
        lmc_parse_environment, lmc_check_ranges,    lmc_check_sections,
        lmc_resolve_storage,   lmc_parse_adapters,  lmc_parse_server_modules,
        lmc_refuse_not_built,  lmc_check_conflicts,
    };
    lmc_status status = set_defaults(parsing);
    if (status == LMC_OK)
        status = lmc_parse_command_line(parsing, count, words);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && status == LMC_OK; i++)
        status = checks[i](parsing);
    return status;
}

lmc_status lmc_config_parse(lmc_config *config, int count, char *const *words,
                            const lmc_config_world *world, lmc_error *error) {
    lmc_parsing *parsing = calloc(1, sizeof *parsing);
    *config = (lmc_config){0};
    if (parsing == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    parsing->config = config;
    parsing->world = world != NULL ? world : &own_world;
    parsing->error = error;
    lmc_status status = read_words(parsing, count, words);
    if (status == LMC_NO_MEMORY)
        lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    free(parsing);
    return status;
}

static void free_l1_managers(lmc_storage_config *storage) {
    for (size_t i = 0; i < storage->l1_manager_count; i++) {
        lmc_l1_manager_config *l1 = &storage->l1_managers[i];
        free(l1->memory_config.shm_name);
        free(l1->memory_config.devdax_path);
        free(l1->gds_l1_config.file_location);
        free(l1->gds_l1_config.backend);
        free(l1->tag);
        free(l1->eviction.eviction_policy);
    }
    free(storage->l1_managers);
}

static void free_specs(lmc_config *config) {
    for (size_t i = 0; i < config->mp.server_module_count; i++) {
        free(config->mp.server_modules[i].module_path);
        free(config->mp.server_modules[i].factory_name);
        free(config->mp.server_modules[i].config);
    }
    free(config->mp.server_modules);
    for (size_t i = 0; i < config->storage_manager.adapter_count; i++) {
        free(config->storage_manager.adapters[i].type);
        free(config->storage_manager.adapters[i].affinity_tag);
        free(config->storage_manager.adapters[i].json);
    }
    free(config->storage_manager.adapters);
}

void lmc_config_fini(lmc_config *config) {
    const lmc_option *row;
    free_specs(config);
    free_l1_managers(&config->storage_manager);
    for (size_t i = 0; i < config->notice_count; i++)
        free(config->notices[i].text);
    free(config->notices);
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++)
        lmc_option_free(config, row);
    *config = (lmc_config){0};
}
