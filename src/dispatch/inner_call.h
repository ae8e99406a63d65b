/*
 * inner_call.h: asks a handler from inside the process, as a client would from outside.
 *
 * Request and result are the frames of the ZMQ wire, so they are checked like a peer's. The
 * handler runs on the calling thread; if it completes later, the caller waits. No lock may be
 * held. Any thread that may wait.
 */
#ifndef LMC_DISPATCH_INNER_CALL_H
#define LMC_DISPATCH_INNER_CALL_H

#include "base/bytes.h"
#include "dispatch/dispatcher.h"

typedef struct lmc_inner_call {
    const lmc_handler *handler;
    lmc_dispatcher *dispatcher; /* for handlers that forward; NULL before there is one */
    const lmc_slice *frames;    /* payload frames; borrowed until the return */
    size_t frame_count;
    uint64_t connection; /* on whose behalf; 0: nobody's */
} lmc_inner_call;

/*
 * LMC_OK: `frame` (initialised) has the result; *has_frame is false when there is none (void,
 * or still pending). Also when the handler failed and its operation has a negative. Any other
 * status: no answer, and error says why.
 */
lmc_status lmc_inner_call_run(const lmc_inner_call *call, lmc_buffer *frame, bool *has_frame,
                              lmc_error *error);

#endif
