/*
 * server.h: one cache server in this process, from its configuration to its exit status.
 *
 * The composition root: it builds everything below it and takes it down again in the order that
 * operators rely on (D3). Call it once, on the main thread, before any other thread exists.
 */
#ifndef LMC_SERVER_SERVER_H
#define LMC_SERVER_SERVER_H

#include "config/config.h"

/*
 * Serves until a stop signal. The result is the exit status: 0 after a stop signal, 1 when the
 * start failed (the cause is in the log). A second stop signal ends the process at once with
 * 128 + signal. `program` is how the program was called; config is borrowed.
 */
int lmc_server_run(const lmc_config *config, const char *program);

#endif
