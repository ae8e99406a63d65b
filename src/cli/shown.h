/*
 * shown.h: texts that came from elsewhere, for a terminal.
 *
 * A model's, a plugin's or a server's name may hold anything, escape sequences that clear a
 * screen or retitle a window among it. Any thread.
 */
#ifndef LMC_CLI_SHOWN_H
#define LMC_CLI_SHOWN_H

#include "base/bytes.h"

/* Appends the text; control characters but tabs become \xNN, as in the log. */
void lmc_shown(lmc_buffer *out, lmc_slice text);

#endif
