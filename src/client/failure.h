/*
 * failure.h: the text behind lmc_client_error(). Inside the client library only; any thread,
 * each has its own.
 */
#ifndef LMC_CLIENT_FAILURE_H
#define LMC_CLIENT_FAILURE_H

#include "base/error.h"

/* The calling thread's error, cleared for a call that begins. */
lmc_error *lmc_client_fresh_error(void);

#endif
