/* plugins list, start, stop, restart and logs: what a server says of its runtime plugins. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/enquiry.h"
#include "cli/plugins.h"
#include "cli/shown.h"
#include "config/json_value.h"

#define SETTLE_NS (20 * LMC_NS_PER_S) /* how long a change is waited for */
#define PAUSE_US 100000
#define FOLLOW_US 500000
#define FOLLOW_LINES 100000

/* One answer of the server, read. */
typedef struct answer {
    lmc_enquiry enquiry;
    lmc_arena arena;
    const lmc_json_value *body;
} answer;

static void answer_fini(answer *a) {
    lmc_arena_fini(&a->arena);
    lmc_enquiry_fini(&a->enquiry);
}

/* Where the routes put what went wrong, the most likely first. */
static const char *const complaints[] = {"detail", "error", "message"};

/* False: what went wrong has been told. */
static bool ask(lmc_cli *cli, const lmc_plugins_words *words, const char *method,
                const char *path, answer *a) {
    *a = (answer){.body = NULL};
    lmc_arena_init(&a->arena, 0);
    if (lmc_enquiry_run(cli, &a->enquiry, method, words->url, path) != LMC_OK)
        return false;
    int status = a->enquiry.response.status;
    if (a->enquiry.status != LMC_OK || (status != 200 && status != 202)) {
        lmc_enquiry_tell(cli, &a->enquiry, complaints, 3);
        return false;
    }
    const lmc_buffer *text = &a->enquiry.response.body;
    if (text->size > 0 && lmc_json_read(&a->arena, lmc_slice_of(text->data, text->size),
                                        &a->body, NULL) == LMC_OK)
        return true;
    fprintf(cli->err, "%s does not answer with JSON\n", a->enquiry.shown);
    return false;
}

/* The name as a parameter, in which every character is possible. */
static void put_path(lmc_buffer *path, const char *name, const char *action) {
    lmc_buffer_printf(path, "/plugins/-/%s?name=", action);
    for (const char *at = name; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("._-/", c) != NULL)
            lmc_buffer_char(path, *at);
        else
            lmc_buffer_printf(path, "%%%02X", c);
    }
}

/* ---- list ---- */

static void put_text(lmc_slice text, int width, FILE *out) {
    lmc_buffer shown = LMC_BUFFER_INIT;
    lmc_shown(&shown, text);
    fprintf(out, "%*.*s", width, (int)shown.size, shown.size > 0 ? shown.data : "");
    lmc_buffer_fini(&shown);
}

static void put_member(const lmc_json_value *row, const char *name, int width, FILE *out) {
    const lmc_json_value *value = lmc_json_get(row, name);
    fputc(' ', out);
    if (value == NULL || value->kind == LMC_JSON_IS_NULL)
        fprintf(out, "%*s", width, "-");
    else if (value->kind == LMC_JSON_IS_FLOAT)
        fprintf(out, "%*.0f", width, lmc_json_number(value));
    else
        put_text(value->kind == LMC_JSON_IS_TEXT ? value->text : value->source, width, out);
}

static void put_row(const lmc_json_value *row, FILE *out) {
    static const struct {
        const char *name;
        int width;
    } columns[] = {{"state", -8},         {"pid", 8},   {"restarts", 8},     {"exit_code", 5},
                   {"uptime_seconds", 9}, {"lines", 9}, {"dropped_lines", 8}};
    const lmc_json_value *name = lmc_json_get(row, "name");
    if (name == NULL || name->kind != LMC_JSON_IS_TEXT)
        return;
    put_text(name->text, -32, out);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        put_member(row, columns[i].name, columns[i].width, out);
    fputc('\n', out);
}

static int list(lmc_cli *cli, const lmc_plugins_words *words) {
    answer a;
    bool json = strcmp(words->format, "json") == 0;
    if (!json && strcmp(words->format, "terminal") != 0) {
        fprintf(cli->err, "Unknown format '%s'. Available: json, terminal\n", words->format);
        return LMC_EXIT_FAILED;
    }
    bool fine = ask(cli, words, "GET", "/plugins", &a);
    const lmc_json_value *rows = fine ? lmc_json_get(a.body, "plugins") : NULL;
    if (fine && json) {
        fprintf(cli->out, "%s\n", a.enquiry.response.body.data);
    } else if (rows != NULL) {
        fprintf(cli->out, "%-32s %-8s %8s %8s %5s %9s %9s %8s\n", "NAME", "STATE", "PID",
                "RESTARTS", "EXIT", "UPTIME/S", "LINES", "DROPPED");
        for (const lmc_json_value *row = rows->first; row != NULL; row = row->next)
            put_row(row, cli->out);
    }
    answer_fini(&a);
    return fine ? 0 : LMC_EXIT_FAILED;
}

/* ---- start, stop, restart ---- */

