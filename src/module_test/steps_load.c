/* Load and refuse: the module's data, whole and damaged. */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "module_test/kit.h"

#define FUTURE_MAJOR (LMC_ABI_MAJOR + 1)

static const char *path_of(const lmc_kit *kit) { return kit->paths[kit->path_count - 1]; }

void lmc_kit_load(lmc_kit *kit) {
    lmc_violations violations = {0};
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
