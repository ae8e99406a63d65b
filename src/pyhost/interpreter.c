/*
 * Which Python the modules run in: the one the operator names, that of the virtual environment,
 * or the one the host is built with. CPython itself would take the first python3 on PATH, which
 * may be another version's. Nothing here needs the GIL, or Python to run.
 */
#include "pyhost/python.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"

#define OUTPUT_MAX 8192

extern char **environ;

/* ---- asking an interpreter ---- */

static pid_t start_python(const char *path, int output) {
    static const char program[] =
        "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)";
    char *const words[] = {(char *)(uintptr_t)path, "-S", "-c", (char *)(uintptr_t)program,
                           NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    if (posix_spawnp(&child, path, &actions, NULL, words, environ) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static size_t read_all(int from, char *out, size_t room) {
    size_t used = 0;
    for (;;) {
        ssize_t got = read(from, out + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (used += (size_t)got) == room)
            return used;
    }
}

/* "3.11.2\n/usr/bin/python3\n" of the interpreter at path. */
static bool ask(const char *path, char out[OUTPUT_MAX]) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t child = start_python(path, ends[1]);
    close(ends[1]);
    size_t size = child > 0 ? read_all(ends[0], out, OUTPUT_MAX - 1) : 0;
    close(ends[0]);
    out[size] = '\0';
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- choosing ---- */

/* Module ABIs are those of "3.11". */
static bool same_version(const char *a, const char *b) {
    size_t major = strcspn(a, "."), size = major + (a[major] == '.');
    size += strcspn(a + size, ".");
    return strncmp(a, b, size) == 0 && (b[size] == '.' || b[size] == '\0');
}

static lmc_status take(const char *path, const char *whose, lmc_py_interpreter *chosen,
                       lmc_error *error) {
    char answer[OUTPUT_MAX];
    if (!ask(path, answer))
        return lmc_error_set(error, LMC_INVALID, "%s: %s is no Python that can be run", whose,
                             path);
    char *line = strchr(answer, '\n');
    if (line == NULL)
        return lmc_error_set(error, LMC_INVALID, "%s: %s does not tell its version", whose,
                             path);
    *line++ = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (!same_version(answer, PY_VERSION))
        return lmc_error_set(error, LMC_INVALID,
                             "%s: %s is Python %s, but this server's Python host is built with "
                             "Python %s",
                             whose, path, answer, PY_VERSION);
    int size = snprintf(chosen->executable, sizeof chosen->executable, "%s",
                        *line == '/' ? line : path);
    return size < (int)sizeof chosen->executable
               ? LMC_OK
               : lmc_error_set(error, LMC_INVALID, "%s: the path is too long", whose);
}

static lmc_status take_environment(const char *directory, lmc_py_interpreter *chosen,
                                   lmc_error *error) {
    char path[4096];
    int size = snprintf(path, sizeof path, "%s/bin/python3", directory);
    if (size < (int)sizeof path && access(path, X_OK) != 0)
        size = snprintf(path, sizeof path, "%s/bin/python", directory);
    if (size >= (int)sizeof path)
        return lmc_error_set(error, LMC_INVALID, "VIRTUAL_ENV: the path is too long");
    return take(path, "VIRTUAL_ENV", chosen, error);
}

lmc_status lmc_py_choose(const char *wanted, lmc_py_interpreter *chosen, lmc_error *error) {
    const char *environment = getenv("VIRTUAL_ENV");
    if (wanted != NULL && *wanted != '\0')
        return take(wanted, "--python-interpreter", chosen, error);
    if (environment != NULL && *environment != '\0')
        return take_environment(environment, chosen, error);
    snprintf(chosen->executable, sizeof chosen->executable, "%s", LMC_PYTHON_EXECUTABLE);
    return LMC_OK;
}
