/*
 * Stores the KV cache of one chunk and loads it back: through shared memory when the server has
 * a pool that this process can map, else by byte copy.
 *
 *   lmcached server --l1-size-gb 1 --eviction-policy LRU --shm-name pool &
 *   cc store_and_load.c $(pkg-config --cflags --libs lmcached-client) -o store_and_load
 *   ./store_and_load localhost:5555
 *
 * With a server that is only built, PKG_CONFIG_PATH names the build folder.
 */
#include <lmcached/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCE INT64_C(42)
#define CHUNK 256
#define TIMEOUT_S 10.0

static uint32_t tokens[CHUNK];
static lmc_pool pool; /* base NULL: byte copy */
static lmc_client_layout layout = {.rank = 4, .shape = {2, 2, CHUNK, 64}};
static unsigned char chunk[2 * 2 * CHUNK * 64 * 2];

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

static const lmc_commit_store_reply *commit_store(lmc_client *client, lmc_pieces data,
                                                  lmc_future **future) {
    lmc_commit_store_request commit = {.key = key_of(0), .instance_id = INSTANCE, .data = data};
    return call(client, "commit_store", &commit, future);
}

/* Bytes in a commit, here none, tell the server that its pool cannot be mapped here. */
static void ask_for_byte_copy(lmc_client *client) {
    lmc_client_packed packed;
    lmc_future *future;
    if (lmc_client_pack(&layout, NULL, 0, &packed) != LMC_OK)
        fail("packing");
    commit_store(client, packed.data, &future);
    lmc_future_free(future);
    lmc_client_packed_free(&packed);
}

/* An engine asks first and cuts its chunks accordingly; here they have one size. */
static void check_chunk_size(lmc_client *client) {
    int64_t tokens_per_chunk = 0;
    if (lmc_client_chunk_size(client, TIMEOUT_S, &tokens_per_chunk) != LMC_OK)
        fail("get_chunk_size");
    if (tokens_per_chunk == CHUNK)
        return;
    fprintf(stderr, "the server has --chunk-size %lld, this example %d\n",
            (long long)tokens_per_chunk, CHUNK);
    exit(1);
}

static void register_worker(lmc_client *client) {
    lmc_register_kv_cache_engine_driven_context_request request = {
        .instance_id = INSTANCE,
        .model_name = text("example/model"),
        .world_size = 1,
        .block_size = 16,
        .num_layers = 2,
        .hidden_dim_size = 64,
        .dtype_str = layout.dtype,
    };
    lmc_future *future;
    const lmc_register_kv_cache_engine_driven_context_reply *reply =
        call(client, "register_kv_cache_engine_driven_context", &request, &future);
    if (lmc_pool_map(reply->shm_name, reply->pool_size, &pool) != LMC_OK) {
        printf("byte copy: %s\n", lmc_client_error());
        if (reply->shm_name.size > 0)
            ask_for_byte_copy(client);
    }
    lmc_future_free(future);
}

/* Where the one chunk of a prepared transfer lies; NULL: the server named no slot. */
static void *place_of(lmc_slice context, lmc_client_slot *slot) {
    size_t count = 0;
    lmc_status status = lmc_client_slots(context, (int64_t)pool.size, slot, 1, &count);
    return status == LMC_OK && count == 1 ? (char *)pool.base + slot->offset : NULL;
}

/* False: nothing to write. */
static bool write_into_pool(lmc_client *client) {
    lmc_prepare_store_request prepare = {.key = key_of(0), .instance_id = INSTANCE};
    lmc_future *future;
    const lmc_prepare_store_reply *reply = call(client, "prepare_store", &prepare, &future);
    lmc_client_slot slot;
    void *place = place_of(reply->context, &slot);
    if (place != NULL)
        memcpy(place, chunk, sizeof(chunk));
    lmc_future_free(future);
    return place != NULL;
}

static void store(lmc_client *client) {
    lmc_client_packed packed = {0}; /* no bytes: they are in the pool */
    lmc_slice bytes = {chunk, sizeof(chunk)};
    memset(chunk, 0x5a, sizeof(chunk));
    if (pool.base != NULL && !write_into_pool(client)) {
        printf("the chunk is there already, or there is no room for it\n");
        return;
    }
    if (pool.base == NULL && lmc_client_pack(&layout, &bytes, 1, &packed) != LMC_OK)
        fail("packing");
    lmc_future *future;
    const lmc_commit_store_reply *done = commit_store(client, packed.data, &future);
    printf("stored %zu bytes: %s\n", sizeof(chunk), done->success ? "yes" : "no");
    lmc_future_free(future);
    lmc_client_packed_free(&packed);
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

/* Copies the chunk of a prepared retrieve. */
static bool read_chunk(const lmc_prepare_retrieve_reply *reply) {
    lmc_client_slot slot;
    size_t count = 0;
    if (!reply->success)
        return false;
    if (pool.base == NULL)
        return lmc_client_unpack(&layout, reply->data, chunk, sizeof(chunk), &count) ==
                   LMC_OK &&
               count == 1;
    const void *place = place_of(reply->context, &slot);
    if (place != NULL)
        memcpy(chunk, place, sizeof(chunk));
    return place != NULL;
}

static bool load(lmc_client *client) {
    lmc_prepare_retrieve_request prepare = {.key = key_of(0), .instance_id = INSTANCE};
    lmc_future *future;
    memset(chunk, 0, sizeof(chunk));
    bool loaded = read_chunk(call(client, "prepare_retrieve", &prepare, &future));
    lmc_future_free(future);
    lmc_commit_retrieve_request commit = {.key = key_of(0), .instance_id = INSTANCE};
    call(client, "commit_retrieve", &commit, &future);
    lmc_future_free(future);
    return loaded && chunk[0] == 0x5a && chunk[sizeof(chunk) - 1] == 0x5a;
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
    layout.dtype = text("float16");
    for (uint32_t i = 0; i < CHUNK; i++)
        tokens[i] = i;
    check_chunk_size(client);
    register_worker(client);
    store(client);
    printf("chunks found: %lld\n", (long long)look_up(client));
    bool same = load(client);
    printf("loaded back: %s\n", same ? "the same bytes" : "something else");
    say_goodbye(client);
    if (pool.base != NULL)
        lmc_pool_unmap(&pool);
    lmc_client_close(client);
    return same ? 0 : 1;
}
