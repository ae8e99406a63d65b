#include "client/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "base/error.h"
#include "client/future.h"

#define CONNECT_TIMEOUT_MS 5000
#define RECONNECT_MAX_MS 1000
#define REPLIES_PER_TURN 256

static void ring(lmc_link *link) {
    uint64_t one = 1;
    ssize_t written = write(link->bell, &one, sizeof(one));
    (void)written; /* a full counter means that it rings already */
}

static void hush(lmc_link *link) {
    uint64_t rings;
    ssize_t got = read(link->bell, &rings, sizeof(rings));
    (void)got;
}

/* ---- futures that end (called with the lock held; the caller drops the holder after) ---- */

static void finish(lmc_future *future, lmc_status status, zmq_msg_t *result) {
    future->state = LMC_FUTURE_DONE;
    future->status = status;
    if (result != NULL) {
        zmq_msg_move(&future->result, result);
        future->has_result = true;
    }
    lmc_cond_broadcast(&future->changed);
}

static lmc_future *pop_outgoing(lmc_link *link) {
    lmc_future *future = link->outgoing;
    if (future == NULL)
        return NULL;
    link->outgoing = future->next;
    if (link->outgoing == NULL)
        link->outgoing_end = &link->outgoing;
    future->next = NULL;
    return future;
}

/* ---- sending (client thread) ---- */

static lmc_slice frame_at(const lmc_future *future, size_t index) {
    if (index == 0)
        return (lmc_slice){future->uid_bytes, 1 + (size_t)(future->uid_bytes[0] == 0xcf) * 8};
    if (index == 1)
        return future->frames[0];
    return future->frames[index - 1];
}

/* False: the socket takes no more for now. A message is sent whole or not at all. */
static bool send_frames(lmc_link *link, lmc_future *future) {
    size_t total = 1 + future->frame_count;
    while (future->frames_sent < total) {
        lmc_slice frame = frame_at(future, future->frames_sent);
        int flags = ZMQ_DONTWAIT | (future->frames_sent + 1 < total ? ZMQ_SNDMORE : 0);
        int rc = zmq_send(link->socket, frame.data, frame.size, flags);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            return false;
        future->frames_sent++;
    }
    return true;
}

/* Sends what is queued, in order. True when something is left because the socket is full. */
static bool send_queued(lmc_link *link) {
    for (;;) {
        lmc_lock_take(&link->lock);
        lmc_future *future = link->outgoing;
        lmc_lock_drop(&link->lock);
        if (future == NULL)
            return false;
        if (!send_frames(link, future))
            return true;
        lmc_lock_take(&link->lock);
        pop_outgoing(link);
        lmc_lock_drop(&link->lock);
        lmc_future_drop(future);
    }
}

/* ---- receiving (client thread) ---- */

static bool read_uid(zmq_msg_t *frame, uint64_t *uid) {
    const uint8_t *bytes = zmq_msg_data(frame);
    size_t size = zmq_msg_size(frame);
    if (size == 1 && bytes[0] < 0x80) {
        *uid = bytes[0];
        return true;
    }
    if (size == 0 || bytes[0] < 0xcc || bytes[0] > 0xcf ||
        size != 1 + ((size_t)1 << (bytes[0] - 0xcc)))
        return false;
    *uid = 0;
    for (size_t i = 1; i < size; i++)
        *uid = *uid << 8 | bytes[i];
    return true;
}

/* Reads one reply of up to three frames into frames[]; returns how many there were. */
static size_t receive_frames(lmc_link *link, zmq_msg_t frames[3]) {
    size_t count = 0;
    int more = 1;
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, link->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            break;
        }
        more = zmq_msg_more(&frame);
        if (count < 3)
            zmq_msg_move(&frames[count], &frame);
        zmq_msg_close(&frame);
        count++;
    }
    return count;
}

static void deliver(lmc_link *link, zmq_msg_t frames[3], size_t count) {
    uint64_t uid;
    if (count < 2 || !read_uid(&frames[0], &uid))
        return;
    lmc_lock_take(&link->lock);
    lmc_future *future = lmc_hashmap_remove_id(link->in_flight, uid);
    if (future != NULL)
        finish(future, LMC_OK, count > 2 ? &frames[2] : NULL);
    lmc_lock_drop(&link->lock);
    if (future != NULL)
        lmc_future_drop(future);
}

/* Not for ever: a server that goes on and on must not keep requests, or the end, waiting. */
static void receive_some(lmc_link *link) {
    for (int replies = 0; replies < REPLIES_PER_TURN; replies++) {
        zmq_msg_t frames[3];
        for (int i = 0; i < 3; i++)
            zmq_msg_init(&frames[i]);
        size_t count = receive_frames(link, frames);
        deliver(link, frames, count);
        for (int i = 0; i < 3; i++)
            zmq_msg_close(&frames[i]);
        if (count == 0)
            return;
    }
}

/* ---- the thread ---- */

static bool is_closing(lmc_link *link) {
    lmc_lock_take(&link->lock);
    bool closing = link->closing;
    lmc_lock_drop(&link->lock);
    return closing;
}

/* One that has no answer yet, ended; NULL: none is left. */
static lmc_future *end_one(lmc_link *link, size_t *at) {
    void *value;
    bool found = lmc_hashmap_next(link->in_flight, at, NULL, &value);
    if (!found) { /* one that its owner has freed meanwhile may have moved another */
        *at = 0;
        found = lmc_hashmap_next(link->in_flight, at, NULL, &value);
    }
    if (!found)
        return NULL;
    lmc_future *open = value;
    lmc_hashmap_remove_id(link->in_flight, open->uid);
    finish(open, LMC_CLOSED, NULL);
    return open;
}

