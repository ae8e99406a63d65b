/*
 * error.h: status plus a sentence for a person.
 *
 * The caller owns the lmc_error, usually on its stack, and may pass NULL when it does not care.
 * The first text set wins, so the place nearest to the cause describes it. Not shared by
 * threads.
 */
#ifndef LMC_BASE_ERROR_H
#define LMC_BASE_ERROR_H

#include <lmcached/types.h>

#define LMC_ERROR_TEXT_MAX 1024

struct lmc_error {
    lmc_status status; /* LMC_OK while nothing was set */
    char
        text[LMC_ERROR_TEXT_MAX]; /* terminated; longer texts are cut at a character boundary */
};

#define LMC_ERROR_INIT \
    { .status = LMC_OK, .text = "" }

/* Records status and text unless a failure is recorded already. Returns status, for `return`.
 */
lmc_status lmc_error_set(lmc_error *error, lmc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As lmc_error_set(), with ": <strerror(number)>" appended. */
lmc_status lmc_error_set_errno(lmc_error *error, lmc_status status, int number,
                               const char *format, ...) __attribute__((format(printf, 4, 5)));

#ifdef __clang_analyzer__ /* tells it, across files, which status comes back */
#define lmc_error_set(error, status, ...) \
    ((lmc_error_set)((error), (status), __VA_ARGS__), (status))
#define lmc_error_set_errno(error, status, ...) \
    ((lmc_error_set_errno)((error), (status), __VA_ARGS__), (status))
#endif

void lmc_error_clear(lmc_error *error);

/* Short name of a status ("ok", "no memory", ...), never NULL. */
const char *lmc_status_name(lmc_status status);

#endif
