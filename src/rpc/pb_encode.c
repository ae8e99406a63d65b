#include <string.h>

#include "base/bytes.h"
#include "rpc/msgpack.h"
#include "rpc/pb_values.h"
#include "rpc/rpc.h"

typedef lmc_pb_writer writer;
typedef lmc_member_def member_def;

/* Zero and empty are not sent where absent means the same; `always` is for map entries. */
static void write_scalar(writer *w, const member_def *member, uint64_t value, bool always) {
    if (value == 0 && !always)
        return;
    lmc_pb_write_varint(w, value);
    lmc_pb_write_tag(w, member->number, LMC_PB_VARINT);
}

static void write_float(writer *w, const member_def *member, double value, bool always) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits == 0 && !always)
        return;
    lmc_pb_write_fixed64(w, bits);
    lmc_pb_write_tag(w, member->number, LMC_PB_FIXED64);
}

static void write_item(writer *w, uint32_t number, lmc_slice bytes) {
    size_t since = w->size;
    lmc_pb_write_raw(w, bytes);
    lmc_pb_write_head(w, number, since);
}

static void write_text_item(writer *w, uint32_t number, lmc_slice text) {
    if (w->end == NULL && !lmc_slice_is_utf8(text))
        w->invalid = true;
    write_item(w, number, text);
}

/* The map as the message that it is on this wire; unknown keys stay behind. */
static void write_map_as_part(writer *w, const member_def *member, lmc_slice map) {
    uint64_t storage[16] = {0};
    size_t since = w->size;
    lmc_zmq_decoder decoder = {.in = lmc_mp_reader_of(map)};
    if (member->part->size > sizeof storage ||
        !lmc_zmq_decode_message(&decoder, member->part, storage))
        w->invalid = true;
    else
        lmc_pb_write_message(w, member->part, storage, false);
    lmc_pb_write_head(w, member->number, since);
}

/* As bytes, and no bytes when the map is empty. */
static void write_map(writer *w, const member_def *member, lmc_slice map, bool always) {
    lmc_mp_reader reader = lmc_mp_reader_of(map);
    size_t count = 0;
    if (map.size > 0 && !lmc_mp_is_map(map))
        w->invalid = true;
    else if (map.size > 0 && lmc_mp_read_map(&reader, &count) && count == 0)
        map = (lmc_slice){0};
    if (map.size > 0 || always)
        write_item(w, member->number, map);
}

static void write_data(writer *w, const member_def *member, const lmc_pieces *pieces,
                       bool always) {
    size_t since = w->size;
    for (size_t i = pieces->count; i-- > 0;)
        lmc_pb_write_raw(w, pieces->items[i]);
    if (w->size > since || always)
        lmc_pb_write_head(w, member->number, since);
}

static void write_tokens(writer *w, const member_def *member, const lmc_tokens *tokens) {
    size_t since = w->size;
    if (tokens->ids == NULL && tokens->count > 0)
        w->invalid = true;
    for (size_t i = tokens->ids != NULL ? tokens->count : 0; i-- > 0;)
        lmc_pb_write_varint(w, tokens->ids[i]);
    if (w->size > since)
        lmc_pb_write_head(w, member->number, since);
}

/* Packed; a list that stands in a list is a message of its own and there even when empty. */
static void write_ints(writer *w, uint32_t number, const lmc_ints *list) {
    size_t since = w->size;
    for (size_t i = list->count; i-- > 0;)
        lmc_pb_write_varint(w, (uint64_t)list->items[i]);
    if (w->size > since)
        lmc_pb_write_head(w, number, since);
}

static void write_int_lists(writer *w, const member_def *member, const lmc_int_lists *lists) {
    for (size_t i = lists->count; i-- > 0;) {
        size_t since = w->size;
        write_ints(w, 1, &lists->items[i]);
        lmc_pb_write_head(w, member->number, since);
    }
}

static void write_slices(writer *w, const member_def *member, const lmc_slices *slices) {
    for (size_t i = slices->count; i-- > 0;) {
        size_t since = w->size;
        if (member->kind == LMC_KIND_TEXTS) {
            write_text_item(w, member->number, slices->items[i]);
        } else if (member->kind == LMC_KIND_BLOBS) {
            write_item(w, member->number, slices->items[i]);
        } else {
            if (slices->items[i].size > 0)
                write_item(w, 1, slices->items[i]);
            lmc_pb_write_head(w, member->number, since);
        }
    }
}

static void write_part(writer *w, const member_def *member, const void *value, bool always) {
    size_t since = w->size;
    lmc_pb_write_message(w, member->part, value, false);
    if (w->size > since || always)
        lmc_pb_write_head(w, member->number, since);
}

