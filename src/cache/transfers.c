/* Stores and retrieves: from key and instance to the objects that are written or read. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cache/core.h"

typedef struct transfer {
    lmc_cache *cache;
    const lmc_cache_key *key;
    int64_t instance_id;
    lmc_arena *arena;
    lmc_error *error;
    lmc_chunk_range range;
    size_t chunks; /* of the range */
    lmc_instance_view view;
    lmc_key_space *space;
    lmc_chain *chain;
    uint64_t mark;
    lmc_object_ref *grid; /* [group][chunk of the range], in the arena */
    lmc_object_ref *refs; /* compact, in the order of slots */
    lmc_place *places;
    size_t count; /* of refs */
} transfer;

/* ---- common ---- */

static uint64_t mark_all(const lmc_hasher *hasher, const lmc_tokens *tokens) {
    if (tokens->ids == NULL)
        return 0;
    size_t chunks = tokens->count / hasher->chunk_size;
    size_t rest = tokens->count % hasher->chunk_size;
    uint64_t state = lmc_hasher_mark(hasher, hasher->seed, tokens->ids, chunks, NULL);
    return lmc_hasher_mark_tail(state, tokens->ids + tokens->count - rest, rest);
}

static lmc_pending_id pending_id(const lmc_cache_key *key, uint64_t mark) {
    return (lmc_pending_id){
        .model_name = key->model_name,
        .cache_salt = key->cache_salt,
        .request_id = key->request_id,
        .world_size = key->world_size,
        .worker_id = key->worker_id,
        .start = key->start,
        .end = key->end,
        .token_count = key->token_ids.count,
        .mark = mark,
    };
}

/* Takes the running mark from the last chunk of the range to the last token. */
static uint64_t mark_rest(const transfer *t, uint64_t state) {
    const lmc_tokens *tokens = &t->key->token_ids;
    const lmc_hasher *hasher = &t->cache->hasher;
    if (tokens->ids == NULL)
        return 0;
    size_t known = t->range.end, all = tokens->count / hasher->chunk_size;
    size_t rest = tokens->count % hasher->chunk_size;
    state = lmc_hasher_mark(hasher, state, tokens->ids + known * hasher->chunk_size,
                            all - known, NULL);
    return lmc_hasher_mark_tail(state, tokens->ids + tokens->count - rest, rest);
}

static lmc_status resolve_hashes(transfer *t) {
    uint64_t state = 0;
    lmc_touch_target target = {
        .space = t->space,
        .world_size = t->key->world_size,
        .first_rank = 0,
        .rank_count = (uint32_t)t->key->world_size,
        .group_count = t->view.layout->group_count,
    };
    lmc_status status = lmc_sessions_resolve(&t->cache->sessions, &t->cache->hasher, t->key,
                                             t->range.end, &target, &t->chain, &state);
    if (status == LMC_OK)
        t->mark = mark_rest(t, state);
    return status;
}

/* Arena arrays for all cells of the range, and the copied layouts. */
static lmc_status make_room(transfer *t, lmc_transfer *out) {
    size_t groups = t->view.layout->group_count;
    if (groups > 0 && t->chunks > LMC_CELLS_MAX / groups)
        return LMC_NO_MEMORY;
    size_t cells = groups * t->chunks;
    lmc_chunk_layout *copies = lmc_arena_array(t->arena, groups + 1, sizeof(*copies));
    t->grid = lmc_arena_array(t->arena, cells + 1, sizeof(*t->grid));
    t->refs = lmc_arena_array(t->arena, cells + 1, sizeof(*t->refs));
    t->places = lmc_arena_array(t->arena, cells + 1, sizeof(*t->places));
    if (t->grid != NULL)
        memset(t->grid, 0, cells * sizeof(*t->grid));
    if (copies == NULL || t->grid == NULL || t->refs == NULL || t->places == NULL)
        return LMC_NO_MEMORY;
    memcpy(copies, t->view.layout->groups, groups * sizeof(*copies));
    out->groups = copies;
    out->group_count = groups;
    out->chunk_count = t->chunks;
    return LMC_OK;
}

