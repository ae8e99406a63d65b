/*
 * client_options.h: the command line of the commands that ask a server, and what all of them do
 * with their findings (cli-config.md 6.1).
 *
 * The texts borrow the words of the command line. One thread.
 */
#ifndef LMC_CLI_CLIENT_OPTIONS_H
#define LMC_CLI_CLIENT_OPTIONS_H

#include "cli/cli.h"
#include "cli/report.h"

/* What a command accepts beside --format, --output, --quiet and --help. */
typedef struct lmc_client_command {
    const char *name;    /* "ping" */
    const char *choices; /* first word: "kvcache,engine" */
    const char *summary;
    const char *url_help;
    bool url_required;
    bool ready;           /* --ready is accepted, and then the first word may be missing */
    bool choice_required; /* a missing first word is wrong usage; else it shows the help */
} lmc_client_command;

typedef struct lmc_client_options {
    const char *choice; /* NULL: none given */
    const char *url;    /* NULL: none given */
    const char *format; /* "terminal" or "json" */
    const char *output; /* NULL: no file */
    bool quiet, ready;
} lmc_client_options;

/* False: the command ends here with *status. */
bool lmc_client_parse(lmc_cli *cli, const lmc_client_command *command, int count,
                      char *const *words, lmc_client_options *options, int *status);

/* Shows the report as asked for; false when that failed, which has been told. */
bool lmc_client_show(lmc_cli *cli, const lmc_client_options *options, const lmc_report *report);

#endif
