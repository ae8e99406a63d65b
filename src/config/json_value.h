/*
 * json_value.h: JSON given in options, read as the original reads it.
 *
 * Python's dialect: NaN and Infinity are values, integers have any size, of equal keys the last
 * one counts in the place of the first. Numbers and whole values keep their source text. The
 * tree lives in the caller's arena and borrows the text, which is terminated and outlives it.
 * Depth is bounded.
 */
#ifndef LMC_CONFIG_JSON_VALUE_H
#define LMC_CONFIG_JSON_VALUE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/json_writer.h"

#define LMC_JSON_VALUE_DEPTH 40

typedef enum lmc_json_kind {
    LMC_JSON_IS_NULL,
    LMC_JSON_IS_BOOL,
    LMC_JSON_IS_INT,
    LMC_JSON_IS_FLOAT,
    LMC_JSON_IS_TEXT,
    LMC_JSON_IS_LIST,
    LMC_JSON_IS_OBJECT,
} lmc_json_kind;

typedef struct lmc_json_value {
    lmc_json_kind kind;
    bool truth;                   /* of a bool */
    lmc_slice source;             /* the value as it stands in the text */
    lmc_slice text;               /* of a text: decoded, UTF-8, also terminated */
    lmc_slice name;               /* of a member of an object: decoded */
    struct lmc_json_value *first; /* of a list or object */
    struct lmc_json_value *next;  /* the following element or member */
    size_t count;                 /* of a list or object */
} lmc_json_value;

/*
 * LMC_OK; LMC_MALFORMED with Python's text, `Expecting value: line 1 column 1 (char 0)`, in
 * error (no prefix); LMC_NO_MEMORY.
 */
lmc_status lmc_json_read(lmc_arena *arena, lmc_slice text, const lmc_json_value **value,
                         lmc_error *error);

/* Whether this is JSON, and an object; not when there is no memory to find out. */
bool lmc_json_is_object_text(const char *text);

const lmc_json_value *lmc_json_get(const lmc_json_value *object, const char *name);
/* Numbers, not booleans. */
bool lmc_json_is_number(const lmc_json_value *value);
double lmc_json_number(const lmc_json_value *value);              /* of a number */
bool lmc_json_integer(const lmc_json_value *value, int64_t *out); /* an integer in 64 bits */
bool lmc_json_filled_text(const lmc_json_value *value);           /* a text that is not empty */

/* Python's name of the value's type ("list", "str", ...) and its repr(). */
const char *lmc_json_type_name(const lmc_json_value *value);
void lmc_json_repr(lmc_buffer *out, const lmc_json_value *value);

/* Writes the value; with `mask`, secrets in it by the rule of D10. */
void lmc_json_copy(lmc_json_writer *writer, const lmc_json_value *value, bool mask);

#endif
