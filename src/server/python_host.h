/*
 * python_host.h: the Python host (pyhost/host.h), loaded when a dotted path is configured.
 * Private to this room, main thread.
 */
#ifndef LMC_SERVER_PYTHON_HOST_H
#define LMC_SERVER_PYTHON_HOST_H

#include "pyhost/host.h"

typedef struct lmc_python_host {
    const lmc_pyhost *host; /* NULL: not loaded */
    lmc_pyhost_server functions;
    lmc_pyhost_options options;
    char *argv_bytes; /* of this process */
    const char **argv;
    char package_dir[4096];
    bool reuse; /* of the world */
} lmc_python_host;

/* What the host may ask about the server, or {NULL} where there is none (check-module). */
typedef struct lmc_python_world {
    void *arg;
    lmc_context *(*context)(void *arg);
    lmc_registry *(*registry)(void *arg);
    lmc_dispatcher *(*dispatcher)(void *arg);
    lmc_composition *(*composition)(void *arg);
    lmc_status (*storage_status)(void *arg, lmc_buffer *out);
    bool reuse; /* there may be another world in this process, and Python stays for it */
} lmc_python_world;

/*
 * Loads the host, starts Python and imports the modules of all dotted paths. `classes`,
 * built-in ones first, are what modules may depend on; borrowed until finish. Failing, it names
 * what is missing; finish and fini are due in any case. `path` is the first dotted path, for
 * that text.
 */
lmc_status lmc_python_host_open(lmc_python_host *python, const lmc_config *config,
                                const lmc_python_world *world, const char *path,
                                const lmc_module_class *const *classes, size_t class_count,
                                size_t built_in_count, lmc_error *error);
/* After the modules were closed, with the server still there. False: threads of Python modules
 * still run, and what they may use must stay. Accepts one that was never opened. */
bool lmc_python_host_finish(lmc_python_host *python);
/* Once nobody looks at the classes any more. */
void lmc_python_host_fini(lmc_python_host *python);

#endif