/* Checks, enters the instance, resolves hashes. After any outcome leave() must be called. */
static lmc_status enter(transfer *t, uint64_t connection, lmc_transfer *out) {
    *out = (lmc_transfer){0};
    lmc_status status =
        lmc_key_transfer_range(t->key, t->cache->config.chunk_size, &t->range, t->error);
    if (status != LMC_OK)
        return status;
    t->chunks = t->range.end - t->range.first;
    status = lmc_instances_enter(&t->cache->instances, t->instance_id, connection, &t->view);
    if (status != LMC_OK)
        return lmc_error_set(t->error, status, "instance %lld is not registered (model %.*s)",
                             (long long)t->instance_id, LMC_SLICE_ARGS(t->key->model_name));
    out->by_copy = t->view.by_copy;
    status = lmc_key_space_get(t->cache->l1, t->key->model_name, t->key->cache_salt, &t->space);
    if (status == LMC_OK)
        status = resolve_hashes(t);
    if (status == LMC_OK)
        status = make_room(t, out);
    return status;
}

static void leave(transfer *t) {
    lmc_chain_drop(t->chain);
    lmc_key_space_drop(t->cache->l1, t->space);
    lmc_layout_drop(t->view.layout);
}

static lmc_l1_key key_at(const transfer *t, uint32_t group, size_t chunk) {
    return lmc_object_key_of(lmc_chain_hash(t->chain, t->range.first + chunk), t->space,
                             t->key->world_size, t->range.first_rank, group);
}

/* An object of another size was stored under another layout: as good as not there. */
static bool is_usable(const transfer *t, lmc_object_ref ref, uint32_t group) {
    return ref != LMC_NO_OBJECT &&
           lmc_l1_size(t->cache->l1, ref) == t->view.layout->groups[group].size;
}

/* Writes what the grid has as slots, refs and places: group-major, then chunk. */
static lmc_status list_slots(transfer *t, lmc_transfer *out) {
    size_t groups = t->view.layout->group_count, present = 0;
    for (size_t i = 0; i < groups * t->chunks; i++)
        present += t->grid[i] != LMC_NO_OBJECT;
    out->slots = lmc_arena_array(t->arena, present + 1, sizeof(*out->slots));
    if (out->slots == NULL)
        return LMC_NO_MEMORY;
    int64_t list_index = 0;
    for (uint32_t g = 0; g < groups; g++) {
        for (size_t c = 0; c < t->chunks; c++) {
            lmc_object_ref ref = t->grid[g * t->chunks + c];
            if (ref != LMC_NO_OBJECT) {
                out->slots[t->count] = (lmc_slot){
                    .object = ref,
                    .offset = lmc_l1_offset(t->cache->l1, ref),
                    .chunk_index = (int64_t)(g * t->chunks + c),
                    .list_index = list_index,
                    .group = g,
                };
                t->refs[t->count] = ref;
                t->places[t->count++] = (lmc_place){.group = g, .chunk = (uint32_t)c};
            }
            list_index += !lmc_key_is_masked(t->key, g, c);
        }
    }
    out->slot_count = t->count;
    return LMC_OK;
}

/* Discards or releases all that the grid has. */
static void drop_grid(transfer *t, lmc_pending_kind kind) {
    size_t cells = t->grid != NULL ? t->view.layout->group_count * t->chunks : 0;
    for (size_t i = 0; i < cells; i += LMC_L1_BATCH) {
        size_t count = cells - i < LMC_L1_BATCH ? cells - i : LMC_L1_BATCH;
        if (kind == LMC_PENDING_RETRIEVE) {
            lmc_l1_release(t->cache->l1, t->grid + i, count, 1, false);
            continue;
        }
        lmc_object_ref held[LMC_L1_BATCH];
        size_t n = 0;
        for (size_t k = 0; k < count; k++) {
            if (t->grid[i + k] != LMC_NO_OBJECT)
                held[n++] = t->grid[i + k];
        }
        lmc_l1_discard(t->cache->l1, held, n);
    }
}

/* The instance's record takes the objects over. */
static lmc_status remember(transfer *t, lmc_pending_kind kind) {
    lmc_pending_id id = pending_id(t->key, t->mark);
    lmc_pending *pending = lmc_pending_create(kind, &id, t->refs, t->places, t->count);
    if (pending == NULL)
        return LMC_NO_MEMORY;
    lmc_status status =
        lmc_instances_remember(&t->cache->instances, t->instance_id, t->view.serial, pending);
    if (status == LMC_OK)
        return LMC_OK;
    pending->count = 0; /* the grid still owns them */
    lmc_pending_abandon(t->cache->l1, pending);
    return status;
}

/* ---- stores ---- */

