#include "cache/extents.h"

#define FINE (1u << LMC_EXTENT_FINE_BITS)
#define OWN_CLASS_TRIES 64 /* extents of the request's own class that are looked at */

typedef struct size_class {
    uint32_t coarse, fine;
} size_class;

lmc_status lmc_extents_init(lmc_extents *extents, uint32_t max_units) {
    *extents = (lmc_extents){.max_units = max_units};
    /* Taken extents cannot outnumber units, free ones never touch each other. */
    return lmc_slab_init(&extents->slab, sizeof(lmc_extent), max_units);
}

void lmc_extents_fini(lmc_extents *extents) { lmc_slab_fini(&extents->slab); }

/* Sizes below FINE have a class of their own; above, each power of two is cut into FINE parts.
 */
static size_class class_of(uint32_t units) {
    if (units < FINE)
        return (size_class){0, units};
    uint32_t power = 31 - (uint32_t)__builtin_clz(units);
    uint32_t shift = power - LMC_EXTENT_FINE_BITS;
    return (size_class){shift + 1, (units >> shift) & (FINE - 1)};
}

static void list_add(lmc_extents *extents, uint32_t index) {
    lmc_extent *extent = lmc_extent_at(extents, index);
    size_class class = class_of(lmc_extent_units(extent));
    uint32_t *head = &extents->heads[class.coarse][class.fine];
    extent->units |= LMC_EXTENT_FREE;
    extent->list.prev = 0;
    extent->list.next = *head;
    if (*head != 0)
        lmc_extent_at(extents, *head)->list.prev = index;
    *head = index;
    extents->fine_map[class.coarse] |= 1u << class.fine;
    extents->coarse_map |= 1u << class.coarse;
}

static void list_remove(lmc_extents *extents, uint32_t index) {
    lmc_extent *extent = lmc_extent_at(extents, index);
    extent->units &= ~LMC_EXTENT_FREE;
    if (extent->list.next != 0)
        lmc_extent_at(extents, extent->list.next)->list.prev = extent->list.prev;
    if (extent->list.prev != 0) {
        lmc_extent_at(extents, extent->list.prev)->list.next = extent->list.next;
        return;
    }
    size_class class = class_of(extent->units);
    extents->heads[class.coarse][class.fine] = extent->list.next;
    if (extent->list.next != 0)
        return;
    extents->fine_map[class.coarse] &= ~(1u << class.fine);
    if (extents->fine_map[class.coarse] == 0)
        extents->coarse_map &= ~(1u << class.coarse);
}

uint32_t lmc_extents_grow(lmc_extents *extents, uint32_t units) {
    if (units == 0 || units > extents->max_units - extents->heap_units)
        return 0;
    uint32_t index = lmc_slab_take(&extents->slab);
    if (index == 0)
        return 0;
    lmc_extent *extent = lmc_extent_at(extents, index);
    *extent =
        (lmc_extent){.start = extents->heap_units, .units = units, .before = extents->last};
    if (extents->last != 0)
        lmc_extent_at(extents, extents->last)->after = index;
    extents->last = index;
    extents->heap_units += units;
    extents->taken_units += units;
    extents->changes++;
    return index;
}

/* All extents of a class above the request's fit, so the first of the lowest is taken. */
static uint32_t find_above(const lmc_extents *extents, size_class class) {
    uint32_t fine = class.fine + 1 < FINE
                        ? extents->fine_map[class.coarse] & (~UINT32_C(0) << (class.fine + 1))
                        : 0;
    if (fine == 0) {
        uint32_t above = class.coarse + 1;
        uint32_t coarse =
            above < LMC_EXTENT_COARSE ? extents->coarse_map & (~UINT32_C(0) << above) : 0;
        if (coarse == 0)
            return 0;
        class.coarse = (uint32_t)__builtin_ctz(coarse);
        fine = extents->fine_map[class.coarse];
    }
    return extents->heads[class.coarse][__builtin_ctz(fine)];
}

/* Its own class first: there lies what an object of the same size left behind. */
static uint32_t find(const lmc_extents *extents, uint32_t units) {
    size_class class = class_of(units);
    uint32_t index = extents->heads[class.coarse][class.fine];
    for (int i = 0; index != 0 && i < OWN_CLASS_TRIES; i++) {
        const lmc_extent *extent = lmc_extent_at(extents, index);
        if (lmc_extent_units(extent) >= units)
            return index;
        index = extent->list.next;
    }
    return find_above(extents, class);
}

