/*
 * lmcached-manual: the man pages and the bash completion, written from the tables of options
 * and commands when the program is built. `lmcached-manual server|program|bash >FILE`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli/cli.h"
#include "config/option_table.h"

static bool is_shown(const lmc_option *row) { return row->flag != NULL && !row->hidden; }

/* Text in troff: no hyphen becomes a dash, no line becomes a request. */
static void put_text(const char *text, size_t size) {
    if (size > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '-')
            fputs("\\-", stdout);
        else if (text[i] == '\\')
            fputs("\\e", stdout);
        else
            putchar(text[i]);
    }
}

static void put_buffer(lmc_buffer *text) {
    if (text->failed)
        exit(1);
    put_text(text->data, text->size);
    putchar('\n');
    lmc_buffer_fini(text);
}

static void put_title(const char *name, int section, const char *purpose) {
    printf(".TH %s %d \"\" \"lmcached " LMC_VERSION "\"\n.SH NAME\n", name, section);
    put_text(name, strlen(name));
    printf(" \\- %s\n", purpose);
}

static void put_server_option(const lmc_option *row) {
    lmc_buffer spelling = LMC_BUFFER_INIT, sentence = LMC_BUFFER_INIT;
    lmc_option_spelling(&spelling, row);
    lmc_option_sentence(&sentence, row);
    printf(".TP\n.B ");
    put_buffer(&spelling);
    put_buffer(&sentence);
}

/* Variables that are no option's; those of options are in the table. */
typedef struct variable {
    const char *name, *meaning;
    bool server_only;
} variable;

static const variable variables[] = {
    {"LMCACHE_LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR or CRITICAL; default INFO.", false},
    {"LMCACHED_LOG_LEVELS",
     "Levels of single loggers, such as lmcache.http.access=WARNING, separated by commas.",
     false},
    {"PATH", "Where interpreters of runtime plugins are looked for.", false},
    {"XDG_RUNTIME_DIR, TMPDIR",
     "Where the file with the configuration for runtime plugins is put; else /tmp.", false},
    {"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID",
     "Set by systemd, which is told of readiness, of the end and, regularly, of life.", true},
    {"VIRTUAL_ENV", "The Python environment that server modules in Python are loaded from.",
     true},
};

static void put_variable(const char *name) {
    printf(".TP\n.B ");
    put_text(name, strlen(name));
    putchar('\n');
}

static void put_option_variables(void) {
    const lmc_option *row;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++) {
        if (row->environment == NULL)
            continue;
        lmc_buffer text = LMC_BUFFER_INIT;
        if (is_shown(row))
            lmc_buffer_printf(&text, "The value of %s when that is not given.", row->flag);
        else if (row->help != NULL)
            lmc_option_sentence(&text, row);
        else
            lmc_buffer_printf(&text, "The value of %s in GET /config.", row->json);
        if (row->old_environment != NULL)
            lmc_buffer_printf(&text, " Its former name, %s, works with a warning.",
                              row->old_environment);
        put_variable(row->environment);
        put_buffer(&text);
    }
}

static void put_environment(bool server) {
    puts(".SH ENVIRONMENT");
    if (server)
        put_option_variables();
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const variable *at = &variables[i];
        if (at->server_only && !server)
            continue;
        put_variable(at->name);
        put_text(at->meaning, strlen(at->meaning));
        putchar('\n');
    }
}

static void put_exit_status(int status, const char *meaning) {
    printf(".TP\n.B %d\n", status);
    puts(meaning);
}

