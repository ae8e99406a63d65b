/*
 * violations.h: what is wrong with a module, each with what to do about it.
 *
 * The list owns its texts. One thread.
 */
#ifndef LMC_NATIVE_VIOLATIONS_H
#define LMC_NATIVE_VIOLATIONS_H

#include "base/bytes.h"

typedef struct lmc_violation {
    char *text, *fix;
} lmc_violation;

typedef struct lmc_violations {
    lmc_violation *items;
    size_t count;
    bool failed; /* out of memory: some are missing */
} lmc_violations;

/* Appends one; `fix` is copied. */
void lmc_violations_add(lmc_violations *violations, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void lmc_violations_fini(lmc_violations *violations);

#endif
