#include "config/python_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/json_writer.h"

static void repr_ascii(lmc_buffer *out, unsigned char c, unsigned char quote) {
    if (c == '\\' || c == quote)
        lmc_buffer_printf(out, "\\%c", c);
    else if (c == '\n' || c == '\r' || c == '\t')
        lmc_buffer_text(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (c < 0x20 || c == 0x7f)
        lmc_buffer_printf(out, "\\x%02x", c);
    else
        lmc_buffer_char(out, (char)c);
}

void lmc_repr_text(lmc_buffer *out, lmc_slice text) {
    const unsigned char *at = text.data;
    bool single = text.size > 0 && memchr(at, '\'', text.size) != NULL;
    bool both = single && memchr(at, '"', text.size) != NULL;
    char quote = single && !both ? '"' : '\'';
    lmc_buffer_char(out, quote);
    for (size_t i = 0; i < text.size;) {
        size_t length = lmc_utf8_length(at + i, text.size - i);
        if (length == 0)
            lmc_buffer_printf(out, "\\udc%02x", at[i]);
        else if (length == 1)
            repr_ascii(out, at[i], (unsigned char)quote);
        else if (at[i] == 0xc2 && at[i + 1] <= 0xa0) /* C1 controls and the no-break space */
            lmc_buffer_printf(out, "\\x%02x", at[i + 1]);
        else
            lmc_buffer_append(out, at + i, length);
        i += length == 0 ? 1 : length;
    }
    lmc_buffer_char(out, quote);
}

void lmc_repr_float(lmc_buffer *out, double value) {
    char text[LMC_REAL_TEXT_MAX];
    lmc_buffer_append(out, text, lmc_real_text(value, text));
}

/* Copies the number without blanks around it and without `_` between digits; false when longer.
 */
static bool plain_number(const char *text, char *out, size_t room) {
    size_t used = 0;
    while (isspace((unsigned char)*text))
        text++;
    size_t size = strlen(text);
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        size--;
    for (size_t i = 0; i < size; i++) {
        bool between = i > 0 && i + 1 < size && isdigit((unsigned char)text[i - 1]) &&
                       isdigit((unsigned char)text[i + 1]);
        if (text[i] == '_' && between)
            continue;
        if (used + 1 >= room)
            return false;
        out[used++] = text[i];
    }
    out[used] = '\0';
    return used > 0;
}

bool lmc_read_int(const char *text, int64_t *value) {
    char number[64];
    if (!plain_number(text, number, sizeof number))
        return false;
    const char *digits = number + (number[0] == '-' || number[0] == '+');
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    errno = 0;
    long long read = strtoll(number, NULL, 10);
    if (errno != 0 || read == INT64_MIN) /* the smallest stands for "unset" */
        return false;
    *value = read;
    return true;
}

static bool is_special_float(const char *number) {
    const char *name = number + (number[0] == '-' || number[0] == '+');
    return strcasecmp(name, "inf") == 0 || strcasecmp(name, "infinity") == 0 ||
           strcasecmp(name, "nan") == 0;
}

bool lmc_read_float(const char *text, double *value) {
    char number[512];
    char *end = NULL;
    if (!plain_number(text, number, sizeof number))
        return false;
    /* strtod also knows hexadecimal numbers and nan(...), float() does not. */
    if (!is_special_float(number) && number[strspn(number, "0123456789.eE+-")] != '\0')
        return false;
    double read = strtod(number, &end);
    if (end == number || *end != '\0')
        return false;
    *value = read;
    return true;
}
