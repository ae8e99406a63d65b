/* A lookup from key to finished job: hashes, rows, probe, fold, hold. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cache/core.h"
#include "cache/fold.h"

#define LMC_LOGGER "lmcache.cache"
#define FIRST_PROBE 32 /* keys; a miss shows early */

typedef struct probe {
    lmc_cache *cache;
    const lmc_chain *chain;
    lmc_touch_target target;
    uint32_t shares;
    size_t chunks; /* cells per row */
    size_t bound;  /* no row of full attention serves more, as far as known */
    size_t probed; /* no cell is set from here on */
    size_t group_count, row_count;
    uint32_t *groups;      /* that have rows */
    int64_t *windows;      /* of these */
    lmc_row *rows;         /* group-major, then rank */
    lmc_object_ref *cells; /* of all rows */
} probe;

static void free_probe(probe *p) {
    free(p->groups);
    free(p->windows);
    free(p->rows);
    free(p->cells);
}

/* Takes the groups that are looked up (D42). */
static lmc_status take_groups(probe *p, const lmc_layout *layout) {
    p->groups = malloc((layout->group_count + 1) * sizeof(*p->groups));
    p->windows = malloc((layout->group_count + 1) * sizeof(*p->windows));
    if (p->groups == NULL || p->windows == NULL)
        return LMC_NO_MEMORY;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        if (layout->groups[g].extra)
            continue;
        p->groups[p->group_count] = g;
        p->windows[p->group_count++] = layout->groups[g].window;
    }
    return LMC_OK;
}

static lmc_status make_rows(probe *p) {
    uint64_t rows = (uint64_t)p->target.rank_count * p->group_count;
    if (rows > LMC_CELLS_MAX || p->chunks > LMC_CELLS_MAX / rows)
        return LMC_NO_MEMORY;
    p->row_count = (size_t)rows;
    p->rows = malloc(p->row_count * sizeof(*p->rows));
    p->cells = calloc(p->row_count * p->chunks, sizeof(*p->cells));
    if (p->rows == NULL || p->cells == NULL)
        return LMC_NO_MEMORY;
    for (size_t i = 0; i < p->row_count; i++)
        p->rows[i] = (lmc_row){.cells = p->cells + i * p->chunks,
                               .window = p->windows[i / p->target.rank_count]};
    return LMC_OK;
}

/* Takes shares of chunks [first, first + count) of one row. */
static void acquire(probe *p, size_t row, size_t first, size_t count) {
    lmc_l1_key keys[LMC_L1_BATCH];
    uint32_t rank = p->target.first_rank + (uint32_t)(row % p->target.rank_count);
    for (size_t i = 0; i < count; i++)
        keys[i] = lmc_object_key_of(lmc_chain_hash(p->chain, first + i), p->target.space,
                                    p->target.world_size, rank,
                                    p->groups[row / p->target.rank_count]);
    lmc_l1_acquire(p->cache->l1, keys, count, p->shares, p->cells + row * p->chunks + first);
}

/* Probes what of a row can matter. A gap in a row of full attention bounds all rows. */
static void probe_row(probe *p, size_t row) {
    bool full = p->rows[row].window < 1;
    size_t batch = full ? FIRST_PROBE : LMC_L1_BATCH;
    for (size_t at = 0; at < p->bound; batch = LMC_L1_BATCH) {
        size_t count = p->bound - at < batch ? p->bound - at : batch;
        acquire(p, row, at, count);
        p->probed = at + count > p->probed ? at + count : p->probed;
        for (size_t end = at + count; at < end; at++) {
            if (full && p->rows[row].cells[at] == LMC_NO_OBJECT) {
                p->bound = at;
                return;
            }
        }
    }
}

static size_t probe_all(probe *p) {
    p->bound = p->chunks;
    for (size_t i = 0; i < p->row_count; i++) {
        if (p->rows[i].window < 1)
            probe_row(p, i);
    }
    for (size_t i = 0; i < p->row_count; i++) {
        if (p->rows[i].window >= 1)
            probe_row(p, i);
    }
    return lmc_fold(p->rows, p->row_count, p->bound);
}

/* Gives back every share outside the hit, or all of them (hit 0). */
static void release_rest(probe *p, size_t hit) {
    for (size_t i = 0; i < p->row_count; i++) {
        lmc_object_ref *cells = p->cells + i * p->chunks;
        size_t first = lmc_row_first(p->rows[i].window, hit);
        if (first > 0)
            lmc_l1_release(p->cache->l1, cells, first, p->shares, false);
        if (p->probed > hit)
            lmc_l1_release(p->cache->l1, cells + hit, p->probed - hit, p->shares, false);
    }
}

/* The shares of the hit become a hold. NULL: none, or no memory. */
static lmc_hold *make_hold(probe *p, size_t hit) {
    if (hit == 0)
        return NULL;
    lmc_hold_shape shape = {
        .space = p->target.space,
        .world_size = p->target.world_size,
        .first_rank = p->target.first_rank,
        .rank_count = p->target.rank_count,
        .group_count = (uint32_t)p->group_count,
        .groups = p->groups,
        .windows = p->windows,
        .hit = hit,
        .last_hash = lmc_chain_hash(p->chain, hit - 1),
        .shares = p->shares,
    };
    lmc_hold *hold = lmc_hold_create(&shape);
    for (size_t i = 0; hold != NULL && i < p->row_count; i++) {
        size_t group = i / p->target.rank_count;
        uint32_t rank = hold->first_rank + (uint32_t)(i % p->target.rank_count);
        size_t first = hold->groups[group].first;
        memcpy(hold->refs + lmc_hold_row(hold, group, rank), p->rows[i].cells + first,
               (hit - first) * sizeof(*hold->refs));
    }
    return hold;
}