static void server_page(void) {
    put_title("lmcached-server", 8, "KV cache server for LLM serving engines");
    puts(".SH SYNOPSIS\n.B lmcached server\n\\-\\-l1\\-size\\-gb GIB \\-\\-eviction\\-policy "
         "POLICY [options]\n.SH DESCRIPTION\n"
         "Starts the cache server: a request socket for engines and an HTTP API for people and "
         "probes. It ends on SIGTERM or SIGINT; a second signal ends it at once.\n"
         ".SH OPTIONS");
    for (size_t i = 0; i < LMC_OPTION_SECTIONS; i++) {
        const lmc_option_section *section = &lmc_option_sections[i];
        printf(".SS %s\n", section->title);
        for (size_t j = 0; j < *section->count; j++)
            if (is_shown(&section->rows[j]))
                put_server_option(&section->rows[j]);
    }
    put_environment(true);
    puts(".SH EXIT STATUS");
    put_exit_status(0, "after SIGTERM or SIGINT, when everything was ended in order");
    put_exit_status(LMC_EXIT_FAILED, "the configuration was rejected or the start failed");
    put_exit_status(LMC_EXIT_USAGE, "a wrong command line");
    puts(".TP\n.B 128+N\nsignal N came while the server was already ending, and ended it at "
         "once: 143 for SIGTERM, 130 for SIGINT");
    puts(".SH SEE ALSO\n.BR lmcached (1)");
}

/* What a command, or an action of it, says when asked for --help; the caller frees it. */
static char *help_of(const lmc_command *command, char *action) {
    char *text = NULL, help[] = "--help", *words[] = {action != NULL ? action : help, help};
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        exit(1);
    lmc_cli cli = {.program = "lmcached", .out = out, .err = stderr};
    command->run(&cli, action != NULL ? 2 : 1, words);
    fclose(out);
    if (text == NULL)
        exit(1);
    return text;
}

static void put_verbatim(const char *text) {
    puts(".PP\n.nf\n.ft CW");
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        put_text(line, length);
        putchar('\n');
        line += length + (line[length] == '\n');
    }
    puts(".ft\n.fi");
}

/* The command's help, and that of its actions where they have one of their own. */
static void put_command_help(const lmc_command *command) {
    char *general = help_of(command, NULL);
    put_verbatim(general);
    for (const char *at = command->actions; at != NULL && *at != '\0';) {
        int length = (int)strcspn(at, " ");
        char action[32];
        snprintf(action, sizeof action, "%.*s", length, at);
        char *text = help_of(command, action);
        if (strcmp(text, general) != 0) {
            printf(".SS lmcached %s %s", command->name, action);
            putchar('\n');
            put_verbatim(text);
        }
        free(text);
        at += length + (at[length] == ' ');
    }
    free(general);
}

static void program_page(void) {
    size_t count;
    const lmc_command *commands = lmc_cli_commands(&count);
    put_title("lmcached", 1, "start, look at and control the KV cache server");
    puts(".SH SYNOPSIS\n.B lmcached\n<command> [options]\n.SH COMMANDS");
    for (size_t i = 0; i < count; i++) {
        if (commands[i].run == NULL)
            continue;
        printf(".SS lmcached %s\n%s", commands[i].name, commands[i].summary);
        if (strcmp(commands[i].name, "server") == 0) {
            puts(": see\n.BR lmcached\\-server (8)");
            continue;
        }
        putchar('\n');
        put_command_help(&commands[i]);
    }
    put_environment(false);
    puts(".SH EXIT STATUS");
    put_exit_status(
        0, "success; of plugins run: all plugins ended with 0, or it was asked to end");
    put_exit_status(LMC_EXIT_FAILED,
                    "failure; also no command, and kvcache without its action");
    put_exit_status(LMC_EXIT_USAGE, "a wrong command line");
    put_exit_status(LMC_EXIT_INTERRUPTED, "interrupted by Ctrl\\-C");
    puts(".TP\n.B 128+N\nof plugins run: a second signal N ended it at once\n"
         ".SH SEE ALSO\n.BR lmcached\\-server (8)");
}

/* What may follow an option that takes a value: its choices, a file, or nothing we know. */
static void put_value_case(const lmc_option *row) {
    if (row->form == LMC_FORM_BOOL_PAIR || row->metavar == NULL)
        return;
    printf("    %s) ", row->flag);
    const char *choices = row->built != NULL ? row->built : row->choices;
    if (choices != NULL) {
        fputs("COMPREPLY=($(compgen -W '", stdout);
        for (const char *at = choices; *at != '\0'; at++)
            putchar(*at == ',' ? ' ' : *at);
        fputs("' -- \"$word\")); ", stdout);
    } else if (strcmp(row->metavar, "PATH") == 0) {
        fputs("COMPREPLY=($(compgen -f -- \"$word\")); ", stdout);
    }
    puts("return ;;");
}

