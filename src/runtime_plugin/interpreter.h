/*
 * interpreter.h: the command that runs a plugin file: its `#!` line, else python or bash.
 *
 * The executable bit is never needed. A command owns its texts; give it back with
 * lmc_plugin_command_fini(), however resolving went. Reads the file's first line and looks for
 * programs; blocks only on the file system. One thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_INTERPRETER_H
#define LMC_RUNTIME_PLUGIN_INTERPRETER_H

#include "base/bytes.h"

#define LMC_PLUGIN_WORDS_MAX 32 /* of the interpreter with its arguments */

typedef struct lmc_plugin_command {
    char *words[LMC_PLUGIN_WORDS_MAX + 2]; /* interpreter, its arguments, the file; NULL ends */
    size_t count;
    char *assignments[LMC_PLUGIN_WORDS_MAX + 1]; /* NAME=VALUE of an env line; NULL ends */
    size_t assignment_count;
} lmc_plugin_command;

/* `search_path` is the value of PATH, NULL when unset. LMC_INVALID: error says why the file
 * cannot run, in the words that follow `Failed to launch plugin <file>: `. */
lmc_status lmc_plugin_command_find(lmc_plugin_command *command, const char *file,
                                   const char *search_path, lmc_error *error);
void lmc_plugin_command_fini(lmc_plugin_command *command);

/* For the log: the interpreter and its arguments, without the file. */
void lmc_plugin_command_interpreter(const lmc_plugin_command *command, lmc_buffer *out);

/* What the first line asks for, trimmed; empty when it is no `#!` line. Within `head`. */
lmc_slice lmc_plugin_shebang(lmc_slice head);

#endif
