/*
 * request_events.h: what the built-in modules tell the event bus about requests; the start and
 * the end of transfers also stand in the log at DEBUG, unless --disable-logging.
 *
 * Any thread; none waits. Each costs a load or two while nobody has subscribed to anything.
 */
#ifndef LMC_MODULES_REQUEST_EVENTS_H
#define LMC_MODULES_REQUEST_EVENTS_H

#include <lmcached/messages.h>

#include "module/context.h"

/* mp.request.start and mp.lookup_prefetch.start; afterwards mp.lookup. Its end is told by
 * whoever watches the cache. */
void lmc_tell_lookup_began(const lmc_context *context, const lmc_lookup_request *request);
void lmc_tell_looked_up(const lmc_context *context, const lmc_lookup_request *request);
/* mp.vllm.end_session and mp.request.end. */
void lmc_tell_session_ended(const lmc_context *context, const lmc_end_session_request *request);
/* mp.vllm.block_allocation. */
void lmc_tell_block_allocation(const lmc_context *context,
                               const lmc_report_block_allocation_request *request);

/* One of mp.store.submitted, mp.store.start, mp.retrieve.submitted, mp.retrieve.start. */
void lmc_tell_transfer(const lmc_context *context, const char *name, const lmc_cache_key *key,
                       int64_t instance_id);
/* mp.tokens: which tokens the chunk hashes of a store stand for; the first worker's only. */
void lmc_tell_tokens(const lmc_context *context, const lmc_cache_key *key);
/* mp.store.end; `chunks` became readable. */
void lmc_tell_stored(const lmc_context *context, const lmc_cache_key *key, int64_t instance_id,
                     bool success, size_t chunks);
/* mp.retrieve.end. */
void lmc_tell_retrieved(const lmc_context *context, const lmc_cache_key *key,
                        int64_t instance_id, size_t objects, uint64_t bytes);

#endif
