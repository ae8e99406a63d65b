#include "http/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"

json_t *lmc_http_body_any(const lmc_http_request *request) {
    return json_loadb(request->body.data, request->body.size, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                      NULL);
}

static void reject_syntax(lmc_http_request *request, const json_error_t *failure) {
    lmc_json_writer json;
    lmc_json_start(&json, lmc_http_reply(request, 422, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_name(&json, "detail");
    lmc_json_list_begin(&json);
    lmc_json_object_begin(&json);
    lmc_json_member_text(&json, "type", "json_invalid");
    lmc_json_name(&json, "loc");
    lmc_json_list_begin(&json);
    lmc_json_text(&json, "body");
    lmc_json_int(&json, failure->position > 0 ? failure->position : 0);
    lmc_json_list_end(&json);
    lmc_json_member_text(&json, "msg", "JSON decode error");
    lmc_json_member_raw(&json, "input", lmc_text("{}"));
    lmc_json_name(&json, "ctx");
    lmc_json_object_begin(&json);
    lmc_json_member_text(&json, "error", failure->text);
    lmc_json_object_end(&json);
    lmc_json_object_end(&json);
    lmc_json_list_end(&json);
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK)
        lmc_http_fail_internal(request);
}

/* Rejects with the offending value as `input`. */
static void reject_value(lmc_http_request *request, const char *type, const char *name,
                         const char *message, const json_t *value, const char *context) {
    char *input = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    lmc_http_reject(request, type, "body", name, message,
                    lmc_text(input != NULL ? input : "null"), context);
    free(input);
}

bool lmc_http_body_object(lmc_http_request *request, json_t **object) {
    json_error_t failure;
    *object = NULL;
    if (request->body.size == 0)
        return true;
    json_t *value = json_loadb(request->body.data, request->body.size,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, &failure);
    if (value == NULL) {
        reject_syntax(request, &failure);
        return false;
    }
    if (json_is_object(value)) {
        *object = value;
        return true;
    }
    bool absent = json_is_null(value);
    if (!absent)
        reject_value(request, "model_attributes_type", NULL,
                     "Input should be a valid dictionary or object to extract fields from",
                     value, NULL);
    json_decref(value);
    return absent;
}

static bool as_bool(const json_t *member, bool *value) {
    if (json_is_boolean(member)) {
        *value = json_is_true(member);
        return true;
    }
    if (json_is_number(member)) {
        double number = json_number_value(member);
        *value = number == 1.0;
        return number == 0.0 || number == 1.0;
    }
    return json_is_string(member) &&
           lmc_http_bool_parse(
               lmc_slice_of(json_string_value(member), json_string_length(member)), value);
}

bool lmc_http_body_bool(lmc_http_request *request, const json_t *object, const char *name,
                        bool *value) {
    const json_t *member = json_object_get(object, name);
    if (member == NULL || as_bool(member, value))
        return true;
    if (json_is_string(member) || json_is_number(member))
        reject_value(request, "bool_parsing", name,
                     "Input should be a valid boolean, unable to interpret input", member,
                     NULL);
    else
        reject_value(request, "bool_type", name, "Input should be a valid boolean", member,
                     NULL);
    return false;
}

bool lmc_http_body_choice(lmc_http_request *request, const json_t *object, const char *name,
                          const char *const *choices, const char *expected,
                          const char **choice) {
    char message[160], context[160];
    const json_t *member = json_object_get(object, name);
    if (member == NULL)
        return true;
    for (; *choices != NULL; choices++)
        if (json_is_string(member) && strcmp(json_string_value(member), *choices) == 0 &&
            json_string_length(member) == strlen(*choices)) {
            *choice = *choices;
            return true;
        }
    snprintf(message, sizeof message, "Input should be %s", expected);
    snprintf(context, sizeof context, "{\"expected\":\"%s\"}", expected);
    reject_value(request, "literal_error", name, message, member, context);
    return false;
}
