/*
 * schema.h: schema.def as constant tables that the codecs walk.
 *
 * A message is described by its members; a member by its kind, where it lies in the struct, and
 * how it appears on each wire. Internal to this room; everybody else uses rpc.h.
 */
#ifndef LMC_RPC_SCHEMA_H
#define LMC_RPC_SCHEMA_H

#include <lmcached/messages.h>

typedef enum lmc_kind {
    LMC_KIND_INT,
    LMC_KIND_BOOL,
    LMC_KIND_FLOAT,
    LMC_KIND_TEXT,
    LMC_KIND_TAG,
    LMC_KIND_BYTES,
    LMC_KIND_DATA,
    LMC_KIND_TOKENS,
    LMC_KIND_INTS,
    LMC_KIND_INT_LISTS,
    LMC_KIND_BOOL_LISTS,
    LMC_KIND_TEXTS,
    LMC_KIND_BLOBS,
    LMC_KIND_WRAPPERS,
    LMC_KIND_MAP,
    LMC_KIND_MESSAGE,
    LMC_KIND_LIST,
    LMC_KIND_SPARSE_LIST,
    LMC_KIND_ENTRIES,
    LMC_KINDS,
} lmc_kind;

typedef enum lmc_presence {
    LMC_PRESENCE_REQUIRED,
    LMC_PRESENCE_DEFAULT,
    LMC_PRESENCE_ZMQ_DEFAULT,
    LMC_PRESENCE_OPTIONAL,
    LMC_PRESENCE_NULLABLE,
    LMC_PRESENCE_EXTRA,
} lmc_presence;

typedef enum lmc_form {
    LMC_FORM_FRAMES,
    LMC_FORM_MAP,
    LMC_FORM_TUPLE,
    LMC_FORM_RESULT,
    LMC_FORM_BARE,
    LMC_FORM_VOID,
} lmc_form;

typedef struct lmc_message_def lmc_message_def;

typedef struct lmc_member_def {
    const char *name;
    uint32_t name_size;
    uint32_t offset; /* in the struct */
    lmc_kind kind;
    lmc_presence presence;
    uint32_t number;  /* protobuf; 0: not there */
    int32_t fallback; /* value when it is missing on ZMQ */
    uint64_t bit;     /* in `present` */
    const lmc_message_def *part;
} lmc_member_def;

struct lmc_message_def {
    const char *name;
    lmc_form form;
    uint32_t size;     /* of the struct */
    uint32_t min_size; /* no value of this message is shorter on ZMQ */
    uint32_t member_count;
    uint64_t required;  /* bits of members that must be there on ZMQ, nil or not */
    bool has_fallbacks; /* some member's fallback is not zero */
    const lmc_member_def *members;
};

/* Most items in a list whose items may be smaller on the wire than 1/16 of their struct. */
#define LMC_LIST_MAX ((size_t)1 << 20)
/* More token ids than any prompt has; such a list counts as out of range. */
#define LMC_TOKENS_MAX ((size_t)1 << 24)

/* What all lmc_<part>_list have in common. */
typedef struct lmc_part_list {
    const void *items;
    size_t count;
} lmc_part_list;

/* Whether the member may go without a value, so that its bit tells. */
static inline bool lmc_member_has_bit(const lmc_member_def *member) {
    return member->presence >= LMC_PRESENCE_OPTIONAL;
}

#endif
