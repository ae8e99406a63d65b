#include "cli/cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "config/python_text.h"
#include "lmc_commit.h"
#include "runtime_plugin/guardian.h"

static const lmc_command commands[] = {
    {"server", "start the cache server", lmc_command_server, NULL},
    {"ping", "ask whether a cache server or an engine is alive, or ready", lmc_command_ping,
     "kvcache engine"},
    {"describe", "show the state of a cache server", lmc_command_describe, "kvcache"},
    {"kvcache", "clear the cache of a server", lmc_command_kvcache, "clear"},
    {"version", "show the version", lmc_command_version, NULL},
    {"quota", "per-tenant budgets", NULL, NULL},
    {"query", "send one request to an engine or a coordinator", NULL, NULL},
    {"trace", "look at and replay recorded traces", NULL, NULL},
    {"bench", "measure a server, an engine or an L2 adapter", NULL, NULL},
    {"tool", "offline tools", NULL, NULL},
    {"coordinator", "start the fleet's registry", NULL, NULL},
    {"plugins", "run runtime plugins, look at and control those of a server",
     lmc_command_plugins, "run list start stop restart logs"},
    {"call", "call a method of a server module", lmc_command_call, NULL},
    {"check-module", "look at a server module without a server", lmc_command_check_module,
     NULL},
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

const lmc_command *lmc_cli_commands(size_t *count) {
    *count = COMMAND_COUNT;
    return commands;
}

static const lmc_command *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void put_help(const lmc_cli *cli) {
    fprintf(cli->out,
            "usage: %s [-h] [--version] <command> [options]\n\n"
            "KV cache server for LLM serving engines, and what asks it.\n\ncommands:\n",
            cli->program);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(cli->out, "  %-12s %s%s\n", commands[i].name, commands[i].summary,
                commands[i].run == NULL ? " [not built yet]" : "");
    fprintf(cli->out,
            "\n%s <command> --help shows the options of a command. Options of the server may "
            "follow the\nprogram's name directly.\n",
            cli->program);
}

int lmc_command_version(lmc_cli *cli, int count, char *const *words) {
    (void)words;
    if (count > 0 && strcmp(words[0], "-h") != 0 && strcmp(words[0], "--help") != 0) {
        fprintf(cli->err,
                "usage: %s version [-h]\n%s version: error: unrecognized arguments: %s\n",
                cli->program, cli->program, words[0]);
        return LMC_EXIT_USAGE;
    }
    if (count > 0)
        fprintf(cli->out, "usage: %s version [-h]\n\nShows version and commit.\n",
                cli->program);
    else
        fprintf(cli->out, "lmcached %s%s%s\n", LMC_VERSION, LMC_COMMIT[0] != '\0' ? "-" : "",
                LMC_COMMIT);
    return 0;
}

static int not_built(const lmc_cli *cli, const lmc_command *command, int count,
                     char *const *words) {
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "-h") == 0 || strcmp(words[i], "--help") == 0) {
            fprintf(cli->out, "%s %s: %s. This command is not built yet.\n", cli->program,
                    command->name, command->summary);
            return 0;
        }
    }
    fprintf(cli->err, "%s %s: this command is not built yet\n", cli->program, command->name);
    return LMC_EXIT_FAILED;
}

static int unknown_command(const lmc_cli *cli, const char *word) {
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_repr_text(&text, lmc_text(word));
    lmc_buffer_text(&text, " (choose from ");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        lmc_buffer_printf(&text, "%s'%s'", i > 0 ? ", " : "", commands[i].name);
    fprintf(cli->err,
            "usage: %s [-h] [--version] <command> [options]\n"
            "%s: error: argument <command>: invalid choice: %s)\n",
            cli->program, cli->program, text.failed ? "" : text.data);
    lmc_buffer_fini(&text);
    return LMC_EXIT_USAGE;
}

int lmc_cli_run(lmc_cli *cli, int count, char *const *words) {
    if (count == 0) {
        put_help(cli);
        return LMC_EXIT_FAILED;
    }
    if (strcmp(words[0], "-h") == 0 || strcmp(words[0], "--help") == 0) {
        put_help(cli);
        return 0;
    }
    if (strcmp(words[0], "--version") == 0)
        return lmc_command_version(cli, 0, NULL);
    /* The server's options without the word, for lines that named a Python module (D13). */
    if (strncmp(words[0], "--", 2) == 0)
        return lmc_command_server(cli, count, words);
    const lmc_command *command = find_command(words[0]);
    if (command == NULL)
        return unknown_command(cli, words[0]);
    if (command->run == NULL)
        return not_built(cli, command, count - 1, words + 1);
    return command->run(cli, count - 1, words + 1);
}

/* The server installs its own; every other command just ends. */
static void end_interrupted(int number) {
    (void)number;
    _exit(LMC_EXIT_INTERRUPTED);
}

int lmc_cli_main(int count, char *const *arguments) {
    if (count == 2 && strcmp(arguments[1], LMC_GUARDIAN_COMMAND) == 0)
        return lmc_plugin_guardian_main(); /* not a command: the server starts it */
    const char *path = count > 0 && arguments[0][0] != '\0' ? arguments[0] : "lmcached";
    const char *slash = strrchr(path, '/');
    lmc_cli cli = {.program = slash != NULL && slash[1] != '\0' ? slash + 1 : path,
                   .out = stdout,
                   .err = stderr,
                   .send = lmc_curl_send};
    signal(SIGINT, end_interrupted);
    fprintf(stderr, "lmcached " LMC_VERSION " - KV cache server for LLM serving engines\n");
    int status = lmc_cli_run(&cli, count > 0 ? count - 1 : 0, arguments + (count > 0 ? 1 : 0));
    if (fflush(stdout) != 0 && status == 0) {
        fprintf(stderr, "Command failed: standard output cannot be written\n");
        status = LMC_EXIT_FAILED;
    }
    return status;
}
