/* Values that come from environment variables when no flag gives them (cli-config.md 2.9). */
#include <string.h>

#include "config/option_value.h"
#include "config/parsing.h"
#include "config/python_text.h"

static bool is_truthy(const char *text) {
    return strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0 ||
           strcasecmp(text, "yes") == 0;
}

static lmc_status not_a_number(lmc_parsing *parsing, const char *name, const char *raw) {
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_printf(&message, "%s is not a number: ", name);
    lmc_repr_text(&message, lmc_text(raw));
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

/* LMC_DECLINED when the variable is not set; an empty one counts as not set. */
static lmc_status read_variable(lmc_parsing *parsing, size_t number, const char *name,
                                lmc_option_source source) {
    const lmc_option *row = lmc_option_at(number);
    const char *raw = parsing->world->get_variable(parsing->world->arg, name);
    if (raw == NULL || *raw == '\0')
        return LMC_DECLINED;
    if (row->type == LMC_TYPE_BOOL)
        raw = is_truthy(raw) ? "true" : "false";
    lmc_status status = lmc_option_set(parsing->config, row, raw);
    if (status == LMC_MALFORMED)
        return not_a_number(parsing, name, raw);
    parsing->source[number] = source;
    return status;
}

static lmc_status read_row(lmc_parsing *parsing, size_t number) {
    const lmc_option *row = lmc_option_at(number);
    lmc_status status = read_variable(parsing, number, row->environment, LMC_FROM_ENVIRONMENT);
    if (status != LMC_DECLINED || row->old_environment == NULL)
        return status == LMC_DECLINED ? LMC_OK : status;
    status = read_variable(parsing, number, row->old_environment, LMC_FROM_OLD_ENVIRONMENT);
    if (status != LMC_OK)
        return status == LMC_DECLINED ? LMC_OK : status;
    return lmc_parsing_notice(parsing, LMC_LOG_WARNING, "%s is deprecated, use %s instead",
                              row->old_environment, row->environment);
}

lmc_status lmc_parse_environment(lmc_parsing *parsing) {
    const lmc_option *row;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++) {
        if (row->environment == NULL || parsing->source[i] != LMC_FROM_DEFAULT)
            continue;
        lmc_status status = read_row(parsing, i);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}
