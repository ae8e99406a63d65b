/*
 * Stores the KV cache of one chunk through shared memory and loads it back.
 *
 *   lmcached server --l1-size-gb 1 --eviction-policy LRU --shm-name pool &
 *   cc store_and_load.c $(pkg-config --cflags --libs lmcached-client) -o store_and_load
 *   ./store_and_load localhost:5555
 */
#include <lmcached/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCE INT64_C(42)
#define CHUNK 256
#define TIMEOUT_S 10.0

static uint32_t tokens[CHUNK];
static lmc_pool pool;

static lmc_slice text(const char *words) { return (lmc_slice){words, strlen(words)}; }

static void fail(const char *what) {
    fprintf(stderr, "%s failed: %s\n", what, lmc_client_error());
    exit(1);
}

/* Calls an operation and hands back its reply; the future owns it. */
static const void *call(lmc_client *client, const char *operation, const void *request,
                        lmc_future **future) {
    const void *reply = NULL;
    *future = lmc_client_call(client, operation, request);
    if (*future == NULL || lmc_future_wait(*future, TIMEOUT_S, &reply) != LMC_OK)
        fail(operation);
    return reply;
}

/* The chunk of all tokens; worker_id -1 names every shard, as a scheduler does. */
static lmc_cache_key key_of(int64_t worker_id) {
    return (lmc_cache_key){
        .present = worker_id >= 0 ? LMC_CACHE_KEY_HAS_WORKER_ID : 0,
        .model_name = text("example/model"),
        .world_size = 1,
        .worker_id = worker_id,
        .token_ids = {.ids = tokens, .count = CHUNK},
        .end = CHUNK,
        .request_id = text("request-1"),
        .num_kv_readers = 1,
    };
}

static void register_worker(lmc_client *client) {
    lmc_register_kv_cache_engine_driven_context_request request = {
        .instance_id = INSTANCE,
        .model_name = text("example/model"),
        .world_size = 1,
        .block_size = 16,
        .num_layers = 2,
        .hidden_dim_size = 64,
        .dtype_str = text("float16"),
    };
    lmc_future *future;
    const lmc_register_kv_cache_engine_driven_context_reply *reply =
        call(client, "register_kv_cache_engine_driven_context", &request, &future);
    if (lmc_pool_map(reply->shm_name, reply->pool_size, &pool) != LMC_OK)
        fail("mapping the pool");
    lmc_future_free(future);
}

/* Where the one chunk of a prepared transfer lies; NULL: the server named no slot. */
static void *place_of(lmc_slice context, lmc_client_slot *slot) {
    size_t count = 0;
    lmc_status status = lmc_client_slots(context, (int64_t)pool.size, slot, 1, &count);
    return status == LMC_OK && count == 1 ? (char *)pool.base + slot->offset : NULL;
}

static void store(lmc_client *client) {
    lmc_prepare_store_request prepare = {.key = key_of(0), .instance_id = INSTANCE};
    lmc_future *future;
    const lmc_prepare_store_reply *reply = call(client, "prepare_store", &prepare, &future);
    lmc_client_slot slot;
    void *place = place_of(reply->context, &slot);
    lmc_future_free(future);
    if (place == NULL) {
        printf("the chunk is there already, or there is no room for it\n");
        return;
    }
    memset(place, 0x5a, (size_t)slot.length);
    lmc_commit_store_request commit = {.key = key_of(0), .instance_id = INSTANCE};
    const lmc_commit_store_reply *done = call(client, "commit_store", &commit, &future);
    printf("stored %lld bytes: %s\n", (long long)slot.length, done->success ? "yes" : "no");
    lmc_future_free(future);
}

static int64_t look_up(lmc_client *client) {
    lmc_lookup_request lookup = {.key = key_of(-1), .tp_size = 1};
    lmc_future *future;
    call(client, "lookup", &lookup, &future);
    lmc_future_free(future);
    lmc_query_prefetch_status_request query = {.request_id = text("request-1")};
    const lmc_query_prefetch_status_reply *reply =
        call(client, "query_prefetch_status", &query, &future);
    int64_t chunks = reply->chunk_count;
    lmc_future_free(future);
    return chunks;
}

static bool load(lmc_client *client) {
    lmc_prepare_retrieve_request prepare = {.key = key_of(0), .instance_id = INSTANCE};
    lmc_future *future;
    const lmc_prepare_retrieve_reply *reply =
        call(client, "prepare_retrieve", &prepare, &future);
    lmc_client_slot slot;
    const unsigned char *place = reply->success ? place_of(reply->context, &slot) : NULL;
    bool same = place != NULL && place[0] == 0x5a && place[slot.length - 1] == 0x5a;
    lmc_future_free(future);
    lmc_commit_retrieve_request commit = {.key = key_of(0), .instance_id = INSTANCE};
    call(client, "commit_retrieve", &commit, &future);
    lmc_future_free(future);
    return same;
}

/* What a worker and a scheduler say when they are done. */
static void say_goodbye(lmc_client *client) {
    lmc_end_session_request end = {.request_id = text("request-1")};
    lmc_future *future;
    call(client, "end_session", &end, &future);
    lmc_future_free(future);
    lmc_unregister_kv_cache_engine_driven_context_request leave = {.instance_id = INSTANCE};
    call(client, "unregister_kv_cache_engine_driven_context", &leave, &future);
    lmc_future_free(future);
}

int main(int argc, char **argv) {
    lmc_client *client = lmc_client_open(argc > 1 ? argv[1] : "localhost:5555");
    if (client == NULL)
        fail("opening the client");
    for (uint32_t i = 0; i < CHUNK; i++)
        tokens[i] = i;
    register_worker(client);
    store(client);
    printf("chunks found: %lld\n", (long long)look_up(client));
    bool same = load(client);
    printf("loaded back: %s\n", same ? "the same bytes" : "something else");
    say_goodbye(client);
    lmc_pool_unmap(&pool);
    lmc_client_close(client);
    return same ? 0 : 1;
}
