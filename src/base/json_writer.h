/*
 * json_writer.h: JSON written piece by piece into a buffer.
 *
 * The caller owns writer and buffer; one thread at a time. Commas, line breaks and indentation
 * are the writer's. Inside an object every value is preceded by lmc_json_name(). Nothing fails
 * on the way: lmc_json_finish() tells once whether memory ran out or the calls did not nest.
 *
 * Layouts and numbers are those of Python's json.dumps, because scripts compare the text.
 */
#ifndef LMC_BASE_JSON_WRITER_H
#define LMC_BASE_JSON_WRITER_H

#include "base/bytes.h"

#define LMC_JSON_DEPTH_MAX 64

typedef enum lmc_json_layout {
    LMC_JSON_COMPACT,  /* {"a":1,"b":[2,3]} */
    LMC_JSON_SPACED,   /* {"a": 1, "b": [2, 3]}: Python's default */
    LMC_JSON_INDENTED, /* one member a line, indented by two */
} lmc_json_layout;

typedef enum lmc_json_escapes {
    LMC_JSON_ASCII, /* \uXXXX for everything else: ensure_ascii=True */
    LMC_JSON_UTF8,  /* kept as it is: ensure_ascii=False */
} lmc_json_escapes;

typedef struct lmc_json_writer {
    lmc_buffer *out;
    lmc_json_layout layout;
    lmc_json_escapes escapes;
    int depth;
    bool misused;
    bool named; /* a name was written and its value is due */
    struct {
        bool object, filled;
    } levels[LMC_JSON_DEPTH_MAX + 1]; /* [0] is the document */
} lmc_json_writer;

void lmc_json_start(lmc_json_writer *writer, lmc_buffer *out, lmc_json_layout layout,
                    lmc_json_escapes escapes);
/* LMC_NO_MEMORY, or LMC_INVALID when begin, end, names and values did not fit together. */
lmc_status lmc_json_finish(lmc_json_writer *writer);

void lmc_json_object_begin(lmc_json_writer *writer);
void lmc_json_object_end(lmc_json_writer *writer);
void lmc_json_list_begin(lmc_json_writer *writer);
void lmc_json_list_end(lmc_json_writer *writer);

void lmc_json_name(lmc_json_writer *writer, const char *name);
void lmc_json_name_slice(lmc_json_writer *writer, lmc_slice name);

void lmc_json_null(lmc_json_writer *writer);
void lmc_json_bool(lmc_json_writer *writer, bool value);
void lmc_json_int(lmc_json_writer *writer, int64_t value);
void lmc_json_uint(lmc_json_writer *writer, uint64_t value);
void lmc_json_real(lmc_json_writer *writer, double value);     /* NaN, infinity: null */
void lmc_json_text(lmc_json_writer *writer, const char *text); /* NULL: null */
void lmc_json_slice(lmc_json_writer *writer, lmc_slice text);  /* invalid UTF-8: U+FFFD */
void lmc_json_raw(lmc_json_writer *writer, lmc_slice json); /* one value, inserted as it is */

/* A member in one call. */
void lmc_json_member_null(lmc_json_writer *writer, const char *name);
void lmc_json_member_bool(lmc_json_writer *writer, const char *name, bool value);
void lmc_json_member_int(lmc_json_writer *writer, const char *name, int64_t value);
void lmc_json_member_uint(lmc_json_writer *writer, const char *name, uint64_t value);
void lmc_json_member_real(lmc_json_writer *writer, const char *name, double value);
void lmc_json_member_text(lmc_json_writer *writer, const char *name, const char *text);
void lmc_json_member_slice(lmc_json_writer *writer, const char *name, lmc_slice text);
void lmc_json_member_raw(lmc_json_writer *writer, const char *name, lmc_slice json);

/* The text of one number, as Python's repr(float): shortest digits that read back the same,
 * "120.0", "1e+16", "1e-05", "nan", "inf". Returns its length. */
#define LMC_REAL_TEXT_MAX 32
size_t lmc_real_text(double value, char out[LMC_REAL_TEXT_MAX]);

#endif
