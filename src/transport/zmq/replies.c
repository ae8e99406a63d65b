#include "transport/zmq/replies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COUNTED_FROM ((size_t)513) /* smaller ones are libzmq's own */
#define REUSED_FROM ((size_t)128 << 10)
#define STEP ((size_t)64 << 10)
#define MUCH ((size_t)8 << 20) /* leaves enough in the allocator to be worth a trim */

/* Lies in front of the bytes of a counted frame. */
struct lmc_zmq_buffer {
    lmc_zmq_replies *replies;
    lmc_zmq_peer *peer;
    lmc_zmq_buffer *next; /* while kept */
    size_t size;          /* what it counts: the bytes of the frame, or more */
    size_t capacity;      /* bytes after this header */
    _Alignas(64) uint8_t data[];
};

void lmc_zmq_replies_init(lmc_zmq_replies *replies) {
    lmc_lock_init(&replies->lock, LMC_RANK_TRANSPORT, "zmq replies");
}

static bool is_mapping(const lmc_zmq_buffer *buffer) { return buffer->size >= REUSED_FROM; }

static void release_memory(lmc_zmq_buffer *buffer) {
    if (is_mapping(buffer))
        munmap(buffer, sizeof *buffer + buffer->capacity);
    else
        free(buffer);
}

static void release_list(lmc_zmq_buffer *buffer) {
    while (buffer != NULL) {
        lmc_zmq_buffer *next = buffer->next;
        release_memory(buffer);
        buffer = next;
    }
}

void lmc_zmq_replies_fini(lmc_zmq_replies *replies) {
    release_list(replies->kept);
    replies->kept = NULL;
    lmc_lock_fini(&replies->lock);
}

bool lmc_zmq_replies_tidy(lmc_zmq_replies *replies) {
    lmc_lock_take(&replies->lock);
    bool busy = replies->used_since_tidy;
    lmc_zmq_buffer *old = busy ? NULL : replies->kept;
    if (!busy) {
        replies->kept = NULL;
        replies->kept_bytes = 0;
    }
    replies->used_since_tidy = false;
    lmc_lock_drop(&replies->lock);
    release_list(old);
    return busy;
}

size_t lmc_zmq_replies_kept(lmc_zmq_replies *replies) {
    lmc_lock_take(&replies->lock);
    size_t kept = replies->kept_bytes;
    lmc_lock_drop(&replies->lock);
    return kept;
}

/* ---- buffers ---- */

/* The smallest kept buffer that fits and does not waste more than half of itself. */
static lmc_zmq_buffer *take_kept(lmc_zmq_replies *replies, size_t size) {
    lmc_lock_take(&replies->lock);
    lmc_zmq_buffer **best = NULL;
    for (lmc_zmq_buffer **at = &replies->kept; *at != NULL; at = &(*at)->next) {
        size_t capacity = (*at)->capacity;
        if (capacity >= size && capacity / 2 <= size &&
            (best == NULL || capacity < (*best)->capacity))
            best = at;
    }
    lmc_zmq_buffer *buffer = best != NULL ? *best : NULL;
    if (buffer != NULL) {
        *best = buffer->next;
        replies->kept_bytes -= buffer->capacity;
    }
    replies->used_since_tidy = true;
    lmc_lock_drop(&replies->lock);
    return buffer;
}

static lmc_zmq_buffer *map_buffer(size_t size) {
    size_t whole;
    if (__builtin_add_overflow(size, sizeof(lmc_zmq_buffer) + STEP - 1, &whole))
        return NULL;
    whole -= whole % STEP;
    lmc_zmq_buffer *buffer =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return NULL;
    madvise(buffer, whole, MADV_HUGEPAGE);
    buffer->capacity = whole - sizeof *buffer;
    return buffer;
}

static lmc_zmq_buffer *make_buffer(lmc_zmq_replies *replies, size_t size) {
    lmc_zmq_buffer *buffer;
    if (size < REUSED_FROM) {
        buffer = aligned_alloc(64, (sizeof *buffer + size + 63) & ~(size_t)63);
        if (buffer != NULL)
            buffer->capacity = size;
    } else {
        buffer = take_kept(replies, size);
        if (buffer == NULL)
            buffer = map_buffer(size);
    }
    return buffer;
}

static void keep_or_release(lmc_zmq_replies *replies, lmc_zmq_buffer *buffer) {
    bool keep = false;
    if (is_mapping(buffer)) {
        lmc_lock_take(&replies->lock);
        keep = replies->kept_bytes + buffer->capacity <= replies->reuse_max;
        if (keep) {
            buffer->next = replies->kept;
            replies->kept = buffer;
            replies->kept_bytes += buffer->capacity;
        }
        lmc_lock_drop(&replies->lock);
    }
    if (!keep)
        release_memory(buffer);
}

