#include "runtime_plugin/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "config/python_text.h"
#include "runtime_plugin/discovery.h"
#include "runtime_plugin/words.h"

#define HEAD_MAX 4096
#define DEFAULT_PATH "/bin:/usr/bin"

void lmc_plugin_command_fini(lmc_plugin_command *command) {
    for (size_t i = 0; i < command->count; i++)
        free(command->words[i]);
    for (size_t i = 0; i < command->assignment_count; i++)
        free(command->assignments[i]);
    *command = (lmc_plugin_command){0};
}

void lmc_plugin_command_interpreter(const lmc_plugin_command *command, lmc_buffer *out) {
    for (size_t i = 0; i + 1 < command->count; i++)
        lmc_buffer_printf(out, "%s%s", i > 0 ? " " : "", command->words[i]);
}

/* ---- the first line ---- */

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

lmc_slice lmc_plugin_shebang(lmc_slice head) {
    const char *from = head.data, *end = from + head.size;
    if (head.size >= 3 && memcmp(from, "\xEF\xBB\xBF", 3) == 0)
        from += 3;
    if (end - from < 2 || memcmp(from, "#!", 2) != 0)
        return (lmc_slice){NULL, 0};
    from += 2;
    const char *stop = from;
    while (stop < end && *stop != '\n' && *stop != '\r' && *stop != '\0')
        stop++;
    while (from < stop && is_blank(*from))
        from++;
    while (stop > from && is_blank(stop[-1]))
        stop--;
    return lmc_slice_of(from, (size_t)(stop - from));
}

static lmc_status read_head(const char *file, char head[HEAD_MAX], size_t *size,
                            lmc_error *error) {
    struct stat status;
    /* Not blocking, for a fifo that took the file's place. */
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return lmc_error_set(error, LMC_INVALID, "%s", strerror(errno));
    ssize_t got = -1;
    errno = EINVAL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        got = read(fd, head, HEAD_MAX);
    int number = errno;
    close(fd);
    if (got < 0)
        return lmc_error_set(error, LMC_INVALID, "it cannot be read: %s", strerror(number));
    *size = (size_t)got;
    return LMC_OK;
}

/* ---- programs ---- */

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* The program a word names, found as `which` finds it; NULL: none. */
static char *which(lmc_slice word, const char *search_path) {
    lmc_buffer path = LMC_BUFFER_INIT;
    if (word.size == 0)
        return NULL;
    if (memchr(word.data, '/', word.size) != NULL) {
        lmc_buffer_append(&path, word.data, word.size);
        if (!path.failed && is_program(path.data))
            return lmc_buffer_take(&path);
        lmc_buffer_fini(&path);
        return NULL;
    }
    for (const char *at = search_path != NULL ? search_path : DEFAULT_PATH;;) {
        size_t size = strcspn(at, ":");
        lmc_buffer_clear(&path);
        lmc_buffer_append(&path, size > 0 ? at : ".", size > 0 ? size : 1);
        lmc_buffer_char(&path, '/');
        lmc_buffer_append(&path, word.data, word.size);
        if (!path.failed && is_program(path.data))
            return lmc_buffer_take(&path);
        if (at[size] == '\0')
            break;
        at += size + 1;
    }
    lmc_buffer_fini(&path);
    return NULL;
}

/* ---- one candidate ---- */

typedef struct search {
    lmc_plugin_command *command;
    const char *path;
} search;

/* Takes over the program. */
static void begin_command(search *s, char *program) {
    lmc_plugin_command_fini(s->command);
    s->command->words[s->command->count++] = program;
}

/* False: no memory, or more words than anybody means. */
static bool add_word(lmc_plugin_command *command, lmc_slice word, bool assignment) {
    size_t *count = assignment ? &command->assignment_count : &command->count;
    char **list = assignment ? command->assignments : command->words;
    if (*count == LMC_PLUGIN_WORDS_MAX)
        return false;
    list[*count] = strndup(word.data, word.size);
    return list[*count] != NULL && ++*count > 0;
}

static bool is_assignment(lmc_slice word) {
    const char *equals = memchr(word.data, '=', word.size);
    return equals != NULL && equals != word.data;
}

/* `#!/usr/bin/env ...`: NAME=VALUE, the program, its arguments. With options that only env
 * knows, env itself. */
