/*
 * Options whose function is not built: refused by name when they ask for something (D29). The
 * words `level` and `built` in the table decide; nothing here knows an option.
 */
#include "config/option_value.h"
#include "config/parsing.h"

/* How the value was given: the flag, or the variable it came from. */
static const char *origin(const lmc_parsing *parsing, size_t number) {
    const lmc_option *row = lmc_option_at(number);
    if (parsing->source[number] == LMC_FROM_ENVIRONMENT)
        return row->environment;
    if (parsing->source[number] == LMC_FROM_OLD_ENVIRONMENT)
        return row->old_environment;
    return row->flag;
}

static lmc_status refuse(lmc_parsing *parsing, size_t number) {
    return lmc_error_set(parsing->error, LMC_INVALID, "%s is not built yet",
                         origin(parsing, number));
}

static lmc_status refuse_value(lmc_parsing *parsing, size_t number, const char *value) {
    const lmc_option *row = lmc_option_at(number);
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_printf(&message, "%s %s is not built yet", origin(parsing, number), value);
    for (const char *at = row->built; *at != '\0';) {
        size_t size = 0;
        while (at[size] != '\0' && at[size] != ',')
            size++;
        lmc_buffer_printf(&message, "%s%.*s", at == row->built ? "; available: " : ", ",
                          (int)size, at);
        at += size + (at[size] == ',');
    }
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

static lmc_status check_choices(lmc_parsing *parsing, size_t number) {
    const lmc_option *row = lmc_option_at(number);
    const void *field = lmc_option_field_const(parsing->config, row);
    if (row->type == LMC_TYPE_TEXT) {
        const char *value = *(char *const *)field;
        bool fine = value == NULL || lmc_word_in(row->built, value);
        return fine ? LMC_OK : refuse_value(parsing, number, value);
    }
    const lmc_text_list *list = field;
    for (size_t i = 0; i < list->count; i++)
        if (!lmc_word_in(row->built, list->items[i]))
            return refuse_value(parsing, number, list->items[i]);
    return LMC_OK;
}

static lmc_status check_row(lmc_parsing *parsing, size_t number) {
    const lmc_option *row = lmc_option_at(number);
    bool unchanged = lmc_option_is_default(parsing->config, row);
    if (row->level == LMC_LEVEL_NOT_BUILT && !unchanged)
        return refuse(parsing, number);
    if (row->built != NULL)
        return check_choices(parsing, number);
    if (row->level == LMC_LEVEL_INERT && row->note != NULL && !unchanged)
        return lmc_parsing_notice(parsing, LMC_LOG_INFO, "%s has no effect: %s",
                                  origin(parsing, number), row->note);
    return LMC_OK;
}

static lmc_status check_l1(lmc_parsing *parsing) {
    const lmc_storage_config *storage = &parsing->config->storage_manager;
    const char *text = NULL;
    for (size_t i = 0; i < storage->l1_manager_count; i++) {
        const lmc_l1_manager_config *l1 = &storage->l1_managers[i];
        if (l1->memory_config.devdax_path != NULL)
            text = "--l1-manager of type DEVDAX is not built yet";
        else if (l1->gds_l1_config.file_location != NULL)
            text = "--l1-manager of type GDS is not built yet";
        else if (!lmc_word_in("LRU,noop", l1->eviction.eviction_policy))
            return lmc_error_set(parsing->error, LMC_INVALID,
                                 "--l1-manager with eviction policy %s is not built yet; "
                                 "available: LRU, noop",
                                 l1->eviction.eviction_policy);
    }
    if (text == NULL && storage->l1_manager_count > 1)
        text = "more than one --l1-manager is not built yet";
    return text == NULL ? LMC_OK : lmc_error_set(parsing->error, LMC_INVALID, "%s", text);
}

lmc_status lmc_refuse_not_built(lmc_parsing *parsing) {
    const lmc_option *row;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++) {
        if (row->flag == NULL || row->replaced_by != NULL || row->type == LMC_TYPE_NONE)
            continue;
        lmc_status status = check_row(parsing, i);
        if (status != LMC_OK)
            return status;
    }
    lmc_status status = check_l1(parsing);
    if (status == LMC_OK)
        status = lmc_check_adapters_built(parsing);
    return status;
}
