/* The grammar of the command line: which word is an option, which a value (cli-config.md 1.2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/option_value.h"
#include "config/parsing.h"
#include "config/python_text.h"

typedef enum word_kind {
    WORD_VALUE,   /* a value, or a word that belongs to nothing */
    WORD_OPTION,  /* an option of the table */
    WORD_UNKNOWN, /* looks like an option and is none */
    WORD_END,     /* -- */
} word_kind;

typedef struct word {
    const char *text;
    word_kind kind;
    const lmc_option *row;
    size_t row_number;
    bool negated;         /* --no-x */
    const char *explicit; /* after the first `=` */
} word;

typedef struct scan {
    lmc_parsing *parsing;
    word *words;
    size_t count, at;
    lmc_buffer unrecognized;
} scan;

/* ---- what a word is ---- */

static bool is_negative_number(const char *text) {
    size_t whole = strspn(text + 1, "0123456789");
    const char *rest = text + 1 + whole;
    if (*rest == '\0')
        return whole > 0;
    size_t part = *rest == '.' ? strspn(rest + 1, "0123456789") : 0;
    return part > 0 && rest[1 + part] == '\0';
}

/* Whether the flag (or its --no- form) begins with the first `size` bytes of text. */
static bool spelling_matches(const lmc_option *row, bool negated, const char *text, size_t size,
                             bool whole) {
    char spelling[96];
    if (negated && row->form != LMC_FORM_BOOL_PAIR)
        return false;
    int n =
        snprintf(spelling, sizeof spelling, "%s%s", negated ? "--no-" : "--", row->flag + 2);
    return (whole ? (size_t)n == size : (size_t)n >= size) && memcmp(spelling, text, size) == 0;
}

typedef struct match {
    const lmc_option *row;
    size_t number;
    bool negated;
} match;

/* Finds options spelled like the first `size` bytes; at most `room` are kept, all are counted.
 */
static size_t find_options(const char *text, size_t size, bool whole, match *out, size_t room) {
    const lmc_option *row;
    size_t found = 0;
    for (size_t i = 0; (row = lmc_option_at(i)) != NULL; i++) {
        if (row->flag == NULL || (!whole && row->own))
            continue;
        for (int negated = 0; negated < 2; negated++) {
            if (!spelling_matches(row, negated, text, size, whole))
                continue;
            if (found < room)
                out[found] = (match){row, i, negated};
            found++;
        }
    }
    return found;
}

static lmc_status ambiguous(lmc_parsing *parsing, const char *text, const match *matches,
                            size_t count) {
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_printf(&message, "ambiguous option: %s could match ", text);
    for (size_t i = 0; i < count; i++)
        lmc_buffer_printf(&message, "%s%s%s", i > 0 ? ", " : "",
                          matches[i].negated ? "--no-" : "--", matches[i].row->flag + 2);
    return lmc_parsing_reject(parsing, LMC_MALFORMED, &message);
}

static void take_match(word *w, const match *found, const char *explicit) {
    w->kind = WORD_OPTION;
    w->row = found->row;
    w->row_number = found->number;
    w->negated = found->negated;
    w->explicit = explicit;
}

static lmc_status classify_long(lmc_parsing *parsing, word *w) {
    match matches[2 * LMC_OPTION_LIMIT];
    const size_t room = sizeof matches / sizeof matches[0];
    size_t size = strcspn(w->text, "=");
    const char *explicit = w->text[size] == '=' ? w->text + size + 1 : NULL;
    size_t found = find_options(w->text, size, true, matches, room);
    if (found == 0)
        found = find_options(w->text, size, false, matches, room);
    if (found == 1)
        take_match(w, &matches[0], explicit);
    else if (found > 1)
        return ambiguous(parsing, w->text, matches, found);
    else
        w->kind = strchr(w->text, ' ') != NULL ? WORD_VALUE : WORD_UNKNOWN;
    return LMC_OK;
}

