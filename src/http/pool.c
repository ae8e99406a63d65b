#include "http/pool.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"

#define THREADS_MAX 4

struct lmc_http_pool {
    void (*run)(lmc_http_request *request);
    void (*refuse)(lmc_http_request *request);
    lmc_thread threads[THREADS_MAX];
    unsigned thread_count, queue_limit;
    lmc_lock lock;
    lmc_cond changed;
    lmc_http_request *first, *last; /* under lock, as the rest */
    unsigned queued, busy;
    bool stopping;
};

static lmc_http_request *take_first(lmc_http_pool *pool) {
    lmc_http_request *request = pool->first;
    if (request == NULL)
        return NULL;
    pool->first = request->next;
    if (pool->first == NULL)
        pool->last = NULL;
    pool->queued--;
    request->next = NULL;
    return request;
}

static void work(void *arg) {
    lmc_http_pool *pool = arg;
    for (;;) {
        lmc_lock_take(&pool->lock);
        while (pool->first == NULL && !pool->stopping)
            lmc_cond_wait(&pool->changed, &pool->lock);
        lmc_http_request *request = take_first(pool);
        bool stopping = pool->stopping;
        pool->busy += request != NULL;
        lmc_lock_drop(&pool->lock);
        if (request == NULL)
            return;
        if (stopping)
            pool->refuse(request);
        else
            pool->run(request);
        lmc_lock_take(&pool->lock);
        pool->busy--;
        lmc_cond_broadcast(&pool->changed);
        lmc_lock_drop(&pool->lock);
    }
}

lmc_status lmc_http_pool_create(unsigned threads, unsigned queue_limit,
                                void (*run)(lmc_http_request *request),
                                void (*refuse)(lmc_http_request *request), lmc_http_pool **out,
                                lmc_error *error) {
    lmc_http_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the HTTP pool");
    pool->run = run;
    pool->refuse = refuse;
    pool->queue_limit = queue_limit;
    lmc_lock_init(&pool->lock, LMC_RANK_TRANSPORT, "http.pool");
    lmc_cond_init(&pool->changed);
    for (; pool->thread_count < threads && pool->thread_count < THREADS_MAX;
         pool->thread_count++) {
        lmc_status status = lmc_thread_start(&pool->threads[pool->thread_count], "http-pool",
                                             work, pool, error);
        if (status != LMC_OK) {
            lmc_http_pool_destroy(pool);
            return status;
        }
    }
    *out = pool;
    return LMC_OK;
}

bool lmc_http_pool_submit(lmc_http_pool *pool, lmc_http_request *request) {
    lmc_lock_take(&pool->lock);
    bool taken = !pool->stopping && pool->queued < pool->queue_limit;
    if (taken) {
        request->next = NULL;
        if (pool->last != NULL)
            pool->last->next = request;
        else
            pool->first = request;
        pool->last = request;
        pool->queued++;
        lmc_cond_signal(&pool->changed);
    }
    lmc_lock_drop(&pool->lock);
    return taken;
}

bool lmc_http_pool_stop_within(lmc_http_pool *pool, int64_t wait_ns) {
    int64_t deadline = lmc_now(&lmc_system_clock) + wait_ns;
    bool in_time = true;
    lmc_lock_take(&pool->lock);
    pool->stopping = true;
    lmc_cond_broadcast(&pool->changed);
    while ((pool->busy > 0 || pool->first != NULL) && in_time)
        in_time = lmc_cond_wait_until(&pool->changed, &pool->lock, deadline);
    bool idle = pool->busy == 0 && pool->first == NULL;
    lmc_lock_drop(&pool->lock);
    if (idle)
        lmc_http_pool_stop(pool);
    return idle;
}

void lmc_http_pool_stop(lmc_http_pool *pool) {
    lmc_lock_take(&pool->lock);
    pool->stopping = true;
    lmc_cond_broadcast(&pool->changed);
    lmc_lock_drop(&pool->lock);
    for (unsigned i = 0; i < pool->thread_count; i++)
        lmc_thread_join(&pool->threads[i]);
    pool->thread_count = 0;
}

void lmc_http_pool_destroy(lmc_http_pool *pool) {
    if (pool == NULL)
        return;
    lmc_http_pool_stop(pool);
    lmc_cond_fini(&pool->changed);
    lmc_lock_fini(&pool->lock);
    free(pool);
}