/* One group: one call, so that the tier sees the whole list. */
static lmc_status reserve_list(transfer *t, uint32_t group) {
    lmc_l1_key *keys = lmc_arena_array(t->arena, t->chunks + 1, sizeof(*keys));
    lmc_object_ref *refs = lmc_arena_array(t->arena, t->chunks + 1, sizeof(*refs));
    lmc_reserve_result *results = lmc_arena_array(t->arena, t->chunks + 1, sizeof(*results));
    size_t *cells = lmc_arena_array(t->arena, t->chunks + 1, sizeof(*cells));
    if (keys == NULL || refs == NULL || results == NULL || cells == NULL)
        return LMC_NO_MEMORY;
    size_t count = 0;
    for (size_t c = 0; c < t->chunks; c++) {
        size_t cell = group * t->chunks + c;
        if (lmc_key_is_masked(t->key, group, c) || t->grid[cell] != LMC_NO_OBJECT)
            continue;
        keys[count] = key_at(t, group, c);
        refs[count] = LMC_NO_OBJECT;
        cells[count++] = cell;
    }
    if (count == 0)
        return LMC_OK;
    lmc_l1_reserve(t->cache->l1, keys, count, t->view.layout->groups[group].size, refs,
                   results);
    for (size_t i = 0; i < count; i++) {
        if (results[i] == LMC_RESERVED)
            t->grid[cells[i]] = refs[i];
    }
    return LMC_OK;
}

/* All groups of one chunk, or none of those this call reserved. False: no memory. */
static bool reserve_chunk(transfer *t, size_t chunk) {
    size_t groups = t->view.layout->group_count;
    for (uint32_t g = 0; g < groups; g++) {
        size_t cell = g * t->chunks + chunk;
        if (lmc_key_is_masked(t->key, g, chunk) || t->grid[cell] != LMC_NO_OBJECT)
            continue;
        lmc_l1_key key = key_at(t, g, chunk);
        lmc_reserve_result result;
        lmc_l1_reserve(t->cache->l1, &key, 1, t->view.layout->groups[g].size, &t->grid[cell],
                       &result);
        if (result != LMC_RESERVED)
            t->grid[cell] = LMC_NO_OBJECT;
        if (result != LMC_RESERVE_NO_MEMORY)
            continue;
        while (g-- > 0) {
            lmc_object_ref *held = &t->grid[g * t->chunks + chunk];
            if (*held != LMC_NO_OBJECT)
                lmc_l1_discard(t->cache->l1, held, 1);
            *held = LMC_NO_OBJECT;
        }
        return false;
    }
    return true;
}

/* Several groups: chunk by chunk, since a chunk without all its groups serves nobody. */
static void reserve_chunks(transfer *t) {
    const lmc_l1_observer *observer = &t->cache->observer.l1;
    size_t done = 0;
    while (done < t->chunks && reserve_chunk(t, done))
        done++;
    size_t unasked = 0;
    for (size_t c = done + 1; c < t->chunks; c++) {
        for (uint32_t g = 0; g < t->view.layout->group_count; g++) {
            if (lmc_key_is_masked(t->key, g, c))
                continue;
            lmc_l1_key key = key_at(t, g, c);
            lmc_l1_tell(t->cache->l1, LMC_L1_NO_MEMORY, &key, 1,
                        t->view.layout->groups[g].size);
            unasked++;
        }
    }
    if (unasked > 0 && observer->no_memory != NULL)
        observer->no_memory(observer->arg, t->key->model_name, unasked);
}

static lmc_status reserve(transfer *t) {
    if (t->view.layout->group_count == 1)
        return reserve_list(t, 0);
    reserve_chunks(t);
    return LMC_OK;
}

lmc_status lmc_cache_prepare_store(lmc_cache *cache, const lmc_cache_key *key,
                                   int64_t instance_id, uint64_t connection, lmc_arena *arena,
                                   lmc_transfer *out, lmc_error *error) {
    transfer t = {
        .cache = cache, .key = key, .instance_id = instance_id, .arena = arena, .error = error};
    lmc_status status = enter(&t, connection, out);
    if (status == LMC_OK && !t.view.by_copy) {
        status = reserve(&t);
        if (status == LMC_OK)
            status = list_slots(&t, out);
        if (status == LMC_OK && t.count > 0)
            status = remember(&t, LMC_PENDING_STORE);
        out->remembered = status == LMC_OK && t.count > 0;
    }
    if (status != LMC_OK) {
        drop_grid(&t, LMC_PENDING_STORE);
        out->slot_count = 0;
    }
    leave(&t);
    return status;
}

static lmc_pending *take(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id,
                         uint64_t connection, lmc_pending_kind kind) {
    lmc_pending_id id = pending_id(key, mark_all(&cache->hasher, &key->token_ids));
    return lmc_instances_take(&cache->instances, instance_id, connection, kind, &id);
}

