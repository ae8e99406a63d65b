#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "rpc/token_ids.h"
#include "rpc/zmq_values.h"

typedef lmc_zmq_decoder decoder;
typedef lmc_member_def member_def;

static void *new_array(decoder *d, size_t count, size_t size) {
    void *items = lmc_arena_array(d->arena, count, size);
    if (items == NULL)
        d->status = LMC_NO_MEMORY;
    return items;
}

/* ---- scalars ---- */

/* A frame that holds just a number may be any number: peers coerce there. */
static bool decode_number(decoder *d, double *value) {
    bool truth;
    if (lmc_mp_peek(&d->in) != LMC_MP_BOOL)
        return lmc_mp_read_float(&d->in, value);
    if (!lmc_mp_read_bool(&d->in, &truth))
        return false;
    *value = truth;
    return true;
}

static bool decode_int(decoder *d, const member_def *member, void *out) {
    (void)member;
    if (!d->whole_frame || lmc_mp_peek(&d->in) == LMC_MP_INT)
        return lmc_mp_read_int(&d->in, out);
    double value;
    if (!decode_number(d, &value) || !(fabs(value) < 9.2e18))
        return false;
    *(int64_t *)out = (int64_t)value;
    return true;
}

static bool decode_bool(decoder *d, const member_def *member, void *out) {
    (void)member;
    if (!d->whole_frame || lmc_mp_peek(&d->in) == LMC_MP_BOOL)
        return lmc_mp_read_bool(&d->in, out);
    double value;
    if (!decode_number(d, &value))
        return false;
    *(bool *)out = value != 0;
    return true;
}

static bool decode_float(decoder *d, const member_def *member, void *out) {
    (void)member;
    return lmc_mp_read_float(&d->in, out);
}

static bool decode_text(decoder *d, const member_def *member, void *out) {
    (void)member;
    return lmc_mp_read_text(&d->in, out);
}

static bool decode_tag(decoder *d, const member_def *member, void *out) {
    (void)member;
    int64_t number;
    if (lmc_mp_peek(&d->in) != LMC_MP_INT)
        return lmc_mp_read_text(&d->in, out);
    if (!lmc_mp_read_int(&d->in, &number))
        return false;
    char *digits = lmc_arena_printf(d->arena, "%lld", (long long)number);
    if (digits == NULL)
        d->status = LMC_NO_MEMORY;
    *(lmc_slice *)out = lmc_text(digits);
    return digits != NULL;
}

static bool decode_bytes(decoder *d, const member_def *member, void *out) {
    (void)member;
    return lmc_mp_read_bytes(&d->in, out);
}

static bool decode_data(decoder *d, const member_def *member, void *out) {
    (void)member;
    lmc_slice bytes;
    lmc_pieces *pieces = out;
    if (!lmc_mp_read_bytes(&d->in, &bytes))
        return false;
    *pieces = (lmc_pieces){0};
    if (bytes.size == 0)
        return true;
    lmc_slice *piece = new_array(d, 1, sizeof *piece);
    if (piece == NULL)
        return false;
    *piece = bytes;
    *pieces = (lmc_pieces){piece, 1, bytes.size};
    return true;
}

static bool decode_map(decoder *d, const member_def *member, void *out) {
    (void)member;
    return lmc_mp_read_raw_map(&d->in, out);
}

/* ---- arrays ---- */

static bool decode_tokens(decoder *d, const member_def *member, void *out) {
    (void)member;
    lmc_tokens *tokens = out;
    *tokens = (lmc_tokens){0};
    if (!lmc_mp_read_array(&d->in, &tokens->count))
        return false;
    if (d->count_tokens)
        return lmc_mp_read_token_ids(&d->in, tokens->count, NULL, &(bool){false});
    bool too_many = tokens->count > LMC_TOKENS_MAX;
    uint32_t *ids = NULL;
    if (!too_many && tokens->count > 0) {
        ids = new_array(d, tokens->count, sizeof *ids);
        if (ids == NULL)
            return false;
    }
    if (!lmc_mp_read_token_ids(&d->in, tokens->count, ids, &tokens->out_of_range))
        return false;
    tokens->out_of_range = tokens->out_of_range || too_many;
    tokens->ids = tokens->out_of_range ? NULL : ids;
    return true;
}

static bool decode_ints(decoder *d, const member_def *member, void *out) {
    (void)member;
    lmc_ints *list = out;
    size_t count;
    *list = (lmc_ints){0};
    if (!lmc_mp_read_array(&d->in, &count))
        return false;
    if (count == 0)
        return true;
    int64_t *items = new_array(d, count, sizeof *items);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!lmc_mp_read_int(&d->in, &items[i]))
            return false;
    *list = (lmc_ints){items, count};
    return true;
}

