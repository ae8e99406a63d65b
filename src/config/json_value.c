/* Reading JSON, with the messages and positions of Python's json module. */
#include "config/json_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

typedef struct reader {
    lmc_arena *arena;
    const char *text;
    size_t size, at;
    int depth;
    lmc_error *error;
} reader;

static lmc_json_value *read_value(reader *r);

/* Fails with `message` at a byte offset, told as line, column and character. */
static void *fail_at(reader *r, const char *message, size_t offset) {
    size_t line = 1, line_start = 0, characters = 0;
    for (size_t i = 0; i < offset; i++) {
        if (r->text[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    size_t column = 1;
    for (size_t i = 0; i < offset; i++) {
        bool begins = ((unsigned char)r->text[i] & 0xc0) != 0x80;
        characters += begins;
        column += begins && i >= line_start;
    }
    lmc_error_set(r->error, LMC_MALFORMED, "%s: line %zu column %zu (char %zu)", message, line,
                  column, characters);
    return NULL;
}

static void *out_of_memory(reader *r) {
    lmc_error_set(r->error, LMC_NO_MEMORY, "out of memory");
    return NULL;
}

static void skip_blanks(reader *r) {
    while (r->at < r->size && strchr(" \t\n\r", r->text[r->at]) != NULL && r->text[r->at] != 0)
        r->at++;
}

static bool next_is(const reader *r, char c) { return r->at < r->size && r->text[r->at] == c; }

static lmc_json_value *new_value(reader *r, lmc_json_kind kind) {
    lmc_json_value *value = lmc_arena_zalloc(r->arena, sizeof *value);
    if (value == NULL)
        return out_of_memory(r);
    value->kind = kind;
    return value;
}

/* ---- text ---- */

static bool read_hex4(const reader *r, size_t at, uint32_t *unit) {
    *unit = 0;
    if (at + 4 > r->size)
        return false;
    for (size_t i = at; i < at + 4; i++) {
        char c = r->text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        *unit = *unit * 16 + (uint32_t)digit;
    }
    return true;
}

static size_t put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* At the digits of \uXXXX, whose backslash is at `start`. A half pair alone becomes U+FFFD. */
static bool read_unicode_escape(reader *r, size_t start, char *out, size_t *used) {
    uint32_t unit = 0, low = 0;
    if (!read_hex4(r, r->at, &unit)) {
        fail_at(r, "Invalid \\uXXXX escape", start + 1);
        return false;
    }
    r->at += 4;
    bool high = unit >= 0xd800 && unit < 0xdc00;
    if (high && r->at + 6 <= r->size && memcmp(r->text + r->at, "\\u", 2) == 0 &&
        read_hex4(r, r->at + 2, &low) && low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        r->at += 6;
    } else if (unit >= 0xd800 && unit < 0xe000) {
        unit = 0xfffd;
    }
    *used += put_utf8(out + *used, unit);
    return true;
}

static bool read_escape(reader *r, char *out, size_t *used) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    size_t start = r->at++; /* the backslash */
    char letter = r->text[r->at++];
    if (letter == 'u')
        return read_unicode_escape(r, start, out, used);
    const char *found = letter != '\0' ? strchr(letters, letter) : NULL;
    if (found == NULL) {
        fail_at(r, "Invalid \\escape", start);
        return false;
    }
    out[(*used)++] = values[found - letters];
    return true;
}

/* At the opening quote; the closing one is passed. */
static bool read_text(reader *r, lmc_slice *text) {
    size_t start = r->at++, end = r->at;
    while (end < r->size && r->text[end] != '"')
        end += r->text[end] == '\\' ? 2 : 1;
    if (end >= r->size) {
        fail_at(r, "Unterminated string starting at", start);
        return false;
    }
    /* No escape is shorter than what it stands for. */
    char *out = lmc_arena_alloc(r->arena, end - r->at + 1);
    size_t used = 0;
    if (out == NULL)
        return out_of_memory(r);
    while (r->at < end) {
        unsigned char c = (unsigned char)r->text[r->at];
        if (c < 0x20) {
            fail_at(r, "Invalid control character at", r->at);
            return false;
        }
        if (c != '\\')
            out[used++] = r->text[r->at++];
        else if (!read_escape(r, out, &used))
            return false;
    }
    out[used] = '\0';
    r->at = end + 1;
    *text = lmc_slice_of(out, used);
    return true;
}

/* ---- numbers and words ---- */

static size_t digits_at(const reader *r, size_t at) {
    size_t end = at;
    while (end < r->size && r->text[end] >= '0' && r->text[end] <= '9')
        end++;
    return end - at;
}

/* The end of the number at r->at, or r->at when there is none. */
static size_t number_end(const reader *r, bool *real) {
    size_t at = r->at + (r->text[r->at] == '-');
    size_t digits = digits_at(r, at);
    *real = false;
    if (digits == 0)
        return r->at;
    at += r->text[at] == '0' ? 1 : digits;
    if (at + 1 < r->size && r->text[at] == '.' && digits_at(r, at + 1) > 0) {
        *real = true;
        at += 1 + digits_at(r, at + 1);
    }
    if (at < r->size && (r->text[at] == 'e' || r->text[at] == 'E')) {
        size_t sign = at + 1 < r->size && strchr("+-", r->text[at + 1]) != NULL ? 1 : 0;
        if (digits_at(r, at + 1 + sign) > 0) {
            *real = true;
            at += 1 + sign + digits_at(r, at + 1 + sign);
        }
    }
    return at;
}

static lmc_json_value *read_word(reader *r) {
    static const struct {
        const char *word;
        lmc_json_kind kind;
        bool truth;
    } words[] = {
        {"null", LMC_JSON_IS_NULL, false},      {"true", LMC_JSON_IS_BOOL, true},
        {"false", LMC_JSON_IS_BOOL, false},     {"NaN", LMC_JSON_IS_FLOAT, false},
        {"Infinity", LMC_JSON_IS_FLOAT, false}, {"-Infinity", LMC_JSON_IS_FLOAT, false},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i].word);
        if (r->size - r->at < size || memcmp(r->text + r->at, words[i].word, size) != 0)
            continue;
        lmc_json_value *value = new_value(r, words[i].kind);
        if (value != NULL)
            value->truth = words[i].truth;
        r->at += size;
        return value;
    }
    return fail_at(r, "Expecting value", r->at);
}