static lmc_status classify(lmc_parsing *parsing, word *w) {
    const char *text = w->text;
    w->kind = WORD_VALUE;
    if (text[0] != '-' || text[1] == '\0')
        return LMC_OK;
    if (strcmp(text, "--") == 0) {
        w->kind = WORD_END;
        return LMC_OK;
    }
    if (text[1] == '-')
        return classify_long(parsing, w);
    if (strcmp(text, "-h") == 0) {
        match help = {lmc_option_at(lmc_option_index("--help")), lmc_option_index("--help"),
                      false};
        take_match(w, &help, NULL);
    } else if (!is_negative_number(text) && strchr(text, ' ') == NULL) {
        w->kind = WORD_UNKNOWN;
    }
    return LMC_OK;
}

static lmc_status classify_all(scan *s, char *const *texts) {
    bool ended = false;
    for (size_t i = 0; i < s->count; i++) {
        s->words[i].text = texts[i];
        if (ended)
            continue; /* WORD_VALUE */
        lmc_status status = classify(s->parsing, &s->words[i]);
        if (status != LMC_OK)
            return status;
        ended = s->words[i].kind == WORD_END;
    }
    return LMC_OK;
}

/* ---- what an option does ---- */

/* Appends the name used in messages: both spellings of a pair. */
static void put_name(lmc_buffer *out, const lmc_option *row) {
    if (row->form == LMC_FORM_HELP)
        lmc_buffer_text(out, "-h/");
    lmc_buffer_text(out, row->flag);
    if (row->form == LMC_FORM_BOOL_PAIR)
        lmc_buffer_printf(out, "/--no-%s", row->flag + 2);
}

static lmc_status argument_error(scan *s, const lmc_option *row, const char *what,
                                 const char *value) {
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_text(&message, "argument ");
    put_name(&message, row);
    lmc_buffer_printf(&message, ": %s", what);
    if (value != NULL)
        lmc_repr_text(&message, lmc_text(value));
    return lmc_parsing_reject(s->parsing, LMC_MALFORMED, &message);
}

static lmc_status invalid_choice(scan *s, const lmc_option *row, const char *value) {
    lmc_buffer message = LMC_BUFFER_INIT;
    lmc_buffer_printf(&message, "argument %s: invalid choice: ", row->flag);
    lmc_repr_text(&message, lmc_text(value));
    lmc_buffer_text(&message, " (choose from ");
    for (const char *at = row->choices; *at != '\0';) {
        size_t size = strcspn(at, ",");
        lmc_buffer_printf(&message, "%s'%.*s'", at == row->choices ? "" : ", ", (int)size, at);
        at += size + (at[size] == ',');
    }
    lmc_buffer_char(&message, ')');
    return lmc_parsing_reject(s->parsing, LMC_MALFORMED, &message);
}

/* A choice; of the transports, several separated by commas, each once. */
static bool is_choice(const lmc_option *row, const char *value) {
    if (lmc_word_in(row->choices, value))
        return true;
    if (strcmp(row->flag, "--transport") != 0)
        return false;
    return strcmp(value, "zmq,grpc") == 0 || strcmp(value, "grpc,zmq") == 0;
}

static const char *type_error(lmc_option_type type) {
    return type == LMC_TYPE_INT     ? "invalid int value: "
           : type == LMC_TYPE_FLOAT ? "invalid float value: "
                                    : "invalid octal value: ";
}

