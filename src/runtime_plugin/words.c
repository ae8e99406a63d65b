#include "runtime_plugin/words.h"

#include <stdlib.h>

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void lmc_words_fini(lmc_words *words) {
    free(words->memory);
    *words = (lmc_words){0};
}

/* Copies one word without its quotes; returns where it ends, NULL when a quote does not. */
static const char *copy_word(const char *at, const char *end, char **out) {
    char quote = '\0';
    for (; at < end && (quote != '\0' || !is_blank(*at)); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (quote != '\0' && *at == quote) {
            quote = '\0';
        } else {
            if (*at == '\\' && quote != '\'' && at + 1 < end)
                at++;
            *(*out)++ = *at;
        }
    }
    return quote == '\0' ? at : NULL;
}

static bool starts_with(lmc_slice word, const char *text) {
    return word.size >= strlen(text) && memcmp(word.data, text, strlen(text)) == 0;
}

static void drop_split_option(lmc_words *words) {
    if (words->count < 2)
        return;
    lmc_slice *option = &words->items[1];
    size_t dropped = starts_with(*option, "--split-string=")   ? strlen("--split-string=")
                     : starts_with(*option, "-S")              ? 2
                     : lmc_slice_is(*option, "--split-string") ? option->size
                                                               : 0;
    if (dropped == 0)
        return;
    *option = lmc_slice_of((const char *)option->data + dropped, option->size - dropped);
    if (option->size > 0)
        return;
    words->count--;
    memmove(option, option + 1, (words->count - 1) * sizeof *option);
}

bool lmc_words_split(lmc_words *words, lmc_slice text) {
    const char *at = text.data, *end = at + text.size;
    *words = (lmc_words){.memory = malloc(text.size + 1)};
    char *out = words->memory;
    while (out != NULL) {
        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            break;
        char *begin = out;
        at = words->count < LMC_WORDS_MAX ? copy_word(at, end, &out) : NULL;
        if (at == NULL) {
            lmc_words_fini(words);
            return false;
        }
        words->items[words->count++] = lmc_slice_of(begin, (size_t)(out - begin));
    }
    if (out != NULL)
        drop_split_option(words);
    return out != NULL;
}
