/*
 * pickle.h: reads the part of Python's pickle format that peers send, as plain data.
 *
 * Nothing is ever called or imported: a global is a pair of names, a call is a record of what
 * would have been called. Depth of marks, number of values and memo are bounded. Texts and byte
 * strings point into the input, everything else lives in the arena; both must outlive the
 * values. A reader belongs to one thread; values are constant once read.
 *
 * Lists and dictionaries can contain themselves, so walk a value only as deep as its expected
 * shape.
 */
#ifndef LMC_PICKLE_PICKLE_H
#define LMC_PICKLE_PICKLE_H

#include <lmcached/types.h>

#include "base/arena.h"

#define LMC_PICKLE_VALUES_MAX ((size_t)1 << 20) /* values of one reader */
#define LMC_PICKLE_MARKS_MAX 64
#define LMC_PICKLE_NAME_MAX 256 /* bytes of a module's or a global's name */

typedef enum lmc_pickle_type {
    LMC_PICKLE_NONE,
    LMC_PICKLE_BOOL,
    LMC_PICKLE_INT,
    LMC_PICKLE_BIG, /* an integer beyond 64 bits: `bytes` holds it, low byte first */
    LMC_PICKLE_FLOAT,
    LMC_PICKLE_TEXT,
    LMC_PICKLE_BYTES,
    LMC_PICKLE_LIST,
    LMC_PICKLE_TUPLE,
    LMC_PICKLE_DICT, /* `items` alternate between keys and values */
    LMC_PICKLE_GLOBAL,
    LMC_PICKLE_CALL,   /* callee(*args) */
    LMC_PICKLE_OBJECT, /* a new object of class `callee`, `args`, and `state` when it was built
                        */
    LMC_PICKLE_PERSISTENT, /* an id (in `args`) that the writer's side resolves */
} lmc_pickle_type;

typedef struct lmc_pickle_value lmc_pickle_value;
struct lmc_pickle_value {
    lmc_pickle_type type;
    union {
        bool truth;
        int64_t number;
        double real;
        lmc_slice bytes; /* TEXT, BYTES, BIG */
        struct {
            const lmc_pickle_value **items;
            size_t count, capacity;
        } list; /* LIST, TUPLE, DICT */
        struct {
            lmc_slice module, name;
        } global;
        struct {
            const lmc_pickle_value *callee, *args, *state;
        } call; /* CALL, OBJECT, PERSISTENT */
    };
};

typedef struct lmc_pickle_reader {
    const uint8_t *at; /* next byte; several pickles may follow each other */
    const uint8_t *end;
    lmc_arena *arena;
    size_t values; /* made so far */
} lmc_pickle_reader;

lmc_pickle_reader lmc_pickle_reader_of(lmc_slice bytes, lmc_arena *arena);
/* The next pickle. LMC_MALFORMED: not one, or not of the part that is read; LMC_NO_MEMORY. */
lmc_status lmc_pickle_read(lmc_pickle_reader *reader, const lmc_pickle_value **value);

/* Shape tests; all take NULL as "no". */
bool lmc_pickle_is_global(const lmc_pickle_value *value, const char *module, const char *name);
bool lmc_pickle_is_call(const lmc_pickle_value *value, const char *module, const char *name);
bool lmc_pickle_is_text(const lmc_pickle_value *value, const char *text);
/* Item of a list or tuple; NULL when it has no such item or is neither. */
const lmc_pickle_value *lmc_pickle_item(const lmc_pickle_value *value, size_t index);
/* Value of a text key in a dictionary (the last of equal keys), or NULL. */
const lmc_pickle_value *lmc_pickle_get(const lmc_pickle_value *dict, const char *key);
/* A list or tuple of integers, or torch.Size of one; at most `max`. False: not that. */
bool lmc_pickle_ints(const lmc_pickle_value *value, int64_t *out, size_t max, size_t *count);

#endif
