/* Which plugins there are, and under which names. */
#include <stdlib.h>

#include "base/error.h"
#include "runtime_plugin/discovery.h"
#include "runtime_plugin/host_state.h"
#include "runtime_plugin/name_filter.h"

#define LMC_LOGGER "lmcache.plugin"

static bool runs(const lmc_plugin_host_options *options, const char *path) {
    lmc_slice part;
    switch (lmc_plugin_filter(lmc_plugin_file_name(path), options->role, options->worker_id,
                              &part)) {
    case LMC_PLUGIN_OTHER_ROLE: {
        char shown[64];
        size_t size = part.size < sizeof shown - 1 ? part.size : sizeof shown - 1;
        for (size_t i = 0; i < size; i++) {
            char c = ((const char *)part.data)[i];
            if (c >= 'a' && c <= 'z')
                c = (char)(c - 'a' + 'A');
            shown[i] = c;
        }
        shown[size] = '\0';
        LMC_INFO("Skipping %s: requires role %s", path, shown);
        return false;
    }
    case LMC_PLUGIN_OTHER_WORKER:
        LMC_INFO("worker %lld is skipping plugin %s, which is only for worker ID %.*s",
                 (long long)options->worker_id, path, LMC_SLICE_ARGS(part));
        return false;
    default:
        return true;
    }
}

/* As the log shows it: bytes that are no UTF-8 become \xNN, so that names that differ do so in
 * JSON and in metrics too, and can be given in a request. */
static char *as_text(const char *name) {
    lmc_buffer text = LMC_BUFFER_INIT;
    for (size_t left = strlen(name), size; left > 0; name += size, left -= size) {
        size = lmc_utf8_length(name, left);
        if (size > 0)
            lmc_buffer_append(&text, name, size);
        else
            lmc_buffer_printf(&text, "\\x%02x", (unsigned char)name[size++]);
    }
    return lmc_buffer_take(&text);
}

/* The file name, or the path when another plugin has the same name. */
static char *make_tag(const lmc_plugin_files *files, size_t at) {
    const char *name = lmc_plugin_file_name(files->items[at].path);
    for (size_t i = 0; i < files->count; i++)
        if (i != at && strcmp(lmc_plugin_file_name(files->items[i].path), name) == 0)
            return as_text(files->items[at].path);
    return as_text(name);
}

static lmc_status find_all(const lmc_plugin_host_options *options, lmc_plugin_files *files,
                           lmc_error *error) {
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < options->location_count && status == LMC_OK; i++)
        status = lmc_plugin_discover(files, options->locations[i], error);
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        lmc_plugin_file file = files->items[i];
        if (kept == LMC_WIRE_PLUGINS_MAX) {
            LMC_WARNING(
                "There are more than %zu runtime plugins; %s and those after it are not "
                "started",
                kept, file.path);
            break;
        }
        if (runs(options, file.path)) {
            files->items[i] = files->items[kept];
            files->items[kept++] = file;
        }
    }
    for (size_t i = kept; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].real);
    }
    files->count = kept;
    return status;
}

static void check_options(const lmc_plugin_files *files, const char *extra) {
    const char **names = calloc(files->count + 1, sizeof *names);
    if (names == NULL)
        return;
    for (size_t i = 0; i < files->count; i++)
        names[i] = lmc_plugin_file_name(files->items[i].path);
    lmc_plugin_options_check(lmc_text(extra), names, files->count);
    free(names);
}

static lmc_status fill_row(lmc_hosted *p, const lmc_plugin_files *files, size_t at,
                           const char *extra, lmc_error *error) {
    p->path = strdup(files->items[at].path);
    p->tag = make_tag(files, at);
    p->report.exit_code = LMC_PLUGIN_UNSET;
    p->report.state = LMC_PLUGIN_STARTING;
    if (p->path == NULL || p->tag == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for runtime plugins");
    return lmc_plugin_options_read(&p->options, lmc_text(extra), lmc_plugin_file_name(p->path),
                                   error);
}

lmc_status lmc_host_fill_table(lmc_plugin_host *host, const lmc_plugin_host_options *options,
                               lmc_error *error) {
    lmc_plugin_files files = {0};
    lmc_status status = find_all(options, &files, error);
    if (status == LMC_OK && files.count > 0) {
        host->plugins = calloc(files.count, sizeof *host->plugins);
        if (host->plugins == NULL)
            status = lmc_error_set(error, LMC_NO_MEMORY, "no memory for runtime plugins");
    }
    for (size_t i = 0; i < files.count && status == LMC_OK; i++) {
        host->count++;
        status = fill_row(&host->plugins[i], &files, i, options->extra, error);
    }
    if (status == LMC_OK)
        check_options(&files, options->extra);
    lmc_plugin_files_fini(&files);
    return status;
}
