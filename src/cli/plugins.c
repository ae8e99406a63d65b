#include "cli/plugins.h"

#include <stdlib.h>
#include <string.h>

#include "config/python_text.h"

#define DEFAULT_URL "http://127.0.0.1:8080"

typedef enum value_kind { VALUE_NONE, VALUE_TEXT, VALUE_INT, VALUE_SECONDS } value_kind;

#define FOR_RUN 1u
#define FOR_ASKING 2u
#define FOR_LOGS 4u
#define FOR_LIST 8u

typedef struct option {
    const char *name, *letter, *metavar, *help;
    unsigned actions;
    value_kind kind;
    size_t offset;
} option;

#define AT(member) offsetof(lmc_plugins_words, member)

static const option options[] = {
    {"--role", NULL, "ROLE", "run those that are for this role, or for all", FOR_RUN,
     VALUE_TEXT, AT(role)},
    {"--worker-id", NULL, "N", "run those that are for this worker; default 0", FOR_RUN,
     VALUE_INT, AT(worker_id)},
    {"--worker-count", NULL, "N", "told to the plugins; default 1", FOR_RUN, VALUE_INT,
     AT(worker_count)},
    {"--config", NULL, "JSON", "the plugins' configuration, an object; default {}", FOR_RUN,
     VALUE_TEXT, AT(config)},
    {"--stop-grace-seconds", NULL, "SECONDS", "between SIGTERM and SIGKILL; default 5", FOR_RUN,
     VALUE_SECONDS, AT(grace)},
    {"--url", NULL, "URL", "address of the server's HTTP API; default " DEFAULT_URL, FOR_ASKING,
     VALUE_TEXT, AT(url)},
    {"--format", NULL, "{terminal,json}", "form of the list", FOR_LIST, VALUE_TEXT, AT(format)},
    {"--lines", "-n", "N", "how many of the last lines to show; default 200", FOR_LOGS,
     VALUE_INT, AT(lines)},
    {"--follow", "-f", NULL, "go on with new lines as they come", FOR_LOGS, VALUE_NONE,
     AT(follow)},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

static const struct {
    const char *name, *usage, *summary, *help;
    unsigned options;
    int least, most; /* words beside the options */
} actions[] = {
    {"run", "LOCATION...", "supervise plugins without a server",
     "Starts the plugins in files and folders and supervises them, without a server", FOR_RUN,
     1, 1 << 20},
    {"list", "", "the plugins of a server and how they are",
     "Shows the plugins of a server and how they are", FOR_ASKING | FOR_LIST, 0, 0},
    {"start", "NAME", "start one that has ended", "Starts a plugin that has ended", FOR_ASKING,
     1, 1},
    {"stop", "NAME", "stop one", "Stops a plugin", FOR_ASKING, 1, 1},
    {"restart", "NAME", "stop one if it runs, and start it",
     "Stops a plugin if it runs, and starts it", FOR_ASKING, 1, 1},
    {"logs", "NAME", "the last lines of one", "Shows the last lines that a plugin has printed",
     FOR_ASKING | FOR_LOGS, 1, 1},
};
#define ACTION_COUNT (sizeof actions / sizeof actions[0])

typedef struct scan {
    const lmc_cli *cli;
    lmc_plugins_words *words;
    char **names;
    size_t action;
} scan;

/* ---- texts ---- */

static void put_usage(const scan *s, FILE *out) {
    fprintf(out, "usage: %s plugins %s [-h] [options]%s%s\n", s->cli->program,
            actions[s->action].name, *actions[s->action].usage != '\0' ? " " : "",
            actions[s->action].usage);
}

static int put_help(const scan *s) {
    put_usage(s, s->cli->out);
    fprintf(s->cli->out, "\n%s.\n\noptions:\n  %-28s  %s\n", actions[s->action].help,
            "-h, --help", "show this text");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &options[i];
        char left[64];
        if ((o->actions & actions[s->action].options) == 0)
            continue;
        snprintf(left, sizeof left, "%s%s%s%s%s", o->letter != NULL ? o->letter : "",
                 o->letter != NULL ? ", " : "", o->name, o->metavar != NULL ? " " : "",
                 o->metavar != NULL ? o->metavar : "");
        fprintf(s->cli->out, "  %-28s  %s\n", left, o->help);
    }
    return 0;
}

static void put_all(const lmc_cli *cli, FILE *out) {
    fprintf(out,
            "usage: %s plugins [-h] {run,list,start,stop,restart,logs} [options]\n\nactions:\n",
            cli->program);
    for (size_t i = 0; i < ACTION_COUNT; i++)
        fprintf(out, "  %-8s  %s\n", actions[i].name, actions[i].summary);
}

static bool usage_error(const scan *s, const char *what, const char *text) {
    put_usage(s, s->cli->err);
    fprintf(s->cli->err, "%s plugins %s: error: %s%s\n", s->cli->program,
            actions[s->action].name, what, text);
    return false;
}

/* ---- words ---- */

