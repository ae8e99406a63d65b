/* Checks of single values. */
#include <math.h>
#include <string.h>

#include "config/option_value.h"
#include "config/parsing.h"

typedef struct bounds {
    double low, high;
    bool above; /* low itself is outside */
    const char *text;
} bounds;

static const bounds bounds_of[] = {
    [LMC_RANGE_ANY] = {-INFINITY, INFINITY, false, ""},
    [LMC_RANGE_POSITIVE] = {0, INFINITY, true, "a finite number > 0"},
    [LMC_RANGE_NOT_NEGATIVE] = {0, INFINITY, false, "a finite number >= 0"},
    [LMC_RANGE_COUNT] = {1, 65536, false, "between 1 and 65536"},
    [LMC_RANGE_PORT] = {0, 65535, false, "between 0 and 65535"},
    [LMC_RANGE_PORTION] = {0, 1, false, "between zero and one"},
    [LMC_RANGE_RATE] = {0, 1, true, "in (0, 1]"},
    [LMC_RANGE_BLOCK_SIZE] = {0, INFINITY, true, "a power of two"},
    [LMC_RANGE_PERMISSIONS] = {0, 0777, false, "between 0000 and 0777"},
    [LMC_RANGE_UINT32] = {1, 4294967295.0, false, "between 1 and 4294967295"},
};

static double number_of(const lmc_config *config, const lmc_option *row) {
    const void *field = lmc_option_field_const(config, row);
    if (row->type == LMC_TYPE_INT)
        return (double)*(const int64_t *)field;
    return row->type == LMC_TYPE_OCTAL ? (double)*(const uint32_t *)field
                                       : *(const double *)field;
}

static bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

static bool in_range(const lmc_config *config, const lmc_option *row) {
    const bounds *range = &bounds_of[row->range];
    double value = number_of(config, row);
    if (!isfinite(value) || value < range->low || value > range->high)
        return false;
    if (range->above && value <= range->low)
        return false;
    return row->range != LMC_RANGE_BLOCK_SIZE ||
           is_power_of_two(*(const int64_t *)lmc_option_field_const(config, row));
}

static lmc_status out_of_range(lmc_parsing *parsing, const lmc_option *row) {
    lmc_buffer message = LMC_BUFFER_INIT;
    const char *mark = row->complaint != NULL ? strstr(row->complaint, "<v>") : NULL;
    if (row->complaint == NULL) {
        lmc_buffer_printf(&message, "%s must be %s, got ", row->flag,
                          bounds_of[row->range].text);
        lmc_option_print(&message, parsing->config, row);
    } else if (mark == NULL) {
        lmc_buffer_text(&message, row->complaint);
    } else {
        lmc_buffer_append(&message, row->complaint, (size_t)(mark - row->complaint));
        lmc_option_print(&message, parsing->config, row);
        lmc_buffer_text(&message, mark + 3);
    }
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

lmc_status lmc_check_ranges(lmc_parsing *parsing) {
    const lmc_option *row;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++) {
        bool has_value = row->initial != NULL || parsing->source[i] != LMC_FROM_DEFAULT;
        if (row->range != LMC_RANGE_ANY && has_value && !in_range(parsing->config, row))
            return out_of_range(parsing, row);
    }
    return LMC_OK;
}
