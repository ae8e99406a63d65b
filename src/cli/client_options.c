#include "cli/client_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/option_value.h"
#include "config/python_text.h"

typedef enum option_id {
    OPTION_HELP,
    OPTION_URL,
    OPTION_READY,
    OPTION_FORMAT,
    OPTION_OUTPUT,
    OPTION_QUIET,
    OPTION_COUNT
} option_id;

typedef struct option {
    const char *name, *letter, *metavar, *help;
} option;

static const option options_table[OPTION_COUNT] = {
    [OPTION_HELP] = {"--help", "-h", NULL, "show this text"},
    [OPTION_URL] = {"--url", NULL, "URL", NULL},
    [OPTION_READY] = {"--ready", NULL, NULL,
                      "ask whether requests would be answered now (GET /readiness)"},
    [OPTION_FORMAT] = {"--format", NULL, "{terminal,json}", "form of the result"},
    [OPTION_OUTPUT] = {"--output", NULL, "PATH", "write the result to this file too"},
    [OPTION_QUIET] = {"--quiet", "-q", NULL, "nothing on standard output"},
};

typedef struct scan {
    lmc_cli *cli;
    const lmc_client_command *command;
    lmc_client_options *options;
    char *const *words;
    int count, at;
    bool help;
    lmc_buffer unrecognized;
} scan;

static void put_usage(const lmc_cli *cli, const lmc_client_command *command, FILE *out) {
    fprintf(out, "usage: %s %s [-h]", cli->program, command->name);
    fprintf(out, command->url_required ? " --url URL" : " [--url URL]");
    if (command->ready)
        fprintf(out, " [--ready]");
    fprintf(out, " [--format {terminal,json}] [--output PATH] [-q] {%s}\n", command->choices);
}

static bool offers(const lmc_client_command *command, option_id id) {
    return id != OPTION_READY || command->ready;
}

static void put_help(const lmc_cli *cli, const lmc_client_command *command) {
    put_usage(cli, command, cli->out);
    fprintf(cli->out, "\n%s\n\noptions:\n", command->summary);
    for (option_id id = 0; id < OPTION_COUNT; id++) {
        const option *o = &options_table[id];
        char left[64];
        if (!offers(command, id))
            continue;
        snprintf(left, sizeof left, "%s%s%s%s%s", o->letter != NULL ? o->letter : "",
                 o->letter != NULL ? ", " : "", o->name, o->metavar != NULL ? " " : "",
                 o->metavar != NULL ? o->metavar : "");
        fprintf(cli->out, "  %-26s  %s\n", left, o->help != NULL ? o->help : command->url_help);
    }
}

static bool usage_error(const scan *s, const char *what, const char *text) {
    put_usage(s->cli, s->command, s->cli->err);
    fprintf(s->cli->err, "%s %s: error: ", s->cli->program, s->command->name);
    fprintf(s->cli->err, "%s%s\n", what, text);
    return false;
}

/* The option a word names, by letter, full name or unambiguous beginning. */
static bool find_option(const scan *s, const char *word, size_t size, option_id *found) {
    int matches = 0;
    for (option_id id = 0; id < OPTION_COUNT; id++) {
        const option *o = &options_table[id];
        if (!offers(s->command, id))
            continue;
        bool exact = (o->letter != NULL && strcmp(word, o->letter) == 0) ||
                     (strlen(o->name) == size && memcmp(o->name, word, size) == 0);
        if (exact) {
            *found = id;
            return true;
        }
        if (size > 2 && word[1] == '-' && strncmp(o->name, word, size) == 0) {
            *found = id;
            matches++;
        }
    }
    return matches == 1;
}

static bool take_option(scan *s, option_id id, const char *value) {
    lmc_client_options *options = s->options;
    const option *o = &options_table[id];
    if (o->metavar != NULL && value == NULL) {
        if (s->at == s->count || (s->words[s->at][0] == '-' && s->words[s->at][1] != '\0')) {
            char text[64];
            snprintf(text, sizeof text, "%s: expected one argument", o->name);
            return usage_error(s, "argument ", text);
        }
        value = s->words[s->at++];
    }
    if (id == OPTION_URL)
        options->url = value;
    else if (id == OPTION_FORMAT)
        options->format = value;
    else if (id == OPTION_OUTPUT)
        options->output = value;
    options->quiet |= id == OPTION_QUIET;
    options->ready |= id == OPTION_READY;
    s->help |= id == OPTION_HELP;
    return true;
}

