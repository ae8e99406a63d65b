#include "cli/curl_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct symbol {
    const char *name;
    size_t offset;
} symbol;

#define SYMBOL(name) \
    { "curl_" #name, offsetof(lmc_curl_library, name) }

static const symbol symbols[] = {
    SYMBOL(global_init),  SYMBOL(easy_init),     SYMBOL(easy_setopt),  SYMBOL(easy_perform),
    SYMBOL(easy_getinfo), SYMBOL(easy_strerror), SYMBOL(easy_cleanup),
};

static lmc_status find_symbols(void *handle, lmc_curl_library *library, lmc_error *error) {
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (address == NULL)
            return lmc_error_set(error, LMC_NOT_FOUND, "libcurl has no function %s",
                                 symbols[i].name);
        /* An object pointer becomes a function pointer, as dlsym() is meant to be used. */
        memcpy((char *)library + symbols[i].offset, &address, sizeof address);
    }
    return LMC_OK;
}

const lmc_curl_library *lmc_curl_load(lmc_error *error) {
    static lmc_curl_library library;
    static bool loaded;
    if (loaded)
        return &library;
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        handle = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        lmc_error_set(error, LMC_NOT_FOUND,
                      "libcurl.so.4 is not installed; install the package libcurl4 (on newer "
                      "systems libcurl4t64)");
        return NULL;
    }
    if (find_symbols(handle, &library, error) != LMC_OK)
        return NULL;
    if (library.global_init(LMC_CURL_GLOBAL_DEFAULT) != 0) {
        lmc_error_set(error, LMC_FAILED, "libcurl does not start");
        return NULL;
    }
    loaded = true;
    return &library;
}
