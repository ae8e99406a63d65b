#include "http/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes [from, end) in place; an incomplete or wrong escape stays as it is. */
static lmc_slice decode(char *from, char *end, bool plus_is_blank) {
    char *out = from;
    for (char *in = from; in < end; in++) {
        int high = *in == '%' && end - in > 2 ? hex_value(in[1]) : -1;
        int low = high >= 0 ? hex_value(in[2]) : -1;
        if (low >= 0) {
            *out++ = (char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = (char)(*in == '+' && plus_is_blank ? ' ' : *in);
        }
    }
    return lmc_slice_of(from, (size_t)(out - from));
}

static void add_segment(lmc_http_target *target, char *from, char *end) {
    lmc_slice segment = decode(from, end, false);
    if (target->segment_count == LMC_HTTP_SEGMENTS_MAX || segment.size == 0 ||
        memchr(segment.data, '/', segment.size) != NULL ||
        memchr(segment.data, '\0', segment.size) != NULL) {
        target->unroutable = true;
        return;
    }
    target->segments[target->segment_count++] = segment;
}

static void split_path(lmc_http_target *target, char *path, char *end) {
    if (path == end || *path != '/') {
        target->unroutable = true;
        return;
    }
    char *from = path + 1;
    while (from < end && !target->unroutable) {
        char *slash = memchr(from, '/', (size_t)(end - from));
        char *stop = slash != NULL ? slash : end;
        add_segment(target, from, stop);
        from = stop + 1;
    }
}

static void add_param(lmc_http_target *target, char *from, char *end) {
    if (from == end || target->param_count == LMC_HTTP_PARAMS_MAX)
        return;
    char *equals = memchr(from, '=', (size_t)(end - from));
    lmc_http_param *param = &target->params[target->param_count++];
    param->name = decode(from, equals != NULL ? equals : end, true);
    param->value = equals != NULL ? decode(equals + 1, end, true) : lmc_slice_of(end, 0);
}

static void split_query(lmc_http_target *target, char *query, char *end) {
    while (query < end) {
        char *ampersand = memchr(query, '&', (size_t)(end - query));
        char *stop = ampersand != NULL ? ampersand : end;
        add_param(target, query, stop);
        query = stop + 1;
    }
}

/* Past "http://authority" of the absolute form that proxies send. */
static const char *origin_form(const char *text) {
    if (strncasecmp(text, "http://", 7) != 0)
        return text;
    const char *path = strpbrk(text + 7, "/?");
    return path != NULL && *path == '/' ? path : "/";
}

size_t lmc_http_target_count_params(const char *text) {
    const char *at = strchr(text, '?');
    size_t count = 0;
    while (at != NULL && count <= LMC_HTTP_PARAMS_ALLOWED) {
        count++;
        at = strchr(at + 1, '&');
    }
    return count;
}

lmc_status lmc_http_target_init(lmc_http_target *target, const char *text) {
    *target = (lmc_http_target){0};
    target->memory = strdup(origin_form(text));
    if (target->memory == NULL)
        return LMC_NO_MEMORY;
    char *end = target->memory + strcspn(target->memory, "#");
    char *mark = memchr(target->memory, '?', (size_t)(end - target->memory));
    split_path(target, target->memory, mark != NULL ? mark : end);
    if (mark != NULL)
        split_query(target, mark + 1, end);
    return LMC_OK;
}

void lmc_http_target_fini(lmc_http_target *target) {
    free(target->memory);
    *target = (lmc_http_target){0};
}
