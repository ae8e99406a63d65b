#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "rpc/msgpack.h"
#include "rpc/pb_values.h"
#include "rpc/rpc.h"

typedef lmc_member_def member_def;

typedef struct decoder {
    lmc_arena *arena;
    const member_def *failed; /* the innermost member that did not decode */
    lmc_status status;
    bool count_tokens;
} decoder;

static bool decode_message(decoder *d, const lmc_message_def *message, lmc_slice bytes,
                           void *base);

/* ---- arrays that grow: their capacity stands in front of the first item ---- */

typedef struct array_head {
    _Alignas(16) size_t capacity;
} array_head;

static size_t capacity_of(const lmc_part_list *list) {
    return list->items != NULL ? ((const array_head *)list->items - 1)->capacity : 0;
}

/* Room for `more` items of `size` bytes behind those of the list; NULL: no memory, or too many.
 */
static void *extend(decoder *d, lmc_part_list *list, size_t more, size_t size, size_t max) {
    size_t needed;
    if (__builtin_add_overflow(list->count, more, &needed) || needed > max)
        return NULL;
    if (list->items == NULL || needed > capacity_of(list)) {
        size_t capacity = list->items == NULL ? needed : needed + list->count;
        array_head *head = NULL;
        if (capacity <= (SIZE_MAX / 4 - sizeof *head) / size)
            head = lmc_arena_alloc(d->arena, sizeof *head + capacity * size);
        if (head == NULL) {
            d->status = LMC_NO_MEMORY;
            return NULL;
        }
        head->capacity = capacity;
        if (list->count > 0)
            memcpy(head + 1, list->items, list->count * size);
        list->items = head + 1;
    }
    void *place = (char *)(uintptr_t)list->items + list->count * size;
    list->count = needed;
    return place;
}

/* One more item in the list that lies at `out`. */
static void *append(decoder *d, void *out, size_t size, size_t max) {
    lmc_part_list list;
    memcpy(&list, out, sizeof list);
    void *place = extend(d, &list, 1, size, max);
    if (place != NULL) {
        memset(place, 0, size);
        memcpy(out, &list, sizeof list);
    }
    return place;
}

/* ---- integers ---- */

static bool append_ints(decoder *d, lmc_slice packed, lmc_ints *ints) {
    size_t count;
    lmc_part_list list;
    lmc_pb_reader reader = lmc_pb_reader_of(packed);
    if (!lmc_pb_count_varints(packed, &count))
        return false;
    if (count == 0)
        return true;
    memcpy(&list, ints, sizeof list);
    int64_t *place = extend(d, &list, count, sizeof *place, SIZE_MAX);
    if (place == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (!lmc_pb_read_varint(&reader, &value))
            return false;
        place[i] = (int64_t)value;
    }
    *ints = (lmc_ints){list.items, list.count};
    return true;
}

/* Prompts are mostly ids of one to three bytes. */
static bool read_ids(lmc_slice packed, size_t count, uint32_t *ids, bool *out_of_range) {
    lmc_pb_reader reader = lmc_pb_reader_of(packed);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = reader.at;
        if (reader.end - at >= 3 && at[2] < 0x80 && at[1] >= 0x80 && at[0] >= 0x80) {
            ids[i] = (at[0] & 0x7fU) | (at[1] & 0x7fU) << 7 | (uint32_t)at[2] << 14;
            reader.at += 3;
            continue;
        }
        uint64_t value;
        if (!lmc_pb_read_varint(&reader, &value))
            return false;
        if (value > UINT32_MAX)
            *out_of_range = true;
        ids[i] = (uint32_t)value;
    }
    return true;
}

static bool step_ids(lmc_slice packed, size_t count) {
    lmc_pb_reader reader = lmc_pb_reader_of(packed);
    uint64_t value;
    for (size_t i = 0; i < count; i++)
        if (!lmc_pb_read_varint(&reader, &value))
            return false;
    return true;
}

