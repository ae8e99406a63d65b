/*
 * stop_signals.h: SIGTERM and SIGINT as something the main thread can wait for.
 *
 * The signals are neither blocked nor ignored, because children would inherit that: a handler
 * writes to a pipe. A second one ends the process in the handler, with 128 + signal. One per
 * process; all functions belong to the main thread. A forked child that still has the handlers
 * is ended by the signal like any other process. What the process that started this one has
 * blocked, or does with SIGCHLD, counts no longer.
 */
#ifndef LMC_SERVER_STOP_SIGNALS_H
#define LMC_SERVER_STOP_SIGNALS_H

#include <lmcached/types.h>

lmc_status lmc_stop_signals_install(lmc_error *error);
void lmc_stop_signals_remove(void); /* the default actions are back */

/* A file that a second signal removes before it ends the process; "" for none. */
void lmc_stop_signals_set_file(const char *path);

/* Waits for the first signal and returns its number. */
int lmc_stop_signals_wait(void);
bool lmc_stop_signals_pending(void);
/* Readable once a signal came; for those who wait for other things, too. */
int lmc_stop_signals_fd(void);

#endif
