/*
 * secret.h: the one rule for what is a secret (D10).
 *
 * Pure functions; any thread.
 */
#ifndef LMC_CONFIG_SECRET_H
#define LMC_CONFIG_SECRET_H

#include "base/json_writer.h"

#define LMC_SECRET_MASK "***"

/* password, secret, api_key, ... anywhere in the key, or `token` as its last word; any case. */
bool lmc_is_secret_key(lmc_slice key);
/* Appends the text with the password of every URL with user information replaced. */
void lmc_mask_urls(lmc_buffer *out, lmc_slice text);
/* The same as a JSON string. */
void lmc_json_masked_text(lmc_json_writer *writer, lmc_slice text);

#endif
