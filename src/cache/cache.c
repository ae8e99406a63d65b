#include "cache/cache.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cache/core.h"
#include "cache/hash_memo.h"

#define LMC_LOGGER "lmcache.cache"
#define SESSION_BYTES_MAX ((size_t)1 << 30)

/* ---- life ---- */

/* An answer was delivered: all lookup counters advance together (abandoned lookups add
 * nothing). */
static void count_lookup(void *arg, const lmc_job_delivery *delivery) {
    const lmc_cache *cache = arg;
    const lmc_job_result *result = &delivery->job;
    uint64_t chunk_size = cache->config.chunk_size;
    if (cache->observer.lookup_done == NULL || result->space == NULL)
        return;
    cache->observer.lookup_done(
        cache->observer.arg, lmc_key_space_model(result->space),
        lmc_key_space_salt(result->space), result->requested_chunks * chunk_size,
        (uint64_t)result->chunks * chunk_size, result->hit_keys, result->early_exit,
        lmc_slice_of(delivery->request_id,
                     delivery->request_id != NULL ? delivery->request_id_size : 0));
}

static lmc_status init_sessions(lmc_cache *cache) {
    const lmc_cache_config *config = &cache->config;
    lmc_sessions_config sessions = {
        .read_ttl_ns = config->read_ttl_ns,
        .session_ttl_ns = config->session_ttl_ns,
        .session_lease_ns = config->session_lease_ns,
        .disconnect_lease_ns = config->disconnect_lease_ns,
        .bytes_max =
            config->session_bytes_max != 0 ? config->session_bytes_max : SESSION_BYTES_MAX,
    };
    lmc_status status = lmc_sessions_init(&cache->sessions, &sessions, cache->clock, cache->l1);
    cache->sessions.consumed = count_lookup;
    cache->sessions.consumed_arg = cache;
    cache->sessions.interest = cache->observer.l1.interest;
    return status;
}

static lmc_status init_parts(lmc_cache *cache, lmc_error *error) {
    const lmc_cache_config *config = &cache->config;
    lmc_instances_config instances = {
        .read_ttl_ns = config->read_ttl_ns,
        .write_ttl_ns = config->write_ttl_ns,
        .disconnect_lease_ns = config->disconnect_lease_ns,
    };
    lmc_status status = lmc_hasher_init(&cache->hasher, config->chunk_size);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "no random seed for the cache");
    cache->hasher.memo = lmc_hash_memo_create(config->chunk_size);
    if (cache->hasher.memo == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the cache");
    status = lmc_l1_create(&config->l1, cache->clock, &cache->observer.l1, &cache->l1, error);
    if (status != LMC_OK)
        return status;
    status = lmc_layouts_init(&cache->layouts);
    if (status == LMC_OK)
        status = init_sessions(cache);
    if (status == LMC_OK)
        status = lmc_instances_init(&cache->instances, &instances, cache->clock, cache->l1,
                                    &cache->layouts);
    return status == LMC_OK ? status : lmc_error_set(error, status, "no memory for the cache");
}

lmc_status lmc_cache_create(const lmc_cache_config *config, const lmc_clock *clock,
                            const lmc_cache_observer *observer, lmc_cache **cache,
                            lmc_error *error) {
    if (config->chunk_size == 0)
        return lmc_error_set(error, LMC_INVALID, "chunk_size must be > 0");
    lmc_cache *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the cache");
    made->config = *config;
    made->clock = clock;
    if (observer != NULL)
        made->observer = *observer;
    lmc_status status = init_parts(made, error);
    if (status != LMC_OK)
        lmc_cache_destroy(made);
    else
        *cache = made;
    return status;
}

void lmc_cache_destroy(lmc_cache *cache) {
    if (cache == NULL)
        return;
    lmc_instances_fini(&cache->instances);
    lmc_sessions_fini(&cache->sessions);
    lmc_layouts_fini(&cache->layouts);
    if (cache->l1 != NULL)
        lmc_l1_destroy(cache->l1);
    lmc_hash_memo_destroy(cache->hasher.memo);
    free(cache);
}

lmc_l1 *lmc_cache_l1(lmc_cache *cache) { return cache->l1; }

uint32_t lmc_cache_chunk_size(const lmc_cache *cache) { return cache->config.chunk_size; }

