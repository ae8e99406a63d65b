/*
 * graph.h: in which order module classes are built.
 *
 * Classes name what they depend on; built-in classes come first in the list, then classes from
 * outside in command-line order. That position breaks ties; a deferred class (ManagementModule)
 * waits for every class that does not depend on it. Nothing is owned or kept; any thread.
 */
#ifndef LMC_MODULE_GRAPH_H
#define LMC_MODULE_GRAPH_H

#include <lmcached/module.h>

/*
 * Fills order[0 .. count) with positions in `classes`, dependencies first. Fails, naming the
 * classes, when two have one name, a dependency is no class of the list, or there is a cycle.
 */
lmc_status lmc_graph_order(const lmc_module_class *classes, size_t count, size_t *order,
                           lmc_error *error);

#endif
