#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "native/native.h"

/* ---- the file ---- */

static const char *fix_of(const char *path) {
    struct stat info;
    size_t size = strlen(path);
    if (stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return "there is no such file: give its path, from the root or from the folder in "
               "which "
               "the program is started";
    if (size > 3 && strcmp(path + size - 3, ".py") == 0)
        return "name a module in Python as an import does, with dots and without .py, and its "
               "folder in PYTHONPATH";
    return "give the path of a shared object that is complete by itself: a module links its "
           "own "
           "libraries and nothing of the server";
}

static const lmc_module_image *open_image(const char *path, lmc_violations *violations) {
    lmc_buffer name = LMC_BUFFER_INIT;
    lmc_buffer_printf(&name, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    void *handle = name.failed ? NULL : dlopen(name.data, RTLD_NOW | RTLD_LOCAL);
    lmc_buffer_fini(&name);
    if (handle == NULL) {
        const char *cause = dlerror();
        lmc_violations_add(violations, fix_of(path), "server module %s cannot be loaded: %s",
                           path, cause != NULL ? cause : "out of memory");
        return NULL;
    }
    const lmc_module_image *image = dlsym(handle, LMC_MODULE_SYMBOL);
    if (image == NULL)
        lmc_violations_add(violations,
                           "name its classes in one source file: LMC_MODULE(&your_class);",
                           "server module %s is no lmcached module: it has no symbol '%s'",
                           path, LMC_MODULE_SYMBOL);
    return image;
}

void lmc_native_link(const lmc_module_image *image) {
    for (const char *at = (const char *)image->imports; at != NULL; at += image->import_size) {
        lmc_import import;
        lmc_native_take(&import, sizeof import, at, image->import_size);
        if (import.name == NULL)
            return;
        void (*function)(void) = lmc_native_function(import.name);
        memcpy(import.slot, &function, sizeof function);
    }
}

/* ---- copies in the server's form ---- */

bool lmc_native_take(void *to, size_t known, const void *from, size_t size) {
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    for (size_t i = known; i < size; i++)
        if (((const char *)from)[i] != 0)
            return false;
    return true;
}

/* Elements before the one whose first member, a pointer, is NULL. */
static size_t count_rows(const void *rows, size_t stride) {
    size_t count = 0;
    const char *first = NULL;
    for (const char *at = rows; at != NULL; at += stride, count++) {
        memcpy(&first, at, sizeof first);
        if (first == NULL)
            break;
    }
    return count;
}

/* A copy with the server's stride, kept in file->tables; NULL: no memory, or nothing there. */
static void *copy_rows(lmc_native_file *file, const void *rows, size_t stride, size_t known,
                       bool *failed) {
    if (rows == NULL)
        return NULL;
    size_t count = count_rows(rows, stride);
    char *copy = calloc(count + 1, known);
    if (copy == NULL) {
        *failed = true;
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        lmc_native_take(copy + i * known, known, (const char *)rows + i * stride, stride);
    file->tables[file->table_count++] = copy;
    return copy;
}

static bool copy_class(lmc_native_file *file, const lmc_module_image *image, size_t index) {
    const lmc_module_class *from = image->classes[index];
    lmc_module_class *class = &file->classes[index];
    bool failed = false;
    lmc_native_take(class, sizeof *class, from, from->size);
    class->size = sizeof *class;
    class->operations = copy_rows(file, class->operations, image->operation_size,
                                  sizeof(lmc_operation), &failed);
    class->envelopes =
        copy_rows(file, class->envelopes, image->envelope_size, sizeof(lmc_envelope), &failed);
    if (class->liveness != NULL) {
        lmc_liveness *liveness = calloc(1, sizeof *liveness);
        if (liveness == NULL)
            return false;
        lmc_native_take(liveness, sizeof *liveness, class->liveness, image->liveness_size);
        file->tables[file->table_count++] = liveness;
        class->liveness = liveness;
    }
    return !failed;
}

lmc_status lmc_native_copy(const lmc_module_image *image, lmc_native_file *file) {
    size_t count = 0;
    while (image->classes[count] != NULL)
        count++;
    file->abi_major = image->abi_major;
    file->abi_minor = image->abi_minor;
    file->built_with = image->built_with;
    file->classes = calloc(count + 1, sizeof *file->classes);
    file->tables = calloc(3 * count + 1, sizeof *file->tables);
    bool copied = file->classes != NULL && file->tables != NULL;
    for (; copied && file->class_count < count; file->class_count++)
        copied = copy_class(file, image, file->class_count);
    return copied ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_native_free(lmc_native_file *file) {
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->table_count; i++)
        free(file->tables[i]);
    free(file->tables);
    free(file->classes);
    free(file->path);
    free(file);
}

/* ---- all of it ---- */

static lmc_status open_file(const char *path, lmc_native_file **file,
                            lmc_violations *violations, lmc_error *error) {
    const lmc_module_image *image = open_image(path, violations);
    if (image != NULL)
        lmc_native_check(path, image, violations);
    if (violations->count > 0)
        return lmc_error_set(error, LMC_INVALID, "%s", violations->items[0].text);
    lmc_native_file *made = calloc(1, sizeof *made);
    lmc_status status = violations->failed || made == NULL ? LMC_NO_MEMORY : LMC_OK;
    if (status == LMC_OK && (made->path = strdup(path)) == NULL)
        status = LMC_NO_MEMORY;
    if (status == LMC_OK)
        status = lmc_native_copy(image, made);
    if (status != LMC_OK) {
        lmc_native_free(made);
        return lmc_error_set(error, status, "no memory for server module %s", path);
    }
    lmc_native_link(image);
    *file = made;
    return LMC_OK;
}

lmc_status lmc_native_open(const char *path, lmc_native_file **file, lmc_violations *violations,
                           lmc_error *error) {
    lmc_violations own = {0};
    *file = NULL;
    lmc_status status = open_file(path, file, violations != NULL ? violations : &own, error);
    lmc_violations_fini(&own);
    return status;
}
