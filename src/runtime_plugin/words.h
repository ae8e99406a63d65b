/*
 * words.h: a line split into words, as `env -S` splits it.
 *
 * Blanks separate; single and double quotes and backslashes keep them. The words are copies;
 * give them back with lmc_words_fini(). One thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_WORDS_H
#define LMC_RUNTIME_PLUGIN_WORDS_H

#include "base/bytes.h"

#define LMC_WORDS_MAX 33

typedef struct lmc_words {
    lmc_slice items[LMC_WORDS_MAX];
    size_t count;
    char *memory;
} lmc_words;

/*
 * An env option -S (also --split-string) as second word is dropped: what follows it is split
 * anyway. False: no memory, too many words, or a quote without end; nothing is to be given
 * back.
 */
bool lmc_words_split(lmc_words *words, lmc_slice text);
void lmc_words_fini(lmc_words *words);

#endif
