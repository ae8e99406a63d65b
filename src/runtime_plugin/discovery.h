/*
 * discovery.h: which files the locations of runtime plugins stand for.
 *
 * A list owns its texts; give it back with lmc_plugin_files_fini(), however filling went. What
 * is skipped or missing is logged here. One thread.
 */
#ifndef LMC_RUNTIME_PLUGIN_DISCOVERY_H
#define LMC_RUNTIME_PLUGIN_DISCOVERY_H

#include <lmcached/types.h>

typedef struct lmc_plugin_file {
    char *path;  /* as started: location and name joined, `.` and doubled slashes gone */
    char *real;  /* the same with links followed */
    bool listed; /* found in a directory, not named itself */
} lmc_plugin_file;

typedef struct lmc_plugin_files {
    lmc_plugin_file *items;
    size_t count, capacity;
} lmc_plugin_files;

/*
 * Appends the files of one location: the file itself, whatever its name, or every *.py and then
 * every *.sh below the directory, each sorted by the bytes of its path. Hidden files count,
 * linked directories are not entered. A file that is listed already is left out. A missing
 * location is a WARNING; LMC_NO_MEMORY is the only failure.
 */
lmc_status lmc_plugin_discover(lmc_plugin_files *files, const char *location, lmc_error *error);
void lmc_plugin_files_fini(lmc_plugin_files *files);

/* The part after the last slash. */
const char *lmc_plugin_file_name(const char *path);
/* ".py" of "a.b.py", "" of ".py"; points into the name. */
const char *lmc_plugin_suffix(const char *name);

#endif
