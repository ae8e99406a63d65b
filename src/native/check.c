/* What can be wrong with a module's data, from its first word to its last handler. */
#include <string.h>

#include "native/native.h"
#include "rpc/rpc.h"

#define NAME_MAX_BYTES 64
#define ROWS_MAX 4096 /* of any list; more is taken for a list that does not end */
#define STRUCT_MAX 4096
#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define REBUILD "rebuild it with this server's lmcached/module.h"
#define NEWER "run it on a newer server, or " REBUILD

typedef struct checking {
    const char *path;
    const lmc_module_image *image;
    lmc_violations *violations;
} checking;

#define VIOLATION(c, fix, format, ...) \
    lmc_violations_add((c)->violations, fix, "server module %s" format, (c)->path, __VA_ARGS__)

/* ---- the image ---- */

static bool check_head(const checking *c) {
    const lmc_module_image *image = c->image;
    if (image->magic != LMC_MODULE_MAGIC) {
        VIOLATION(c, "use the symbol for LMC_MODULE only",
                  " is no lmcached module: its symbol '%s' begins with 0x%08x, needs 0x%08x",
                  LMC_MODULE_SYMBOL, (unsigned)image->magic, LMC_MODULE_MAGIC);
        return false;
    }
    if (image->abi_major != LMC_ABI_MAJOR) {
        VIOLATION(c, REBUILD,
                  " was built for module ABI %u.%u; this server has %d.%d and needs major %d",
                  (unsigned)image->abi_major, (unsigned)image->abi_minor, LMC_ABI_MAJOR,
                  LMC_ABI_MINOR, LMC_ABI_MAJOR);
        return false;
    }
    if (image->size < END_OF(lmc_module_image, imports) || image->size > STRUCT_MAX) {
        VIOLATION(c, REBUILD, ": its module data has %u bytes, needs at least %zu",
                  (unsigned)image->size, END_OF(lmc_module_image, imports));
        return false;
    }
    return true;
}

static bool check_stride(const checking *c, const char *what, uint32_t size, size_t least) {
    if (size >= least && size <= STRUCT_MAX && size % sizeof(void *) == 0)
        return true;
    VIOLATION(c, REBUILD, ": its %s struct has %u bytes, needs at least %zu", what,
              (unsigned)size, least);
    return false;
}

static bool check_image(const checking *c) {
    const lmc_module_image *image = c->image;
    lmc_module_image known;
    bool right = check_stride(c, "lmc_operation", image->operation_size, sizeof(lmc_operation));
    right &= check_stride(c, "lmc_envelope", image->envelope_size, sizeof(lmc_envelope));
    right &= check_stride(c, "lmc_liveness", image->liveness_size, sizeof(lmc_liveness));
    right &= check_stride(c, "lmc_import", image->import_size, sizeof(lmc_import));
    if (!lmc_native_take(&known, sizeof known, image, image->size) || image->flags != 0 ||
        image->reserved != 0) {
        VIOLATION(c, NEWER,
                  ": its module data has flags or members that this server (module ABI %d.%d) "
                  "does not know; it was built for %u.%u",
                  LMC_ABI_MAJOR, LMC_ABI_MINOR, (unsigned)image->abi_major,
                  (unsigned)image->abi_minor);
        right = false;
    }
    if (image->classes == NULL || image->classes[0] == NULL) {
        VIOLATION(c, "name them: LMC_MODULE(&your_class);", " defines no module class%s", "");
        right = false;
    }
    return right;
}

static void check_import(const checking *c, const lmc_import *import) {
    if (import->slot == NULL) {
        VIOLATION(c, "leave the list of imports to LMC_MODULE",
                  ": its import '%s' has nowhere to go", import->name);
    } else if (import->required != 0 && lmc_native_function(import->name) == NULL) {
        VIOLATION(
            c, "run it on a newer server, or build it with a smaller LMC_MODULE_NEEDS_MINOR",
            " needs the function '%s' of module ABI %d.%u; this server has %d.%d", import->name,
            LMC_ABI_MAJOR, (unsigned)import->since, LMC_ABI_MAJOR, LMC_ABI_MINOR);
    }
}