static bool try_env(search *s, char *env, const lmc_words *words) {
    size_t at = 1;
    lmc_plugin_command_fini(s->command);
    for (; at < words->count && is_assignment(words->items[at]); at++)
        if (!add_word(s->command, words->items[at], true))
            return false;
    if (at == words->count)
        return false;
    bool options = *(const char *)words->items[at].data == '-';
    char *program = options ? strdup(env) : which(words->items[at], s->path);
    if (program == NULL)
        return false;
    s->command->words[s->command->count++] = program;
    for (at += !options; at < words->count; at++)
        if (!add_word(s->command, words->items[at], false))
            return false;
    return true;
}

static bool is_env(lmc_slice word) {
    return word.size >= 4 && memcmp((const char *)word.data + word.size - 4, "/env", 4) == 0;
}

/* A program with arguments behind it. */
static bool try_words(search *s, lmc_slice text) {
    lmc_words words;
    bool found = false;
    if (!lmc_words_split(&words, text))
        return false;
    if (words.count > 0) {
        char *program = which(words.items[0], s->path);
        if (words.count > 1 && is_env(words.items[0])) {
            char *env = program != NULL ? program : strdup("env");
            found = env != NULL && try_env(s, env, &words);
            free(env);
        } else if (program != NULL) {
            begin_command(s, program);
            found = true;
            for (size_t i = 1; i < words.count && found; i++)
                found = add_word(s->command, words.items[i], false);
        }
    }
    lmc_words_fini(&words);
    return found;
}

/* The whole text as one program, which may have blanks in its name. */
static bool try_whole(search *s, lmc_slice text) {
    char *program = which(text, s->path);
    if (program != NULL)
        begin_command(s, program);
    return program != NULL;
}

static bool try_candidate(search *s, lmc_slice text) {
    return try_whole(s, text) || try_words(s, text);
}

static bool try_list(search *s, lmc_slice text) {
    const char *from = text.data, *end = from + text.size;
    if (memchr(from, ',', text.size) == NULL)
        return false;
    for (bool last = false; !last;) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        last = comma == NULL;
        const char *stop = last ? end : comma;
        while (from < stop && is_blank(*from))
            from++;
        if (try_candidate(s, lmc_slice_of(from, (size_t)(stop - from))))
            return true;
        from = stop + 1;
    }
    return false;
}

/* ---- the whole ---- */

static bool try_all(search *s, lmc_slice line, bool is_python) {
    if (line.size > 0 && (try_candidate(s, line) || try_list(s, line)))
        return true;
    if (!is_python)
        return try_whole(s, lmc_text("bash"));
    return try_whole(s, lmc_text("python")) || try_whole(s, lmc_text("python3"));
}

static lmc_status none_found(const char *file, lmc_slice line, bool is_python,
                             lmc_error *error) {
    lmc_buffer shown = LMC_BUFFER_INIT;
    if (line.size > 0) {
        lmc_repr_text(&shown, line);
        lmc_buffer_text(&shown, ", ");
    }
    lmc_buffer_text(&shown, is_python ? "'python', 'python3'" : "'bash'");
    lmc_status status =
        lmc_error_set(error, LMC_INVALID, "No valid interpreter found for %s from [%s]", file,
                      shown.failed ? "" : shown.data);
    lmc_buffer_fini(&shown);
    return status;
}

/* A path that begins with a dash would be an option. */
static bool add_file(lmc_plugin_command *command, const char *file) {
    lmc_buffer path = LMC_BUFFER_INIT;
    lmc_buffer_printf(&path, "%s%s", *file == '-' ? "./" : "", file);
    command->words[command->count] = lmc_buffer_take(&path);
    return command->words[command->count] != NULL && ++command->count > 0;
}

lmc_status lmc_plugin_command_find(lmc_plugin_command *command, const char *file,
                                   const char *search_path, lmc_error *error) {
    char head[HEAD_MAX];
    size_t size = 0;
    const char *suffix = lmc_plugin_suffix(lmc_plugin_file_name(file));
    bool is_python = strcmp(suffix, ".py") == 0;
    search s = {.command = command, .path = search_path};
    *command = (lmc_plugin_command){0};
    if (!is_python && strcmp(suffix, ".sh") != 0)
        return lmc_error_set(error, LMC_INVALID, "Plugin type %s not supported ", suffix);
    lmc_status status = read_head(file, head, &size, error);
    if (status != LMC_OK)
        return status;
    lmc_slice line = lmc_plugin_shebang(lmc_slice_of(head, size));
    if (!try_all(&s, line, is_python)) {
        lmc_plugin_command_fini(command);
        return none_found(file, line, is_python, error);
    }
    if (!add_file(command, file))
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    return LMC_OK;
}
