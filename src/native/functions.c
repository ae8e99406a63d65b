/* The functions that modules may import: all that lmcached/module.h declares. */
#include <string.h>

#include "native/native.h"

uint32_t lmc_abi_minor(void) { return LMC_ABI_MINOR; }

void (*lmc_native_function(const char *name))(void) {
#define ROW(function, since) {#function, (void (*)(void))function},
    static const struct {
        const char *name;
        void (*function)(void);
    } rows[] = {LMC_FUNCTIONS(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].function;
    return NULL;
}
