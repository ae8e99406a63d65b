/*
 * client.h: a C client of the cache server over ZMQ.
 *
 * A client is one connection (one DEALER socket) with a thread of its own that sends, receives
 * and keeps deadlines. All functions may be called from any number of threads at once. A call
 * returns a future; a future is waited for and freed by the thread that got it. Requests of one
 * client reach the server in the order in which the calls were made.
 *
 * The connection is made, and made again after an outage, in the background. Requests made
 * while the server is away are kept and sent when it is back; those in flight when it went are
 * lost and their futures time out. An instance registered before a restart must register again:
 * a ping that answers false, or the first ping that succeeds after one that timed out, says so.
 */
#ifndef LMCACHED_CLIENT_H
#define LMCACHED_CLIENT_H

#include <lmcached/messages.h>
#include <lmcached/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LMC_CLIENT_API __attribute__((visibility("default")))

typedef struct lmc_client lmc_client;
typedef struct lmc_future lmc_future;

/*
 * Opens a client of "tcp://host:port", "ipc://path" or "host:port". Does not wait for the
 * server. NULL: the text is in lmc_client_error().
 */
LMC_CLIENT_API lmc_client *lmc_client_open(const char *url);
/* Ends the connection. Futures still open end with LMC_CLOSED and stay valid until freed. */
LMC_CLIENT_API void lmc_client_close(lmc_client *client);

/* Text of the last failure on the calling thread, "" when there was none. */
LMC_CLIENT_API const char *lmc_client_error(void);

/*
 * Sends one request. `request` is the operation's request struct (messages.h), for example an
 * lmc_lookup_request for "lookup"; it is encoded before the call returns. NULL: see the text.
 */
LMC_CLIENT_API lmc_future *lmc_client_call(lmc_client *client, const char *operation,
                                           const void *request);
/*
 * Waits at most timeout_s seconds (0: not at all; INFINITY: as long as it takes). LMC_OK:
 * *reply points to the operation's reply struct, valid until the future is freed; for
 * operations without a result it is zeroed. LMC_AGAIN: the server said "still pending".
 * LMC_TIMEOUT: no answer yet; the future may be waited for again. LMC_MALFORMED: the answer
 * does not decode. `reply` may be NULL.
 */
LMC_CLIENT_API lmc_status lmc_future_wait(lmc_future *future, double timeout_s,
                                          const void **reply);
/* Frees the future; an answer that comes later is ignored. Accepts NULL. */
LMC_CLIENT_API void lmc_future_free(lmc_future *future);

/* ---- the same, for common calls: call, wait, free ---- */

/*
 * Servers older than the table of operations know ping and clear without arguments only and
 * stay silent on the newest form. When a server that is alive (it answers noop) does not answer
 * within five seconds, or half of timeout_s if that is less, the older form is tried, and
 * remembered if that is the one it answers.
 */
LMC_CLIENT_API lmc_status lmc_client_ping(lmc_client *client, const int64_t *instance_id,
                                          double timeout_s, bool *ok);
/* Drops what the server has in memory. `force` false keeps what is locked, which older servers
 * cannot; it never becomes a forced one. */
LMC_CLIENT_API lmc_status lmc_client_clear(lmc_client *client, bool force, double timeout_s);
LMC_CLIENT_API lmc_status lmc_client_chunk_size(lmc_client *client, double timeout_s,
                                                int64_t *chunk_size);
/*
 * Calls a method that a server module offers. On LMC_OK *success tells whether the method
 * succeeded, and *answer (what it returned, or the error text when it failed) is malloc'ed for
 * the caller, who frees it; *size is its length.
 */
LMC_CLIENT_API lmc_status lmc_client_server_module_call(lmc_client *client, const char *method,
                                                        lmc_slice payload, double timeout_s,
                                                        bool *success, void **answer,
                                                        size_t *size);

/* ---- slots: where the chunks of a prepared store or retrieve lie ---- */

typedef struct lmc_client_slot {
    int64_t offset, length; /* bytes, in the pool */
    int64_t chunk_index;    /* position in the range; -1: the slots stand in its order */
} lmc_client_slot;

/*
 * Reads the `context` of a prepare_store or prepare_retrieve reply. At most `capacity` slots
 * are written; *count is how many there are. A prepare_store without slots (LMC_OK, *count 0)
 * has nothing to write, but a server that does not know the instance answers the same: register
 * again, which is harmless, and ask once more where it matters. LMC_DECLINED: the context names
 * no slots at all, so the bytes travel with the call (commit_store's data, prepare_retrieve's
 * data). LMC_MALFORMED: it is no such context, or a slot lies outside of a pool of pool_size
 * bytes.
 */
LMC_CLIENT_API lmc_status lmc_client_slots(lmc_slice context, int64_t pool_size,
                                           lmc_client_slot *slots, size_t capacity,
                                           size_t *count);

/* ---- byte copy: the chunks travel with the calls, where there is no pool to map ---- */

/*
 * How every chunk of an instance looks, as its registration says: {2, num_layers,
 * num_physical_slots, hidden_dim_size}, without the 2 when use_mla is set. Row-major, no gaps.
 */
typedef struct lmc_client_layout {
    lmc_slice dtype; /* dtype_str: "float16" */
    size_t rank;     /* at most 8 */
    int64_t shape[8];
} lmc_client_layout;

/* Chunks in the form that commit_store's `data` takes. */
typedef struct lmc_client_packed {
    lmc_pieces data;
    void *memory; /* the library's */
} lmc_client_packed;

/*
 * Packs `count` chunks, in the order of the key's range, without copying them: they must stay
 * as they are until lmc_client_call has returned. No chunks are packed too: a worker that was
 * offered a pool and cannot map it says so to the server by committing such an empty list right
 * after it registered. LMC_INVALID: the dtype is unknown, or a chunk has another size.
 */
LMC_CLIENT_API lmc_status lmc_client_pack(const lmc_client_layout *layout,
                                          const lmc_slice *chunks, size_t count,
                                          lmc_client_packed *packed);
LMC_CLIENT_API void lmc_client_packed_free(lmc_client_packed *packed);
/*
 * Copies the chunks in `data` of a prepare_retrieve reply to `out`, one behind the other;
 * `size` is the room there. *count is how many there are. LMC_INVALID: they are not of this
 * layout, or more than fit; LMC_MALFORMED: they cannot be read. Nothing in the data is ever
 * executed.
 */
LMC_CLIENT_API lmc_status lmc_client_unpack(const lmc_client_layout *layout, lmc_pieces data,
                                            void *out, size_t size, size_t *count);

/* ---- shared memory ---- */

/* A mapping of the server's pool. */
typedef struct lmc_pool {
    void *base;
    size_t size;
} lmc_pool;

/* Maps the pool that a registration named. LMC_NOT_FOUND when it cannot be seen from here. */
LMC_CLIENT_API lmc_status lmc_pool_map(lmc_slice shm_name, int64_t pool_size, lmc_pool *pool);
LMC_CLIENT_API void lmc_pool_unmap(lmc_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