/* ---- counting ---- */

static _Atomic uint32_t given;

void lmc_zmq_replies_give(void) { atomic_fetch_add_explicit(&given, 1, memory_order_release); }

static bool count(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size) {
    size_t of_peer = atomic_fetch_add_explicit(&peer->unread, size, memory_order_relaxed);
    size_t of_all = atomic_fetch_add_explicit(&replies->unread, size, memory_order_relaxed);
    /* One that is too large by itself still passes when nothing else waits. */
    return (of_peer == 0 || of_peer + size <= replies->peer_max) &&
           (of_all == 0 || of_all + size <= replies->total_max);
}

static void uncount(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size) {
    atomic_fetch_sub_explicit(&peer->unread, size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&replies->unread, size, memory_order_relaxed);
}

static void note_gone(lmc_zmq_replies *replies, size_t size) {
    size_t before = atomic_fetch_add_explicit(&replies->gone, size, memory_order_relaxed);
    if (before / MUCH == (before + size) / MUCH)
        return;
    lmc_lock_take(&replies->lock);
    if (replies->much_gone != NULL)
        replies->much_gone(replies->arg);
    lmc_lock_drop(&replies->lock);
}

void lmc_zmq_replies_notify(lmc_zmq_replies *replies, void (*much_gone)(void *arg), void *arg) {
    lmc_lock_take(&replies->lock);
    replies->much_gone = much_gone;
    replies->arg = arg;
    lmc_lock_drop(&replies->lock);
}

/* libzmq has sent the frame, or dropped it with its connection; any thread of libzmq's. */
static void frame_gone(void *data, void *hint) {
    (void)data;
    (void)atomic_load_explicit(&given, memory_order_acquire);
    lmc_zmq_buffer *buffer = hint;
    lmc_zmq_replies *replies = buffer->replies;
    lmc_zmq_peer *peer = buffer->peer;
    size_t size = buffer->size;
    uncount(replies, peer, size);
    lmc_zmq_peer_drop(peer);
    keep_or_release(replies, buffer);
    note_gone(replies, size);
}

/* The buffer's first `size` bytes become a frame that counts `weight` until it is gone. */
static lmc_status give_buffer(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t weight,
                              size_t size, lmc_zmq_buffer *buffer, zmq_msg_t *frame) {
    buffer->replies = replies;
    buffer->peer = peer;
    buffer->size = weight;
    lmc_zmq_peer_keep(peer);
    if (zmq_msg_init_data(frame, buffer->data, size, frame_gone, buffer) == 0)
        return LMC_OK;
    frame_gone(buffer->data, buffer);
    zmq_msg_init(frame);
    return LMC_NO_MEMORY;
}

static lmc_status make_counted(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size,
                               zmq_msg_t *frame, void **data) {
    if (!count(replies, peer, size)) {
        uncount(replies, peer, size);
        return LMC_BUSY;
    }
    lmc_zmq_buffer *buffer = make_buffer(replies, size);
    if (buffer == NULL) {
        uncount(replies, peer, size);
        return LMC_NO_MEMORY;
    }
    *data = buffer->data;
    return give_buffer(replies, peer, size, size, buffer, frame);
}

lmc_status lmc_zmq_replies_mark(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t weight,
                                zmq_msg_t *frame) {
    size_t size = zmq_msg_size(frame);
    size_t of_peer = atomic_fetch_add_explicit(&peer->unread, weight, memory_order_relaxed);
    size_t of_all = atomic_fetch_add_explicit(&replies->unread, weight, memory_order_relaxed);
    bool fits = of_peer == 0 || (of_peer + weight <= replies->peer_max &&
                                 of_all + weight <= replies->total_max);
    lmc_zmq_buffer *buffer = fits ? make_buffer(replies, size) : NULL;
    if (buffer == NULL) {
        uncount(replies, peer, weight);
        return fits ? LMC_NO_MEMORY : LMC_BUSY;
    }
    memcpy(buffer->data, zmq_msg_data(frame), size);
    zmq_msg_t marked;
    lmc_status status = give_buffer(replies, peer, weight, size, buffer, &marked);
    if (status == LMC_OK)
        (void)zmq_msg_move(frame, &marked);
    (void)zmq_msg_close(&marked);
    return status;
}

lmc_status lmc_zmq_replies_frame(lmc_zmq_replies *replies, lmc_zmq_peer *peer, size_t size,
                                 zmq_msg_t *frame, void **data) {
    if (size >= COUNTED_FROM)
        return make_counted(replies, peer, size, frame, data);
    if (zmq_msg_init_size(frame, size) != 0) {
        zmq_msg_init(frame);
        return LMC_NO_MEMORY;
    }
    *data = zmq_msg_data(frame);
    return LMC_OK;
}
