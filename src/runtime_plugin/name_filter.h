/*
 * name_filter.h: whether a plugin's file name lets it run under this role and worker id.
 *
 * Pure; any thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_NAME_FILTER_H
#define LMC_RUNTIME_PLUGIN_NAME_FILTER_H

#include "base/bytes.h"

typedef enum lmc_plugin_verdict {
    LMC_PLUGIN_RUNS,
    LMC_PLUGIN_OTHER_ROLE,
    LMC_PLUGIN_OTHER_WORKER,
} lmc_plugin_verdict;

/*
 * The stem is split at `_`. With a role, the first of two or more parts must be that role (in
 * any case) or `all`; of three or more parts, a second one of digits must be the worker's id.
 * *part is what decided, a part of the name.
 */
lmc_plugin_verdict lmc_plugin_filter(const char *file_name, const char *role, int64_t worker_id,
                                     lmc_slice *part);

#endif