void lmc_cache_tick(lmc_cache *cache) {
    lmc_sessions_tick(&cache->sessions);
    lmc_instances_tick(&cache->instances);
    lmc_l1_evict_round(cache->l1);
}

void lmc_cache_clear(lmc_cache *cache, bool force) {
    lmc_l1_clear(cache->l1, force);
    if (force)
        lmc_sessions_drop_holds(&cache->sessions);
}

/* ---- jobs and sessions ---- */

lmc_status lmc_cache_query(lmc_cache *cache, lmc_slice request_id, int64_t *chunks) {
    return lmc_job_query(&cache->sessions, request_id, true, chunks);
}

lmc_status lmc_cache_peek(lmc_cache *cache, lmc_slice request_id, int64_t *chunks) {
    return lmc_job_query(&cache->sessions, request_id, false, chunks);
}

void lmc_cache_wait(lmc_cache *cache, lmc_slice request_id, int64_t timeout_ns,
                    void (*done)(void *arg, lmc_status status, int64_t chunks), void *arg) {
    int64_t chunks = 0;
    lmc_status status;
    do { /* again when the job finished between asking and parking */
        status = lmc_cache_query(cache, request_id, &chunks);
        if (status == LMC_AGAIN && timeout_ns > 0) {
            status = lmc_job_wait(&cache->sessions, request_id, timeout_ns, done, arg);
            if (status == LMC_OK)
                return;
        }
    } while (status == LMC_DECLINED);
    done(arg, status, chunks);
}

void lmc_cache_end_waits(lmc_cache *cache) { lmc_job_end_waits(&cache->sessions); }

lmc_status lmc_cache_free_locks(lmc_cache *cache, const lmc_cache_key *key, int64_t tp_size,
                                lmc_error *error) {
    lmc_status status = lmc_key_check(key, error);
    if (status != LMC_OK)
        return status;
    lmc_chunk_range range = lmc_key_lookup_range(key, cache->config.chunk_size);
    lmc_ledger_free(&cache->sessions, key, &range, lmc_key_readers(key, tp_size));
    return LMC_OK;
}

void lmc_cache_end_session(lmc_cache *cache, lmc_slice request_id) {
    static lmc_log_limit limit;
    if (!lmc_sessions_end(&cache->sessions, request_id) && lmc_log_allow(&limit, NULL))
        LMC_WARNING("Session %.*s not found, skipping touch",
                    request_id.size > 256 ? 256 : (int)request_id.size,
                    (const char *)request_id.data);
}

size_t lmc_cache_active_jobs(lmc_cache *cache) { return lmc_job_count(&cache->sessions); }

size_t lmc_cache_active_sessions(lmc_cache *cache) {
    return lmc_sessions_count(&cache->sessions);
}

/* ---- instances ---- */

lmc_status lmc_cache_register(lmc_cache *cache, const lmc_instance_config *config,
                              uint64_t connection, bool *created, lmc_error *error) {
    return lmc_instances_register(&cache->instances, config, connection, created, error);
}

bool lmc_cache_unregister(lmc_cache *cache, int64_t instance_id) {
    return lmc_instances_unregister(&cache->instances, instance_id);
}

bool lmc_cache_has_instance(lmc_cache *cache, int64_t instance_id) {
    return lmc_instances_have(&cache->instances, instance_id);
}

bool lmc_cache_touch_instance(lmc_cache *cache, int64_t instance_id, uint64_t connection) {
    return lmc_instances_ping(&cache->instances, instance_id, connection);
}

void lmc_cache_reap(lmc_cache *cache, lmc_transfer_kind kind, int64_t reap_timeout_ns,
                    int64_t grace_ns, void (*found)(void *arg, int64_t instance_id),
                    void *arg) {
    lmc_instances_reap(&cache->instances, kind, reap_timeout_ns, grace_ns, found, arg);
}

size_t lmc_cache_instance_count(lmc_cache *cache, lmc_transfer_kind kind) {
    return lmc_instances_count(&cache->instances, kind);
}

void lmc_cache_each_instance(lmc_cache *cache, lmc_transfer_kind kind,
                             void (*visit)(void *arg, const lmc_instance_report *row),
                             void *arg) {
    lmc_instances_each(&cache->instances, kind, visit, arg);
}

void lmc_cache_connection_closed(lmc_cache *cache, uint64_t connection) {
    lmc_sessions_connection_closed(&cache->sessions, connection);
    lmc_instances_connection_closed(&cache->instances, connection);
}