static lmc_status commit(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id,
                         uint64_t connection, lmc_pending_kind kind, size_t *chunks,
                         lmc_error *error) {
    lmc_chunk_range range;
    lmc_status status = lmc_key_transfer_range(key, cache->config.chunk_size, &range, error);
    if (status != LMC_OK)
        return status;
    lmc_pending *taken = take(cache, key, instance_id, connection, kind);
    if (taken == NULL)
        return LMC_NOT_FOUND;
    while (taken != NULL) {
        lmc_pending *next = taken->next;
        size_t readable = lmc_pending_complete(cache->l1, taken);
        if (chunks != NULL)
            *chunks += readable;
        taken = next;
    }
    return LMC_OK;
}

lmc_status lmc_cache_commit_store(lmc_cache *cache, const lmc_cache_key *key,
                                  int64_t instance_id, uint64_t connection, size_t *chunks,
                                  lmc_error *error) {
    if (chunks != NULL)
        *chunks = 0;
    return commit(cache, key, instance_id, connection, LMC_PENDING_STORE, chunks, error);
}

/* What prepare_store remembered goes into the grid; what does not belong there is discarded. */
static void take_over(transfer *t, lmc_pending *taken) {
    while (taken != NULL) {
        lmc_pending *next = taken->next;
        size_t left = 0;
        for (size_t i = 0; i < taken->count; i++) {
            lmc_place place = taken->places[i];
            size_t cell = place.group * t->chunks + place.chunk;
            bool fits = place.group < t->view.layout->group_count && place.chunk < t->chunks &&
                        is_usable(t, taken->refs[i], place.group) &&
                        t->grid[cell] == LMC_NO_OBJECT &&
                        !lmc_key_is_masked(t->key, place.group, place.chunk);
            if (fits)
                t->grid[cell] = taken->refs[i];
            else
                taken->refs[left++] = taken->refs[i];
        }
        taken->count = left;
        lmc_pending_abandon(t->cache->l1, taken);
        taken = next;
    }
}

lmc_status lmc_cache_begin_copy_in(lmc_cache *cache, const lmc_cache_key *key,
                                   int64_t instance_id, uint64_t connection, lmc_arena *arena,
                                   lmc_transfer *out, lmc_error *error) {
    transfer t = {
        .cache = cache, .key = key, .instance_id = instance_id, .arena = arena, .error = error};
    lmc_status status = enter(&t, connection, out);
    if (status == LMC_OK) {
        out->by_copy = true;
        lmc_instances_set_by_copy(&cache->instances, instance_id);
        take_over(&t, take(cache, key, instance_id, connection, LMC_PENDING_STORE));
        status = reserve(&t);
    }
    if (status == LMC_OK)
        status = list_slots(&t, out);
    if (status != LMC_OK) {
        drop_grid(&t, LMC_PENDING_STORE);
        out->slot_count = 0;
    }
    leave(&t);
    return status;
}

/* Collects slots of one group with the same fate and hands them to L1 in batches. */
static void finish_slots(lmc_cache *cache, const lmc_transfer *of, const bool *filled,
                         bool fate, lmc_stored *stored) {
    lmc_object_ref refs[LMC_L1_BATCH];
    size_t count = 0;
    for (size_t i = 0; i <= of->slot_count; i++) {
        bool flush = count == LMC_L1_BATCH || i == of->slot_count ||
                     (i > 0 && of->slots[i].group != of->slots[i - 1].group);
        if (flush && count > 0) {
            if (fate)
                lmc_stored_add(stored, of->slots[i - 1].group,
                               lmc_l1_commit(cache->l1, refs, count));
            else
                lmc_l1_discard(cache->l1, refs, count);
            count = 0;
        }
        if (i < of->slot_count && (filled == NULL || filled[i]) == fate)
            refs[count++] = of->slots[i].object;
    }
}

void lmc_cache_finish_copy_in(lmc_cache *cache, const lmc_transfer *of, const bool *filled,
                              lmc_stored *stored) {
    lmc_stored unasked = {0};
    finish_slots(cache, of, filled, true, stored != NULL ? stored : &unasked);
    finish_slots(cache, of, filled, false, NULL);
}

/* ---- retrieves ---- */

/* Whether a retrieve needs this chunk of this group (D39, D42, D43). */
static bool is_needed(const transfer *t, uint32_t group, size_t chunk) {
    const lmc_chunk_layout *layout = &t->view.layout->groups[group];
    if (layout->extra || lmc_key_is_masked(t->key, group, chunk))
        return false;
    return layout->window < 1 || (uint64_t)layout->window >= t->chunks ||
           chunk >= t->chunks - (size_t)layout->window;
}

