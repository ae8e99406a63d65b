/*
 * call_arena.h: the memory of a call, for built-in handlers that build a reply piece by piece.
 *
 * It lives until the call's done callbacks have run. The thread that has the call.
 */
#ifndef LMC_DISPATCH_CALL_ARENA_H
#define LMC_DISPATCH_CALL_ARENA_H

#include "dispatch/exchange.h"

static inline lmc_arena *lmc_call_arena(lmc_call *call) {
    uintptr_t tag = LMC_EXCHANGE_ALIGN - 1; /* low bits of the handle, see call.c */
    return &((lmc_exchange *)((uintptr_t)call & ~tag))->arena;
}

#endif
