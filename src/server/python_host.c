#include "server/python_host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.python"
#define FINISH_NS (3 * LMC_NS_PER_S) /* for threads of Python modules, after all is closed */
#ifndef LMC_LIBRARY_DIR              /* of an installation, seen from the program's folder */
#define LMC_LIBRARY_DIR "../lib/lmcached"
#endif

/* ---- where its parts are: beside the program, or where an installation puts them ---- */

static bool own_folder(char *out, size_t room) {
    ssize_t size = readlink("/proc/self/exe", out, room - 1);
    if (size <= 0)
        return false;
    out[size] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

/* Of an absolute path without links; so that tracebacks and the log name files plainly. */
static const char *climb(char *folder, const char *relative) {
    for (; strncmp(relative, "../", 3) == 0; relative += 3) {
        char *slash = strrchr(folder, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    return relative;
}

static bool find_part(char *out, size_t room, const char *beside, const char *installed,
                      const char *probe) {
    char folder[3000], probed[4096];
    const char *const places[] = {beside, installed};
    if (!own_folder(folder, sizeof folder))
        return false;
    for (size_t i = 0; i < 2; i++) {
        const char *place = climb(folder, places[i]);
        if (snprintf(out, room, "%s/%s", folder, place) >= (int)room ||
            snprintf(probed, sizeof probed, "%s%s", out, probe) >= (int)sizeof probed)
            continue;
        if (access(probed, R_OK) == 0)
            return true;
    }
    return false;
}

static lmc_status not_installed(const char *path, const char *what, lmc_error *error) {
    return lmc_error_set(error, LMC_NOT_FOUND,
                         "--server-module %s: the Python host is not installed (%s); install "
                         "it, or build with python3-dev",
                         path, what);
}

static lmc_status load_host(lmc_python_host *python, const char *path, lmc_error *error) {
    char file[4096];
    if (!find_part(file, sizeof file, LMC_PYHOST_FILE, LMC_LIBRARY_DIR "/" LMC_PYHOST_FILE, ""))
        return not_installed(path, "there is no " LMC_PYHOST_FILE, error);
    if (!find_part(python->package_dir, sizeof python->package_dir, "lmcached-python",
                   LMC_LIBRARY_DIR "/python", "/lmcache/_bootstrap.py"))
        return not_installed(path, "its package lmcache is missing", error);
    /* Global: extension modules want the symbols of libpython, which the host brings along. */
    void *handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL)
        return not_installed(path, dlerror(), error);
    const lmc_pyhost *host = dlsym(handle, LMC_PYHOST_SYMBOL);
    if (host == NULL || host->size != sizeof *host ||
        host->server_size != sizeof(lmc_pyhost_server))
        return not_installed(path, LMC_PYHOST_FILE " belongs to another build of the server",
                             error);
    python->host = host;
    return LMC_OK;
}

/* ---- what the host gets ---- */

static char *read_arguments(size_t *size) {
    lmc_buffer bytes = LMC_BUFFER_INIT;
    char piece[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    for (ssize_t got; file >= 0 && (got = read(file, piece, sizeof piece)) > 0;)
        lmc_buffer_append(&bytes, piece, (size_t)got);
    if (file >= 0)
        close(file);
    *size = bytes.size;
    return lmc_buffer_take(&bytes);
}

static bool split_arguments(lmc_python_host *python) {
    size_t size, count = 0;
    python->argv_bytes = read_arguments(&size);
    if (python->argv_bytes == NULL)
        return false;
    for (size_t i = 0; i < size; i++)
        count += python->argv_bytes[i] == '\0';
    python->argv = calloc(count + 1, sizeof *python->argv);
    if (python->argv == NULL)
        return false;
    const char *at = python->argv_bytes;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1)
        python->argv[i] = at;
    return true;
}

static lmc_pyhost_server functions_of(const lmc_python_world *world) {
    return (lmc_pyhost_server){.size = sizeof(lmc_pyhost_server),
                               .arg = world->arg,
                               .context = world->context,
                               .registry = world->registry,
                               .dispatcher = world->dispatcher,
                               .composition = world->composition,
                               .storage_status = world->storage_status,
#define LMC_PYHOST_FILL(name) .name = name,
                               LMC_PYHOST_FUNCTIONS(LMC_PYHOST_FILL)
#undef LMC_PYHOST_FILL
    };
}

lmc_status lmc_python_host_open(lmc_python_host *python, const lmc_config *config,
                                const lmc_python_world *world, const char *path,
                                const lmc_module_class *const *classes, size_t class_count,
                                size_t built_in_count, lmc_error *error) {
    *python = (lmc_python_host){.reuse = world->reuse};
    lmc_status status = load_host(python, path, error);
    if (status != LMC_OK)
        return status;
    if (!split_arguments(python))
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the Python host");
    python->functions = functions_of(world);
    python->options = (lmc_pyhost_options){.server = &python->functions,
                                           .config = config,
                                           .argv = python->argv,
                                           .package_dir = python->package_dir,
                                           .interpreter = config->mp.python_interpreter,
                                           .rehearsal = world->reuse,
                                           .classes = classes,
                                           .class_count = class_count,
                                           .built_in_count = built_in_count};
    status = python->host->open(&python->options, error);
    if (status == LMC_OK)
        LMC_INFO("Loaded the Python host (Python %s, %s)", python->host->python_version,
                 python->host->prefix());
    if (status == LMC_OK)
        status = python->host->load(error);
    return status;
}

bool lmc_python_host_finish(lmc_python_host *python) {
    return python->host == NULL || python->reuse || python->host->finish(FINISH_NS);
}

void lmc_python_host_fini(lmc_python_host *python) {
    if (python->host != NULL)
        python->host->release();
    free(python->argv);
    free(python->argv_bytes);
    *python = (lmc_python_host){0};
}