static bool append_tokens(decoder *d, lmc_slice packed, lmc_tokens *tokens) {
    size_t count;
    if (!lmc_pb_count_varints(packed, &count))
        return false;
    if (count > LMC_TOKENS_MAX || tokens->count > LMC_TOKENS_MAX - count)
        tokens->out_of_range = !d->count_tokens;
    if (d->count_tokens || tokens->out_of_range) {
        tokens->ids = NULL;
        tokens->count += count;
        return step_ids(packed, count);
    }
    lmc_part_list list = {tokens->ids, tokens->count};
    uint32_t *place = count == 0 ? NULL : extend(d, &list, count, sizeof *place, SIZE_MAX);
    if (count > 0 && place == NULL)
        return false;
    bool read = read_ids(packed, count, place, &tokens->out_of_range);
    tokens->ids = tokens->out_of_range ? NULL : list.items;
    tokens->count = list.count;
    return read;
}

/* ---- messages of one field, which stand for the value in it ---- */

static bool decode_int_list(decoder *d, lmc_slice bytes, lmc_ints *ints) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    while (reader.at != reader.end) {
        uint32_t number;
        lmc_pb_wire wire;
        if (!lmc_pb_read_tag(&reader, &number, &wire))
            return false;
        lmc_slice packed = {reader.at, 0};
        bool ours = number == 1 && (wire == LMC_PB_VARINT || wire == LMC_PB_BYTES);
        if (ours && wire == LMC_PB_BYTES) {
            if (!lmc_pb_read_bytes(&reader, &packed))
                return false;
        } else if (!lmc_pb_skip(&reader, number, wire)) {
            return false;
        } else {
            packed.size = (size_t)(reader.at - (const uint8_t *)packed.data);
        }
        if (ours && !append_ints(d, packed, ints))
            return false;
    }
    return true;
}

static bool decode_wrapper(lmc_slice bytes, lmc_slice *payload) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    while (reader.at != reader.end) {
        uint32_t number;
        lmc_pb_wire wire;
        if (!lmc_pb_read_tag(&reader, &number, &wire))
            return false;
        bool ours = number == 1 && wire == LMC_PB_BYTES;
        if (ours ? !lmc_pb_read_bytes(&reader, payload) : !lmc_pb_skip(&reader, number, wire))
            return false;
    }
    return true;
}

/* ---- values ---- */

static bool decode_text(lmc_slice bytes, lmc_slice *out) {
    *out = bytes;
    return lmc_slice_is_utf8(bytes);
}

static bool decode_data(decoder *d, lmc_slice bytes, lmc_pieces *out) {
    *out = (lmc_pieces){0};
    if (bytes.size == 0)
        return true;
    lmc_slice *piece = lmc_arena_alloc(d->arena, sizeof *piece);
    if (piece == NULL) {
        d->status = LMC_NO_MEMORY;
        return false;
    }
    *piece = bytes;
    *out = (lmc_pieces){piece, 1, bytes.size};
    return true;
}

/* No bytes are the empty map; anything else must be one map. */
static bool decode_map(decoder *d, lmc_slice bytes, lmc_slice *out) {
    *out = bytes.size > 0 ? bytes : lmc_slice_of("\x80", 1);
    if (lmc_mp_is_map(*out))
        return true;
    d->status = LMC_INVALID;
    return false;
}

/* A message that is a map on the other wire becomes that map. */
static bool decode_part_as_map(decoder *d, const lmc_message_def *part, lmc_slice bytes,
                               lmc_slice *out) {
    void *value = lmc_arena_zalloc(d->arena, part->size);
    if (value == NULL) {
        d->status = LMC_NO_MEMORY;
        return false;
    }
    if (!decode_message(d, part, bytes, value))
        return false;
    lmc_mp_writer counter = {0};
    lmc_zmq_write_message(&counter, part, value);
    lmc_mp_writer writer = {.out = lmc_arena_alloc(d->arena, counter.size)};
    if (writer.out == NULL) {
        d->status = LMC_NO_MEMORY;
        return false;
    }
    lmc_zmq_write_message(&writer, part, value);
    *out = lmc_slice_of(writer.out, writer.size);
    return true;
}