/* Sets the field from the value, unless a flag that goes before was given. */
static lmc_status apply(scan *s, const word *w, const char *value) {
    const lmc_option *row = w->row;
    size_t number = w->row_number;
    lmc_option_source source = LMC_FROM_FLAG;
    if (row->choices != NULL && !is_choice(row, value))
        return invalid_choice(s, row, value);
    if (row->replaced_by != NULL) {
        number = lmc_option_index(row->replaced_by);
        source = LMC_FROM_OLD_FLAG;
        lmc_status noted =
            lmc_parsing_notice(s->parsing, LMC_LOG_WARNING, "%s is deprecated, use %s instead",
                               row->flag, row->replaced_by);
        if (noted != LMC_OK)
            return noted;
    }
    if (s->parsing->source[number] > source) {
        /* The value still has to be one. */
        lmc_config scratch = {0};
        lmc_status status = lmc_option_set(&scratch, row, value);
        if (row->type == LMC_TYPE_TEXT)
            free(*(char **)lmc_option_field(&scratch, row));
        return status == LMC_MALFORMED ? argument_error(s, row, type_error(row->type), value)
                                       : status;
    }
    lmc_status status = lmc_option_set(s->parsing->config, row, value);
    if (status == LMC_MALFORMED)
        return argument_error(s, row, type_error(row->type), value);
    s->parsing->source[number] = source;
    return status;
}

static lmc_status consume_value(scan *s, const word *w) {
    const char *value = w->explicit;
    if (value == NULL && s->at < s->count && s->words[s->at].kind == WORD_VALUE)
        value = s->words[s->at++].text;
    if (value == NULL)
        return argument_error(s, w->row, "expected one argument", NULL);
    if (w->row->form == LMC_FORM_VALUE)
        return apply(s, w, value);
    s->parsing->source[w->row_number] = LMC_FROM_FLAG;
    return lmc_text_list_add(lmc_option_field(s->parsing->config, w->row), value);
}

static lmc_status consume_list(scan *s, const word *w) {
    lmc_text_list *list = lmc_option_field(s->parsing->config, w->row);
    lmc_text_list_clear(list);
    s->parsing->source[w->row_number] = LMC_FROM_FLAG;
    if (w->explicit != NULL)
        return lmc_text_list_add(list, w->explicit);
    while (s->at < s->count && s->words[s->at].kind == WORD_VALUE) {
        lmc_status status = lmc_text_list_add(list, s->words[s->at++].text);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

static lmc_status consume_switch(scan *s, const word *w) {
    bool value = w->row->form == LMC_FORM_STORE_FALSE ? false : !w->negated;
    return apply(s, w, value ? "true" : "false");
}

static lmc_status consume_option(scan *s, const word *w) {
    switch (w->row->form) {
    case LMC_FORM_VALUE:
    case LMC_FORM_APPEND:
        return consume_value(s, w);
    case LMC_FORM_LIST:
        return consume_list(s, w);
    case LMC_FORM_BOOL_PAIR:
    case LMC_FORM_STORE_TRUE:
    case LMC_FORM_STORE_FALSE:
    case LMC_FORM_HELP:
        break;
    }
    if (w->explicit != NULL)
        return argument_error(s, w->row, "ignored explicit argument ", w->explicit);
    if (w->row->form != LMC_FORM_HELP)
        return consume_switch(s, w);
    s->parsing->help = true;
    return LMC_DECLINED;
}

static lmc_status consume_all(scan *s) {
    while (s->at < s->count) {
        const word *w = &s->words[s->at++];
        lmc_status status = LMC_OK;
        if (w->kind == WORD_OPTION)
            status = consume_option(s, w);
        else if (w->kind != WORD_END)
            lmc_buffer_printf(&s->unrecognized, " %s", w->text);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}

lmc_status lmc_parse_command_line(lmc_parsing *parsing, int count, char *const *words) {
    scan s = {.parsing = parsing, .count = count > 0 ? (size_t)count : 0};
    word *table = calloc(s.count + 1, sizeof *table);
    if (table == NULL)
        return LMC_NO_MEMORY;
    s.words = table;
    lmc_status status = classify_all(&s, words);
    if (status == LMC_OK)
        status = consume_all(&s);
    if (status == LMC_OK && s.unrecognized.size > 0)
        status = lmc_error_set(parsing->error, LMC_MALFORMED, "unrecognized arguments:%s",
                               s.unrecognized.data);
    if (status == LMC_OK && s.unrecognized.failed)
        status = LMC_NO_MEMORY;
    lmc_buffer_fini(&s.unrecognized);
    free(table);
    return status;
}
