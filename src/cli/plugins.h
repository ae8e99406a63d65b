/*
 * plugins.h: the words of `plugins`, shared by its actions.
 *
 * The texts borrow the words of the command line. One thread.
 */
#ifndef LMC_CLI_PLUGINS_H
#define LMC_CLI_PLUGINS_H

#include "cli/cli.h"

typedef struct lmc_plugins_words {
    const char *action; /* "run", "list", ... */
    char *const *names; /* the words that are no options */
    int name_count;
    const char *url, *format;
    const char *role, *config;
    int64_t worker_id, worker_count, lines;
    double grace; /* seconds */
    bool follow;
} lmc_plugins_words;

/* run: supervises plugins until they have ended, or a stop signal comes. */
int lmc_plugins_run(const lmc_cli *cli, const lmc_plugins_words *words);

/* list, start, stop, restart, logs: asks a server. */
int lmc_plugins_ask(lmc_cli *cli, const lmc_plugins_words *words);

#endif
