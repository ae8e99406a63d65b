/*
 * call.h: states of an exchange, shared by the two files that change them; for dispatch only.
 *
 * Handlers see exchanges through the lmc_call functions of module.h, which call.c implements.
 */
#ifndef LMC_DISPATCH_CALL_H
#define LMC_DISPATCH_CALL_H

#include "dispatch/exchange.h"

typedef enum lmc_exchange_state {
    LMC_STATE_IDLE,       /* with the transport, no request */
    LMC_STATE_QUEUED,     /* no handler has it yet */
    LMC_STATE_RUNNING,    /* a handler has it and must complete it */
    LMC_STATE_COMPLETING, /* completed; its answer is being made or sent */
    LMC_STATE_ABANDONING, /* the stop is answering it; whoever completes it waits a moment */
    LMC_STATE_ABANDONED,  /* answered by the stop; a handler still has it */
} lmc_exchange_state;

#define LMC_STATE_MASK 0xffu
#define LMC_GENERATION_STEP 0x100u

/* Answers a call that has been claimed (COMPLETING), and lets it go. */
void lmc_exchange_answer(lmc_exchange *x, lmc_status status);
/* The call is charged to this account from now on; NULL: to nobody. */
void lmc_exchange_charge(lmc_exchange *x, lmc_account *account);
/* It is charged to nobody any more. */
void lmc_exchange_settle(lmc_exchange *x, bool failed);
/* Completed by the handler behind one that wants it back: queues it for that one. Else false.
 */
bool lmc_exchange_send_back(lmc_exchange *x, lmc_status status);
/* Lets a call go that the stop has answered. */
void lmc_exchange_drop_abandoned(lmc_exchange *x);

#endif