static void check_imports(const checking *c) {
    const char *at = (const char *)c->image->imports;
    for (size_t i = 0; at != NULL; i++, at += c->image->import_size) {
        lmc_import import;
        lmc_native_take(&import, sizeof import, at, c->image->import_size);
        if (import.name == NULL)
            return;
        if (i == ROWS_MAX) {
            VIOLATION(c, "leave the list of imports to LMC_MODULE",
                      ": its list of imports does not end%s", "");
            return;
        }
        check_import(c, &import);
    }
}

/* ---- one class ---- */

static bool is_class_name(const char *name) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t size = name != NULL ? strlen(name) : 0;
    return size > 0 && size <= NAME_MAX_BYTES && strspn(name, letters) == size &&
           (name[0] < '0' || name[0] > '9');
}

static void check_operation(const checking *c, const char *class_name,
                            const lmc_operation *entry, bool known) {
    if (lmc_operation_by_name(lmc_text(entry->name)) == NULL)
        VIOLATION(c, "a module replaces handlers of operations; offer new calls as envelopes",
                  ": %s: unknown operation '%s'", class_name, entry->name);
    if (entry->handle == NULL)
        VIOLATION(c, "set `handle`", ": %s: operation '%s' has no handler function", class_name,
                  entry->name);
    if (entry->scheduling > LMC_AFFINITY)
        VIOLATION(c, "use LMC_SYNC, LMC_NORMAL or LMC_AFFINITY",
                  ": %s: operation '%s': Non-blocking handler is not supported yet", class_name,
                  entry->name);
    if (!known || entry->flags != 0 || entry->reserved[0] != NULL || entry->reserved[1] != NULL)
        VIOLATION(c, "leave flags and reserved members 0, or " NEWER,
                  ": %s: operation '%s' has flags or members that this server does not know",
                  class_name, entry->name);
}

static bool is_repeated(const char *rows, size_t stride, size_t index) {
    const char *name, *earlier;
    memcpy(&name, rows + index * stride, sizeof name);
    for (size_t i = 0; i < index; i++) {
        memcpy(&earlier, rows + i * stride, sizeof earlier);
        if (strcmp(name, earlier) == 0)
            return true;
    }
    return false;
}

static void check_operations(const checking *c, const lmc_module_class *class) {
    const char *rows = (const char *)class->operations;
    size_t stride = c->image->operation_size;
    for (size_t i = 0; rows != NULL && i < ROWS_MAX; i++) {
        lmc_operation entry;
        bool known = lmc_native_take(&entry, sizeof entry, rows + i * stride, stride);
        if (entry.name == NULL)
            return;
        check_operation(c, class->name, &entry, known);
        if (is_repeated(rows, stride, i))
            VIOLATION(c, "name each operation once", ": %s has multiple handlers for '%s'",
                      class->name, entry.name);
    }
    if (rows != NULL)
        VIOLATION(c, "end it with an entry whose name is NULL",
                  ": the operations of %s do not end", class->name);
}

static void check_envelope(const checking *c, const char *class_name, const lmc_envelope *entry,
                           bool known) {
    if (strchr(entry->method, '.') == NULL)
        VIOLATION(c, "name it after the module: \"hello.greet\"",
                  ": server module handler method must be namespaced (%s: '%s')", class_name,
                  entry->method);
    if (entry->handle == NULL)
        VIOLATION(c, "set `handle`", ": %s has no handler for server module method %s",
                  class_name, entry->method);
    if (!known || entry->reserved[0] != NULL || entry->reserved[1] != NULL)
        VIOLATION(c, "leave reserved members 0, or " NEWER,
                  ": %s: method %s has members that this server does not know", class_name,
                  entry->method);
}

static void check_envelopes(const checking *c, const lmc_module_class *class) {
    const char *rows = (const char *)class->envelopes;
    size_t stride = c->image->envelope_size;
    for (size_t i = 0; rows != NULL && i < ROWS_MAX; i++) {
        lmc_envelope entry;
        bool known = lmc_native_take(&entry, sizeof entry, rows + i * stride, stride);
        if (entry.method == NULL)
            return;
        check_envelope(c, class->name, &entry, known);
        if (is_repeated(rows, stride, i))
            VIOLATION(c, "name each method once", ": duplicate server module method: %s",
                      entry.method);
    }
    if (rows != NULL)
        VIOLATION(c, "end it with an entry whose method is NULL",
                  ": the envelopes of %s do not end", class->name);
}