static bool decode_item(decoder *d, const member_def *member, lmc_slice bytes, void *out) {
    if (member->kind == LMC_KIND_INT_LISTS) {
        lmc_ints *ints = append(d, out, sizeof *ints, SIZE_MAX);
        return ints != NULL && decode_int_list(d, bytes, ints);
    }
    if (member->part != NULL) {
        void *item = append(d, out, member->part->size, LMC_LIST_MAX);
        return item != NULL && decode_message(d, member->part, bytes, item);
    }
    lmc_slice *slice = append(d, out, sizeof *slice, SIZE_MAX);
    if (slice == NULL)
        return false;
    if (member->kind == LMC_KIND_WRAPPERS)
        return decode_wrapper(bytes, slice);
    *slice = bytes;
    return member->kind != LMC_KIND_TEXTS || lmc_slice_is_utf8(bytes);
}

static bool decode_bytes(decoder *d, const member_def *member, lmc_slice bytes, void *out) {
    switch (member->kind) {
    case LMC_KIND_TEXT:
    case LMC_KIND_TAG:
        return decode_text(bytes, out);
    case LMC_KIND_BYTES:
        *(lmc_slice *)out = bytes;
        return true;
    case LMC_KIND_DATA:
        return decode_data(d, bytes, out);
    case LMC_KIND_MAP:
        return member->part != NULL ? decode_part_as_map(d, member->part, bytes, out)
                                    : decode_map(d, bytes, out);
    case LMC_KIND_MESSAGE:
        return decode_message(d, member->part, bytes, out);
    case LMC_KIND_TOKENS:
        return append_tokens(d, bytes, out);
    case LMC_KIND_INTS:
        return append_ints(d, bytes, out);
    default:
        return decode_item(d, member, bytes, out);
    }
}

static bool decode_varint(decoder *d, const member_def *member, lmc_slice bytes, void *out) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    uint64_t value;
    if (!lmc_pb_read_varint(&reader, &value))
        return false;
    if (member->kind == LMC_KIND_TOKENS)
        return append_tokens(d, bytes, out);
    if (member->kind == LMC_KIND_INTS)
        return append_ints(d, bytes, out);
    if (member->kind == LMC_KIND_BOOL)
        *(bool *)out = value != 0;
    else
        *(int64_t *)out = (int64_t)value;
    return true;
}

/* ---- fields ---- */

/* Whether a member can come in this wire type; if not, the field is as unknown as its number.
 */
static bool takes(const member_def *member, lmc_pb_wire wire) {
    switch (member->kind) {
    case LMC_KIND_INT:
    case LMC_KIND_BOOL:
        return wire == LMC_PB_VARINT;
    case LMC_KIND_FLOAT:
        return wire == LMC_PB_FIXED64;
    case LMC_KIND_TOKENS:
    case LMC_KIND_INTS:
        return wire == LMC_PB_VARINT || wire == LMC_PB_BYTES;
    default:
        return wire == LMC_PB_BYTES;
    }
}

static const member_def *by_number(const lmc_message_def *message, uint32_t number) {
    for (size_t i = 0; i < message->member_count; i++)
        if (message->members[i].number == number)
            return &message->members[i];
    return NULL;
}

static const member_def *find_member(const lmc_message_def *message, uint32_t number,
                                     lmc_pb_wire wire) {
    const member_def *member = by_number(message, number);
    if (member == NULL || takes(member, wire))
        return member;
    /* An early key had num_kv_readers where request_configs is now (D50). */
    if (member->kind == LMC_KIND_MAP && wire == LMC_PB_VARINT) {
        member = by_number(message, number + 1);
        if (member != NULL && member->kind == LMC_KIND_INT)
            return member;
    }
    return NULL;
}

