/*
 * pool.h: the few threads that run gathering handlers while their connections are suspended.
 *
 * create and destroy on one thread; submit from the event thread; `run` and `refuse` are called
 * without any lock held. The pool lends requests, it never owns them.
 */
#ifndef LMC_HTTP_POOL_H
#define LMC_HTTP_POOL_H

#include "http/request.h"

typedef struct lmc_http_pool lmc_http_pool;

/* `run` handles a request and hands it back; `refuse` hands it back with 503. */
lmc_status lmc_http_pool_create(unsigned threads, unsigned queue_limit,
                                void (*run)(lmc_http_request *request),
                                void (*refuse)(lmc_http_request *request), lmc_http_pool **pool,
                                lmc_error *error);
/* False: stopping, or the queue is full; the caller keeps the request. */
bool lmc_http_pool_submit(lmc_http_pool *pool, lmc_http_request *request);
/* Takes nothing new, refuses what is queued, waits for what runs. May be called twice. */
void lmc_http_pool_stop(lmc_http_pool *pool);
/* The same, but waits for what runs no longer than this. False: something still runs, and the
 * pool must stay. */
bool lmc_http_pool_stop_within(lmc_http_pool *pool, int64_t wait_ns);
void lmc_http_pool_destroy(lmc_http_pool *pool); /* accepts NULL */

#endif