static bool is_named(const lmc_json_value *row, const char *name) {
    const lmc_json_value *tag = lmc_json_get(row, "name"), *path = lmc_json_get(row, "path");
    return (tag != NULL && lmc_slice_is(tag->text, name)) ||
           (path != NULL && lmc_slice_is(path->text, name));
}

/* The state of the plugin, copied; false: it cannot be known. */
static bool read_state(lmc_cli *cli, const lmc_plugins_words *words, char state[16]) {
    answer a;
    bool found = false;
    const lmc_json_value *rows =
        ask(cli, words, "GET", "/plugins", &a) ? lmc_json_get(a.body, "plugins") : NULL;
    for (const lmc_json_value *row = rows != NULL ? rows->first : NULL; row != NULL;
         row = row->next) {
        const lmc_json_value *value = lmc_json_get(row, "state");
        if (is_named(row, words->names[0]) && lmc_json_filled_text(value)) {
            snprintf(state, 16, "%.*s", LMC_SLICE_ARGS(value->text));
            found = true;
        }
    }
    if (!found && a.body != NULL)
        fprintf(cli->err, "%s does not tell the state of %s\n", a.enquiry.shown,
                words->names[0]);
    answer_fini(&a);
    return found;
}

static int wait_settled(lmc_cli *cli, const lmc_plugins_words *words) {
    char state[16] = "";
    int64_t limit = lmc_now(&lmc_system_clock) + SETTLE_NS;
    for (;;) {
        if (!read_state(cli, words, state))
            return LMC_EXIT_FAILED;
        bool moving = strcmp(state, "STARTING") == 0 || strcmp(state, "STOPPING") == 0;
        if (!moving || lmc_now(&lmc_system_clock) > limit)
            break;
        usleep(PAUSE_US);
    }
    fprintf(cli->out, "%s: ", words->names[0]);
    put_text(lmc_text(state), 0, cli->out);
    fputc('\n', cli->out);
    bool up = strcmp(state, "RUNNING") == 0 || strcmp(state, "EXITED") == 0;
    if (strcmp(words->action, "stop") == 0)
        up = strcmp(state, "EXITED") == 0 || strcmp(state, "FATAL") == 0;
    return up ? 0 : LMC_EXIT_FAILED;
}

static int control(lmc_cli *cli, const lmc_plugins_words *words) {
    answer a;
    lmc_buffer path = LMC_BUFFER_INIT;
    put_path(&path, words->names[0], words->action);
    bool fine = !path.failed && ask(cli, words, "POST", path.data, &a);
    if (!path.failed)
        answer_fini(&a);
    lmc_buffer_fini(&path);
    return fine ? wait_settled(cli, words) : LMC_EXIT_FAILED;
}

/* ---- logs ---- */

/* Each line goes where the plugin wrote it; a plugin has one stream unless it asks for two. */
static void put_lines(const lmc_cli *cli, const lmc_json_value *lines) {
    for (const lmc_json_value *line = lines->first; line != NULL; line = line->next) {
        const lmc_json_value *text = lmc_json_get(line, "text");
        const lmc_json_value *stream = lmc_json_get(line, "stream");
        bool error = lmc_json_filled_text(stream) && lmc_slice_is(stream->text, "stderr");
        FILE *out = error ? cli->err : cli->out;
        if (error)
            fflush(cli->out);
        if (text != NULL && text->kind == LMC_JSON_IS_TEXT) {
            put_text(text->text, 0, out);
            fputc('\n', out);
        }
    }
    fflush(cli->out);
}

/* Shows what is new after *after and moves it on. */
static bool show_lines(lmc_cli *cli, const lmc_plugins_words *words, int64_t most,
                       int64_t *after) {
    answer a;
    lmc_buffer path = LMC_BUFFER_INIT;
    put_path(&path, words->names[0], "logs");
    lmc_buffer_printf(&path, "&after=%lld&lines=%lld", (long long)*after, (long long)most);
    if (path.failed)
        return false;
    bool fine = ask(cli, words, "GET", path.data, &a);
    const lmc_json_value *lines = fine ? lmc_json_get(a.body, "lines") : NULL;
    const lmc_json_value *next = fine ? lmc_json_get(a.body, "next") : NULL;
    if (lines != NULL)
        put_lines(cli, lines);
    if (next != NULL)
        lmc_json_integer(next, after);
    answer_fini(&a);
    lmc_buffer_fini(&path);
    return fine;
}

static int logs(lmc_cli *cli, const lmc_plugins_words *words) {
    int64_t after = 0;
    bool fine = show_lines(cli, words, words->lines, &after);
    while (fine && words->follow) {
        usleep(FOLLOW_US);
        fine = show_lines(cli, words, FOLLOW_LINES, &after);
    }
    return fine ? 0 : LMC_EXIT_FAILED;
}

int lmc_plugins_ask(lmc_cli *cli, const lmc_plugins_words *words) {
    if (strcmp(words->action, "list") == 0)
        return list(cli, words);
    return strcmp(words->action, "logs") == 0 ? logs(cli, words) : control(cli, words);
}