static bool decode_field(decoder *d, const member_def *member, lmc_pb_reader *reader,
                         uint32_t number, lmc_pb_wire wire, void *base) {
    void *out = (char *)base + member->offset;
    lmc_slice bytes = {reader->at, 0};
    *(uint64_t *)base |= member->bit;
    if (wire == LMC_PB_BYTES)
        return lmc_pb_read_bytes(reader, &bytes) && decode_bytes(d, member, bytes, out);
    if (wire == LMC_PB_FIXED64) {
        uint64_t bits;
        if (!lmc_pb_read_fixed64(reader, &bits))
            return false;
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    if (!lmc_pb_skip(reader, number, wire))
        return false;
    bytes.size = (size_t)(reader->at - (const uint8_t *)bytes.data);
    return decode_varint(d, member, bytes, out);
}

static bool decode_message(decoder *d, const lmc_message_def *message, lmc_slice bytes,
                           void *base) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    while (reader.at != reader.end) {
        uint32_t number;
        lmc_pb_wire wire;
        if (!lmc_pb_read_tag(&reader, &number, &wire))
            return false;
        const member_def *member = find_member(message, number, wire);
        bool decoded = member != NULL ? decode_field(d, member, &reader, number, wire, base)
                                      : lmc_pb_skip(&reader, number, wire);
        if (!decoded && d->failed == NULL)
            d->failed = member;
        if (!decoded)
            return false;
    }
    return true;
}

/* The members lie in field 1 of a message that has nothing else. */
static bool decode_result(decoder *d, const lmc_message_def *message, lmc_slice bytes,
                          void *base) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    while (reader.at != reader.end) {
        uint32_t number;
        lmc_pb_wire wire;
        lmc_slice inner;
        if (!lmc_pb_read_tag(&reader, &number, &wire))
            return false;
        bool ours = number == 1 && wire == LMC_PB_BYTES;
        if (ours ? !lmc_pb_read_bytes(&reader, &inner) : !lmc_pb_skip(&reader, number, wire))
            return false;
        if (ours && !decode_message(d, message, inner, base))
            return false;
    }
    return true;
}

static lmc_status decode_top(decoder *d, const lmc_message_def *message, lmc_slice bytes,
                             void *out, lmc_error *error) {
    bool decoded = message->form == LMC_FORM_RESULT ? decode_result(d, message, bytes, out)
                                                    : decode_message(d, message, bytes, out);
    if (decoded)
        return LMC_OK;
    return lmc_error_set(error, d->status, "%s: '%s' does not decode", message->name,
                         d->failed != NULL ? d->failed->name : "message");
}

lmc_status lmc_pb_decode(const lmc_message_def *message, lmc_slice bytes, lmc_arena *arena,
                         void *out, lmc_error *error) {
    decoder d = {.arena = arena, .status = LMC_MALFORMED};
    return decode_top(&d, message, bytes, out, error);
}

/* A payload of bytes that is not empty, in whatever order the members come. */
static bool brings_data(const lmc_message_def *message, lmc_slice bytes) {
    lmc_pb_reader reader = lmc_pb_reader_of(bytes);
    uint32_t number;
    lmc_pb_wire wire;
    while (reader.at != reader.end && lmc_pb_read_tag(&reader, &number, &wire)) {
        const uint8_t *start = reader.at;
        const member_def *member = find_member(message, number, wire);
        if (!lmc_pb_skip(&reader, number, wire))
            return false;
        if (member != NULL && member->kind == LMC_KIND_DATA && reader.at - start > 1)
            return true;
    }
    return false;
}

lmc_status lmc_pb_decode_request(const lmc_operation_def *operation, lmc_slice bytes,
                                 lmc_arena *arena, void *request, lmc_error *error) {
    decoder d = {
        .arena = arena,
        .status = LMC_MALFORMED,
        .count_tokens = operation->counts_tokens && !brings_data(operation->request, bytes),
    };
    return decode_top(&d, operation->request, bytes, request, error);
}
