/*
 * lookup.c: what the engine's scheduler asks: how much of a prompt is here, and giving back
 * what was held for it. The state is the cache core's; nothing here waits.
 */
#include <stdlib.h>

#include <lmcached/messages.h>

#include "base/clock.h"
#include "base/error.h"
#include "cache/cache.h"
#include "module/context.h"
#include "modules/modules.h"
#include "modules/request_events.h"

#define LONGEST_WAIT_S 1e6

static lmc_status create_lookup(lmc_build *build, void **self, lmc_error *error) {
    (void)error;
    *self = lmc_build_context(build);
    return LMC_OK;
}

static lmc_cache *cache_of(const void *self) { return ((const lmc_context *)self)->cache; }

static void handle_lookup(void *self, lmc_call *call) {
    const lmc_lookup_request *request = lmc_call_request(call);
    lmc_tell_lookup_began(self, request);
    lmc_cache_lookup(cache_of(self), &request->key, request->tp_size,
                     lmc_call_connection(call));
    lmc_tell_looked_up(self, request);
    lmc_complete(call, LMC_OK);
}

static void handle_query(void *self, lmc_call *call) {
    const lmc_query_prefetch_status_request *request = lmc_call_request(call);
    lmc_query_prefetch_status_reply *reply = lmc_call_reply(call);
    lmc_complete(call,
                 lmc_cache_query(cache_of(self), request->request_id, &reply->chunk_count));
}

static void handle_peek(void *self, lmc_call *call) {
    const lmc_query_prefetch_lookup_hits_request *request = lmc_call_request(call);
    lmc_query_prefetch_lookup_hits_reply *reply = lmc_call_reply(call);
    lmc_complete(call,
                 lmc_cache_peek(cache_of(self), request->request_id, &reply->chunk_count));
}

static void answer_wait(void *arg, lmc_status status, int64_t chunks) {
    lmc_call *call = arg;
    lmc_wait_prefetch_status_reply *reply = lmc_call_reply(call);
    reply->chunk_count = chunks;
    lmc_complete(call, status);
}

/* Keeps the call; the core ends it when the answer is there or the time is over. */
static void handle_wait(void *self, lmc_call *call) {
    const lmc_wait_prefetch_status_request *request = lmc_call_request(call);
    double seconds = request->timeout > 0 ? request->timeout : 0; /* NaN: 0 */
    if (seconds > LONGEST_WAIT_S)
        seconds = LONGEST_WAIT_S;
    lmc_cache_wait(cache_of(self), request->request_id, lmc_ns_of_seconds(seconds), answer_wait,
                   call);
}

static void handle_free(void *self, lmc_call *call) {
    const lmc_free_lookup_locks_request *request = lmc_call_request(call);
    lmc_error error = LMC_ERROR_INIT;
    lmc_status status =
        lmc_cache_free_locks(cache_of(self), &request->key, request->tp_size, &error);
    if (status == LMC_OK || status == LMC_NOT_FOUND) /* nothing to give back */
        lmc_complete(call, LMC_OK);
    else
        lmc_fail(call, status, error.text);
}

static void handle_end_session(void *self, lmc_call *call) {
    const lmc_end_session_request *request = lmc_call_request(call);
    lmc_cache_end_session(cache_of(self), request->request_id);
    lmc_tell_session_ended(self, request);
    lmc_complete(call, LMC_OK);
}

static lmc_status report_lookup(void *self, lmc_writer *writer) {
    lmc_write_int(writer, "active_prefetch_jobs",
                  (int64_t)lmc_cache_active_jobs(cache_of(self)));
    return LMC_OK;
}

static const lmc_operation operations[] = {
    {.name = "lookup", .scheduling = LMC_NORMAL, .handle = handle_lookup},
    {.name = "query_prefetch_status",
     .scheduling = LMC_NORMAL,
     .flags = LMC_NEVER_WAITS,
     .handle = handle_query},
    {.name = "wait_prefetch_status",
     .scheduling = LMC_NORMAL,
     .flags = LMC_NEVER_WAITS,
     .handle = handle_wait},
    {.name = "query_prefetch_lookup_hits",
     .scheduling = LMC_NORMAL,
     .flags = LMC_NEVER_WAITS,
     .handle = handle_peek},
    {.name = "free_lookup_locks", .scheduling = LMC_NORMAL, .handle = handle_free},
    {.name = "end_session", .scheduling = LMC_NORMAL, .handle = handle_end_session},
    {.name = NULL},
};

const lmc_module_class lmc_lookup_module = {
    .size = sizeof(lmc_module_class),
    .name = "LookupModule",
    .create = create_lookup,
    .report_status = report_lookup,
    .operations = operations,
};