static bool invalid_choice(const scan *s, const char *word) {
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_repr_text(&text, lmc_text(word));
    lmc_buffer_text(&text, " (choose from ");
    for (const char *at = s->command->choices; *at != '\0';) {
        size_t size = strcspn(at, ",");
        lmc_buffer_printf(&text, "%s'%.*s'", at == s->command->choices ? "" : ", ", (int)size,
                          at);
        at += size + (at[size] == ',');
    }
    lmc_buffer_char(&text, ')');
    usage_error(s, "argument target: invalid choice: ", text.failed ? "" : text.data);
    lmc_buffer_fini(&text);
    return false;
}

static bool take_word(scan *s, const char *word) {
    if (s->options->choice != NULL) {
        lmc_buffer_printf(&s->unrecognized, " %s", word);
        return true;
    }
    if (!lmc_word_in(s->command->choices, word))
        return invalid_choice(s, word);
    s->options->choice = word;
    return true;
}

static bool take_next(scan *s) {
    const char *word = s->words[s->at++];
    size_t size = strcspn(word, "=");
    const char *value = word[size] == '=' ? word + size + 1 : NULL;
    option_id id;
    if (word[0] != '-' || word[1] == '\0')
        return take_word(s, word);
    if (!find_option(s, word, size, &id)) {
        lmc_buffer_printf(&s->unrecognized, " %s", word);
        return true;
    }
    if (value != NULL && options_table[id].metavar == NULL) {
        lmc_buffer text = LMC_BUFFER_INIT;
        lmc_buffer_printf(&text, "%s: ignored explicit argument ", options_table[id].name);
        lmc_repr_text(&text, lmc_text(value));
        usage_error(s, "argument ", text.failed ? "" : text.data);
        lmc_buffer_fini(&text);
        return false;
    }
    return take_option(s, id, value);
}

static bool check_complete(const scan *s) {
    const lmc_client_command *command = s->command;
    if (s->unrecognized.size > 0)
        return usage_error(s, "unrecognized arguments:", s->unrecognized.data);
    if (s->options->choice == NULL && command->choice_required && !s->options->ready)
        return usage_error(s, "the following arguments are required: ", "target");
    if (s->options->choice != NULL && command->url_required && s->options->url == NULL)
        return usage_error(s, "the following arguments are required: ", "--url");
    return true;
}

static bool check_format(const scan *s) {
    const char *format = s->options->format;
    if (lmc_word_in("terminal,json", format))
        return true;
    fprintf(s->cli->err, "Unknown format '%s'. Available: json, terminal\n", format);
    return false;
}

bool lmc_client_parse(lmc_cli *cli, const lmc_client_command *command, int count,
                      char *const *words, lmc_client_options *options, int *status) {
    scan s = {
        .cli = cli, .command = command, .options = options, .words = words, .count = count};
    bool fine = true;
    *options = (lmc_client_options){.format = "terminal"};
    while (s.at < s.count && fine && !s.help)
        fine = take_next(&s);
    *status = LMC_EXIT_USAGE;
    if (fine && s.help) {
        put_help(cli, command);
        *status = 0;
        fine = false;
    } else if (fine) {
        fine = check_complete(&s);
    }
    lmc_buffer_fini(&s.unrecognized);
    if (!fine)
        return false;
    *status = LMC_EXIT_FAILED;
    if (options->choice == NULL && !options->ready) {
        put_help(cli, command);
        return false;
    }
    return check_format(&s);
}

static bool write_file(const lmc_cli *cli, const char *path, const lmc_buffer *text) {
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fwrite(text->data, 1, text->size, file) == text->size;
    int cause = errno;
    if (file != NULL && fclose(file) != 0) {
        cause = errno;
        written = false;
    }
    if (!written)
        fprintf(cli->err, "Command failed: cannot write %s: %s\n", path, strerror(cause));
    return written;
}

bool lmc_client_show(lmc_cli *cli, const lmc_client_options *options,
                     const lmc_report *report) {
    lmc_buffer text = LMC_BUFFER_INIT;
    bool shown = false;
    if (strcmp(options->format, "json") == 0)
        lmc_report_json(report, &text);
    else
        lmc_report_terminal(report, &text);
    if (text.failed) {
        fprintf(cli->err, "Command failed: out of memory\n");
    } else {
        if (!options->quiet)
            fwrite(text.data, 1, text.size, cli->out);
        shown = options->output == NULL || write_file(cli, options->output, &text);
    }
    lmc_buffer_fini(&text);
    return shown;
}
