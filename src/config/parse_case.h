/*
 * parse_case.h: for the tests of this room: command lines with what they must lead to.
 */
#ifndef LMC_CONFIG_PARSE_CASE_H
#define LMC_CONFIG_PARSE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "config/config.h"

#define LMC_CASE_WORDS 24
#define LMC_L1 "--l1-size-gb", "1", "--eviction-policy", "LRU"

/* Environment of a test: "NAME=value" texts up to a NULL. */
static inline const char *lmc_case_variable(void *arg, const char *name) {
    size_t size = strlen(name);
    for (const char *const *at = arg; at != NULL && *at != NULL; at++)
        if (strncmp(*at, name, size) == 0 && (*at)[size] == '=')
            return *at + size + 1;
    return NULL;
}

static inline lmc_status lmc_case_parse(lmc_config *config, const char *const *words,
                                        const char *const *variables, lmc_error *error) {
    const lmc_config_world world = {.get_variable = lmc_case_variable,
                                    .arg = (void *)variables,
                                    .free_hugepages_path = "/nonexistent/free_hugepages"};
    int count = 0;
    while (count < LMC_CASE_WORDS && words[count] != NULL)
        count++;
    return lmc_config_parse(config, count, (char *const *)words, &world, error);
}

/* One command line and the failure it must lead to; words like LMCACHE_X=y are variables. */
typedef struct lmc_parse_case {
    const char *words[LMC_CASE_WORDS];
    const char *text;
} lmc_parse_case;

static inline void lmc_case_check(const lmc_parse_case *cases, size_t count,
                                  lmc_status expected) {
    for (size_t i = 0; i < count; i++) {
        lmc_config config;
        lmc_error error = LMC_ERROR_INIT;
        const char *words[LMC_CASE_WORDS] = {NULL}, *variables[LMC_CASE_WORDS] = {NULL};
        size_t word_count = 0, variable_count = 0;
        for (size_t j = 0; j < LMC_CASE_WORDS - 1 && cases[i].words[j] != NULL; j++) {
            if (strncmp(cases[i].words[j], "LMCACHE_", 8) == 0)
                variables[variable_count++] = cases[i].words[j];
            else
                words[word_count++] = cases[i].words[j];
        }
        lmc_status status = lmc_case_parse(&config, words, variables, &error);
        lmc_config_fini(&config);
        if (status != expected || strcmp(error.text, cases[i].text) != 0)
            fail_msg("case %zu (%s): status %d, '%s' instead of '%s'", i, cases[i].words[0],
                     (int)status, error.text, cases[i].text);
    }
}

#define LMC_CASES(cases, status) lmc_case_check(cases, sizeof cases / sizeof cases[0], status)

/* Parses words that are fine. */
static inline void lmc_case_accept(lmc_config *config, const char *const *words,
                                   const char *const *variables) {
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_case_parse(config, words, variables, &error) != LMC_OK)
        fail_msg("refused: %s", error.text);
}

static inline bool lmc_case_noticed(const lmc_config *config, lmc_log_level level,
                                    const char *text) {
    for (size_t i = 0; i < config->notice_count; i++)
        if (config->notices[i].level == level && strcmp(config->notices[i].text, text) == 0)
            return true;
    return false;
}

#endif
