/* Members of events that are lists: each is copied into one allocation. */
#include <stdlib.h>

#include "base/bytes.h"
#include "observe/event.h"

/* Room for the items and, behind them, what they point to. */
static lmc_event_list make_list(size_t count, size_t item, size_t behind) {
    lmc_event_list list = {.count = count, .bytes = count * item + behind};
    if (count != 0)
        list.items = malloc(list.bytes);
    return list;
}

/* Copies a text behind the list, or uses the copy before if that is the same. */
static lmc_slice place(char **at, lmc_slice text, const lmc_slice *before) {
    if (before != NULL && lmc_slice_equal(*before, text))
        return *before;
    lmc_slice copy = {*at, text.size};
    if (text.size != 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return copy;
}

lmc_event_list lmc_event_copy_keys(const lmc_object_key *keys, size_t count) {
    size_t behind = 0;
    for (size_t i = 0; i < count; i++)
        behind += keys[i].chunk_hash.size + keys[i].model_name.size + keys[i].cache_salt.size;
    lmc_event_list list = make_list(count, sizeof *keys, behind);
    lmc_object_key *copies = list.items;
    char *at = copies != NULL ? (char *)(copies + count) : NULL;
    for (size_t i = 0; copies != NULL && i < count; i++) {
        const lmc_object_key *last = i > 0 ? &copies[i - 1] : NULL;
        copies[i] = keys[i];
        copies[i].chunk_hash = place(&at, keys[i].chunk_hash, NULL);
        copies[i].model_name =
            place(&at, keys[i].model_name, last != NULL ? &last->model_name : NULL);
        copies[i].cache_salt =
            place(&at, keys[i].cache_salt, last != NULL ? &last->cache_salt : NULL);
    }
    return list;
}

lmc_event_list lmc_event_copy_ints(const int64_t *values, size_t count) {
    lmc_event_list list = make_list(count, sizeof *values, 0);
    if (list.items != NULL)
        memcpy(list.items, values, list.bytes);
    return list;
}

lmc_event_list lmc_event_copy_int_lists(const lmc_ints *lists, size_t count) {
    size_t values = 0;
    for (size_t i = 0; i < count; i++)
        values += lists[i].count;
    lmc_event_list list = make_list(count, sizeof *lists, values * sizeof(int64_t));
    lmc_ints *copies = list.items;
    int64_t *at = copies != NULL ? (int64_t *)(copies + count) : NULL;
    for (size_t i = 0; copies != NULL && i < count; i++) {
        copies[i] = (lmc_ints){at, lists[i].count};
        if (lists[i].count != 0)
            memcpy(at, lists[i].items, lists[i].count * sizeof *at);
        at += lists[i].count;
    }
    return list;
}

lmc_event_list lmc_event_copy_slices(const lmc_slice *slices, size_t count) {
    size_t behind = 0;
    for (size_t i = 0; i < count; i++)
        behind += slices[i].size;
    lmc_event_list list = make_list(count, sizeof *slices, behind);
    lmc_slice *copies = list.items;
    char *at = copies != NULL ? (char *)(copies + count) : NULL;
    for (size_t i = 0; copies != NULL && i < count; i++)
        copies[i] = place(&at, slices[i], NULL);
    return list;
}