static lmc_hold *search(probe *p, lmc_job_result *result) {
    if (make_rows(p) != LMC_OK)
        return NULL;
    size_t hit = probe_all(p);
    lmc_hold *hold = make_hold(p, hit);
    if (hold == NULL)
        hit = 0;
    release_rest(p, hit);
    lmc_touch_chunks(p->cache->l1, &p->target, p->chain, hit);
    result->chunks = (int64_t)hit;
    result->hit_keys = hold != NULL ? hold->cell_count : 0;
    return hold;
}

/* Registers a job that has its answer already. */
static void answer_zero(lmc_cache *cache, const lmc_cache_key *key, uint64_t connection,
                        lmc_job_result *result) {
    lmc_ticket ticket;
    if (lmc_job_begin(&cache->sessions, key->request_id, connection, NULL, NULL, &ticket) ==
        LMC_OK)
        lmc_job_finish(&cache->sessions, &ticket, result, NULL);
    else
        lmc_key_space_drop(cache->l1, result->space);
}

/* Hashes, begins the job, searches, finishes. LMC_OK: the job is registered. */
static lmc_status run_lookup(probe *p, const lmc_cache_key *key, uint64_t connection,
                             lmc_job_result *result) {
    lmc_sessions *sessions = &p->cache->sessions;
    lmc_chain *old = lmc_sessions_chain(sessions, key->request_id), *chain = NULL;
    lmc_ticket ticket;
    lmc_status status =
        lmc_chain_resolve(&p->cache->hasher, old, &key->token_ids, p->chunks, &chain, NULL);
    if (status == LMC_OK)
        status =
            lmc_job_begin(sessions, key->request_id, connection, chain, &p->target, &ticket);
    if (status == LMC_OK) {
        p->chain = chain;
        result->requested_chunks = p->chunks;
        lmc_hold *hold = search(p, result);
        lmc_job_finish(sessions, &ticket, result, hold);
    }
    lmc_chain_drop(chain);
    lmc_chain_drop(old);
    return status;
}

/* So many shares on each object, within the bound, which is told. */
static uint32_t take_readers(const lmc_cache_key *key, int64_t tp_size) {
    static lmc_log_limit limit;
    uint32_t readers = lmc_key_readers(key, tp_size);
    int64_t asked = key->num_kv_readers > 0 ? key->num_kv_readers : tp_size;
    if (readers == LMC_READERS_MAX && asked > readers && lmc_log_allow(&limit, NULL))
        LMC_WARNING("num_kv_readers is cut to %d (got %lld)", LMC_READERS_MAX,
                    (long long)asked);
    return readers;
}

/* Usual while an engine starts, and the whole story when it never ends. */
static void log_no_layout(const lmc_cache_key *key) {
    static lmc_log_limit limit;
    uint64_t suppressed;
    if (lmc_log_allow(&limit, &suppressed))
        LMC_INFO(
            "Lookup answered with 0 chunks: no worker of model %.*s with world_size %lld is "
            "registered%s",
            LMC_SLICE_ARGS(key->model_name), (long long)key->world_size,
            lmc_log_more(suppressed).text);
}

static void look_up(lmc_cache *cache, const lmc_cache_key *key, int64_t tp_size,
                    uint64_t connection, lmc_key_space *space) {
    lmc_job_result result = {.early_exit = "", .space = lmc_key_space_keep(space)};
    lmc_chunk_range range = lmc_key_lookup_range(key, cache->config.chunk_size);
    lmc_layout *layout = lmc_layouts_get(&cache->layouts, key->model_name, key->world_size);
    probe p = {
        .cache = cache,
        .shares = take_readers(key, tp_size),
        .chunks = range.end,
        .target = {.space = space,
                   .world_size = key->world_size,
                   .first_rank = range.first_rank,
                   .rank_count = range.rank_count,
                   .group_count = layout != NULL ? layout->group_count : 0},
    };
    lmc_status status = layout != NULL ? take_groups(&p, layout) : LMC_OK;
    if (layout == NULL) {
        result.early_exit = "no_gpu_context";
        log_no_layout(key);
    } else if (range.end == 0) {
        result.early_exit = "empty_chunk_hashes";
    } else if (p.group_count == 0) {
        result.early_exit = "no_group_layout_descs";
    }
    if (result.early_exit[0] == '\0' && status == LMC_OK)
        status = run_lookup(&p, key, connection, &result);
    else if (status == LMC_OK)
        answer_zero(cache, key, connection, &result);
    if (status != LMC_OK) { /* no memory: as if it had never been asked */
        lmc_job_cancel(&cache->sessions, key->request_id);
        lmc_key_space_drop(cache->l1, space);
    }
    free_probe(&p);
    lmc_layout_drop(layout);
}

void lmc_cache_lookup(lmc_cache *cache, const lmc_cache_key *key, int64_t tp_size,
                      uint64_t connection) {
    lmc_error error = LMC_ERROR_INIT;
    lmc_key_space *space = NULL;
    lmc_status status = lmc_key_check(key, &error);
    if (status == LMC_OK)
        status = lmc_key_space_get(cache->l1, key->model_name, key->cache_salt, &space);
    if (status == LMC_OK) {
        look_up(cache, key, tp_size, connection, space);
        lmc_key_space_drop(cache->l1, space);
        return;
    }
    static lmc_log_limit limit;
    if (lmc_log_allow(&limit, NULL))
        LMC_WARNING("Lookup answered with 0 chunks: %s", error.text);
    lmc_job_cancel(&cache->sessions, key->request_id);
}