uint32_t lmc_extents_take(lmc_extents *extents, uint32_t units) {
    if (units == 0 || units > extents->free_units)
        return 0;
    uint32_t index = find(extents, units);
    if (index == 0)
        return 0;
    lmc_extent *extent = lmc_extent_at(extents, index);
    uint32_t rest = lmc_extent_units(extent) - units;
    uint32_t rest_index = rest != 0 ? lmc_slab_take(&extents->slab) : 0;
    if (rest != 0 && rest_index == 0)
        return 0;
    list_remove(extents, index);
    if (rest != 0) {
        lmc_extent *tail = lmc_extent_at(extents, rest_index);
        *tail = (lmc_extent){.start = extent->start + units,
                             .units = rest,
                             .before = index,
                             .after = extent->after};
        if (extent->after != 0)
            lmc_extent_at(extents, extent->after)->before = rest_index;
        else
            extents->last = rest_index;
        extent->after = rest_index;
        extent->units = units;
        list_add(extents, rest_index);
    }
    extents->free_units -= units;
    extents->taken_units += units;
    extents->changes++;
    return index;
}

/* Appends the free neighbour `gone` to `kept`, which lies before it. */
static void merge(lmc_extents *extents, uint32_t kept, uint32_t gone) {
    lmc_extent *extent = lmc_extent_at(extents, kept);
    const lmc_extent *other = lmc_extent_at(extents, gone);
    extent->units += other->units;
    extent->after = other->after;
    if (extent->after != 0)
        lmc_extent_at(extents, extent->after)->before = kept;
    else
        extents->last = kept;
    lmc_slab_give(&extents->slab, gone);
}

static bool is_free(const lmc_extents *extents, uint32_t index) {
    return index != 0 && (lmc_extent_at(extents, index)->units & LMC_EXTENT_FREE) != 0;
}

void lmc_extents_give(lmc_extents *extents, uint32_t index) {
    lmc_extent *extent = lmc_extent_at(extents, index);
    uint32_t before = extent->before, after = extent->after;
    extents->free_units += extent->units;
    extents->taken_units -= extent->units;
    extents->changes++;
    if (is_free(extents, after)) {
        list_remove(extents, after);
        merge(extents, index, after);
    }
    if (is_free(extents, before)) {
        list_remove(extents, before);
        merge(extents, before, index);
        index = before;
    }
    list_add(extents, index);
}

bool lmc_extents_balance(const lmc_extents *extents) {
    return (uint64_t)extents->free_units + extents->taken_units == extents->heap_units;
}

/* One record against its neighbours. */
static bool is_consistent(const lmc_extents *extents, uint32_t index) {
    const lmc_extent *extent = lmc_extent_at(extents, index);
    uint32_t end = extent->start + lmc_extent_units(extent);
    if (extent->before == 0 ? extent->start != 0
                            : lmc_extent_at(extents, extent->before)->after != index)
        return false;
    if (extent->after == 0)
        return extents->last == index && end == extents->heap_units;
    const lmc_extent *after = lmc_extent_at(extents, extent->after);
    if (after->before != index || after->start != end)
        return false;
    if ((extent->units & after->units & LMC_EXTENT_FREE) != 0)
        return false;
    return (extent->units & LMC_EXTENT_FREE) == 0 || extent->list.next == 0 ||
           lmc_extent_at(extents, extent->list.next)->list.prev == index;
}

static bool walk_end(const lmc_extents *extents, lmc_extents_walk *walk) {
    walk->done = true;
    if (!lmc_extents_balance(extents))
        return false;
    return walk->changes != extents->changes || (walk->free_units == extents->free_units &&
                                                 walk->taken_units == extents->taken_units);
}

bool lmc_extents_check(const lmc_extents *extents, lmc_extents_walk *walk, uint32_t steps) {
    if (walk->at == 0) {
        walk->at = extents->last;
        walk->changes = extents->changes;
    }
    /* Walking the chain from the end; a changed heap may have lost the record we stood at. */
    if (walk->changes != extents->changes)
        return walk_end(extents, walk);
    for (; walk->at != 0; steps--) {
        if (steps == 0)
            return true;
        if (!is_consistent(extents, walk->at))
            return false;
        const lmc_extent *extent = lmc_extent_at(extents, walk->at);
        if ((extent->units & LMC_EXTENT_FREE) != 0)
            walk->free_units += lmc_extent_units(extent);
        else
            walk->taken_units += extent->units;
        walk->at = extent->before;
    }
    return walk_end(extents, walk);
}

size_t lmc_extents_bytes(const lmc_extents *extents) { return lmc_slab_bytes(&extents->slab); }
