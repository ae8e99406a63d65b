/* Diagnostics: log levels, environment, threads. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "base/log.h"
#include "http/route.h"

#define LOGGER_NAME_MAX 128

/* ---- /loglevel ---- */

#define ROOT "lmcache" /* exists, whether or not anything was logged under it */

static void write_logger(void *arg, const char *logger, lmc_log_level level) {
    if (strcmp(logger, ROOT) == 0)
        return;
    lmc_buffer_printf(arg, "%s: %s\n", logger, lmc_log_level_name(level));
}

static bool copy_logger(lmc_slice name, char out[LOGGER_NAME_MAX + 1]) {
    if (name.size == 0 || name.size > LOGGER_NAME_MAX)
        return false;
    memcpy(out, name.data, name.size);
    out[name.size] = '\0';
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)out[i]) && strchr("._-", out[i]) == NULL)
            return false;
    return strlen(out) == name.size;
}

static void set_level(lmc_http_request *request, const char *logger, lmc_slice wanted) {
    char name[16];
    lmc_log_level level;
    snprintf(name, sizeof name, "%.*s", LMC_SLICE_ARGS(wanted));
    if (wanted.size >= sizeof name || !lmc_log_level_parse(name, &level)) {
        lmc_buffer *out = lmc_http_reply(request, 400, LMC_HTTP_TEXT);
        lmc_buffer_printf(out, "Invalid log level: %.*s", LMC_SLICE_ARGS(wanted));
    } else if (!lmc_log_set_level(logger, level)) {
        lmc_buffer_text(lmc_http_reply(request, 400, LMC_HTTP_TEXT), "Too many loggers");
    } else {
        lmc_buffer *out = lmc_http_reply(request, 200, LMC_HTTP_TEXT);
        lmc_buffer_printf(out, "%s: %s", logger, lmc_log_level_name(level));
    }
}

static void loglevel(lmc_http_request *request) {
    char logger[LOGGER_NAME_MAX + 1];
    lmc_slice name, level;
    bool has_name = lmc_http_query_text(request, "logger_name", &name);
    bool has_level = lmc_http_query_text(request, "level", &level);
    if (has_level && !has_name) {
        lmc_buffer_text(lmc_http_reply(request, 200, LMC_HTTP_JSON), "null");
    } else if (!has_name) {
        lmc_buffer *out = lmc_http_reply(request, 200, LMC_HTTP_TEXT);
        lmc_buffer_printf(out, ROOT ": %s\n", lmc_log_level_name(lmc_log_level_of(ROOT)));
        lmc_log_each(write_logger, out);
    } else if (!copy_logger(name, logger)) {
        lmc_buffer_text(lmc_http_reply(request, 400, LMC_HTTP_TEXT), "Invalid logger name");
    } else if (has_level) {
        set_level(request, logger, level);
    } else {
        lmc_buffer *out = lmc_http_reply(request, 200, LMC_HTTP_TEXT);
        lmc_buffer_printf(out, "%s: %s", logger, lmc_log_level_name(lmc_log_level_of(logger)));
    }
}

/* ---- /env ---- */

static bool contains_nocase(lmc_slice text, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (strncasecmp((const char *)text.data + i, word, size) == 0)
            return true;
    return false;
}

