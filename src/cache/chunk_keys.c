#include "cache/chunk_keys.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

static bool has_any(lmc_slice text, const char *set, size_t set_size) {
    for (size_t i = 0; i < set_size; i++) {
        if (text.size > 0 && memchr(text.data, set[i], text.size) != NULL)
            return true;
    }
    return false;
}

lmc_status lmc_model_name_check(lmc_slice model_name, lmc_error *error) {
    if (has_any(model_name, "@", 1))
        return lmc_error_set(error, LMC_INVALID, "model_name must not contain '@' (got '%.*s')",
                             LMC_SLICE_ARGS(model_name));
    if (model_name.size > LMC_NAME_MAX)
        return lmc_error_set(error, LMC_INVALID, "model_name exceeds %d bytes (got %zu)",
                             LMC_NAME_MAX, model_name.size);
    return LMC_OK;
}

lmc_status lmc_world_size_check(int64_t world_size, lmc_error *error) {
    if (world_size >= 1 && world_size <= UINT32_MAX)
        return LMC_OK;
    return lmc_error_set(error, LMC_INVALID, "world_size must be %s (got %" PRId64 ")",
                         world_size < 1 ? ">= 1" : "<= 4294967295", world_size);
}

lmc_status lmc_cache_salt_check(lmc_slice salt, lmc_error *error) {
    if (has_any(salt, "@/\\", 4)) /* with the terminating NUL */
        return lmc_error_set(
            error, LMC_INVALID,
            "cache_salt must not contain {'@', '/', '\\\\', '\\x00'} (got '%.*s')",
            LMC_SLICE_ARGS(salt));
    size_t length = lmc_slice_code_points(salt);
    if (length > LMC_SALT_MAX)
        return lmc_error_set(error, LMC_INVALID, "cache_salt exceeds max length %d (got %zu)",
                             LMC_SALT_MAX, length);
    return LMC_OK;
}

static bool has_rank(const lmc_cache_key *key) {
    return (key->present & LMC_CACHE_KEY_HAS_WORKER_ID) != 0;
}

lmc_status lmc_key_check(const lmc_cache_key *key, lmc_error *error) {
    lmc_status status = lmc_model_name_check(key->model_name, error);
    if (status == LMC_OK)
        status = lmc_cache_salt_check(key->cache_salt, error);
    if (status != LMC_OK)
        return status;
    if (key->request_id.size > LMC_NAME_MAX)
        return lmc_error_set(error, LMC_INVALID, "request_id exceeds %d bytes (got %zu)",
                             LMC_NAME_MAX, key->request_id.size);
    status = lmc_world_size_check(key->world_size, error);
    if (status != LMC_OK)
        return status;
    if (has_rank(key) && (key->worker_id < 0 || key->worker_id >= key->world_size))
        return lmc_error_set(error, LMC_INVALID,
                             "worker_id must be in [0, %" PRId64 ") (got %" PRId64 ")",
                             key->world_size, key->worker_id);
    if (key->token_ids.out_of_range)
        return lmc_error_set(error, LMC_INVALID, "token_ids holds a token that does not fit");
    return LMC_OK;
}

static void set_ranks(const lmc_cache_key *key, lmc_chunk_range *range) {
    range->first_rank = has_rank(key) ? (uint32_t)key->worker_id : 0;
    range->rank_count = has_rank(key) ? 1 : (uint32_t)key->world_size;
}

lmc_chunk_range lmc_key_lookup_range(const lmc_cache_key *key, uint32_t chunk_size) {
    lmc_chunk_range range = {0};
    set_ranks(key, &range);
    uint64_t end = key->end < 0 ? 0 : (uint64_t)key->end;
    if (end > key->token_ids.count)
        end = key->token_ids.count;
    uint64_t start = key->start < 0 ? 0 : (uint64_t)key->start;
    range.end = (size_t)(end / chunk_size);
    range.first = (size_t)(start / chunk_size);
    if (range.first > range.end)
        range.first = range.end;
    return range;
}

lmc_status lmc_key_transfer_range(const lmc_cache_key *key, uint32_t chunk_size,
                                  lmc_chunk_range *range, lmc_error *error) {
    *range = (lmc_chunk_range){0};
    lmc_status status = lmc_key_check(key, error);
    if (status != LMC_OK)
        return status;
    if (!has_rank(key))
        return lmc_error_set(error, LMC_INVALID, "Must resolve keys with worker_id != None");
    if (key->start < 0 || key->start % chunk_size != 0)
        return lmc_error_set(error, LMC_INVALID,
                             "start must be a multiple of %" PRIu32 " (got %" PRId64 ")",
                             chunk_size, key->start);
    if (key->end > 0 && (uint64_t)key->end > key->token_ids.count)
        return lmc_error_set(error, LMC_INVALID, "end (%" PRId64 ") exceeds the %zu token(s)",
                             key->end, key->token_ids.count);
    *range = lmc_key_lookup_range(key, chunk_size);
    return LMC_OK;
}

uint32_t lmc_key_readers(const lmc_cache_key *key, int64_t tp_size) {
    int64_t readers = key->num_kv_readers;
    if (readers < 1)
        readers = tp_size > key->world_size ? tp_size : 1;
    return readers > LMC_READERS_MAX ? LMC_READERS_MAX : (uint32_t)readers;
}

bool lmc_key_is_masked(const lmc_cache_key *key, size_t group, size_t index) {
    const lmc_bool_lists *mask = &key->null_chunk_mask;
    return group < mask->count && index < mask->items[group].count &&
           mask->items[group].items[index];
}
