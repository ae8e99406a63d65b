/*
 * python_text.h: values as the original's messages print them, and numbers as its options read
 * them.
 *
 * Scripts search for these texts. Pure functions; any thread.
 */
#ifndef LMC_CONFIG_PYTHON_TEXT_H
#define LMC_CONFIG_PYTHON_TEXT_H

#include "base/bytes.h"

/* repr() of a string: quoted, escaped; bytes that are not UTF-8 print as \udcXX. */
void lmc_repr_text(lmc_buffer *out, lmc_slice text);
/* repr() of a float: 10.0, 1e-05, inf, nan; never more digits than needed to read it back. */
void lmc_repr_float(lmc_buffer *out, double value);

/* int() and float() of a text: blanks around, `_` between digits. False: not a number. */
bool lmc_read_int(const char *text, int64_t *value); /* also false beyond 64 bits */
bool lmc_read_float(const char *text, double *value);

#endif
