#include "config/option_table.h"

#include <string.h>

static const lmc_option general_options[] = {
    {.flag = "--help", .form = LMC_FORM_HELP, .help = "show this text"},
    {LMC_SWITCH("--check-config", check_config, NULL), .own = true,
     .help = "check the options, print the effective configuration and end"},
};
static const size_t general_option_count = sizeof general_options / sizeof general_options[0];

const lmc_option_section lmc_option_sections[LMC_OPTION_SECTIONS] = {
    {"general", NULL, NULL, general_options, &general_option_count},
    {"request server", "mp", "mp_config", lmc_mp_options, &lmc_mp_option_count},
    {"storage", "storage_manager", "storage_manager_config", lmc_storage_options,
     &lmc_storage_option_count},
    {"observability", "observability", "obs_config", lmc_observability_options,
     &lmc_observability_option_count},
    {"HTTP API", "http", "http_config", lmc_http_options, &lmc_http_option_count},
    {"coordinator", "coordinator", NULL, lmc_coordinator_options,
     &lmc_coordinator_option_count},
};

const lmc_option *lmc_option_at(size_t index) {
    for (size_t i = 0; i < LMC_OPTION_SECTIONS; i++) {
        const lmc_option_section *section = &lmc_option_sections[i];
        if (index < *section->count)
            return &section->rows[index];
        index -= *section->count;
    }
    return NULL;
}

size_t lmc_option_index(const char *flag) {
    const lmc_option *row;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++)
        if (row->flag != NULL && strcmp(row->flag, flag) == 0)
            return i;
    return LMC_OPTION_LIMIT;
}
