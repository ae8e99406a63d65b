/*
 * child.h: starts one plugin process, as plugins.md 7.8 and 7.10 want it.
 *
 * Only for the guardian, which has one thread: it forks. The child is a group of its own, has
 * every signal at its default and none blocked, reads /dev/null, keeps descriptors 0 to 2 and
 * the one for readiness, and is killed when the guardian dies.
 */
#ifndef LMC_RUNTIME_PLUGIN_CHILD_H
#define LMC_RUNTIME_PLUGIN_CHILD_H

#include <sys/types.h>

#include "runtime_plugin/options.h"

#define LMC_CHILD_READY_FD 3

typedef struct lmc_child_plan {
    char *const *words;       /* the program first; NULL ends */
    char *const *environment; /* NULL ends */
    const lmc_plugin_options *options;
    int input, output, errors; /* not below 3; borrowed */
    int ready;                 /* above 3, becomes LMC_CHILD_READY_FD; -1: none */
} lmc_child_plan;

/* Returns the process, or -1. *outcome is then readable: see lmc_child_outcome(). */
pid_t lmc_child_start(const lmc_child_plan *plan, int *outcome, lmc_error *error);

/*
 * Reads without waiting how the start went and closes *outcome once it knows. LMC_OK: the
 * program runs; LMC_AGAIN: not known yet; LMC_FAILED: error says why it does not.
 */
lmc_status lmc_child_outcome(int *outcome, const char *user, lmc_error *error);

#endif
