/*
 * supervisor.h: the life of one plugin as a state machine: when to start, stop and start again.
 *
 * Knows no processes and no clock: the guardian tells what happened and when, and does what a
 * call returns. Owned by one thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_SUPERVISOR_H
#define LMC_RUNTIME_PLUGIN_SUPERVISOR_H

#include "base/clock.h"
#include "runtime_plugin/wire.h"

#define LMC_PLUGIN_UP_NS LMC_NS_PER_S              /* STARTING becomes RUNNING after this */
#define LMC_PLUGIN_SETTLED_NS (300 * LMC_NS_PER_S) /* a run this long forgets restarts */
#define LMC_PLUGIN_DELAY_MIN_NS LMC_NS_PER_S
#define LMC_PLUGIN_DELAY_MAX_NS (60 * LMC_NS_PER_S)

/* What the guardian has to do now. */
typedef enum lmc_plugin_order {
    LMC_ORDER_NOTHING,
    LMC_ORDER_SPAWN, /* and tell spawned or exited */
    LMC_ORDER_TERM,  /* SIGTERM to everything of the plugin */
    LMC_ORDER_KILL,  /* SIGKILL to everything of the plugin */
} lmc_plugin_order;

typedef struct lmc_supervisor {
    lmc_plugin_state state;
    int64_t policy, max_restarts, grace_ns;
    bool waits_for_ready;
    int64_t restarts;    /* all of them */
    int64_t in_a_row;    /* since the last settled run */
    int64_t started_ns;  /* of the current or last run */
    int64_t deadline_ns; /* INT64_MAX: none */
    bool again;          /* start after the stop */
    bool killed;         /* the grace is over */
    uint64_t random;     /* of the jitter */
} lmc_supervisor;

void lmc_supervisor_init(lmc_supervisor *s, const lmc_plugin_options *options, int64_t grace_ns,
                         uint64_t seed);

/* What a person or the server asks for. A start of what runs, or a stop of what does not, does
 * nothing; `left` says whether something of an ended run is still alive. */
lmc_plugin_order lmc_supervisor_start(lmc_supervisor *s, int64_t now);
lmc_plugin_order lmc_supervisor_stop(lmc_supervisor *s, bool left, int64_t now);
lmc_plugin_order lmc_supervisor_restart(lmc_supervisor *s, bool left, int64_t now);

/* What happened. After exited, a stop also needs emptied: nothing of the run is alive. */
void lmc_supervisor_ready(lmc_supervisor *s);
void lmc_supervisor_exited(lmc_supervisor *s, bool failed, int64_t now);
lmc_plugin_order lmc_supervisor_emptied(lmc_supervisor *s, int64_t now);
/* It cannot be started at all: no further try. */
void lmc_supervisor_unable(lmc_supervisor *s);

/* To be called when lmc_supervisor_deadline() has come; earlier does no harm. */
lmc_plugin_order lmc_supervisor_tick(lmc_supervisor *s, int64_t now);
int64_t lmc_supervisor_deadline(const lmc_supervisor *s); /* INT64_MAX: none */

bool lmc_supervisor_is_final(const lmc_supervisor *s); /* nothing happens by itself any more */

#endif