static void put_flag(const lmc_option *row) {
    printf(" %s", row->flag);
    if (row->form == LMC_FORM_BOOL_PAIR)
        printf(" --no-%s", row->flag + 2);
}

/* What the server would refuse or pass over is in the manual, with the reason, but not offered.
 */
static bool is_offered(const lmc_option *row) {
    return is_shown(row) && row->level != LMC_LEVEL_NOT_BUILT && row->level != LMC_LEVEL_INERT;
}

/* Everything but `server`: options as --help has them, actions, plugins' names, files. */
static void complete_commands(const lmc_command *commands, size_t count) {
    puts("  if [[ $command != server && $command != --* ]]; then\n"
         "    local action= words= help previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    case $command in");
    for (size_t i = 0; i < count; i++)
        if (commands[i].run != NULL && commands[i].actions != NULL)
            printf("      %s) words='%s' ;;\n", commands[i].name, commands[i].actions);
    puts("    esac\n"
         "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "      if [[ \" $words \" == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
         "        action=${COMP_WORDS[i]}\n"
         "      fi\n"
         "    done\n"
         "    help=$(\"$1\" $command $action --help 2>/dev/null)\n"
         "    if [[ $previous == --* ]]; then\n"
         "      case $(grep -oEm 1 -- \"$previous [A-Z{][A-Za-z,]*\" <<<\"$help\" | head -n 1) "
         "in\n"
         "        *{*) COMPREPLY=($(compgen -W \"$(grep -oEm 1 -- \"$previous {[^}]+\" "
         "<<<\"$help\" |\n"
         "               head -n 1 | sed 's/.*{//; y/,/ /')\" -- \"$word\")); return ;;\n"
         "        *PATH) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
         "        ?*) return ;;\n"
         "      esac\n"
         "    fi\n"
         "    case $word in\n"
         "      -*) COMPREPLY=($(compgen -W \"$(grep -oE -- '--[a-z0-9-]+' <<<\"$help\" |\n"
         "            sort -u)\" -- \"$word\")); return ;;\n"
         "      @*) [ \"$command\" = call ] &&\n"
         "            COMPREPLY=($(compgen -P @ -f -- \"${word#@}\")); return ;;\n"
         "    esac\n"
         "    case $command:$action in\n"
         "      plugins:st*|plugins:restart|plugins:logs)\n"
         "        words=$(\"$1\" plugins list 2>/dev/null | awk 'NR > 1 { print $1 }') ;;\n"
         "      plugins:run|check-module:) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
         "    esac\n"
         "    [ -n \"$action\" ] && [ \"$command\" != plugins ] && return\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "    return\n"
         "  fi");
}

static void bash_completion(void) {
    size_t count;
    const lmc_command *commands = lmc_cli_commands(&count);
    const lmc_option *row;
    puts("# bash completion of lmcached and lmcache\n_lmcached() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n  COMPREPLY=()\n"
         "  if [[ $COMP_CWORD -eq 1 && $word != --* ]]; then");
    fputs("    COMPREPLY=($(compgen -W '--help --version", stdout);
    for (size_t i = 0; i < count; i++)
        if (commands[i].run != NULL)
            printf(" %s", commands[i].name);
    puts("' -- \"$word\"))\n    return\n  fi");
    complete_commands(commands, count);
    puts("  case ${COMP_WORDS[COMP_CWORD - 1]} in");
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++)
        if (is_offered(row))
            put_value_case(row);
    fputs("  esac\n"
          "  COMPREPLY=($(compgen -W \"$([ \"$COMP_CWORD\" -eq 1 ] && echo --version) --help",
          stdout);
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++)
        if (is_offered(row))
            put_flag(row);
    puts("\" -- \"$word\"))\n}\ncomplete -F _lmcached lmcached lmcache");
}

int main(int count, char **arguments) {
    const char *what = count == 2 ? arguments[1] : "";
    if (strcmp(what, "server") == 0)
        server_page();
    else if (strcmp(what, "program") == 0)
        program_page();
    else if (strcmp(what, "bash") == 0)
        bash_completion();
    else
        return fprintf(stderr, "usage: lmcached-manual server|program|bash\n"), 2;
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
