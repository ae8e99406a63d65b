/*
 * call_of.h: the exchange behind a handler's call, read without asking the server. The host is
 * built with the server, so it knows what a call is. The thread that has the call.
 */
#ifndef LMC_PYHOST_CALL_OF_H
#define LMC_PYHOST_CALL_OF_H

#include "dispatch/call_arena.h"

static inline lmc_exchange *lmc_call_exchange(lmc_call *call) {
    return (lmc_exchange *)((uintptr_t)call & ~(uintptr_t)(LMC_EXCHANGE_ALIGN - 1));
}
static inline const void *lmc_call_request_of(lmc_call *call) {
    return lmc_call_exchange(call)->request;
}
static inline void *lmc_call_reply_of(lmc_call *call) { return lmc_call_exchange(call)->reply; }

#endif
