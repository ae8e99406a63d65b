#include "cache/memory_limit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX 8192
#define PATH_BYTES 1024
#define UNKNOWN UINT64_MAX

/* One control group hierarchy's files. */
typedef struct group_files {
    const char *mount, *limit, *usage, *reclaimable;
} group_files;

static const group_files VERSION_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                      "inactive_file"};
static const group_files VERSION_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_inactive_file"};

/* Called for every group from the process's own up to the root of the hierarchy. */
typedef void (*visit_group)(void *arg, const group_files *files, const char *directory);

static bool read_file(const char *path, char text[FILE_MAX]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t size = 0;
    ssize_t got;
    while (size < FILE_MAX - 1 && (got = read(fd, text + size, FILE_MAX - 1 - size)) > 0)
        size += (size_t)got;
    close(fd);
    text[size] = '\0';
    return size != 0;
}

static uint64_t number(const char *text) {
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return UNKNOWN;
    return strtoull(text, NULL, 10);
}

static uint64_t number_in(const char *directory, const char *name) {
    char path[PATH_BYTES + 64], text[FILE_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return read_file(path, text) ? number(text) : UNKNOWN;
}

/* The number behind a word at the start of a line. */
static uint64_t field(const char *text, const char *name) {
    size_t size = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, size) == 0 && (line[size] == ' ' || line[size] == ':'))
            return number(line + size + 1);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return UNKNOWN;
}

static uint64_t meminfo(const char *root, const char *name) {
    char path[PATH_BYTES], text[FILE_MAX];
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    uint64_t kib = read_file(path, text) ? field(text, name) : UNKNOWN;
    return kib != UNKNOWN ? kib * 1024 : UNKNOWN;
}

static void walk_up(const char *root, const group_files *files, char *group, visit_group visit,
                    void *arg) {
    char directory[PATH_BYTES];
    for (;;) {
        int size = snprintf(directory, sizeof directory, "%s%s%s", root, files->mount, group);
        if (size > 0 && (size_t)size < sizeof directory)
            visit(arg, files, directory);
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* Lines are "0::/path" (version 2) and "7:memory:/path" or "7:cpu,memory:/path" (version 1). */
static void each_group(const char *root, visit_group visit, void *arg) {
    char path[PATH_BYTES], text[FILE_MAX], *rest = text;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_file(path, text))
        return;
    char *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *group = strstr(line, ":/");
        if (group == NULL)
            continue;
        *group++ = '\0';
        const char *controllers = strchr(line, ':');
        size_t size = strlen(group);
        if (size == 1)
            group[0] = '\0';
        if (controllers != NULL && controllers[1] == '\0')
            walk_up(root, &VERSION_2, group, visit, arg);
        else if (controllers != NULL && strstr(controllers, "memory") != NULL)
            walk_up(root, &VERSION_1, group, visit, arg);
    }
}

static void find_limit(void *arg, const group_files *files, const char *directory) {
    lmc_memory_limit *limit = arg;
    uint64_t bytes = number_in(directory, files->limit);
    if (bytes >= limit->bytes)
        return;
    limit->bytes = bytes;
    (void)snprintf(limit->source, sizeof limit->source, "the control group's limit (%.180s/%s)",
                   directory, files->limit);
}

void lmc_memory_limit_find(const char *root, lmc_memory_limit *limit) {
    limit->bytes = meminfo(root, "MemTotal");
    (void)snprintf(limit->source, sizeof limit->source, "the machine's memory");
    each_group(root, find_limit, limit);
}

typedef struct left_over {
    const char *root;
    uint64_t machine, left;
} left_over;

static void find_left(void *arg, const group_files *files, const char *directory) {
    left_over *over = arg;
    uint64_t limit = number_in(directory, files->limit);
    if (limit >= over->machine)
        return;
    uint64_t used = number_in(directory, files->usage);
    if (used == UNKNOWN)
        return;
    char path[PATH_BYTES + 64], text[FILE_MAX];
    (void)snprintf(path, sizeof path, "%s/memory.stat", directory);
    uint64_t droppable = read_file(path, text) ? field(text, files->reclaimable) : UNKNOWN;
    if (droppable != UNKNOWN)
        used -= droppable < used ? droppable : used;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < over->left)
        over->left = left;
}

uint64_t lmc_memory_left(const char *root) {
    left_over over = {.root = root,
                      .machine = meminfo(root, "MemTotal"),
                      .left = meminfo(root, "MemAvailable")};
    each_group(root, find_left, &over);
    return over.left;
}
