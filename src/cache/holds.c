#include "cache/holds.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cache/fold.h"

static size_t count_cells(const lmc_hold_shape *shape) {
    size_t cells = 0;
    for (uint32_t g = 0; g < shape->group_count; g++)
        cells +=
            (shape->hit - lmc_row_first(shape->windows[g], shape->hit)) * shape->rank_count;
    return cells;
}

static void lay_out_groups(lmc_hold *hold, const lmc_hold_shape *shape) {
    size_t offset = 0;
    for (uint32_t g = 0; g < shape->group_count; g++) {
        hold->groups[g] = (lmc_hold_group){
            .group = shape->groups[g],
            .windowed = shape->windows[g] >= 1,
            .first = lmc_row_first(shape->windows[g], shape->hit),
            .offset = offset,
        };
        offset += (shape->hit - hold->groups[g].first) * shape->rank_count;
    }
}

lmc_hold *lmc_hold_create(const lmc_hold_shape *shape) {
    size_t cells = count_cells(shape);
    size_t head = sizeof(lmc_hold) + shape->group_count * sizeof(lmc_hold_group);
    lmc_hold *hold = malloc(head + cells * (sizeof(lmc_object_ref) + 1));
    if (hold == NULL)
        return NULL;
    *hold = (lmc_hold){
        .space = lmc_key_space_keep(shape->space),
        .world_size = shape->world_size,
        .first_rank = shape->first_rank,
        .rank_count = shape->rank_count,
        .group_count = shape->group_count,
        .hit = shape->hit,
        .cell_count = cells,
        .shares = (uint64_t)cells * shape->shares,
        .refs = (lmc_object_ref *)(void *)((char *)hold + head),
    };
    hold->counts = (uint8_t *)(hold->refs + cells);
    memcpy(hold->last_hash, shape->last_hash, LMC_HASH_SIZE);
    memset(hold->counts, (int)shape->shares, cells);
    memset(hold->refs, 0, cells * sizeof(*hold->refs));
    lmc_link_init(&hold->expiring);
    lmc_link_init(&hold->leased);
    lay_out_groups(hold, shape);
    return hold;
}

size_t lmc_hold_bytes(const lmc_hold *hold) {
    return hold == NULL ? 0
                        : sizeof(*hold) + hold->group_count * sizeof(lmc_hold_group) +
                              hold->cell_count * (sizeof(lmc_object_ref) + 1);
}

size_t lmc_hold_row(const lmc_hold *hold, size_t group, uint32_t rank) {
    const lmc_hold_group *in = &hold->groups[group];
    return in->offset + (size_t)(rank - hold->first_rank) * (hold->hit - in->first);
}

/* Equal counts lie together nearly always, so that one call serves a whole batch. */
static void release_runs(lmc_l1 *l1, const lmc_object_ref *refs, const uint8_t *shares,
                         size_t count) {
    for (size_t i = 0; i < count;) {
        size_t run = 1;
        while (i + run < count && run < LMC_L1_BATCH && shares[i + run] == shares[i])
            run++;
        if (shares[i] > 0)
            lmc_l1_release(l1, refs + i, run, shares[i], false);
        i += run;
    }
}

void lmc_hold_destroy(lmc_l1 *l1, lmc_hold *hold) {
    if (hold == NULL)
        return;
    if (hold->shares > 0)
        release_runs(l1, hold->refs, hold->counts, hold->cell_count);
    lmc_key_space_drop(l1, hold->space);
    free(hold);
}

void lmc_share_list_release(lmc_l1 *l1, lmc_share_list *list) {
    release_runs(l1, list->refs, list->shares, list->count);
    list->count = 0;
}

uint32_t lmc_hold_take(lmc_hold *hold, size_t cell, uint32_t shares, lmc_share_list *list) {
    uint32_t taken = hold->counts[cell] < shares ? hold->counts[cell] : shares;
    if (taken == 0)
        return 0;
    hold->counts[cell] -= (uint8_t)taken;
    hold->shares -= taken;
    list->refs[list->count] = hold->refs[cell];
    list->shares[list->count++] = (uint8_t)taken;
    return taken;
}

static bool has_rank(const lmc_hold *hold, uint32_t rank) {
    return rank >= hold->first_rank && rank - hold->first_rank < hold->rank_count;
}

size_t lmc_hold_find(const lmc_hold *hold, uint32_t group, uint32_t rank, size_t chunk) {
    if (!has_rank(hold, rank) || chunk >= hold->hit)
        return SIZE_MAX;
    for (size_t g = 0; g < hold->group_count; g++) {
        const lmc_hold_group *in = &hold->groups[g];
        if (in->group == group)
            return chunk < in->first ? SIZE_MAX
                                     : lmc_hold_row(hold, g, rank) + (chunk - in->first);
    }
    return SIZE_MAX;
}

bool lmc_hold_is_for(const lmc_hold *hold, const lmc_cache_key *key) {
    return hold->world_size == key->world_size &&
           lmc_slice_equal(lmc_key_space_model(hold->space), key->model_name) &&
           lmc_slice_equal(lmc_key_space_salt(hold->space), key->cache_salt);
}

/* One row of the range. True: the list is full and the row is not done. */
static bool take_row(lmc_hold *hold, const lmc_chunk_range *range, uint32_t shares,
                     lmc_hold_walk *walk, lmc_share_list *list) {
    const lmc_hold_group *in = &hold->groups[walk->group];
    size_t first = range->first > in->first ? range->first : in->first;
    size_t end = range->end < hold->hit ? range->end : hold->hit;
    size_t row = lmc_hold_row(hold, walk->group, hold->first_rank + walk->rank);
    for (; first + walk->chunk < end; walk->chunk++) {
        if (list->count == LMC_L1_BATCH)
            return true;
        lmc_hold_take(hold, row + (first + walk->chunk - in->first), shares, list);
    }
    return false;
}

bool lmc_hold_take_range(lmc_hold *hold, const lmc_chunk_range *range, uint32_t shares,
                         bool skip_windowed, lmc_hold_walk *walk, lmc_share_list *list) {
    for (; walk->group < hold->group_count; walk->group++, walk->rank = 0) {
        bool skip = skip_windowed && hold->groups[walk->group].windowed;
        for (; !skip && walk->rank < hold->rank_count; walk->rank++, walk->chunk = 0) {
            uint32_t rank = hold->first_rank + walk->rank;
            if (rank < range->first_rank || rank - range->first_rank >= range->rank_count)
                continue;
            if (take_row(hold, range, shares, walk, list))
                return true;
        }
    }
    return false;
}
