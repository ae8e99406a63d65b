#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_writer.h"
#include "http/request.h"

lmc_buffer *lmc_http_reply(lmc_http_request *request, unsigned status, const char *type) {
    request->status = status;
    request->type = type;
    lmc_buffer_fini(&request->reply); /* also forgets a failure */
    return &request->reply;
}

void lmc_http_fail(lmc_http_request *request, unsigned status, const char *key,
                   const char *format, ...) {
    lmc_json_writer json;
    lmc_buffer text = LMC_BUFFER_INIT;
    va_list args;
    va_start(args, format);
    lmc_buffer_vprintf(&text, format, args);
    va_end(args);
    lmc_buffer *out = lmc_http_reply(request, status, LMC_HTTP_JSON);
    lmc_json_start(&json, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_member_slice(&json, key, lmc_slice_of(text.data, text.size));
    lmc_json_object_end(&json);
    if (text.failed || lmc_json_finish(&json) != LMC_OK)
        lmc_http_fail_internal(request);
    lmc_buffer_fini(&text);
}

void lmc_http_fail_internal(lmc_http_request *request) {
    lmc_buffer *out = lmc_http_reply(request, 500, LMC_HTTP_JSON);
    lmc_buffer_text(out, "{\"detail\":\"Internal Server Error\"}");
}

/* One list with one complaint, as typed endpoints give it. */
void lmc_http_reject(lmc_http_request *request, const char *type, const char *place,
                     const char *name, const char *message, lmc_slice input,
                     const char *context) {
    lmc_json_writer json;
    lmc_json_start(&json, lmc_http_reply(request, 422, LMC_HTTP_JSON), LMC_JSON_COMPACT,
                   LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_name(&json, "detail");
    lmc_json_list_begin(&json);
    lmc_json_object_begin(&json);
    lmc_json_member_text(&json, "type", type);
    lmc_json_name(&json, "loc");
    lmc_json_list_begin(&json);
    lmc_json_text(&json, place);
    if (name != NULL)
        lmc_json_text(&json, name);
    lmc_json_list_end(&json);
    lmc_json_member_text(&json, "msg", message);
    lmc_json_member_raw(&json, "input", input);
    if (context != NULL)
        lmc_json_member_raw(&json, "ctx", lmc_text(context));
    lmc_json_object_end(&json);
    lmc_json_list_end(&json);
    lmc_json_object_end(&json);
    if (lmc_json_finish(&json) != LMC_OK)
        lmc_http_fail_internal(request);
}

/* ---- query parameters ---- */

bool lmc_http_query_text(const lmc_http_request *request, const char *name, lmc_slice *value) {
    for (size_t i = request->target.param_count; i-- > 0;) /* the last one wins */
        if (lmc_slice_is(request->target.params[i].name, name)) {
            *value = request->target.params[i].value;
            return true;
        }
    return false;
}

bool lmc_http_bool_parse(lmc_slice text, bool *value) {
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes",
                                        "off",   "on",   "f", "t", "n",  "y"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (text.size == strlen(words[i]) && strncasecmp(text.data, words[i], text.size) == 0) {
            *value = (i & 1) != 0;
            return true;
        }
    return false;
}

static void reject_text(lmc_http_request *request, const char *type, const char *name,
                        const char *message, lmc_slice value) {
    lmc_buffer input = LMC_BUFFER_INIT;
    lmc_json_writer json;
    lmc_json_start(&json, &input, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_slice(&json, value);
    if (lmc_json_finish(&json) == LMC_OK)
        lmc_http_reject(request, type, "query", name, message,
                        lmc_slice_of(input.data, input.size), NULL);
    else
        lmc_http_fail_internal(request);
    lmc_buffer_fini(&input);
}

bool lmc_http_query_bool(lmc_http_request *request, const char *name, bool *value) {
    lmc_slice text;
    if (!lmc_http_query_text(request, name, &text) || lmc_http_bool_parse(text, value))
        return true;
    reject_text(request, "bool_parsing", name,
                "Input should be a valid boolean, unable to interpret input", text);
    return false;
}

static bool parse_int(lmc_slice text, int64_t *value) {
    char digits[24];
    char *end;
    if (text.size == 0 || text.size >= sizeof digits)
        return false;
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    *value = strtoll(digits, &end, 10);
    return *end == '\0' && memchr(text.data, '\0', text.size) == NULL;
}

bool lmc_http_query_int(lmc_http_request *request, const char *name, bool *given,
                        int64_t *value) {
    lmc_slice text;
    *given = lmc_http_query_text(request, name, &text);
    if (!*given || parse_int(text, value))
        return true;
    reject_text(request, "int_parsing", name,
                "Input should be a valid integer, unable to parse string as an integer", text);
    return false;
}