/* Ends every future that is still open. */
static void abandon_all(lmc_link *link) {
    size_t at = 0;
    for (;;) {
        lmc_lock_take(&link->lock);
        lmc_future *queued = pop_outgoing(link);
        lmc_future *open = end_one(link, &at);
        lmc_lock_drop(&link->lock);
        if (queued != NULL)
            lmc_future_drop(queued);
        if (open != NULL)
            lmc_future_drop(open);
        if (queued == NULL && open == NULL)
            return;
    }
}

static void run(void *arg) {
    lmc_link *link = arg;
    bool blocked = false;
    while (!is_closing(link)) {
        zmq_pollitem_t items[2] = {
            {.socket = link->socket,
             .events = (short)(ZMQ_POLLIN | (blocked ? ZMQ_POLLOUT : 0))},
            {.fd = link->bell, .events = ZMQ_POLLIN},
        };
        if (zmq_poll(items, 2, -1) < 0 && errno != EINTR)
            break;
        if (items[1].revents != 0)
            hush(link);
        receive_some(link);
        blocked = send_queued(link);
    }
    zmq_close(link->socket);
    link->socket = NULL;
    abandon_all(link);
}

/* ---- life ---- */

static void free_link(lmc_link *link) {
    if (link->socket != NULL)
        zmq_close(link->socket);
    if (link->context != NULL)
        zmq_ctx_term(link->context);
    if (link->bell >= 0)
        close(link->bell);
    lmc_hashmap_destroy(link->in_flight);
    lmc_lock_fini(&link->lock);
    free(link);
}

static lmc_status open_socket(lmc_link *link, const char *url, lmc_error *error) {
    char full[512];
    int size =
        snprintf(full, sizeof(full), "%s%s", strstr(url, "://") == NULL ? "tcp://" : "", url);
    if (size < 0 || (size_t)size >= sizeof(full))
        return lmc_error_set(error, LMC_INVALID, "url is too long: %s", url);
    link->context = zmq_ctx_new();
    link->socket = link->context != NULL ? zmq_socket(link->context, ZMQ_DEALER) : NULL;
    if (link->socket == NULL)
        return lmc_error_set(error, LMC_FAILED, "cannot create a socket: %s",
                             zmq_strerror(errno));
    int connect_timeout = CONNECT_TIMEOUT_MS, reconnect_max = RECONNECT_MAX_MS, linger = 0;
    zmq_setsockopt(link->socket, ZMQ_CONNECT_TIMEOUT, &connect_timeout, sizeof(int));
    zmq_setsockopt(link->socket, ZMQ_RECONNECT_IVL_MAX, &reconnect_max, sizeof(int));
    zmq_setsockopt(link->socket, ZMQ_LINGER, &linger, sizeof(int));
    if (zmq_connect(link->socket, full) != 0)
        return lmc_error_set(error, LMC_INVALID,
                             "cannot connect to '%s': %s; expected is tcp://HOST:PORT (a "
                             "server's --port, not --http-port) or ipc://PATH",
                             full, zmq_strerror(errno));
    return LMC_OK;
}

lmc_status lmc_link_create(const char *url, lmc_link **out, lmc_error *error) {
    lmc_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    lmc_lock_init(&link->lock, LMC_RANK_TRANSPORT, "client link");
    link->outgoing_end = &link->outgoing;
    link->holders = 1;
    link->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->in_flight = lmc_hashmap_create();
    lmc_status status = LMC_NO_MEMORY;
    if (link->bell < 0 || link->in_flight == NULL)
        lmc_error_set(error, status, "cannot set up the client: out of memory or descriptors");
    else
        status = open_socket(link, url, error);
    if (status == LMC_OK)
        status = lmc_thread_start(&link->thread, "lmc-client", run, link, error);
    if (status != LMC_OK) {
        free_link(link);
        return status;
    }
    *out = link;
    return LMC_OK;
}

void lmc_link_close(lmc_link *link) {
    lmc_lock_take(&link->lock);
    link->closing = true;
    lmc_lock_drop(&link->lock);
    ring(link);
    lmc_thread_join(&link->thread);
    zmq_ctx_term(link->context);
    link->context = NULL;
    lmc_link_drop(link);
}

void lmc_link_drop(lmc_link *link) {
    lmc_lock_take(&link->lock);
    bool last = --link->holders == 0;
    lmc_lock_drop(&link->lock);
    if (last)
        free_link(link);
}

static void encode_uid(lmc_future *future) {
    uint64_t uid = future->uid;
    if (uid < 0x80) {
        future->uid_bytes[0] = (uint8_t)uid;
        return;
    }
    future->uid_bytes[0] = 0xcf;
    for (int i = 0; i < 8; i++)
        future->uid_bytes[1 + i] = (uint8_t)(uid >> (56 - 8 * i));
}

bool lmc_link_send(lmc_link *link, lmc_future *future) {
    lmc_lock_take(&link->lock);
    bool taken = false;
    if (!link->closing) {
        future->uid = link->next_uid;
        encode_uid(future);
        taken = lmc_hashmap_put_id(link->in_flight, future->uid, future, NULL) == LMC_OK;
    }
    if (taken) {
        link->next_uid++;
        link->holders++;
        future->holders += 2; /* one for the outgoing list, one for in_flight */
        *link->outgoing_end = future;
        link->outgoing_end = &future->next;
    }
    lmc_lock_drop(&link->lock);
    if (taken)
        ring(link);
    return taken;
}

void lmc_link_forget(lmc_link *link, lmc_future *future) {
    lmc_lock_take(&link->lock);
    bool was_open = future->state == LMC_FUTURE_WAITING &&
                    lmc_hashmap_remove_id(link->in_flight, future->uid) == future;
    lmc_lock_drop(&link->lock);
    if (was_open)
        lmc_future_drop(future);
}
