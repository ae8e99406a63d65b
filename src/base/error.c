#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Steps back over a UTF-8 sequence that the buffer's end has cut in two. */
static void trim_partial_character(char *text, size_t length) {
    size_t at = length;
    while (at > 0 && length - at < 4 && ((unsigned char)text[at - 1] & 0xC0) == 0x80)
        at--;
    if (at == 0)
        return;
    unsigned char lead = (unsigned char)text[at - 1];
    size_t expected = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (expected > length - at + 1)
        text[at - 1] = '\0';
}

__attribute__((format(printf, 3, 0))) static void vset(lmc_error *error, lmc_status status,
                                                       const char *format, va_list args) {
    error->status = status;
    int wanted = vsnprintf(error->text, sizeof error->text, format, args);
    if (wanted < 0)
        error->text[0] = '\0';
    else if ((size_t)wanted >= sizeof error->text)
        trim_partial_character(error->text, sizeof error->text - 1);
}

lmc_status(lmc_error_set)(lmc_error *error, lmc_status status, const char *format, ...) {
    if (error == NULL || error->status != LMC_OK)
        return status;
    va_list args;
    va_start(args, format);
    vset(error, status, format, args);
    va_end(args);
    return status;
}

lmc_status(lmc_error_set_errno)(lmc_error *error, lmc_status status, int number,
                                const char *format, ...) {
    if (error == NULL || error->status != LMC_OK)
        return status;
    va_list args;
    va_start(args, format);
    vset(error, status, format, args);
    va_end(args);
    char reason[128];
    const char *known = strerror_r(number, reason, sizeof reason);
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used, ": %s", known);
    return status;
}

void lmc_error_clear(lmc_error *error) {
    if (error == NULL)
        return;
    error->status = LMC_OK;
    error->text[0] = '\0';
}

const char *lmc_status_name(lmc_status status) {
    switch (status) {
    case LMC_OK:
        return "ok";
    case LMC_DECLINED:
        return "declined";
    case LMC_AGAIN:
        return "again";
    case LMC_FAILED:
        return "failed";
    case LMC_NO_MEMORY:
        return "no memory";
    case LMC_INVALID:
        return "invalid";
    case LMC_MALFORMED:
        return "malformed";
    case LMC_NOT_FOUND:
        return "not found";
    case LMC_BUSY:
        return "busy";
    case LMC_CLOSED:
        return "closed";
    case LMC_TIMEOUT:
        return "timeout";
    default:
        return status > 0 ? "outcome unknown" : "failure unknown";
    }
}
