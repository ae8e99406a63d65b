#include "cli/shown.h"

/* How many bytes at the begin of the text are one control character. */
static size_t control_length(const unsigned char *at, size_t left) {
    if (at[0] == '\t')
        return 0;
    if (at[0] < 0x20 || at[0] == 0x7f)
        return 1;
    return at[0] == 0xc2 && left > 1 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

void lmc_shown(lmc_buffer *out, lmc_slice text) {
    const unsigned char *bytes = text.data;
    for (size_t at = 0; at < text.size;) {
        size_t length = control_length(bytes + at, text.size - at);
        if (length == 0)
            lmc_buffer_char(out, (char)bytes[at++]);
        for (; length > 0; length--)
            lmc_buffer_printf(out, "\\x%02x", bytes[at++]);
    }
}