static bool decode_bools(decoder *d, const member_def *member, void *out) {
    (void)member;
    lmc_bools *list = out;
    size_t count;
    *list = (lmc_bools){0};
    if (!lmc_mp_read_array(&d->in, &count))
        return false;
    if (count == 0)
        return true;
    bool *items = new_array(d, count, sizeof *items);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!lmc_mp_read_bool(&d->in, &items[i]))
            return false;
    *list = (lmc_bools){items, count};
    return true;
}

typedef bool decode_function(decoder *d, const member_def *member, void *out);

/* An array whose items take `size` bytes each and are read by `item`. */
static bool decode_array(decoder *d, const member_def *member, void *out, size_t size,
                         decode_function *item) {
    lmc_part_list list = {0};
    if (!lmc_mp_read_array(&d->in, &list.count))
        return false;
    if (list.count > 0) {
        char *items = new_array(d, list.count, size);
        if (items == NULL)
            return false;
        for (size_t i = 0; i < list.count; i++)
            if (!item(d, member, items + i * size))
                return false;
        list.items = items;
    }
    memcpy(out, &list, sizeof list);
    return true;
}

static bool decode_int_lists(decoder *d, const member_def *member, void *out) {
    return decode_array(d, member, out, sizeof(lmc_ints), decode_ints);
}

static bool decode_bool_lists(decoder *d, const member_def *member, void *out) {
    return decode_array(d, member, out, sizeof(lmc_bools), decode_bools);
}

static bool decode_texts(decoder *d, const member_def *member, void *out) {
    return decode_array(d, member, out, sizeof(lmc_slice), decode_text);
}

static bool decode_blobs(decoder *d, const member_def *member, void *out) {
    return decode_array(d, member, out, sizeof(lmc_slice), decode_bytes);
}

static bool decode_wrapper(decoder *d, const member_def *member, void *out) {
    (void)member;
    int8_t type;
    return lmc_mp_read_ext(&d->in, &type, out) && type == LMC_MP_EXT_WRAPPER;
}

static bool decode_wrappers(decoder *d, const member_def *member, void *out) {
    return decode_array(d, member, out, sizeof(lmc_slice), decode_wrapper);
}

/* ---- messages ---- */

static bool decode_part(decoder *d, const member_def *member, void *out) {
    memset(out, 0, member->part->size);
    return lmc_zmq_decode_message(d, member->part, out);
}

static bool decode_part_or_nil(decoder *d, const member_def *member, void *out) {
    if (lmc_mp_peek(&d->in) != LMC_MP_NIL)
        return decode_part(d, member, out);
    memset(out, 0, member->part->size);
    return lmc_mp_read_nil(&d->in);
}

/* Bytes may claim many short items; items must at least be there to be given memory. */
static bool decode_items(decoder *d, const member_def *member, void *out, size_t min_size,
                         size_t max_count, decode_function *item) {
    lmc_mp_reader ahead = d->in;
    size_t count;
    if (!lmc_mp_read_array(&ahead, &count) || count > lmc_mp_left(&ahead) / min_size ||
        count > max_count)
        return false;
    return decode_array(d, member, out, member->part->size, item);
}

static bool decode_list(decoder *d, const member_def *member, void *out) {
    return decode_items(d, member, out, member->part->min_size, SIZE_MAX, decode_part);
}

static bool decode_sparse_list(decoder *d, const member_def *member, void *out) {
    return decode_items(d, member, out, 1, LMC_LIST_MAX, decode_part_or_nil);
}

static bool decode_entry(decoder *d, const lmc_message_def *entry, void *out) {
    memset(out, 0, entry->size);
    return lmc_zmq_decode_member(d, &entry->members[0], out) &&
           lmc_zmq_decode_member(d, &entry->members[1], out);
}

static bool decode_entries(decoder *d, const member_def *member, void *out) {
    lmc_part_list list = {0};
    size_t size = member->part->size;
    if (!lmc_mp_read_map(&d->in, &list.count) || list.count > LMC_LIST_MAX)
        return false;
    char *items = new_array(d, list.count, size);
    if (items == NULL)
        return false;
    for (size_t i = 0; i < list.count; i++)
        if (!decode_entry(d, member->part, items + i * size))
            return false;
    list.items = items;
    memcpy(out, &list, sizeof list);
    return true;
}

static decode_function *const decoders[LMC_KINDS] = {
    [LMC_KIND_INT] = decode_int,
    [LMC_KIND_BOOL] = decode_bool,
    [LMC_KIND_FLOAT] = decode_float,
    [LMC_KIND_TEXT] = decode_text,
    [LMC_KIND_TAG] = decode_tag,
    [LMC_KIND_BYTES] = decode_bytes,
    [LMC_KIND_DATA] = decode_data,
    [LMC_KIND_TOKENS] = decode_tokens,
    [LMC_KIND_INTS] = decode_ints,
    [LMC_KIND_INT_LISTS] = decode_int_lists,
    [LMC_KIND_BOOL_LISTS] = decode_bool_lists,
    [LMC_KIND_TEXTS] = decode_texts,
    [LMC_KIND_BLOBS] = decode_blobs,
    [LMC_KIND_WRAPPERS] = decode_wrappers,
    [LMC_KIND_MAP] = decode_map,
    [LMC_KIND_MESSAGE] = decode_part,
    [LMC_KIND_LIST] = decode_list,
    [LMC_KIND_SPARSE_LIST] = decode_sparse_list,
    [LMC_KIND_ENTRIES] = decode_entries,
};

