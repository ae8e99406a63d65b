#include "runtime_plugin/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAT_MAX 1024
#define ENVIRONMENT_MAX ((size_t)4 << 20)

/* ---- one process ---- */

static ssize_t read_file(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, out, size - 1);
    close(fd);
    if (got >= 0)
        out[got] = '\0';
    return got;
}

/* The name in parentheses may contain anything; the last one ends it. */
static bool parse_stat(const char *text, lmc_process *process) {
    const char *at = strrchr(text, ')');
    char state = '\0';
    int parent, group, session;
    unsigned long long started;
    if (at == NULL ||
        sscanf(at + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &parent, &group, &session, &started) != 5)
        return false;
    process->parent = parent;
    process->group = group;
    process->session = session;
    process->started = started;
    process->is_zombie = state == 'Z' || state == 'X';
    return true;
}

bool lmc_process_read(pid_t pid, lmc_process *process) {
    char path[64], text[STAT_MAX];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    *process = (lmc_process){.pid = pid};
    return read_file(path, text, sizeof text) > 0 && parse_stat(text, process);
}

bool lmc_process_signal(const lmc_process *process, int number) {
    lmc_process now;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    bool same = lmc_process_read(process->pid, &now) && now.started == process->started;
    bool sent = false;
    if (fd >= 0) {
        sent = same && syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0;
        close(fd);
    } else if (errno != ESRCH && same) {
        sent = kill(process->pid, number) == 0; /* a kernel without pidfd */
    }
    return sent;
}

/* ---- all of them ---- */

typedef struct growing {
    lmc_process *items;
    size_t count, capacity;
} growing;

static bool add(growing *list, const lmc_process *process) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 256;
        lmc_process *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *process;
    return true;
}

static pid_t number_of(const char *name) {
    char *end;
    long number = *name >= '1' && *name <= '9' ? strtol(name, &end, 10) : 0;
    return number > 0 && *end == '\0' ? (pid_t)number : 0;
}

static lmc_status read_all(growing *all) {
    DIR *directory = opendir("/proc");
    lmc_status status = LMC_OK;
    if (directory == NULL)
        return LMC_FAILED;
    for (struct dirent *entry; status == LMC_OK && (entry = readdir(directory)) != NULL;) {
        lmc_process process;
        pid_t pid = number_of(entry->d_name);
        if (pid > 0 && lmc_process_read(pid, &process) && !add(all, &process))
            status = LMC_NO_MEMORY;
    }
    closedir(directory);
    return status;
}

static int by_parent(const void *a, const void *b) {
    const lmc_process *left = a, *right = b;
    return (left->parent > right->parent) - (left->parent < right->parent);
}

/* Appends the children of `parent`; `all` is sorted by parent. */
static bool add_children(growing *found, const growing *all, pid_t parent) {
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (all->items[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < all->count && all->items[low].parent == parent; low++)
        if (!add(found, &all->items[low]))
            return false;
    return true;
}

lmc_status lmc_process_descendants(pid_t root, lmc_processes *processes) {
    growing all = {0}, found = {0};
    *processes = (lmc_processes){0};
    lmc_status status = read_all(&all);
    if (status == LMC_OK) {
        if (all.count > 1)
            qsort(all.items, all.count, sizeof *all.items, by_parent);
        bool fine = add_children(&found, &all, root);
        /* What was read at different times may seem to go round in a circle. */
        for (size_t i = 0; fine && i < found.count && found.count <= all.count; i++)
            fine = add_children(&found, &all, found.items[i].pid);
        status = fine ? LMC_OK : LMC_NO_MEMORY;
    }
    free(all.items);
    if (status != LMC_OK)
        free(found.items);
    else
        *processes = (lmc_processes){found.items, found.count};
    return status;
}

void lmc_processes_fini(lmc_processes *processes) {
    free(processes->items);
    *processes = (lmc_processes){0};
}

/* ---- marks ---- */

bool lmc_process_dump_filter(pid_t pid, unsigned *filter) {
    char path[64], text[32], *end;
    snprintf(path, sizeof path, "/proc/%d/coredump_filter", (int)pid);
    if (read_file(path, text, sizeof text) <= 0)
        return false;
    *filter = (unsigned)strtoul(text, &end, 16);
    return end != text;
}

void lmc_process_flip_dump_bits(void) {
    char text[32];
    unsigned filter;
    if (!lmc_process_dump_filter(getpid(), &filter))
        return;
    int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    int size = snprintf(text, sizeof text, "0x%x", filter ^ LMC_PLUGIN_DUMP_BITS);
    if (fd < 0)
        return;
    if (write(fd, text, (size_t)size) < 0)
        errno = 0; /* one mark less */
    close(fd);
}

bool lmc_process_is_marked(pid_t pid, const char *text) {
    char path[64], piece[4096];
    size_t size = strlen(text), kept = 0, total = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = size > 0 && size < sizeof piece / 2 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    for (ssize_t got; !found && total < ENVIRONMENT_MAX &&
                      (got = read(fd, piece + kept, sizeof piece - kept)) > 0;) {
        size_t filled = kept + (size_t)got;
        found = memmem(piece, filled, text, size) != NULL;
        kept = filled < size ? filled : size - 1;
        memmove(piece, piece + filled - kept, kept);
        total += (size_t)got;
    }
    close(fd);
    return found;
}
