/*
 * cli.h: the program: which command the words name, and what all commands share.
 *
 * Everything here runs on the main thread. A command gets the words after its name and returns
 * the exit status: 0 success, 1 failure, 2 wrong usage.
 */
#ifndef LMC_CLI_CLI_H
#define LMC_CLI_CLI_H

#include <lmcached/types.h>
#include <stdio.h>

#include "cli/http_client.h"

#define LMC_EXIT_FAILED 1
#define LMC_EXIT_USAGE 2
#define LMC_EXIT_INTERRUPTED 130

typedef struct lmc_cli {
    const char *program; /* how the program was called, without folders */
    FILE *out, *err;     /* borrowed */
    lmc_http_send *send; /* how commands reach a server; tests put their own here */
} lmc_cli;

typedef struct lmc_command {
    const char *name;
    const char *summary;
    int (*run)(lmc_cli *cli, int count, char *const *words); /* NULL: not built yet */
    const char *actions; /* words that may follow, for completion; NULL: none, or files */
} lmc_command;

/* All commands, in the order of --help. */
const lmc_command *lmc_cli_commands(size_t *count);

/* Runs the program with main()'s arguments. */
int lmc_cli_main(int count, char *const *arguments);
/* The same with given streams and HTTP; without the banner. */
int lmc_cli_run(lmc_cli *cli, int count, char *const *words);

int lmc_command_server(lmc_cli *cli, int count, char *const *words);
int lmc_command_ping(lmc_cli *cli, int count, char *const *words);
int lmc_command_describe(lmc_cli *cli, int count, char *const *words);
int lmc_command_kvcache(lmc_cli *cli, int count, char *const *words);
int lmc_command_plugins(lmc_cli *cli, int count, char *const *words);
int lmc_command_call(lmc_cli *cli, int count, char *const *words);
int lmc_command_check_module(lmc_cli *cli, int count, char *const *words);
int lmc_command_version(lmc_cli *cli, int count, char *const *words);

#endif
