/*
 * guardian_watch.h: the process between a server and its guardian, which outlives either.
 *
 * What a killed guardian leaves, whatever it did to its session, its environment or its parent,
 * becomes a child of the watcher and is ended by it. When the watcher is killed the guardian
 * sees its parent go and ends everything; when the server is, the watcher tells the guardian,
 * and kills it if that does not help. The death of a parent is told by SIGCONT, so that it
 * reaches also who was stopped.
 * It is a fork of the guardian that executes nothing, so it costs a few pages.
 */
#ifndef LMC_RUNTIME_PLUGIN_GUARDIAN_WATCH_H
#define LMC_RUNTIME_PLUGIN_GUARDIAN_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

/* Exit status of a watcher whose guardian was killed: this plus the number of the signal. */
#define LMC_WATCH_KILLED 100

/*
 * Divides the process: returns in the guardian, whose parent *watcher is. In the watcher it
 * does not return. False: there is no watcher and no guardian.
 */
bool lmc_guardian_divide(pid_t *watcher);

#endif
