#include "runtime_plugin/discovery.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.plugin"
#define DEPTH_MAX 64

const char *lmc_plugin_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

const char *lmc_plugin_suffix(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name && dot[1] != '\0' ? dot : name + strlen(name);
}

static void file_fini(lmc_plugin_file *file) {
    free(file->path);
    free(file->real);
}

void lmc_plugin_files_fini(lmc_plugin_files *files) {
    for (size_t i = 0; i < files->count; i++)
        file_fini(&files->items[i]);
    free(files->items);
    *files = (lmc_plugin_files){0};
}

/* Takes the file; on failure it is gone. */
static lmc_status append(lmc_plugin_files *files, lmc_plugin_file file) {
    if (file.path != NULL && file.real != NULL && files->count == files->capacity) {
        size_t capacity = files->capacity > 0 ? 2 * files->capacity : 16;
        lmc_plugin_file *items = realloc(files->items, capacity * sizeof *items);
        if (items != NULL) {
            files->items = items;
            files->capacity = capacity;
        }
    }
    if (file.path == NULL || file.real == NULL || files->count == files->capacity) {
        file_fini(&file);
        return LMC_NO_MEMORY;
    }
    files->items[files->count++] = file;
    return LMC_OK;
}

/* Empty and `.` parts go, as they do when Python joins paths. */
static char *joined(const char *folder, const char *name) {
    lmc_buffer path = LMC_BUFFER_INIT;
    const char *parts[] = {folder, name};
    bool absolute = folder[0] == '/';
    for (size_t i = 0; i < 2 && parts[i] != NULL; i++) {
        for (const char *at = parts[i]; *at != '\0';) {
            size_t size = strcspn(at, "/");
            if (size > 0 && !(size == 1 && *at == '.')) {
                if (absolute || path.size > 0)
                    lmc_buffer_char(&path, '/');
                lmc_buffer_append(&path, at, size);
            }
            at += size + (at[size] == '/');
        }
    }
    if (path.size == 0)
        lmc_buffer_text(&path, absolute ? "/" : ".");
    return lmc_buffer_take(&path);
}

static lmc_status add_file(lmc_plugin_files *files, char *path, bool listed) {
    lmc_plugin_file file = {.path = path, .listed = listed};
    if (path != NULL)
        file.real = realpath(path, NULL);
    if (file.real == NULL && path != NULL && errno != ENOMEM)
        file.real = strdup(path); /* it went meanwhile; starting it will say so */
    return append(files, file);
}

static bool wanted(const char *name) {
    size_t size = strlen(name);
    return size >= 3 &&
           (strcmp(name + size - 3, ".py") == 0 || strcmp(name + size - 3, ".sh") == 0);
}

static const char *kind_of(const struct stat *status) {
    if (S_ISDIR(status->st_mode))
        return "a directory";
    return S_ISFIFO(status->st_mode) ? "a fifo" : "not a regular file";
}

static lmc_status walk(lmc_plugin_files *files, const char *folder, int depth);

/* `path` is taken over. */
static lmc_status take_entry(lmc_plugin_files *files, char *path, int depth) {
    struct stat link, target;
    if (path == NULL)
        return LMC_NO_MEMORY;
    const char *name = lmc_plugin_file_name(path);
    lmc_status status = LMC_OK;
    bool there = lstat(path, &link) == 0;
    if (there && wanted(name)) {
        if (stat(path, &target) != 0)
            LMC_DEBUG("Skipping %s: %s", path, strerror(errno));
        else if (!S_ISREG(target.st_mode))
            LMC_DEBUG("Skipping %s: it is %s", path, kind_of(&target));
        else
            return add_file(files, path, true);
    }
    if (there && S_ISDIR(link.st_mode))
        status = walk(files, path, depth + 1);
    free(path);
    return status;
}

static lmc_status walk(lmc_plugin_files *files, const char *folder, int depth) {
    DIR *directory = depth < DEPTH_MAX ? opendir(folder) : NULL;
    if (directory == NULL) {
        if (depth < DEPTH_MAX)
            LMC_WARNING("Runtime plugin directory %s cannot be read: %s", folder,
                        strerror(errno));
        return LMC_OK;
    }
    lmc_status status = LMC_OK;
    for (struct dirent *entry; status == LMC_OK && (entry = readdir(directory)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = take_entry(files, joined(folder, entry->d_name), depth);
    closedir(directory);
    return status;
}

static bool is_shell(const lmc_plugin_file *file) {
    return strcmp(file->path + strlen(file->path) - 3, ".sh") == 0;
}

static int by_kind_then_path(const void *a, const void *b) {
    const lmc_plugin_file *left = a, *right = b;
    if (is_shell(left) != is_shell(right))
        return is_shell(left) ? 1 : -1;
    return strcmp(left->path, right->path);
}

static bool is_listed(const lmc_plugin_files *files, const lmc_plugin_file *file) {
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i].real, file->real) == 0) {
            LMC_WARNING("%s is the same file as %s, which is started once", file->path,
                        files->items[i].path);
            return true;
        }
    return false;
}

/* Moves what was found behind what is there; `found` is empty afterwards. */
static lmc_status move_all(lmc_plugin_files *files, lmc_plugin_files *found) {
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < found->count; i++) {
        if (status != LMC_OK || is_listed(files, &found->items[i]))
            file_fini(&found->items[i]);
        else
            status = append(files, found->items[i]);
    }
    found->count = 0;
    return status;
}

lmc_status lmc_plugin_discover(lmc_plugin_files *files, const char *location,
                               lmc_error *error) {
    lmc_plugin_files found = {0};
    struct stat target;
    lmc_status status = LMC_OK;
    if (stat(location, &target) != 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
            LMC_WARNING("Runtime plugin location %s does not exist", location);
        else
            LMC_WARNING("Runtime plugin location %s cannot be looked at: %s", location,
                        strerror(errno));
    } else if (S_ISREG(target.st_mode)) {
        status = add_file(&found, joined(location, NULL), false);
    } else if (S_ISDIR(target.st_mode)) {
        status = walk(&found, location, 0);
        if (found.count > 1)
            qsort(found.items, found.count, sizeof *found.items, by_kind_then_path);
        if (status == LMC_OK)
            LMC_INFO("Runtime plugin location %s: %zu file%s", location, found.count,
                     found.count == 1 ? "" : "s");
    }
    if (status == LMC_OK)
        status = move_all(files, &found);
    lmc_plugin_files_fini(&found);
    return status == LMC_OK ? LMC_OK
                            : lmc_error_set(error, status, "no memory for runtime plugins");
}
