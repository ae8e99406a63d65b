/* Load and refuse: the module's data, whole and damaged. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "module_test/kit.h"

#define FUTURE_MAJOR (LMC_ABI_MAJOR + 1)

static const char *path_of(const lmc_kit *kit) { return kit->paths[kit->path_count - 1]; }

/* ---- modules in Python: what they have is known while they are built ---- */

/* A copy of the file's, or NULL. */
static void *keep(lmc_native_file *file, const void *from, size_t size) {
    void **tables = realloc(file->tables, (file->table_count + 1) * sizeof *tables);
    void *copy = malloc(size);
    if (tables != NULL)
        file->tables = tables;
    if (tables == NULL || copy == NULL) {
        free(copy);
        return NULL;
    }
    memcpy(copy, from, size);
    file->tables[file->table_count++] = copy;
    return copy;
}

static bool keep_class(lmc_native_file *file, const lmc_module_class *from) {
    lmc_module_class *class = &file->classes[file->class_count++];
    size_t count = 0;
    *class = *from;
    class->name = keep(file, from->name, strlen(from->name) + 1);
    while (from->envelopes != NULL && from->envelopes[count].method != NULL)
        count++;
    lmc_envelope *envelopes = keep(file, from->envelopes, (count + 1) * sizeof *envelopes);
    class->envelopes = envelopes;
    for (size_t i = 0; envelopes != NULL && i < count; i++)
        envelopes[i].method =
            keep(file, from->envelopes[i].method, strlen(from->envelopes[i].method) + 1);
    count = 0;
    while (from->operations != NULL && from->operations[count].name != NULL)
        count++;
    class->operations = keep(file, from->operations, (count + 1) * sizeof *from->operations);
    return class->name != NULL && envelopes != NULL && class->operations != NULL;
}

typedef struct kept_classes {
    lmc_native_file *file;
    bool failed;
} kept_classes;

static void keep_python(void *arg, const lmc_module_row *row) {
    kept_classes *kept = arg;
    lmc_native_file *file = kept->file;
    if (strcmp(row->origin, "python") != 0 || kept->failed)
        return;
    lmc_module_class *classes =
        realloc(file->classes, (file->class_count + 1) * sizeof *classes);
    if (classes != NULL)
        file->classes = classes;
    kept->failed = classes == NULL || !keep_class(file, row->class);
}

static void load_python(lmc_kit *kit) {
    lmc_log_set_level("lmcache", LMC_LOG_ERROR); /* where its author's code fails */
    lmc_rehearsal *rehearsal = lmc_kit_open(kit);
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    kept_classes kept = {.file = calloc(1, sizeof *kept.file)};
    if (rehearsal != NULL && kept.file != NULL)
        lmc_rehearsal_each(rehearsal, keep_python, &kept);
    lmc_kit_close(kit, rehearsal);
    kit->file = kept.file;
    if (rehearsal == NULL || kept.failed) {
        lmc_native_free(kit->file);
        kit->file = NULL;
    }
}

/* ---- shared objects ---- */

void lmc_kit_load(lmc_kit *kit) {
    lmc_violations violations = {0};
    if (lmc_kit_is_python(kit)) {
        load_python(kit);
        return;
    }
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_native_open(path_of(kit), &kit->file, &violations, &error) != LMC_OK)
        for (size_t i = 0; i < violations.count; i++)
            lmc_kit_complain(kit, violations.items[i].fix, "%s", violations.items[i].text);
    lmc_violations_fini(&violations);
}

static const lmc_module_image *image_of(const lmc_kit *kit) {
    const char *path = path_of(kit);
    lmc_buffer name = LMC_BUFFER_INIT;
    lmc_buffer_printf(&name, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    void *handle = name.failed ? NULL : dlopen(name.data, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    lmc_buffer_fini(&name);
    return handle != NULL ? dlsym(handle, LMC_MODULE_SYMBOL) : NULL;
}

/* The damaged image must be refused, by file name and with this text. */
static void expect_refusal(lmc_kit *kit, const lmc_module_image *image, const char *text) {
    lmc_violations violations = {0};
    lmc_native_check(path_of(kit), image, &violations);
    bool refused = violations.count > 0 &&
                   strstr(violations.items[0].text, path_of(kit)) != NULL &&
                   strstr(violations.items[0].text, text) != NULL;
    if (!refused)
        lmc_kit_complain(kit, "report this: it is the server's fault", "expected a refusal: %s",
                         text);
    lmc_violations_fini(&violations);
}

void lmc_kit_refuse(lmc_kit *kit) {
    if (lmc_kit_is_python(kit))
        return; /* there is no image that could be damaged */
    static void *slot;
    static const lmc_import none[] = {{"lmc_from_the_future", &slot, 1, 99}, {0}};
    const lmc_module_image *image = image_of(kit);
    if (image == NULL) {
        lmc_kit_complain(kit, "run the kit again", "the module is not loaded any more");
        return;
    }
    lmc_module_image damaged = *image;
    damaged.magic++;
    expect_refusal(kit, &damaged, "is no lmcached module");
    damaged = *image;
    damaged.abi_major = FUTURE_MAJOR;
    expect_refusal(kit, &damaged, "was built for module ABI");
    damaged = *image;
    damaged.imports = none;
    damaged.import_size = sizeof none[0];
    expect_refusal(kit, &damaged, "needs the function 'lmc_from_the_future'");
}
