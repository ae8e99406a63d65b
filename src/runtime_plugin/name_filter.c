#include "runtime_plugin/name_filter.h"

#include <stdio.h>
#include <strings.h>

#include "runtime_plugin/discovery.h"

static bool same_word(lmc_slice part, const char *word) {
    return part.size == strlen(word) && strncasecmp(part.data, word, part.size) == 0;
}

static bool is_number(lmc_slice part) {
    const char *text = part.data;
    for (size_t i = 0; i < part.size; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return part.size > 0;
}

/* Compares digits, so that no number is too long. */
static bool is_this_number(lmc_slice part, int64_t number) {
    char digits[24];
    const char *text = part.data;
    size_t size = part.size;
    for (; size > 1 && *text == '0'; text++)
        size--;
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return length > 0 && (size_t)length == size && memcmp(digits, text, size) == 0;
}

lmc_plugin_verdict lmc_plugin_filter(const char *file_name, const char *role, int64_t worker_id,
                                     lmc_slice *part) {
    size_t size = (size_t)(lmc_plugin_suffix(file_name) - file_name);
    lmc_slice parts[3] = {{NULL, 0}};
    size_t count = 0;
    *part = (lmc_slice){NULL, 0};
    for (size_t at = 0; count < 3 && at <= size; count++) {
        size_t end = at;
        while (end < size && file_name[end] != '_')
            end++;
        parts[count] = lmc_slice_of(file_name + at, end - at);
        at = end + 1;
    }
    if (count >= 2 && role != NULL && *role != '\0' && !same_word(parts[0], role) &&
        !same_word(parts[0], "all")) {
        *part = parts[0];
        return LMC_PLUGIN_OTHER_ROLE;
    }
    if (count >= 3 && is_number(parts[1]) && !is_this_number(parts[1], worker_id)) {
        *part = parts[1];
        return LMC_PLUGIN_OTHER_WORKER;
    }
    return LMC_PLUGIN_RUNS;
}
