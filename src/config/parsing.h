/*
 * parsing.h: what the steps of lmc_config_parse() share. Private to this room.
 *
 * The steps run in this order on one thread: command line, environment, ranges, sections, L1,
 * JSON lists, options that are not built, conflicts. The first failure ends them.
 */
#ifndef LMC_CONFIG_PARSING_H
#define LMC_CONFIG_PARSING_H

#include "base/error.h"
#include "config/option_table.h"

typedef enum lmc_option_source {
    LMC_FROM_DEFAULT,
    LMC_FROM_OLD_ENVIRONMENT,
    LMC_FROM_ENVIRONMENT,
    LMC_FROM_OLD_FLAG, /* a deprecated spelling */
    LMC_FROM_FLAG,
} lmc_option_source;

typedef struct lmc_parsing {
    lmc_config *config;
    const lmc_config_world *world;
    lmc_error *error;
    bool help;
    lmc_option_source source[LMC_OPTION_LIMIT]; /* by row number */
} lmc_parsing;

bool lmc_parsing_given(const lmc_parsing *parsing, const char *flag); /* by flag or variable */

/* Keeps a line for the log. */
lmc_status lmc_parsing_notice(lmc_parsing *parsing, lmc_log_level level, const char *format,
                              ...) __attribute__((format(printf, 3, 4)));
/* Fails with the text in the buffer, which is given back. */
lmc_status lmc_parsing_reject(lmc_parsing *parsing, lmc_status status, lmc_buffer *text);

lmc_status lmc_parse_command_line(lmc_parsing *parsing, int count, char *const *words);
lmc_status lmc_parse_environment(lmc_parsing *parsing);
lmc_status lmc_check_ranges(lmc_parsing *parsing);
lmc_status lmc_check_sections(lmc_parsing *parsing);  /* rules across options */
lmc_status lmc_resolve_storage(lmc_parsing *parsing); /* builds l1_managers */
lmc_status lmc_parse_l1_managers(lmc_parsing *parsing);
lmc_status lmc_parse_adapters(lmc_parsing *parsing);
lmc_status lmc_parse_server_modules(lmc_parsing *parsing);
lmc_status lmc_check_adapters_built(lmc_parsing *parsing);
lmc_status lmc_check_conflicts(lmc_parsing *parsing); /* ports; options without effect */
lmc_status lmc_refuse_not_built(lmc_parsing *parsing);

#endif
