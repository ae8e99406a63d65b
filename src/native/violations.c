#include "native/violations.h"

#include <stdlib.h>

void lmc_violations_add(lmc_violations *violations, const char *fix, const char *format, ...) {
    lmc_violation *items =
        realloc(violations->items, (violations->count + 1) * sizeof *violations->items);
    lmc_buffer text = LMC_BUFFER_INIT;
    va_list args;
    if (items == NULL) {
        violations->failed = true;
        return;
    }
    violations->items = items;
    va_start(args, format);
    lmc_buffer_vprintf(&text, format, args);
    va_end(args);
    lmc_violation added = {.text = lmc_buffer_take(&text), .fix = strdup(fix)};
    if (added.text != NULL && added.fix != NULL) {
        items[violations->count++] = added;
        return;
    }
    free(added.text);
    free(added.fix);
    violations->failed = true;
}

void lmc_violations_fini(lmc_violations *violations) {
    for (size_t i = 0; i < violations->count; i++) {
        free(violations->items[i].text);
        free(violations->items[i].fix);
    }
    free(violations->items);
    *violations = (lmc_violations){0};
}
