/*
 * process_tree.h: which processes descend from one, and signals that cannot hit another.
 *
 * Read from /proc. A process is known by its number and the time it started, so that a number
 * that was given anew is not taken for the old one. Any thread; nothing is kept.
 */
#ifndef LMC_RUNTIME_PLUGIN_PROCESS_TREE_H
#define LMC_RUNTIME_PLUGIN_PROCESS_TREE_H

#include <lmcached/types.h>
#include <sys/types.h>

typedef struct lmc_process {
    pid_t pid, parent, group, session;
    uint64_t started; /* clock ticks since boot */
    bool is_zombie;
} lmc_process;

typedef struct lmc_processes {
    lmc_process *items;
    size_t count;
} lmc_processes;

/* False: there is no such process. */
bool lmc_process_read(pid_t pid, lmc_process *process);

/* All descendants of `root`, without itself, parents before their children; LMC_NO_MEMORY or
 * LMC_FAILED when /proc cannot be read. Give the list back with lmc_processes_fini(). */
lmc_status lmc_process_descendants(pid_t root, lmc_processes *found);
void lmc_processes_fini(lmc_processes *processes);

/* Signals exactly this process; false: it is gone. */
bool lmc_process_signal(const lmc_process *process, int number);

/*
 * A mark that survives what wipes all others: which mappings a core dump has is inherited over
 * fork and exec. Plugins have two bits flipped, which are about mappings of persistent memory
 * (DAX) that nobody dumps. False: it cannot be read here.
 */
#define LMC_PLUGIN_DUMP_BITS 0x180u
bool lmc_process_dump_filter(pid_t pid, unsigned *filter);
/* Flips them in this process; as a child may, after fork(). */
void lmc_process_flip_dump_bits(void);

/* Whether the environment it was started with contains this text, which nobody else's does. */
bool lmc_process_is_marked(pid_t pid, const char *text);

#endif
