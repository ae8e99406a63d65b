/*
 * option_value.h: reading, comparing, printing and freeing the field behind an option.
 *
 * Everything goes by the row's type and offset. Not thread safe; used while parsing.
 */
#ifndef LMC_CONFIG_OPTION_VALUE_H
#define LMC_CONFIG_OPTION_VALUE_H

#include "config/option_table.h"

/* The field of a row; the row's type says what it points to. */
void *lmc_option_field(lmc_config *config, const lmc_option *row);
const void *lmc_option_field_const(const lmc_config *config, const lmc_option *row);

/*
 * Sets a TEXT, INT, FLOAT, BOOL or OCTAL field from text. LMC_MALFORMED: the text is no such
 * value (nothing changes); LMC_NO_MEMORY.
 */
lmc_status lmc_option_set(lmc_config *config, const lmc_option *row, const char *text);
/* Puts the default into the field, which must hold no memory. */
lmc_status lmc_option_reset(lmc_config *config, const lmc_option *row);
void lmc_option_free(lmc_config *config, const lmc_option *row);

lmc_status lmc_text_list_add(lmc_text_list *list, const char *text);
void lmc_text_list_clear(lmc_text_list *list);

bool lmc_option_is_default(const lmc_config *config, const lmc_option *row);
/* The value as messages show it; nothing for lists. */
void lmc_option_print(lmc_buffer *out, const lmc_config *config, const lmc_option *row);
/* True when `value` is one of the comma separated words. */
bool lmc_word_in(const char *words, const char *value);

#endif