static void check_liveness(const checking *c, const lmc_module_class *class) {
    lmc_liveness table;
    if (class->liveness == NULL)
        return;
    bool known =
        lmc_native_take(&table, sizeof table, class->liveness, c->image->liveness_size);
    if (table.touch_instance == NULL || table.reap_stale_instances == NULL ||
        table.tracked_instance_count == NULL || table.drop_instance_state == NULL)
        VIOLATION(c, "set all four functions", ": %s has an incomplete liveness table",
                  class->name);
    if (!known || table.reserved[0] != NULL || table.reserved[1] != NULL)
        VIOLATION(c, "leave reserved members 0, or " NEWER,
                  ": the liveness table of %s has members that this server does not know",
                  class->name);
}

static void check_depends(const checking *c, const lmc_module_class *class) {
    for (size_t i = 0; class->depends != NULL && class->depends[i] != NULL; i++) {
        if (i == ROWS_MAX) {
            VIOLATION(c, "end it with NULL", ": the dependencies of %s do not end",
                      class->name);
            return;
        }
        if (!is_class_name(class->depends[i]))
            VIOLATION(c, "name the class, for example \"LookupModule\"",
                      ": %s has an invalid dependency: '%s'", class->name, class->depends[i]);
    }
}

/* The members of the class; false: it cannot be looked into. */
static bool check_shape(const checking *c, const lmc_module_class *class, size_t index) {
    lmc_module_class known;
    if (class->size < END_OF(lmc_module_class, create) || class->size > STRUCT_MAX) {
        VIOLATION(c, "set `size` to sizeof(lmc_module_class)",
                  ": the struct of class %zu has %u bytes, needs at least %zu", index + 1,
                  (unsigned)class->size, END_OF(lmc_module_class, create));
        return false;
    }
    if (!is_class_name(class->name)) {
        VIOLATION(c, "use up to 64 letters, digits and '_', not a digit first",
                  ": class %zu has no valid name: '%s'", index + 1,
                  class->name != NULL ? class->name : "");
        return false;
    }
    if (!lmc_native_take(&known, sizeof known, class, class->size))
        VIOLATION(c, NEWER,
                  ": %s uses members of lmc_module_class that this server does not know: its "
                  "struct has %u bytes (module ABI %u.%u), the server's %zu (%d.%d)",
                  class->name, (unsigned)class->size, (unsigned)c->image->abi_major,
                  (unsigned)c->image->abi_minor, sizeof known, LMC_ABI_MAJOR, LMC_ABI_MINOR);
    return true;
}

static void check_class(const checking *c, size_t index) {
    const lmc_module_class *from = c->image->classes[index];
    lmc_module_class class;
    if (!check_shape(c, from, index))
        return;
    lmc_native_take(&class, sizeof class, from, from->size);
    if ((class.flags & ~LMC_MODULE_DEFERRED) != 0)
        VIOLATION(c, "leave `flags` 0 or LMC_MODULE_DEFERRED, or " NEWER,
                  ": %s has unknown flags 0x%x", class.name, (unsigned)class.flags);
    if (class.create == NULL)
        VIOLATION(c, "set `create`", ": %s cannot be created: it has no create function",
                  class.name);
    check_depends(c, &class);
    check_operations(c, &class);
    check_envelopes(c, &class);
    check_liveness(c, &class);
}

void lmc_native_check(const char *path, const lmc_module_image *image,
                      lmc_violations *violations) {
    checking c = {.path = path, .image = image, .violations = violations};
    if (!check_head(&c) || !check_image(&c))
        return;
    check_imports(&c);
    for (size_t i = 0; image->classes[i] != NULL; i++) {
        if (i == ROWS_MAX) {
            VIOLATION(&c, "end it with NULL", ": its list of classes does not end%s", "");
            return;
        }
        check_class(&c, i);
    }
}