static void write_parts(writer *w, const member_def *member, const void *value) {
    lmc_part_list list;
    memcpy(&list, value, sizeof list);
    for (size_t i = list.count; i-- > 0;) {
        size_t since = w->size;
        const char *item = (const char *)list.items + i * member->part->size;
        lmc_pb_write_message(w, member->part, item, member->kind == LMC_KIND_ENTRIES);
        lmc_pb_write_head(w, member->number, since);
    }
}

static void write_text(writer *w, const member_def *member, lmc_slice text, bool always) {
    if (text.size > 0 || always)
        write_text_item(w, member->number, text);
}

static void write_bytes(writer *w, const member_def *member, lmc_slice bytes, bool always) {
    if (bytes.size > 0 || always)
        write_item(w, member->number, bytes);
}

static void write_value(writer *w, const member_def *member, const void *value, bool always) {
    switch (member->kind) {
    case LMC_KIND_INT:
        write_scalar(w, member, (uint64_t) * (const int64_t *)value, always);
        break;
    case LMC_KIND_BOOL:
        write_scalar(w, member, *(const bool *)value, always);
        break;
    case LMC_KIND_FLOAT:
        write_float(w, member, *(const double *)value, always);
        break;
    case LMC_KIND_TEXT:
    case LMC_KIND_TAG:
        write_text(w, member, *(const lmc_slice *)value, always);
        break;
    case LMC_KIND_BYTES:
        write_bytes(w, member, *(const lmc_slice *)value, always);
        break;
    case LMC_KIND_DATA:
        write_data(w, member, value, always);
        break;
    case LMC_KIND_TOKENS:
        write_tokens(w, member, value);
        break;
    case LMC_KIND_INTS:
        write_ints(w, member->number, value);
        break;
    case LMC_KIND_INT_LISTS:
        write_int_lists(w, member, value);
        break;
    case LMC_KIND_TEXTS:
    case LMC_KIND_BLOBS:
    case LMC_KIND_WRAPPERS:
        write_slices(w, member, value);
        break;
    case LMC_KIND_MAP:
        if (member->part != NULL)
            write_map_as_part(w, member, *(const lmc_slice *)value);
        else
            write_map(w, member, *(const lmc_slice *)value, always);
        break;
    case LMC_KIND_MESSAGE:
        write_part(w, member, value, always);
        break;
    case LMC_KIND_LIST:
    case LMC_KIND_ENTRIES:
        write_parts(w, member, value);
        break;
    default: /* not on this wire */
        break;
    }
}
static void write_member(writer *w, const member_def *member, const void *base, bool always) {
    const char *value = (const char *)base + member->offset;
    bool has = (lmc_present(base) & member->bit) != 0;
    bool tells = lmc_member_has_bit(member) || member->presence == LMC_PRESENCE_ZMQ_DEFAULT;
    if (member->number == 0 || (tells && !has))
        return;
    write_value(w, member, value, always || tells || (has && member->kind == LMC_KIND_MESSAGE));
}

void lmc_pb_write_message(writer *w, const lmc_message_def *message, const void *base,
                          bool always) {
    for (size_t i = message->member_count; i-- > 0;)
        write_member(w, &message->members[i], base, always);
}

static void write_top(writer *w, const lmc_message_def *message, const void *in) {
    lmc_pb_write_message(w, message, in, false);
    if (message->form == LMC_FORM_RESULT)
        lmc_pb_write_head(w, 1, 0);
}

lmc_status lmc_pb_encode(const lmc_message_def *message, const void *in, lmc_arena *arena,
                         lmc_slice *bytes) {
    writer counter = {0};
    write_top(&counter, message, in);
    if (counter.invalid)
        return LMC_INVALID;
    uint8_t *out = lmc_arena_alloc(arena, counter.size);
    if (out == NULL)
        return LMC_NO_MEMORY;
    writer w = {.end = out + counter.size};
    write_top(&w, message, in);
    *bytes = lmc_slice_of(out, counter.size);
    return LMC_OK;
}

/* The one member of a reply that may pend is there when the status says so. */
lmc_status lmc_pb_encode_reply(const lmc_operation_def *operation, const void *reply,
                               lmc_status status, lmc_arena *arena, lmc_slice *bytes) {
    *bytes = (lmc_slice){0};
    if (!operation->may_pend)
        return status == LMC_OK ? lmc_pb_encode(operation->reply, reply, arena, bytes)
                                : LMC_INVALID;
    if (status != LMC_OK)
        return status == LMC_AGAIN ? LMC_OK : LMC_INVALID;
    void *given = lmc_arena_alloc(arena, operation->reply_size);
    if (given == NULL)
        return LMC_NO_MEMORY;
    memcpy(given, reply, operation->reply_size);
    *(uint64_t *)given |= operation->reply->members[0].bit;
    return lmc_pb_encode(operation->reply, given, arena, bytes);
}