/* Needed objects that are asked for together. */
typedef struct wanted {
    size_t count;
    lmc_place places[LMC_L1_BATCH];
    lmc_l1_key keys[LMC_L1_BATCH];
} wanted;

/* Acquires what is wanted and empties the list; returns how many are missing. */
static size_t acquire_batch(transfer *t, wanted *list) {
    lmc_object_ref refs[LMC_L1_BATCH];
    size_t missing = 0;
    lmc_l1_acquire(t->cache->l1, list->keys, list->count, 1, refs);
    for (size_t i = 0; i < list->count; i++) {
        lmc_place place = list->places[i];
        bool usable = is_usable(t, refs[i], place.group);
        missing += !usable;
        if (usable)
            t->grid[place.group * t->chunks + place.chunk] = refs[i];
        else if (refs[i] != LMC_NO_OBJECT)
            lmc_l1_release(t->cache->l1, &refs[i], 1, 1, false);
        if (!usable)
            lmc_l1_tell(t->cache->l1, LMC_L1_READ_FAILED, &list->keys[i], 1, 0);
    }
    list->count = 0;
    return missing;
}

static size_t acquire_all(transfer *t) {
    wanted list;
    size_t missing = 0;
    list.count = 0;
    for (uint32_t g = 0; g < t->view.layout->group_count; g++) {
        for (size_t c = 0; c < t->chunks; c++) {
            if (!is_needed(t, g, c))
                continue;
            list.places[list.count] = (lmc_place){.group = g, .chunk = (uint32_t)c};
            list.keys[list.count++] = key_at(t, g, c);
            if (list.count == LMC_L1_BATCH)
                missing += acquire_batch(t, &list);
        }
    }
    return missing + (list.count > 0 ? acquire_batch(t, &list) : 0);
}

static lmc_status find_all(transfer *t, lmc_transfer *out) {
    size_t missing = acquire_all(t);
    if (missing == 0)
        return list_slots(t, out);
    if (t->cache->observer.read_failed != NULL)
        t->cache->observer.read_failed(t->cache->observer.arg, t->key->model_name, missing,
                                       "not_found");
    return lmc_error_set(t->error, LMC_NOT_FOUND, "%zu object(s) are not in the cache",
                         missing);
}

lmc_status lmc_cache_prepare_retrieve(lmc_cache *cache, const lmc_cache_key *key,
                                      int64_t instance_id, uint64_t connection, bool keep,
                                      lmc_arena *arena, lmc_transfer *out, lmc_error *error) {
    transfer t = {
        .cache = cache, .key = key, .instance_id = instance_id, .arena = arena, .error = error};
    lmc_status status = enter(&t, connection, out);
    if (status == LMC_OK)
        status = find_all(&t, out);
    if (status == LMC_OK && keep && !t.view.by_copy && t.count > 0)
        status = remember(&t, LMC_PENDING_RETRIEVE);
    if (status == LMC_OK) {
        out->remembered = keep && !t.view.by_copy && t.count > 0;
        lmc_ledger_exchange(&cache->sessions, key, &t.range, t.refs, t.places, t.count);
    } else {
        drop_grid(&t, LMC_PENDING_RETRIEVE);
        out->slot_count = 0;
        lmc_ledger_fail(&cache->sessions, &cache->hasher, key, &t.range, instance_id);
    }
    leave(&t);
    return status;
}

void lmc_cache_finish_copy_out(lmc_cache *cache, const lmc_transfer *of) {
    lmc_object_ref refs[LMC_L1_BATCH];
    size_t total = of->remembered ? 0 : of->slot_count;
    for (size_t done = 0; done < total;) {
        size_t count = total - done < LMC_L1_BATCH ? total - done : LMC_L1_BATCH;
        for (size_t i = 0; i < count; i++)
            refs[i] = of->slots[done + i].object;
        lmc_l1_release(cache->l1, refs, count, 1, true);
        done += count;
    }
}

void lmc_cache_commit_retrieve(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id,
                               uint64_t connection) {
    (void)commit(cache, key, instance_id, connection, LMC_PENDING_RETRIEVE, NULL, NULL);
}

void lmc_cache_fail_retrieve(lmc_cache *cache, const lmc_cache_key *key, int64_t instance_id) {
    lmc_chunk_range range;
    if (lmc_key_transfer_range(key, cache->config.chunk_size, &range, NULL) == LMC_OK)
        lmc_ledger_fail(&cache->sessions, &cache->hasher, key, &range, instance_id);
}
