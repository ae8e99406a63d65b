#include <errno.h>
#include <lmcached/client.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/failure.h"
#include "client/future.h"
#include "client/link.h"

#define OLDER_FORM_AFTER_S 5.0

/* Operations that older servers know without arguments only; bits of lmc_client.older. */
enum { OLDER_PING = 1, OLDER_CLEAR = 2 };

struct lmc_client {
    lmc_link *link;
    _Atomic unsigned older; /* those that this server is known to answer so */
};

static _Thread_local lmc_error last_error;

const char *lmc_client_error(void) { return last_error.text; }

lmc_error *lmc_client_fresh_error(void) {
    lmc_error_clear(&last_error);
    return &last_error;
}

lmc_client *lmc_client_open(const char *url) {
    lmc_error *error = lmc_client_fresh_error();
    lmc_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
        return NULL;
    }
    if (lmc_link_create(url, &client->link, error) != LMC_OK) {
        free(client);
        return NULL;
    }
    return client;
}

void lmc_client_close(lmc_client *client) {
    if (client == NULL)
        return;
    lmc_link_close(client->link);
    free(client);
}

/* ---- futures ---- */

static void free_future(lmc_future *future) {
    if (future->has_result)
        zmq_msg_close(&future->result);
    lmc_cond_fini(&future->changed);
    lmc_arena_fini(&future->arena);
    free(future);
}

void lmc_future_drop(lmc_future *future) {
    lmc_link *link = future->link;
    lmc_lock_take(&link->lock);
    bool last = --future->holders == 0;
    lmc_lock_drop(&link->lock);
    if (last) {
        free_future(future);
        lmc_link_drop(link);
    }
}

static size_t encode_operation(const lmc_operation_def *operation, uint8_t *out) {
    if (operation->legacy_id > 0) {
        out[0] = (uint8_t)operation->legacy_id; /* ids end below 128 */
        return 1;
    }
    size_t size = strlen(operation->name);
    size_t head = size < 32 ? 1 : 2;
    if (head == 1) {
        out[0] = (uint8_t)(0xa0 | size);
    } else {
        out[0] = 0xd9;
        out[1] = (uint8_t)size;
    }
    memcpy(out + head, operation->name, size);
    return head + size;
}

static lmc_status encode(lmc_future *future, const void *request, lmc_error *error) {
    size_t count = LMC_CLIENT_FRAMES_MAX - 1;
    size_t size = encode_operation(future->operation, future->operation_bytes);
    future->frames[0] = (lmc_slice){future->operation_bytes, size};
    lmc_status status = lmc_zmq_encode_request(future->operation, request, &future->arena,
                                               future->frames + 1, &count);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "cannot encode the %s request: %s",
                             future->operation->name, lmc_status_name(status));
    future->frame_count = count + 1;
    return LMC_OK;
}

/* `payloads`: frames after the operation that are sent, at most. */
static lmc_future *call(lmc_client *client, const char *operation, const void *request,
                        size_t payloads) {
    lmc_error *error = lmc_client_fresh_error();
    const lmc_operation_def *found = lmc_operation_by_name(lmc_text(operation));
    if (found == NULL) {
        lmc_error_set(error, LMC_NOT_FOUND, "unknown operation '%s'", operation);
        return NULL;
    }
    lmc_future *future = calloc(1, sizeof(*future));
    if (future == NULL) {
        lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
        return NULL;
    }
    future->link = client->link;
    future->operation = found;
    future->holders = 1;
    lmc_cond_init(&future->changed);
    lmc_arena_init(&future->arena, 0);
    zmq_msg_init(&future->result);
    lmc_status status = encode(future, request, error);
    if (future->frame_count > payloads + 1)
        future->frame_count = payloads + 1;
    if (status == LMC_OK && lmc_link_send(client->link, future))
        return future;
    if (status == LMC_OK)
        lmc_error_set(error, LMC_CLOSED, "the client is closing or out of memory");
    free_future(future);
    return NULL;
}

lmc_future *lmc_client_call(lmc_client *client, const char *operation, const void *request) {
    return call(client, operation, request, LMC_CLIENT_FRAMES_MAX);
}

