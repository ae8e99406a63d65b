/* What create() of a module may ask, but for other modules (composition.c). */
#include "module/build.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

lmc_context *lmc_build_context(lmc_build *build) { return build->context; }

lmc_slice lmc_build_config(lmc_build *build) { return build->config; }

static lmc_status read_config(lmc_build *build, lmc_error *error) {
    lmc_error cause = LMC_ERROR_INIT;
    if (build->json != NULL)
        return LMC_OK;
    lmc_status status = LMC_NO_MEMORY;
    char *text = lmc_arena_text(build->arena, build->config);
    if (text != NULL)
        status = lmc_json_read(build->arena, lmc_slice_of(text, build->config.size),
                               &build->json, &cause);
    if (status == LMC_OK)
        return LMC_OK;
    return lmc_error_set(error, status, "the configuration cannot be read: %s",
                         cause.text[0] != '\0' ? cause.text : lmc_status_name(status));
}

/* The member of a name whose parts are separated by dots; *found NULL: there is none. */
static lmc_status find_option(lmc_build *build, const char *name, const lmc_json_value **found,
                              lmc_error *error) {
    *found = NULL;
    lmc_status status = read_config(build, error);
    const lmc_json_value *at = status == LMC_OK ? build->json : NULL;
    while (at != NULL && *name != '\0') {
        char part[128];
        size_t size = strcspn(name, ".");
        if (at->kind != LMC_JSON_IS_OBJECT || size >= sizeof part)
            return LMC_OK;
        memcpy(part, name, size);
        part[size] = '\0';
        at = lmc_json_get(at, part);
        name += size + (name[size] == '.');
    }
    *found = at;
    return status;
}

static lmc_status wrong_type(const char *name, const char *wanted, const lmc_json_value *value,
                             lmc_error *error) {
    return lmc_error_set(error, LMC_INVALID, "config '%s' must be %s, not %.*s", name, wanted,
                         (int)(value->source.size < 80 ? value->source.size : 80),
                         (const char *)value->source.data);
}

lmc_status lmc_build_config_bool(lmc_build *build, const char *name, bool *value,
                                 lmc_error *error) {
    const lmc_json_value *found;
    lmc_status status = find_option(build, name, &found, error);
    if (found == NULL)
        return status;
    if (found->kind != LMC_JSON_IS_BOOL)
        return wrong_type(name, "true or false", found, error);
    *value = found->truth;
    return LMC_OK;
}

lmc_status lmc_build_config_int(lmc_build *build, const char *name, int64_t *value,
                                lmc_error *error) {
    const lmc_json_value *found;
    lmc_status status = find_option(build, name, &found, error);
    if (found == NULL)
        return status;
    if (found->kind != LMC_JSON_IS_INT || !lmc_json_integer(found, value))
        return wrong_type(name, "an integer", found, error);
    return LMC_OK;
}

lmc_status lmc_build_config_real(lmc_build *build, const char *name, double *value,
                                 lmc_error *error) {
    const lmc_json_value *found;
    lmc_status status = find_option(build, name, &found, error);
    if (found == NULL)
        return status;
    if (!lmc_json_is_number(found))
        return wrong_type(name, "a number", found, error);
    *value = lmc_json_number(found);
    return LMC_OK;
}

lmc_status lmc_build_config_text(lmc_build *build, const char *name, lmc_slice *value,
                                 lmc_error *error) {
    const lmc_json_value *found;
    lmc_status status = find_option(build, name, &found, error);
    if (found == NULL)
        return status;
    if (found->kind != LMC_JSON_IS_TEXT)
        return wrong_type(name, "a text", found, error);
    *value = found->text;
    return LMC_OK;
}