static void fill_fallback(const member_def *member, void *base) {
    char *out = (char *)base + member->offset;
    if (member->kind == LMC_KIND_INT)
        *(int64_t *)(void *)out = member->fallback;
    else if (member->kind == LMC_KIND_BOOL)
        *(bool *)out = member->fallback != 0;
}

void lmc_zmq_fill_fallbacks(const lmc_message_def *message, void *base) {
    for (size_t i = 0; message->has_fallbacks && i < message->member_count; i++)
        if (message->members[i].fallback != 0)
            fill_fallback(&message->members[i], base);
}

/* Size of a member's C type. */
static size_t value_size(const member_def *member) {
    static const uint8_t sizes[LMC_KINDS] = {
        [LMC_KIND_INT] = sizeof(int64_t),       [LMC_KIND_BOOL] = sizeof(bool),
        [LMC_KIND_FLOAT] = sizeof(double),      [LMC_KIND_TEXT] = sizeof(lmc_slice),
        [LMC_KIND_TAG] = sizeof(lmc_slice),     [LMC_KIND_BYTES] = sizeof(lmc_slice),
        [LMC_KIND_MAP] = sizeof(lmc_slice),     [LMC_KIND_DATA] = sizeof(lmc_pieces),
        [LMC_KIND_TOKENS] = sizeof(lmc_tokens),
    };
    if (member->kind == LMC_KIND_MESSAGE)
        return member->part->size;
    size_t size = sizes[member->kind];
    return size != 0 ? size : sizeof(lmc_part_list);
}

/* nil instead of a value; undoes an earlier value of the same key. */
static bool decode_nil(decoder *d, const member_def *member, void *base) {
    if (member->presence == LMC_PRESENCE_REQUIRED || !lmc_mp_read_nil(&d->in))
        return false;
    *(uint64_t *)base &= ~member->bit;
    memset((char *)base + member->offset, 0, value_size(member));
    fill_fallback(member, base);
    return true;
}

bool lmc_zmq_decode_member(decoder *d, const member_def *member, void *base) {
    bool whole_frame = d->whole_frame;
    bool decoded;
    if (lmc_mp_peek(&d->in) == LMC_MP_NIL) {
        decoded = decode_nil(d, member, base);
    } else {
        decoded = decoders[member->kind](d, member, (char *)base + member->offset);
        *(uint64_t *)base |= member->bit;
    }
    d->whole_frame = whole_frame;
    if (!decoded && d->failed == NULL)
        d->failed = member;
    return decoded;
}

/* Keys mostly come in the order of declaration, so the search begins behind the last one found.
 */
static const member_def *find_member(const lmc_message_def *message, lmc_slice key,
                                     size_t *next) {
    for (size_t i = 0; i < message->member_count; i++) {
        size_t at = *next + i;
        at = at < message->member_count ? at : at - message->member_count;
        const member_def *member = &message->members[at];
        if (key.size == member->name_size && memcmp(key.data, member->name, key.size) == 0) {
            *next = at + 1 < message->member_count ? at + 1 : 0;
            return member;
        }
    }
    return NULL;
}

static bool decode_as_map(decoder *d, const lmc_message_def *message, void *base) {
    size_t count;
    size_t next = 0;
    uint64_t seen = 0;
    if (!lmc_mp_read_map(&d->in, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        lmc_slice key;
        if (!lmc_mp_read_text(&d->in, &key))
            return false;
        const member_def *member = find_member(message, key, &next);
        if (member == NULL ? !lmc_mp_skip(&d->in) : !lmc_zmq_decode_member(d, member, base))
            return false;
        seen |= member != NULL ? member->bit : 0;
    }
    return (seen & message->required) == message->required;
}

static bool decode_as_tuple(decoder *d, const lmc_message_def *message, void *base) {
    size_t count;
    if (!lmc_mp_read_array(&d->in, &count) || count != message->member_count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!lmc_zmq_decode_member(d, &message->members[i], base))
            return false;
    return true;
}

bool lmc_zmq_decode_message(decoder *d, const lmc_message_def *message, void *base) {
    lmc_zmq_fill_fallbacks(message, base);
    if (message->form == LMC_FORM_BARE)
        return lmc_zmq_decode_member(d, &message->members[0], base);
    d->whole_frame = false;
    if (message->form == LMC_FORM_MAP)
        return decode_as_map(d, message, base);
    return decode_as_tuple(d, message, base);
}
