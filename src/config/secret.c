#include "config/secret.h"

#include <ctype.h>
#include <string.h>

static bool contains(lmc_slice text, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (strncasecmp((const char *)text.data + i, word, size) == 0)
            return true;
    return false;
}

static bool last_word_is(lmc_slice text, const char *word) {
    const char *data = text.data;
    size_t start = text.size, size = strlen(word);
    while (start > 0 && strchr("_-.", data[start - 1]) == NULL)
        start--;
    return text.size - start == size && strncasecmp(data + start, word, size) == 0;
}

bool lmc_is_secret_key(lmc_slice key) {
    static const char *const words[] = {"password",   "passwd",  "secret", "credential",
                                        "access_key", "api_key", "apikey", "private_key"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (contains(key, words[i]))
            return true;
    return key.size > 0 && last_word_is(key, "token");
}

/* Finds scheme://user:PASSWORD@ from `from` on; false when there is none. */
static bool find_password(lmc_slice text, size_t from, size_t *start, size_t *end) {
    const char *data = text.data;
    for (size_t i = from; i + 3 <= text.size; i++) {
        if (memcmp(data + i, "://", 3) != 0 || i == 0 || !isalnum((unsigned char)data[i - 1]))
            continue;
        size_t stop = i + 3, colon = 0, at = 0;
        for (; stop < text.size && strchr("/?# \t\n\"'<>", data[stop]) == NULL; stop++) {
            if (data[stop] == '@')
                at = stop;
            else if (data[stop] == ':' && colon == 0)
                colon = stop;
        }
        if (colon == 0 || at < colon + 2)
            continue;
        *start = colon + 1;
        *end = at;
        return true;
    }
    return false;
}

void lmc_mask_urls(lmc_buffer *out, lmc_slice text) {
    size_t from = 0, start = 0, end = 0;
    while (find_password(text, from, &start, &end)) {
        lmc_buffer_append(out, (const char *)text.data + from, start - from);
        lmc_buffer_text(out, LMC_SECRET_MASK);
        from = end;
    }
    if (text.size > from)
        lmc_buffer_append(out, (const char *)text.data + from, text.size - from);
}

void lmc_json_masked_text(lmc_json_writer *writer, lmc_slice text) {
    lmc_buffer masked = LMC_BUFFER_INIT;
    size_t start = 0, end = 0;
    if (text.size == 0 || !find_password(text, 0, &start, &end)) {
        lmc_json_slice(writer, text);
        return;
    }
    lmc_mask_urls(&masked, text);
    if (masked.failed)
        writer->out->failed = true;
    lmc_json_slice(writer, lmc_slice_of(masked.data, masked.size));
    lmc_buffer_fini(&masked);
}