static lmc_status decode(lmc_future *future, lmc_error *error) {
    future->decoded = true;
    future->reply = lmc_arena_zalloc(&future->arena, future->operation->reply_size + 1);
    if (future->reply == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    if (!future->has_result)
        return future->operation->may_pend ? LMC_AGAIN : LMC_OK;
    lmc_slice frame = {zmq_msg_data(&future->result), zmq_msg_size(&future->result)};
    return lmc_zmq_decode_reply(future->operation, frame, &future->arena, future->reply, error);
}

static lmc_status wait_done(lmc_future *future, double timeout_s) {
    int64_t deadline = lmc_now(&lmc_system_clock) + lmc_ns_of_seconds(timeout_s);
    lmc_link *link = future->link;
    lmc_lock_take(&link->lock);
    bool in_time = true;
    while (future->state == LMC_FUTURE_WAITING && in_time)
        in_time = lmc_cond_wait_until(&future->changed, &link->lock, deadline);
    lmc_status status = future->state == LMC_FUTURE_DONE ? future->status : LMC_TIMEOUT;
    lmc_lock_drop(&link->lock);
    return status;
}

lmc_status lmc_future_wait(lmc_future *future, double timeout_s, const void **reply) {
    lmc_error *error = lmc_client_fresh_error();
    lmc_status status = wait_done(future, timeout_s);
    if (status == LMC_TIMEOUT)
        return lmc_error_set(error, status, "no answer to %s within %g s",
                             future->operation->name, timeout_s);
    if (status != LMC_OK)
        return lmc_error_set(error, status, "the client was closed");
    if (!future->decoded)
        future->status = decode(future, error);
    if (reply != NULL)
        *reply = future->reply;
    return future->status;
}

void lmc_future_free(lmc_future *future) {
    if (future == NULL)
        return;
    lmc_link_forget(future->link, future);
    lmc_future_drop(future);
}

/* ---- common calls ---- */

static lmc_status call_and_wait(lmc_client *client, const char *operation, const void *request,
                                double timeout_s, lmc_future **future, const void **reply) {
    *future = lmc_client_call(client, operation, request);
    if (*future == NULL)
        return last_error.status != LMC_OK ? last_error.status : LMC_FAILED;
    return lmc_future_wait(*future, timeout_s, reply);
}

static bool is_alive(lmc_client *client, double timeout_s) {
    lmc_noop_request request = {0};
    lmc_future *future;
    lmc_status status = call_and_wait(client, "noop", &request, timeout_s, &future, NULL);
    lmc_future_free(future);
    return status == LMC_OK;
}

static double seconds_until(int64_t deadline) {
    int64_t left = deadline - lmc_now(&lmc_system_clock);
    return left > 0 ? (double)left / 1e9 : 0;
}

/* Sends the older form after the newest was met with silence. Whichever is answered is put into
 * *future; only a server that answers nothing but the older one is remembered. */
static lmc_status try_older(lmc_client *client, const char *operation, const void *request,
                            unsigned bit, int64_t deadline, lmc_future **future,
                            const void **reply) {
    lmc_future *older = call(client, operation, request, 0);
    if (older == NULL)
        return lmc_future_wait(*future, seconds_until(deadline), reply);
    const void *older_reply = NULL;
    lmc_status status = lmc_future_wait(older, seconds_until(deadline), &older_reply);
    lmc_status newest = lmc_future_wait(*future, 0, reply);
    if (newest != LMC_TIMEOUT || status == LMC_TIMEOUT) {
        lmc_future_free(older);
        return newest;
    }
    if (status == LMC_OK)
        atomic_fetch_or(&client->older, bit);
    lmc_future_free(*future);
    *future = older;
    if (reply != NULL)
        *reply = older_reply;
    return status;
}

/* Calls an operation of which the server may know only the form without arguments. */
static lmc_status call_either(lmc_client *client, const char *operation, const void *request,
                              unsigned bit, double timeout_s, lmc_future **future,
                              const void **reply) {
    int64_t deadline = lmc_now(&lmc_system_clock) + lmc_ns_of_seconds(timeout_s);
    double patience = timeout_s / 2 < OLDER_FORM_AFTER_S ? timeout_s / 2 : OLDER_FORM_AFTER_S;
    bool older = (atomic_load(&client->older) & bit) != 0;
    *future = call(client, operation, request, older ? 0 : LMC_CLIENT_FRAMES_MAX);
    if (*future == NULL)
        return last_error.status != LMC_OK ? last_error.status : LMC_FAILED;
    if (older)
        return lmc_future_wait(*future, timeout_s, reply);
    lmc_status status = lmc_future_wait(*future, patience, reply);
    if (status != LMC_TIMEOUT)
        return status;
    if (is_alive(client, seconds_until(deadline) / 2))
        return try_older(client, operation, request, bit, deadline, future, reply);
    return lmc_future_wait(*future, seconds_until(deadline), reply);
}

lmc_status lmc_client_clear(lmc_client *client, bool force, double timeout_s) {
    lmc_clear_request request = {.present = LMC_CLEAR_REQUEST_HAS_FORCE, .force = force};
    lmc_future *future;
    lmc_status status =
        force ? call_either(client, "clear", &request, OLDER_CLEAR, timeout_s, &future, NULL)
              : call_and_wait(client, "clear", &request, timeout_s, &future, NULL);
    lmc_future_free(future);
    return status;
}

lmc_status lmc_client_ping(lmc_client *client, const int64_t *instance_id, double timeout_s,
                           bool *ok) {
    lmc_ping_request request = {0};
    if (instance_id != NULL) {
        request.present = LMC_PING_REQUEST_HAS_INSTANCE_ID;
        request.instance_id = *instance_id;
    }
    lmc_future *future;
    const void *reply = NULL;
    lmc_status status =
        call_either(client, "ping", &request, OLDER_PING, timeout_s, &future, &reply);
    if (status == LMC_OK)
        *ok = ((const lmc_ping_reply *)reply)->ok;
    lmc_future_free(future);
    return status;
}

lmc_status lmc_client_chunk_size(lmc_client *client, double timeout_s, int64_t *chunk_size) {
    lmc_get_chunk_size_request request = {0};
    lmc_future *future;
    const void *reply = NULL;
    lmc_status status =
        call_and_wait(client, "get_chunk_size", &request, timeout_s, &future, &reply);
    if (status == LMC_OK)
        *chunk_size = ((const lmc_get_chunk_size_reply *)reply)->chunk_size;
    lmc_future_free(future);
    return status;
}

static lmc_status copy_answer(const lmc_server_module_call_reply *reply, void **answer,
                              size_t *size) {
    lmc_slice text = reply->error;
    size_t total = reply->success ? reply->payload.size : text.size;
    char *out = malloc(total + 1);
    if (out == NULL)
        return lmc_error_set(&last_error, LMC_NO_MEMORY, "out of memory");
    size_t at = 0;
    for (size_t i = 0; reply->success && i < reply->payload.count; i++) {
        if (reply->payload.items[i].size > 0)
            memcpy(out + at, reply->payload.items[i].data, reply->payload.items[i].size);
        at += reply->payload.items[i].size;
    }
    if (!reply->success && total > 0)
        memcpy(out, text.data, total);
    out[total] = '\0';
    *answer = out;
    *size = total;
    return LMC_OK;
}

lmc_status lmc_client_server_module_call(lmc_client *client, const char *method,
                                         lmc_slice payload, double timeout_s, bool *success,
                                         void **answer, size_t *size) {
    lmc_server_module_call_request request = {
        .method = lmc_text(method),
        .payload = {.items = &payload, .count = 1, .size = payload.size},
    };
    lmc_future *future;
    const void *reply = NULL;
    lmc_status status =
        call_and_wait(client, "server_module_call", &request, timeout_s, &future, &reply);
    if (status == LMC_OK) {
        const lmc_server_module_call_reply *answered = reply;
        *success = answered->success;
        status = copy_answer(answered, answer, size);
    }
    lmc_future_free(future);
    return status;
}

/* ---- shared memory ---- */

lmc_status lmc_pool_map(lmc_slice shm_name, int64_t pool_size, lmc_pool *pool) {
    lmc_error *error = lmc_client_fresh_error();
    char name[256];
    while (shm_name.size > 0 && *(const char *)shm_name.data == '/') {
        shm_name.data = (const char *)shm_name.data + 1;
        shm_name.size--;
    }
    if (shm_name.size == 0 || shm_name.size + 2 > sizeof(name) || pool_size <= 0)
        return lmc_error_set(error, LMC_NOT_FOUND, "the server offers no pool");
    name[0] = '/';
    memcpy(name + 1, shm_name.data, shm_name.size);
    name[shm_name.size + 1] = '\0';
    int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return lmc_error_set_errno(error, LMC_NOT_FOUND, errno, "cannot open the pool %s",
                                   name);
    struct stat status;
    void *base = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size >= pool_size)
        base = mmap(NULL, (size_t)pool_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED)
        return lmc_error_set(error, LMC_NOT_FOUND, "cannot map the pool %s", name);
    *pool = (lmc_pool){base, (size_t)pool_size};
    return LMC_OK;
}

void lmc_pool_unmap(lmc_pool *pool) {
    if (pool->base != NULL)
        munmap(pool->base, pool->size);
    *pool = (lmc_pool){0};
}
