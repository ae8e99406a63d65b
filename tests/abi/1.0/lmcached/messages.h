/*
 * messages.h: the request and reply of every operation as C structs, made from schema.def.
 *
 * `lookup` has struct lmc_lookup_request and struct lmc_lookup_reply, with the members that
 * LMC_LOOKUP_REQUEST_FIELDS lists; the types of the members are in values.h. A list of parts is
 * `struct { const lmc_x *items; size_t count; } lmc_x_list`.
 *
 * Every struct begins with `present`: the bit LMC_LOOKUP_REQUEST_HAS_KEY is set when the peer
 * sent that member. A reader needs it only for members that are OPTIONAL, NULLABLE or EXTRA;
 * everything else has its value or its default. A writer sets the bit of such a member, and of
 * one whose default is not zero, for the value to be sent; other members go out as they are.
 * The one member of a reply that may be pending (chunk_count, ...) needs no bit: LMC_OK says
 * that it is there.
 *
 * Structs grow as the table does, which is part of the module ABI (module.h): requests and
 * replies at their end, parts into their reserved words, always with members that a bit
 * governs. An older module reads and writes what it knows; what is allocated for a module is
 * zeroed and has room for members that this server does not know, which it neither sets nor
 * sends.
 *
 * Raw maps hold one MessagePack map; {NULL, 0} is none. Request structs and all they point to
 * are constant and lent with the call. Any thread may use these types.
 */
#ifndef LMCACHED_MESSAGES_H
#define LMCACHED_MESSAGES_H

#include <lmcached/schema.def>
#include <lmcached/values.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C type of a member, by kind and part. */
#define LMC_TYPE_INT(part) int64_t
#define LMC_TYPE_BOOL(part) bool
#define LMC_TYPE_FLOAT(part) double
#define LMC_TYPE_TEXT(part) lmc_slice
#define LMC_TYPE_TAG(part) lmc_slice
#define LMC_TYPE_BYTES(part) lmc_slice
#define LMC_TYPE_DATA(part) lmc_pieces
#define LMC_TYPE_TOKENS(part) lmc_tokens
#define LMC_TYPE_INTS(part) lmc_ints
#define LMC_TYPE_INT_LISTS(part) lmc_int_lists
#define LMC_TYPE_BOOL_LISTS(part) lmc_bool_lists
#define LMC_TYPE_TEXTS(part) lmc_slices
#define LMC_TYPE_BLOBS(part) lmc_slices
#define LMC_TYPE_WRAPPERS(part) lmc_slices
#define LMC_TYPE_MAP(part) lmc_slice
#define LMC_TYPE_MESSAGE(part) lmc_##part
#define LMC_TYPE_LIST(part) lmc_##part##_list
#define LMC_TYPE_SPARSE_LIST(part) lmc_##part##_list
#define LMC_TYPE_ENTRIES(part) lmc_##part##_list

#define LMC_BIT(M, kind, member, MEMBER, number, presence, fallback, part) \
    LMC_##M##_BIT_##MEMBER,
#define LMC_HAS(M, kind, member, MEMBER, number, presence, fallback, part) \
    LMC_##M##_HAS_##MEMBER = 1 << LMC_##M##_BIT_##MEMBER,
#define LMC_MEMBER(M, kind, member, MEMBER, number, presence, fallback, part) \
    LMC_TYPE_##kind(part) member;

#define LMC_STRUCT(message, M, form, FIELDS)                           \
    enum { LMC_##FIELDS##_FIELDS(LMC_BIT, M) LMC_##M##_MEMBERS };      \
    enum { LMC_##FIELDS##_FIELDS(LMC_HAS, M) LMC_##M##_HAS_NONE = 0 }; \
    typedef struct lmc_##message {                                     \
        uint64_t present;                                              \
        LMC_##FIELDS##_FIELDS(LMC_MEMBER, M)                           \
    } lmc_##message;

/* Parts stand inside other structs and in arrays, so their size never changes: a new member
 * takes the place of a reserved word. */
#define LMC_PART(message, M, form, FIELDS)                                          \
    enum { LMC_##FIELDS##_FIELDS(LMC_BIT, M) LMC_##M##_MEMBERS };                   \
    enum { LMC_##FIELDS##_FIELDS(LMC_HAS, M) LMC_##M##_HAS_NONE = 0 };              \
    typedef struct lmc_##message {                                                  \
        uint64_t present;                                                           \
        LMC_##FIELDS##_FIELDS(LMC_MEMBER, M) uint64_t reserved[LMC_##M##_RESERVED]; \
    } lmc_##message;                                                                \
    typedef struct lmc_##message##_list {                                           \
        const lmc_##message *items;                                                 \
        size_t count;                                                               \
    } lmc_##message##_list;

LMC_PART_MESSAGES(LMC_PART)
LMC_OPERATION_MESSAGES(LMC_STRUCT)

#undef LMC_BIT
#undef LMC_HAS
#undef LMC_MEMBER
#undef LMC_STRUCT
#undef LMC_PART

#ifdef __cplusplus
}
#endif

#endif