static bool is_secret(lmc_slice name) {
    static const char *const words[] = {"KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (contains_nocase(name, words[i]))
            return true;
    return false;
}

/* The value with the password of a URL's user information replaced (D10). */
static void write_value(lmc_json_writer *json, const char *value) {
    const char *user = strstr(value, "://");
    const char *authority_end = user != NULL ? user + 3 + strcspn(user + 3, "/?# ") : NULL;
    const char *colon = user != NULL ? strchr(user + 3, ':') : NULL;
    const char *at = NULL;
    for (const char *p = colon; p != NULL && p < authority_end; p++)
        if (*p == '@')
            at = p;
    lmc_buffer masked = LMC_BUFFER_INIT;
    if (at == NULL) {
        lmc_json_text(json, value);
        return;
    }
    lmc_buffer_printf(&masked, "%.*s***%s", (int)(colon + 1 - value), value, at);
    lmc_json_text(json, masked.failed ? "***" : masked.data);
    lmc_buffer_fini(&masked);
}

static int compare_entries(const void *a, const void *b) {
    const char *one = *(const char *const *)a, *other = *(const char *const *)b;
    size_t one_size = strcspn(one, "="), other_size = strcspn(other, "=");
    int order = memcmp(one, other, one_size < other_size ? one_size : other_size);
    return order != 0 ? order : (one_size > other_size) - (one_size < other_size);
}

static void env(lmc_http_request *request) {
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **sorted = calloc(count + 1, sizeof *sorted);
    if (sorted == NULL) {
        lmc_http_fail_internal(request);
        return;
    }
    memcpy(sorted, environ, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_entries);
    lmc_json_writer json;
    lmc_json_start(&json, lmc_http_reply(request, 200, LMC_HTTP_TEXT), LMC_JSON_INDENTED,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    for (size_t i = 0; i < count; i++) {
        lmc_slice name = lmc_slice_of(sorted[i], strcspn(sorted[i], "="));
        const char *value = sorted[i] + name.size + (sorted[i][name.size] == '=');
        lmc_json_name_slice(&json, name);
        if (is_secret(name) && value[0] != '\0')
            lmc_json_text(&json, "***");
        else
            write_value(&json, value);
    }
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK)
        lmc_http_fail_internal(request);
    free(sorted);
}

/* ---- /threads ---- */

typedef struct thread_row {
    char name[32];
    char state;
} thread_row;

static bool read_thread(const char *tid, thread_row *row) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", tid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false; /* it has just ended */
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (open == NULL || close == NULL || close < open || close[1] != ' ')
        return false;
    snprintf(row->name, sizeof row->name, "%.*s", (int)(close - open - 1), open + 1);
    row->state = close[2];
    return true;
}

static const char *state_name(char state) {
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting for the disk";
    case 'T':
    case 't':
        return "stopped";
    case 'Z':
        return "ended";
    default:
        return "idle";
    }
}

static void threads(lmc_http_request *request) {
    lmc_slice name = {NULL, 0};
    bool has_id;
    int64_t id = 0;
    char wanted[32] = "";
    if (!lmc_http_query_int(request, "thread_id", &has_id, &id))
        return;
    if (lmc_http_query_text(request, "name", &name))
        snprintf(wanted, sizeof wanted, "%.*s", LMC_SLICE_ARGS(name));
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        lmc_http_fail_internal(request);
        return;
    }
    size_t total = 0;
    lmc_buffer rows = LMC_BUFFER_INIT;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        thread_row row;
        if (task->d_name[0] == '.' || !read_thread(task->d_name, &row))
            continue;
        total++;
        if ((!has_id || strtoll(task->d_name, NULL, 10) == id) &&
            contains_nocase(lmc_text(row.name), wanted))
            lmc_buffer_printf(&rows, "Thread: %s (ID: %s)\n  state: %s\n\n", row.name,
                              task->d_name, state_name(row.state));
    }
    closedir(tasks);
    lmc_buffer *out = lmc_http_reply(request, 200, LMC_HTTP_TEXT);
    lmc_buffer_printf(out, "Total threads: %zu\n\n", total);
    lmc_buffer_append(out, rows.data, rows.size);
    lmc_buffer_fini(&rows);
}

const lmc_http_route lmc_http_debug_routes[] = {
    {"/loglevel", LMC_HTTP_GET, LMC_HTTP_ON_POOL, loglevel},
    {"/env", LMC_HTTP_GET, LMC_HTTP_ON_POOL, env},
    {"/threads", LMC_HTTP_GET, LMC_HTTP_ON_POOL, threads},
    {NULL, 0, LMC_HTTP_AT_ONCE, NULL},
};
