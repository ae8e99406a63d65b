#include <string.h>

#include "base/bytes.h"
#include "rpc/token_ids.h"
#include "rpc/zmq_values.h"

typedef lmc_mp_writer writer;
typedef lmc_member_def member_def;

static void write_int(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_int(w, *(const int64_t *)value);
}

static void write_bool(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_bool(w, *(const bool *)value);
}

static void write_float(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_float(w, *(const double *)value);
}

static void write_text(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_text(w, *(const lmc_slice *)value);
}

/* Digits came as an integer and go out as one. */
static void write_tag(writer *w, const member_def *member, const void *value) {
    lmc_slice text = *(const lmc_slice *)value;
    const char *digits = text.data;
    int64_t number = 0;
    bool is_number = text.size > 0 && text.size <= 9 && (digits[0] != '0' || text.size == 1);
    for (size_t i = 0; is_number && i < text.size; i++) {
        is_number = digits[i] >= '0' && digits[i] <= '9';
        number = number * 10 + (digits[i] - '0');
    }
    if (is_number)
        lmc_mp_write_int(w, number);
    else
        write_text(w, member, value);
}

static void write_bytes(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_bytes(w, *(const lmc_slice *)value);
}

static void write_data(writer *w, const member_def *member, const void *value) {
    (void)member;
    const lmc_pieces *pieces = value;
    lmc_mp_write_bytes_head(w, pieces->size);
    for (size_t i = 0; i < pieces->count; i++)
        lmc_mp_write_raw(w, pieces->items[i]);
}

static void write_map(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_slice map = *(const lmc_slice *)value;
    if (map.size == 0) {
        lmc_mp_write_map(w, 0);
        return;
    }
    if (w->out == NULL && !lmc_mp_is_map(map))
        w->invalid = true;
    lmc_mp_write_raw(w, map);
}

static void write_tokens(writer *w, const member_def *member, const void *value) {
    (void)member;
    const lmc_tokens *tokens = value;
    if (tokens->ids == NULL && tokens->count > 0)
        w->invalid = true;
    lmc_mp_write_token_ids(w, tokens->ids, tokens->ids != NULL ? tokens->count : 0);
}

static void write_ints(writer *w, const member_def *member, const void *value) {
    (void)member;
    const lmc_ints *list = value;
    lmc_mp_write_array(w, list->count);
    for (size_t i = 0; i < list->count; i++)
        lmc_mp_write_int(w, list->items[i]);
}

static void write_bools(writer *w, const member_def *member, const void *value) {
    (void)member;
    const lmc_bools *list = value;
    lmc_mp_write_array(w, list->count);
    for (size_t i = 0; i < list->count; i++)
        lmc_mp_write_bool(w, list->items[i]);
}

typedef void write_function(writer *w, const member_def *member, const void *value);

static void write_array(writer *w, const member_def *member, const void *value, size_t size,
                        write_function *item) {
    lmc_part_list list;
    memcpy(&list, value, sizeof list);
    lmc_mp_write_array(w, list.count);
    for (size_t i = 0; i < list.count; i++)
        item(w, member, (const char *)list.items + i * size);
}

static void write_int_lists(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, sizeof(lmc_ints), write_ints);
}

static void write_bool_lists(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, sizeof(lmc_bools), write_bools);
}

static void write_texts(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, sizeof(lmc_slice), write_text);
}

static void write_blobs(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, sizeof(lmc_slice), write_bytes);
}

static void write_wrapper(writer *w, const member_def *member, const void *value) {
    (void)member;
    lmc_mp_write_ext(w, LMC_MP_EXT_WRAPPER, *(const lmc_slice *)value);
}

static void write_wrappers(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, sizeof(lmc_slice), write_wrapper);
}

static void write_part(writer *w, const member_def *member, const void *value) {
    lmc_zmq_write_message(w, member->part, value);
}

static void write_part_or_nil(writer *w, const member_def *member, const void *value) {
    if (lmc_present(value) == 0)
        lmc_mp_write_nil(w);
    else
        write_part(w, member, value);
}

static void write_list(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, member->part->size, write_part);
}

static void write_sparse_list(writer *w, const member_def *member, const void *value) {
    write_array(w, member, value, member->part->size, write_part_or_nil);
}

static void write_entries(writer *w, const member_def *member, const void *value) {
    lmc_part_list list;
    memcpy(&list, value, sizeof list);
    lmc_mp_write_map(w, list.count);
    for (size_t i = 0; i < list.count; i++) {
        const char *entry = (const char *)list.items + i * member->part->size;
        lmc_zmq_write_member(w, &member->part->members[0], entry);
        lmc_zmq_write_member(w, &member->part->members[1], entry);
    }
}

static write_function *const writers[LMC_KINDS] = {
    [LMC_KIND_INT] = write_int,
    [LMC_KIND_BOOL] = write_bool,
    [LMC_KIND_FLOAT] = write_float,
    [LMC_KIND_TEXT] = write_text,
    [LMC_KIND_TAG] = write_tag,
    [LMC_KIND_BYTES] = write_bytes,
    [LMC_KIND_DATA] = write_data,
    [LMC_KIND_TOKENS] = write_tokens,
    [LMC_KIND_INTS] = write_ints,
    [LMC_KIND_INT_LISTS] = write_int_lists,
    [LMC_KIND_BOOL_LISTS] = write_bool_lists,
    [LMC_KIND_TEXTS] = write_texts,
    [LMC_KIND_BLOBS] = write_blobs,
    [LMC_KIND_WRAPPERS] = write_wrappers,
    [LMC_KIND_MAP] = write_map,
    [LMC_KIND_MESSAGE] = write_part,
    [LMC_KIND_LIST] = write_list,
    [LMC_KIND_SPARSE_LIST] = write_sparse_list,
    [LMC_KIND_ENTRIES] = write_entries,
};

void lmc_zmq_write_member(writer *w, const member_def *member, const void *base) {
    bool has = (lmc_present(base) & member->bit) != 0;
    if (!has && lmc_member_has_bit(member))
        lmc_mp_write_nil(w);
    else if (!has && member->fallback != 0 && member->kind == LMC_KIND_INT)
        lmc_mp_write_int(w, member->fallback);
    else if (!has && member->fallback != 0)
        lmc_mp_write_bool(w, true);
    else
        writers[member->kind](w, member, (const char *)base + member->offset);
}

static bool is_left_out(const member_def *member, const void *base) {
    return member->presence == LMC_PRESENCE_EXTRA && (lmc_present(base) & member->bit) == 0;
}

static void write_as_map(writer *w, const lmc_message_def *message, const void *base) {
    size_t count = 0;
    for (size_t i = 0; i < message->member_count; i++)
        count += !is_left_out(&message->members[i], base);
    lmc_mp_write_map(w, count);
    for (size_t i = 0; i < message->member_count; i++) {
        const member_def *member = &message->members[i];
        if (is_left_out(member, base))
            continue;
        lmc_mp_write_name(w, member->name);
        lmc_zmq_write_member(w, member, base);
    }
}

void lmc_zmq_write_message(writer *w, const lmc_message_def *message, const void *base) {
    if (message->form == LMC_FORM_MAP) {
        write_as_map(w, message, base);
        return;
    }
    /* A message that is just its value is here because the value is. */
    if (message->form == LMC_FORM_BARE) {
        const member_def *member = &message->members[0];
        writers[member->kind](w, member, (const char *)base + member->offset);
        return;
    }
    lmc_mp_write_array(w, message->member_count);
    for (size_t i = 0; i < message->member_count; i++)
        lmc_zmq_write_member(w, &message->members[i], base);
}