static const option *find_option(const scan *s, const char *word) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &options[i];
        if ((o->actions & actions[s->action].options) != 0 &&
            (strcmp(o->name, word) == 0 || (o->letter != NULL && strcmp(o->letter, word) == 0)))
            return o;
    }
    return NULL;
}

static bool bad_value(const scan *s, const option *o, const char *expected, const char *value) {
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_buffer_printf(&text, "%s: invalid %s value: ", o->name, expected);
    lmc_repr_text(&text, lmc_text(value));
    usage_error(s, "argument ", text.failed ? o->name : text.data);
    lmc_buffer_fini(&text);
    return false;
}

static bool take_value(const scan *s, const option *o, const char *value) {
    char *field = (char *)s->words + o->offset;
    int64_t number;
    double seconds;
    switch (o->kind) {
    case VALUE_NONE:
        *(bool *)field = true;
        return true;
    case VALUE_TEXT:
        memcpy(field, &value, sizeof value);
        return true;
    case VALUE_INT:
        if (!lmc_read_int(value, &number) || number < 0)
            return bad_value(s, o, "int", value);
        memcpy(field, &number, sizeof number);
        return true;
    default:
        if (!lmc_read_float(value, &seconds) || !(seconds >= 0 && seconds <= 1e6))
            return bad_value(s, o, "float", value);
        memcpy(field, &seconds, sizeof seconds);
        return true;
    }
}

static bool take_option(scan *s, const char *word, const char *value, bool *used) {
    const option *o = find_option(s, word);
    *used = o != NULL && o->kind != VALUE_NONE;
    if (o == NULL)
        return usage_error(s, "unrecognized arguments: ", word);
    if (*used && value == NULL) {
        char text[64];
        snprintf(text, sizeof text, "%s: expected one argument", o->name);
        return usage_error(s, "argument ", text);
    }
    return take_value(s, o, value);
}

static bool take_words(scan *s, int count, char *const *words) {
    bool used;
    for (int i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        char name[32];
        if (words[i][0] != '-' || words[i][1] == '\0') {
            s->names[s->words->name_count++] = words[i];
        } else if (equals != NULL && strncmp(words[i], "--", 2) == 0) {
            snprintf(name, sizeof name, "%.*s", (int)(equals - words[i]), words[i]);
            if (!take_option(s, name, equals + 1, &used))
                return false;
        } else {
            if (!take_option(s, words[i], i + 1 < count ? words[i + 1] : NULL, &used))
                return false;
            i += used;
        }
    }
    if (s->words->name_count < actions[s->action].least)
        return usage_error(
            s, "the following arguments are required: ", s->action == 0 ? "LOCATION" : "NAME");
    if (s->words->name_count > actions[s->action].most)
        return usage_error(s, "unrecognized arguments: ", s->names[actions[s->action].most]);
    return true;
}

static bool asks_for_help(int count, char *const *words) {
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "-h") == 0 || strcmp(words[i], "--help") == 0)
            return true;
    return false;
}

static int run_action(lmc_cli *cli, size_t action, int count, char *const *words) {
    lmc_plugins_words parsed = {.action = actions[action].name,
                                .url = DEFAULT_URL,
                                .format = "terminal",
                                .role = "",
                                .config = "{}",
                                .worker_count = 1,
                                .lines = 200,
                                .grace = 5};
    scan s = {.cli = cli, .words = &parsed, .action = action};
    if (asks_for_help(count, words))
        return put_help(&s);
    s.names = calloc((size_t)count + 1, sizeof *s.names);
    if (s.names == NULL) {
        fprintf(cli->err, "Command failed: out of memory\n");
        return LMC_EXIT_FAILED;
    }
    parsed.names = s.names;
    int status = LMC_EXIT_USAGE;
    if (take_words(&s, count, words))
        status = action == 0 ? lmc_plugins_run(cli, &parsed) : lmc_plugins_ask(cli, &parsed);
    free(s.names);
    return status;
}

static int no_action(const lmc_cli *cli, const char *word) {
    lmc_buffer text = LMC_BUFFER_INIT;
    put_all(cli, cli->err);
    if (word == NULL) {
        lmc_buffer_text(&text, "the following arguments are required: action");
    } else {
        lmc_buffer_text(&text, "argument action: invalid choice: ");
        lmc_repr_text(&text, lmc_text(word));
        for (size_t i = 0; i < ACTION_COUNT; i++)
            lmc_buffer_printf(&text, "%s'%s'", i == 0 ? " (choose from " : ", ",
                              actions[i].name);
        lmc_buffer_char(&text, ')');
    }
    fprintf(cli->err, "%s plugins: error: %s\n", cli->program, text.failed ? "" : text.data);
    lmc_buffer_fini(&text);
    return LMC_EXIT_USAGE;
}

int lmc_command_plugins(lmc_cli *cli, int count, char *const *words) {
    for (size_t i = 0; count > 0 && i < ACTION_COUNT; i++)
        if (strcmp(words[0], actions[i].name) == 0)
            return run_action(cli, i, count - 1, words + 1);
    if (!asks_for_help(count < 1 ? 0 : 1, words))
        return no_action(cli, count > 0 ? words[0] : NULL);
    put_all(cli, cli->out);
    return 0;
}
