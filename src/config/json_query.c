/* Asking JSON values, and showing them as Python does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/json_value.h"
#include "config/python_text.h"
#include "config/secret.h"

bool lmc_json_is_object_text(const char *text) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    bool object = lmc_json_read(&arena, lmc_text(text), &value, NULL) == LMC_OK &&
                  value->kind == LMC_JSON_IS_OBJECT;
    lmc_arena_fini(&arena);
    return object;
}

const lmc_json_value *lmc_json_get(const lmc_json_value *object, const char *name) {
    const lmc_json_value *member = object->kind == LMC_JSON_IS_OBJECT ? object->first : NULL;
    while (member != NULL && !lmc_slice_is(member->name, name))
        member = member->next;
    return member;
}

bool lmc_json_is_number(const lmc_json_value *value) {
    return value->kind == LMC_JSON_IS_INT || value->kind == LMC_JSON_IS_FLOAT;
}

double lmc_json_number(const lmc_json_value *value) {
    if (lmc_slice_is(value->source, "NaN"))
        return NAN;
    /* What follows a number in its text never continues it. */
    return strtod(value->source.data, NULL);
}

bool lmc_json_integer(const lmc_json_value *value, int64_t *out) {
    char digits[24];
    if (value->kind != LMC_JSON_IS_INT || value->source.size >= sizeof digits)
        return false;
    memcpy(digits, value->source.data, value->source.size);
    digits[value->source.size] = '\0';
    return lmc_read_int(digits, out);
}

bool lmc_json_filled_text(const lmc_json_value *value) {
    return value != NULL && value->kind == LMC_JSON_IS_TEXT && value->text.size > 0;
}

const char *lmc_json_type_name(const lmc_json_value *value) {
    static const char *const names[] = {"NoneType", "bool", "int", "float",
                                        "str",      "list", "dict"};
    return names[value->kind];
}

static void repr_children(lmc_buffer *out, const lmc_json_value *value) {
    bool object = value->kind == LMC_JSON_IS_OBJECT;
    lmc_buffer_char(out, object ? '{' : '[');
    for (const lmc_json_value *at = value->first; at != NULL; at = at->next) {
        if (at != value->first)
            lmc_buffer_text(out, ", ");
        if (object) {
            lmc_repr_text(out, at->name);
            lmc_buffer_text(out, ": ");
        }
        lmc_json_repr(out, at);
    }
    lmc_buffer_char(out, object ? '}' : ']');
}

static bool is_minus_zero(const lmc_json_value *value) {
    return value->kind == LMC_JSON_IS_INT && lmc_slice_is(value->source, "-0");
}

void lmc_json_repr(lmc_buffer *out, const lmc_json_value *value) {
    switch (value->kind) {
    case LMC_JSON_IS_NULL:
        lmc_buffer_text(out, "None");
        break;
    case LMC_JSON_IS_BOOL:
        lmc_buffer_text(out, value->truth ? "True" : "False");
        break;
    case LMC_JSON_IS_INT:
        if (is_minus_zero(value))
            lmc_buffer_char(out, '0');
        else
            lmc_buffer_append(out, value->source.data, value->source.size);
        break;
    case LMC_JSON_IS_FLOAT:
        lmc_repr_float(out, lmc_json_number(value));
        break;
    case LMC_JSON_IS_TEXT:
        lmc_repr_text(out, value->text);
        break;
    case LMC_JSON_IS_LIST:
    case LMC_JSON_IS_OBJECT:
        repr_children(out, value);
        break;
    }
}

static void copy_object(lmc_json_writer *writer, const lmc_json_value *value, bool mask) {
    lmc_json_object_begin(writer);
    for (const lmc_json_value *at = value->first; at != NULL; at = at->next) {
        bool something = lmc_json_is_number(at) || lmc_json_filled_text(at) || at->count > 0;
        lmc_json_name_slice(writer, at->name);
        if (mask && something && lmc_is_secret_key(at->name))
            lmc_json_text(writer, LMC_SECRET_MASK);
        else
            lmc_json_copy(writer, at, mask);
    }
    lmc_json_object_end(writer);
}

static void copy_list(lmc_json_writer *writer, const lmc_json_value *value, bool mask) {
    lmc_json_list_begin(writer);
    for (const lmc_json_value *at = value->first; at != NULL; at = at->next)
        lmc_json_copy(writer, at, mask);
    lmc_json_list_end(writer);
}

void lmc_json_copy(lmc_json_writer *writer, const lmc_json_value *value, bool mask) {
    switch (value->kind) {
    case LMC_JSON_IS_FLOAT:
        lmc_json_real(writer, lmc_json_number(value));
        break;
    case LMC_JSON_IS_TEXT:
        if (mask)
            lmc_json_masked_text(writer, value->text);
        else
            lmc_json_slice(writer, value->text);
        break;
    case LMC_JSON_IS_LIST:
        copy_list(writer, value, mask);
        break;
    case LMC_JSON_IS_OBJECT:
        copy_object(writer, value, mask);
        break;
    case LMC_JSON_IS_NULL:
    case LMC_JSON_IS_BOOL:
    case LMC_JSON_IS_INT:
        lmc_json_raw(writer, is_minus_zero(value) ? lmc_text("0") : value->source);
        break;
    }
}
