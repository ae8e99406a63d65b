/*
 * option_table.h: every option of the server, one row each.
 *
 * Parsing, --help, error texts, GET /config, the plugins' JSON, the man page and the completion
 * come from these rows and from nothing else. The rows stand in the order of
 * GET /config. A row without a flag is a field of the configuration that no flag sets directly.
 * The table is constant; any thread may read it.
 */
#ifndef LMC_CONFIG_OPTION_TABLE_H
#define LMC_CONFIG_OPTION_TABLE_H

#include "config/config.h"

typedef enum lmc_option_form {
    LMC_FORM_VALUE,       /* --x V; the last one wins */
    LMC_FORM_APPEND,      /* --x V, accumulating into a list */
    LMC_FORM_LIST,        /* --x [V ...]; the last one replaces */
    LMC_FORM_BOOL_PAIR,   /* --x and --no-x */
    LMC_FORM_STORE_TRUE,  /* --x */
    LMC_FORM_STORE_FALSE, /* --x makes the field false */
    LMC_FORM_HELP,        /* -h, --help */
} lmc_option_form;

/* What the field is, and so how it is read, compared, printed and given back. */
typedef enum lmc_option_type {
    LMC_TYPE_NONE,  /* no field */
    LMC_TYPE_TEXT,  /* char *; NULL when unset */
    LMC_TYPE_INT,   /* int64_t; LMC_CONFIG_UNSET when unset */
    LMC_TYPE_FLOAT, /* double; NaN when unset */
    LMC_TYPE_BOOL,  /* bool */
    LMC_TYPE_LIST,  /* lmc_text_list */
    LMC_TYPE_OCTAL, /* uint32_t, written in octal digits */
} lmc_option_type;

typedef enum lmc_option_level {
    LMC_LEVEL_SERVED,
    LMC_LEVEL_INERT,     /* accepted without effect; `note` says why */
    LMC_LEVEL_NOT_BUILT, /* refused unless it has its default */
} lmc_option_level;

typedef enum lmc_option_range {
    LMC_RANGE_ANY,
    LMC_RANGE_POSITIVE,     /* finite and > 0 */
    LMC_RANGE_NOT_NEGATIVE, /* finite and >= 0 */
    LMC_RANGE_COUNT,        /* 1 to 65536: threads, queues */
    LMC_RANGE_PORT,         /* 0 to 65535 */
    LMC_RANGE_PORTION,      /* 0 to 1 */
    LMC_RANGE_RATE,         /* above 0, at most 1 */
    LMC_RANGE_BLOCK_SIZE,   /* a power of two */
    LMC_RANGE_PERMISSIONS,  /* 0 to 0777 */
    LMC_RANGE_UINT32,       /* 1 to 2^32-1 */
} lmc_option_range;

struct lmc_option_render;

typedef struct lmc_option {
    const char *flag; /* "--host"; NULL: not set by a flag */
    const char *json; /* path within the section, "p2p_config.listen_url"; NULL: not shown */
    lmc_option_form form;
    lmc_option_type type;
    lmc_option_level level;
    lmc_option_range range;
    bool own;                    /* not part of the original: no prefix matching (D11) */
    bool hidden;                 /* not in --help */
    size_t offset;               /* of the field in lmc_config */
    const char *initial;         /* the default as text; NULL: unset */
    const char *choices;         /* "zmq,grpc"; NULL: free */
    const char *built;           /* the choices that are built; NULL: all */
    const char *environment;     /* variable read when no flag was given */
    const char *old_environment; /* its former name */
    const char *replaced_by;     /* this flag is a deprecated spelling of that one */
    const char
        *complaint;   /* text when out of range, "<v>" being the value; NULL: a general one */
    const char *note; /* why it has no effect, or what to use instead */
    const char *metavar; /* of --help */
    const char *help;
    /* Writes the field's value where no type fits. */
    void (*render)(const lmc_config *config, const struct lmc_option_render *how);
} lmc_option;

typedef struct lmc_option_section {
    const char *title;       /* in --help */
    const char *json;        /* in GET /config; NULL: nothing is shown */
    const char *plugin_json; /* in the plugins' JSON; NULL: not there */
    const lmc_option *rows;
    const size_t *count;
} lmc_option_section;

#define LMC_OPTION_SECTIONS 6
#define LMC_OPTION_LIMIT 160 /* rows in all sections, checked when the table is first used */
extern const lmc_option_section lmc_option_sections[LMC_OPTION_SECTIONS];

extern const lmc_option lmc_mp_options[], lmc_storage_options[], lmc_observability_options[],
    lmc_http_options[], lmc_coordinator_options[];
extern const size_t lmc_mp_option_count, lmc_storage_option_count,
    lmc_observability_option_count, lmc_http_option_count, lmc_coordinator_option_count;

/* Rows by number over all sections; NULL beyond the last. */
const lmc_option *lmc_option_at(size_t index);
/* The number of the row with this flag; LMC_OPTION_LIMIT when there is none. */
size_t lmc_option_index(const char *flag);

/* A row for a person, as in --help: "--port PORT", and what it is for, its default, its state.
 */
void lmc_option_spelling(lmc_buffer *out, const lmc_option *row);
void lmc_option_sentence(lmc_buffer *out, const lmc_option *row);

#define LMC_FIELD(member) offsetof(lmc_config, member)

/* The commonest openings of a row. */
#define LMC_VALUE(kind, name, member, path)                                              \
    .flag = (name), .form = LMC_FORM_VALUE, .type = (kind), .offset = LMC_FIELD(member), \
    .json = (path)
#define LMC_TEXT(name, member, path) LMC_VALUE(LMC_TYPE_TEXT, name, member, path)
#define LMC_INT(name, member, path) LMC_VALUE(LMC_TYPE_INT, name, member, path)
#define LMC_FLOAT(name, member, path) LMC_VALUE(LMC_TYPE_FLOAT, name, member, path)
#define LMC_FLAG_FORM(kind, name, member, path)                                         \
    .flag = (name), .form = (kind), .type = LMC_TYPE_BOOL, .offset = LMC_FIELD(member), \
    .json = (path)
#define LMC_BOOL_PAIR(name, member, path) LMC_FLAG_FORM(LMC_FORM_BOOL_PAIR, name, member, path)
#define LMC_SWITCH(name, member, path) \
    LMC_FLAG_FORM(LMC_FORM_STORE_TRUE, name, member, path), .initial = "false"
#define LMC_SWITCH_OFF(name, member, path) \
    LMC_FLAG_FORM(LMC_FORM_STORE_FALSE, name, member, path), .initial = "true"
/* A field that is shown and that no flag sets. */
#define LMC_SHOWN(kind, member, path) \
    .type = (kind), .offset = LMC_FIELD(member), .json = (path)

#endif
