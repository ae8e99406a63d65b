#include "config/option_value.h"

#include <math.h>
#include <stdlib.h>

#include "config/python_text.h"

void *lmc_option_field(lmc_config *config, const lmc_option *row) {
    return (char *)config + row->offset;
}

const void *lmc_option_field_const(const lmc_config *config, const lmc_option *row) {
    return (const char *)config + row->offset;
}

static lmc_status set_text(char **field, const char *text, bool empty_is_unset) {
    char *copy = NULL;
    if (*text != '\0' || !empty_is_unset) {
        copy = strdup(text);
        if (copy == NULL)
            return LMC_NO_MEMORY;
    }
    free(*field);
    *field = copy;
    return LMC_OK;
}

static bool read_octal(const char *text, uint32_t *value) {
    char *end = NULL;
    size_t digits = strspn(text, "01234567");
    if (digits == 0 || digits > 10 || text[digits] != '\0')
        return false;
    *value = (uint32_t)strtoul(text, &end, 8);
    return true;
}

lmc_status lmc_option_set(lmc_config *config, const lmc_option *row, const char *text) {
    void *field = lmc_option_field(config, row);
    bool read = false;
    switch (row->type) {
    case LMC_TYPE_TEXT:
        return set_text(field, text, row->initial == NULL && row->replaced_by == NULL);
    case LMC_TYPE_INT:
        read = lmc_read_int(text, field);
        break;
    case LMC_TYPE_FLOAT:
        read = lmc_read_float(text, field);
        break;
    case LMC_TYPE_OCTAL:
        read = read_octal(text, field);
        break;
    case LMC_TYPE_BOOL:
        *(bool *)field = strcmp(text, "true") == 0;
        read = true;
        break;
    case LMC_TYPE_LIST:
    case LMC_TYPE_NONE:
        break;
    }
    return read ? LMC_OK : LMC_MALFORMED;
}

lmc_status lmc_option_reset(lmc_config *config, const lmc_option *row) {
    if (row->flag == NULL || row->replaced_by != NULL || row->type == LMC_TYPE_NONE)
        return LMC_OK;
    if (row->initial != NULL)
        return lmc_option_set(config, row, row->initial);
    if (row->type == LMC_TYPE_INT)
        *(int64_t *)lmc_option_field(config, row) = LMC_CONFIG_UNSET;
    else if (row->type == LMC_TYPE_FLOAT)
        *(double *)lmc_option_field(config, row) = NAN;
    return LMC_OK;
}

void lmc_option_free(lmc_config *config, const lmc_option *row) {
    if (row->flag == NULL || row->replaced_by != NULL)
        return;
    if (row->type == LMC_TYPE_TEXT) {
        char **text = lmc_option_field(config, row);
        free(*text);
        *text = NULL;
    } else if (row->type == LMC_TYPE_LIST) {
        lmc_text_list_clear(lmc_option_field(config, row));
    }
}

lmc_status lmc_text_list_add(lmc_text_list *list, const char *text) {
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL)
        return LMC_NO_MEMORY;
    list->items = items;
    items[list->count] = strdup(text);
    if (items[list->count] == NULL)
        return LMC_NO_MEMORY;
    list->count++;
    return LMC_OK;
}

void lmc_text_list_clear(lmc_text_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (lmc_text_list){0};
}

static bool float_is_default(double value, const char *initial) {
    double standard = NAN;
    if (initial == NULL)
        return isnan(value);
    return lmc_read_float(initial, &standard) && value == standard;
}

static bool int_is_default(int64_t value, const char *initial) {
    int64_t standard = LMC_CONFIG_UNSET;
    return (initial == NULL || lmc_read_int(initial, &standard)) && value == standard;
}

bool lmc_option_is_default(const lmc_config *config, const lmc_option *row) {
    const void *field = lmc_option_field_const(config, row);
    uint32_t octal = 0;
    switch (row->type) {
    case LMC_TYPE_TEXT: {
        const char *text = *(char *const *)field;
        return text == NULL || (row->initial != NULL && strcmp(text, row->initial) == 0);
    }
    case LMC_TYPE_INT:
        return int_is_default(*(const int64_t *)field, row->initial);
    case LMC_TYPE_FLOAT:
        return float_is_default(*(const double *)field, row->initial);
    case LMC_TYPE_BOOL:
        return *(const bool *)field == (strcmp(row->initial, "true") == 0);
    case LMC_TYPE_LIST:
        return ((const lmc_text_list *)field)->count == 0;
    case LMC_TYPE_OCTAL:
        return read_octal(row->initial, &octal) && octal == *(const uint32_t *)field;
    case LMC_TYPE_NONE:
        break;
    }
    return true;
}

void lmc_option_print(lmc_buffer *out, const lmc_config *config, const lmc_option *row) {
    const void *field = lmc_option_field_const(config, row);
    switch (row->type) {
    case LMC_TYPE_TEXT:
        lmc_buffer_text(out, *(char *const *)field != NULL ? *(char *const *)field : "None");
        break;
    case LMC_TYPE_INT:
        lmc_buffer_printf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case LMC_TYPE_FLOAT:
        lmc_repr_float(out, *(const double *)field);
        break;
    case LMC_TYPE_BOOL:
        lmc_buffer_text(out, *(const bool *)field ? "true" : "false");
        break;
    case LMC_TYPE_OCTAL:
        lmc_buffer_printf(out, "%04o", (unsigned)*(const uint32_t *)field);
        break;
    case LMC_TYPE_LIST:
    case LMC_TYPE_NONE:
        break;
    }
}

bool lmc_word_in(const char *words, const char *value) {
    size_t size = strlen(value);
    while (*words != '\0') {
        size_t word = strcspn(words, ",");
        if (word == size && memcmp(words, value, size) == 0)
            return true;
        words += word + (words[word] == ',');
    }
    return false;
}
