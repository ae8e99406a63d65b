/*
 * native.h: loads modules from shared objects (lmcached/module.h says how one is made).
 *
 * A file is opened with RTLD_NOW | RTLD_LOCAL, checked, and its imports are filled in, all
 * before anything of it is called; it is never unloaded. Its classes are copied into the
 * server's own form, with members that the file's header did not know yet zero. Main thread.
 */
#ifndef LMC_NATIVE_NATIVE_H
#define LMC_NATIVE_NATIVE_H

#include <lmcached/module.h>

#include "native/violations.h"

typedef struct lmc_native_file {
    char *path; /* as it was given */
    uint32_t abi_major, abi_minor;
    const char *built_with;    /* may be NULL */
    lmc_module_class *classes; /* what they point to partly lies in `tables` */
    size_t class_count;
    void **tables;
    size_t table_count;
} lmc_native_file;

/*
 * Loads a file. On failure nothing of it has been called (but the constructors that loading
 * runs), *file is NULL and `violations` (may be NULL) lists all that is wrong; error has the
 * first. A path without '/' is one of the working directory.
 */
lmc_status lmc_native_open(const char *path, lmc_native_file **file, lmc_violations *violations,
                           lmc_error *error);
/* Frees what was copied, not what was loaded; accepts NULL. After the modules were closed. */
void lmc_native_free(lmc_native_file *file);

/* ---- parts of the above, also for tests ---- */

/* Lists what is wrong with an image; nothing is changed. */
void lmc_native_check(const char *path, const lmc_module_image *image,
                      lmc_violations *violations);
/* Fills in the functions; those that are missing become NULL. */
void lmc_native_link(const lmc_module_image *image);
/* Copies the classes of a checked image. LMC_NO_MEMORY. */
lmc_status lmc_native_copy(const lmc_module_image *image, lmc_native_file *file);

/* A function of the ABI by name; NULL: this server has none of that name. */
void (*lmc_native_function(const char *name))(void);

/*
 * Takes one step of an array in the module's stride: copies an element of `size` bytes into one
 * of `known` bytes, the rest zero. False: it has something that the server does not know.
 */
bool lmc_native_take(void *to, size_t known, const void *from, size_t size);

#endif
