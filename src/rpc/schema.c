#include "rpc/schema.h"

#include <lmcached/module.h>
#include <stddef.h>

#include "base/bytes.h"
#include "rpc/rpc.h"

/* Bit numbers, under names that the rows below can spell. */
#define BIT_ROW(message, kind, member, MEMBER, number, presence, fallback, part) \
    bit_##message##_##member,
#define BITS(message, M, form, FIELDS) \
    enum { LMC_##FIELDS##_FIELDS(BIT_ROW, message) bits_##message };
LMC_PART_MESSAGES(BITS)
LMC_OPERATION_MESSAGES(BITS)

/* Declared before any is defined, because parts stand in parts. `_` is no part. */
#define DECLARE(message, M, form, FIELDS) static const lmc_message_def def_##message;
LMC_PART_MESSAGES(DECLARE)
static const lmc_message_def def__;
#define PART(part) (sizeof #part == sizeof "_" ? NULL : &def_##part)

#define MUST_REQUIRED 1
#define MUST_DEFAULT 0
#define MUST_ZMQ_DEFAULT 0
#define MUST_OPTIONAL 0
#define MUST_NULLABLE 1
#define MUST_EXTRA 0

#define MEMBER_ROW(message, kind, member, MEMBER, number, presence, fallback, part) \
    {#member,                                                                       \
     sizeof #member - 1,                                                            \
     offsetof(lmc_##message, member),                                               \
     LMC_KIND_##kind,                                                               \
     LMC_PRESENCE_##presence,                                                       \
     number,                                                                        \
     fallback,                                                                      \
     UINT64_C(1) << bit_##message##_##member,                                       \
     PART(part)},
#define REQUIRED_BIT(message, kind, member, MEMBER, number, presence, fallback, part) \
    | (uint64_t)MUST_##presence << bit_##message##_##member
#define HAS_FALLBACK(message, kind, member, MEMBER, number, presence, fallback, part) \
    || (fallback) != 0
/* A key and at least one byte of value. */
#define MAP_SIZE(message, kind, member, MEMBER, number, presence, fallback, part) \
    +MUST_##presence *(sizeof #member + 1)

#define DEFINE(message, M, wire, FIELDS)                                     \
    static const lmc_member_def members_##message[] = {                      \
        LMC_##FIELDS##_FIELDS(MEMBER_ROW, message){0}};                      \
    static const lmc_message_def def_##message = {                           \
        .name = #message,                                                    \
        .form = LMC_FORM_##wire,                                             \
        .size = sizeof(lmc_##message),                                       \
        .min_size = LMC_FORM_##wire == LMC_FORM_MAP                          \
                        ? 1 LMC_##FIELDS##_FIELDS(MAP_SIZE, message)         \
                        : 1 + bits_##message,                                \
        .member_count = bits_##message,                                      \
        .required = 0 LMC_##FIELDS##_FIELDS(REQUIRED_BIT, message),          \
        .has_fallbacks = false LMC_##FIELDS##_FIELDS(HAS_FALLBACK, message), \
        .members = members_##message,                                        \
    };
LMC_PART_MESSAGES(DEFINE)
LMC_OPERATION_MESSAGES(DEFINE)
static const lmc_message_def def__ = {.name = "_"};

#define FLAG_0 0
#define FLAG_PENDS 1
#define FLAG_COUNTS 2
#define FLAG_ANSWERS_ALL 4

#define PATHS(name, id, class, negated, flags, path, older) \
    static const char *const paths_##name[] = {path, older, NULL};
LMC_OPERATIONS(PATHS)

#define OPERATION_ROW(operation, id, class, negated, flags, path, older)         \
    {                                                                            \
        .name = #operation,                                                      \
        .legacy_id = id,                                                         \
        .index = LMC_OP_##operation,                                             \
        .scheduling = LMC_##class,                                               \
        .negative = LMC_NEGATIVE_##negated,                                      \
        .is_void = sizeof members_##operation##_reply == sizeof(lmc_member_def), \
        .may_pend = (FLAG_##flags & FLAG_PENDS) != 0,                            \
        .counts_tokens = (FLAG_##flags & FLAG_COUNTS) != 0,                      \
        .answers_all = (FLAG_##flags & FLAG_ANSWERS_ALL) != 0,                   \
        .request = &def_##operation##_request,                                   \
        .reply = &def_##operation##_reply,                                       \
        .request_size = sizeof(lmc_##operation##_request),                       \
        .reply_size = sizeof(lmc_##operation##_reply),                           \
        .service_paths = paths_##operation,                                      \
    },
static const lmc_operation_def operations[] = {LMC_OPERATIONS(OPERATION_ROW)};

#define MESSAGE_ROW(message, M, form, FIELDS) &def_##message,
static const lmc_message_def *const messages[] = {LMC_PART_MESSAGES(MESSAGE_ROW)
                                                      LMC_OPERATION_MESSAGES(MESSAGE_ROW)};

size_t lmc_operation_count(void) { return LMC_OP_COUNT; }

const lmc_operation_def *lmc_operation_at(size_t index) {
    return index < LMC_OP_COUNT ? &operations[index] : NULL;
}

/* The table begins with the legacy ids in order, so the id is the place. */
const lmc_operation_def *lmc_operation_by_id(int64_t legacy_id) {
    if (legacy_id < 1 || legacy_id > LMC_OP_COUNT)
        return NULL;
    const lmc_operation_def *operation = &operations[legacy_id - 1];
    return operation->legacy_id == legacy_id ? operation : NULL;
}

const lmc_operation_def *lmc_operation_by_name(lmc_slice name) {
    for (size_t i = LMC_OP_COUNT; i-- > 0;)
        if (lmc_slice_is(name, operations[i].name))
            return &operations[i];
    return NULL;
}

const lmc_message_def *lmc_message_by_name(const char *name) {
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        if (lmc_slice_is(lmc_text(name), messages[i]->name))
            return messages[i];
    return NULL;
}

size_t lmc_message_size(const lmc_message_def *message) { return message->size; }