static lmc_json_value *read_scalar(reader *r) {
    bool real = false;
    size_t end = number_end(r, &real);
    if (end == r->at)
        return read_word(r);
    r->at = end;
    return new_value(r, real ? LMC_JSON_IS_FLOAT : LMC_JSON_IS_INT);
}

/* ---- lists and objects ---- */

static lmc_json_value *read_list(reader *r) {
    lmc_json_value *list = new_value(r, LMC_JSON_IS_LIST);
    if (list == NULL)
        return NULL;
    lmc_json_value **end = &list->first;
    r->at++;
    skip_blanks(r);
    if (next_is(r, ']')) {
        r->at++;
        return list;
    }
    for (;;) {
        *end = read_value(r);
        if (*end == NULL)
            return NULL;
        end = &(*end)->next;
        list->count++;
        skip_blanks(r);
        if (next_is(r, ']'))
            break;
        if (!next_is(r, ','))
            return fail_at(r, "Expecting ',' delimiter", r->at);
        r->at++;
        skip_blanks(r);
    }
    r->at++;
    return list;
}

/* Adds a member; of equal names the last value counts, in the place of the first. */
static void add_member(lmc_json_value *object, lmc_json_value *member) {
    lmc_json_value **at = &object->first;
    for (; *at != NULL; at = &(*at)->next) {
        if (lmc_slice_equal((*at)->name, member->name)) {
            member->next = (*at)->next;
            *at = member;
            return;
        }
    }
    *at = member;
    object->count++;
}

static lmc_json_value *read_member(reader *r) {
    lmc_slice name = {0};
    if (!next_is(r, '"'))
        return fail_at(r, "Expecting property name enclosed in double quotes", r->at);
    if (!read_text(r, &name))
        return NULL;
    skip_blanks(r);
    if (!next_is(r, ':'))
        return fail_at(r, "Expecting ':' delimiter", r->at);
    r->at++;
    skip_blanks(r);
    lmc_json_value *member = read_value(r);
    if (member != NULL)
        member->name = name;
    return member;
}

static lmc_json_value *read_object(reader *r) {
    lmc_json_value *object = new_value(r, LMC_JSON_IS_OBJECT);
    if (object == NULL)
        return NULL;
    r->at++;
    skip_blanks(r);
    if (next_is(r, '}')) {
        r->at++;
        return object;
    }
    for (;;) {
        lmc_json_value *member = read_member(r);
        if (member == NULL)
            return NULL;
        add_member(object, member);
        skip_blanks(r);
        if (next_is(r, '}'))
            break;
        if (!next_is(r, ','))
            return fail_at(r, "Expecting ',' delimiter", r->at);
        r->at++;
        skip_blanks(r);
    }
    r->at++;
    return object;
}

static lmc_json_value *read_text_value(reader *r) {
    lmc_json_value *value = new_value(r, LMC_JSON_IS_TEXT);
    return value != NULL && read_text(r, &value->text) ? value : NULL;
}

static lmc_json_value *read_value(reader *r) {
    if (r->at >= r->size)
        return fail_at(r, "Expecting value", r->at);
    if (r->depth == LMC_JSON_VALUE_DEPTH)
        return fail_at(r, "Nested too deeply", r->at);
    size_t start = r->at;
    char c = r->text[start];
    r->depth++;
    lmc_json_value *value = c == '{'   ? read_object(r)
                            : c == '[' ? read_list(r)
                            : c == '"' ? read_text_value(r)
                                       : read_scalar(r);
    r->depth--;
    if (value != NULL)
        value->source = lmc_slice_of(r->text + start, r->at - start);
    return value;
}

lmc_status lmc_json_read(lmc_arena *arena, lmc_slice text, const lmc_json_value **value,
                         lmc_error *error) {
    lmc_error local = LMC_ERROR_INIT;
    reader r = {.arena = arena,
                .text = text.size > 0 ? text.data : "",
                .size = text.size,
                .error = error != NULL ? error : &local};
    skip_blanks(&r);
    *value = read_value(&r);
    if (*value == NULL)
        return r.error->status;
    skip_blanks(&r);
    if (r.at < r.size) {
        fail_at(&r, "Extra data", r.at);
        return LMC_MALFORMED;
    }
    return LMC_OK;
}
