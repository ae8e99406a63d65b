/* plugins run: the plugins of some locations, supervised as a server supervises its own. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/plugins.h"
#include "config/json_value.h"
#include "runtime_plugin/host.h"
#include "server/stop_signals.h"

#define LMC_LOGGER "lmcache.plugin"

/* Where the options of single plugins stand: in the extra configuration, as in a server's JSON,
 * or in the object itself. NULL: it is no object. */
static char *extra_of(const char *config, lmc_error *error) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    char *extra = NULL;
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_json_read(&arena, lmc_text(config), &value, error);
    if (status == LMC_OK && value->kind == LMC_JSON_IS_OBJECT) {
        const lmc_json_value *inner = lmc_json_get(value, "runtime_plugin_extra_config");
        lmc_slice text =
            inner != NULL && inner->kind == LMC_JSON_IS_OBJECT ? inner->source : value->source;
        extra = strndup(text.data, text.size);
    } else if (status == LMC_OK) {
        lmc_error_set(error, LMC_INVALID, "it is not a JSON object");
    }
    lmc_arena_fini(&arena);
    return extra;
}

/* Until a stop signal, or nothing is left to wait for. True: a signal. */
static bool wait_for_end(lmc_plugin_host *host) {
    struct pollfd ends[] = {{.fd = lmc_stop_signals_fd(), .events = POLLIN},
                            {.fd = lmc_plugin_host_idle_fd(host), .events = POLLIN}};
    while (poll(ends, 2, -1) < 0 && errno == EINTR)
        ;
    return ends[0].revents != 0;
}

static int supervise(const lmc_plugin_host_options *options) {
    lmc_error error = LMC_ERROR_INIT;
    lmc_plugin_host *host = NULL;
    size_t count = 0;
    if (lmc_plugin_host_start(options, &host, &error) != LMC_OK) {
        LMC_ERROR("Runtime plugins are not started: %s", error.text);
        return LMC_EXIT_FAILED;
    }
    free(lmc_plugin_host_rows(host, &count));
    if (count == 0)
        LMC_ERROR("There is no runtime plugin to run");
    bool stopped = wait_for_end(host);
    bool well = lmc_plugin_host_all_well(host);
    lmc_plugin_host_destroy(host);
    return stopped || (well && count > 0) ? 0 : LMC_EXIT_FAILED;
}

int lmc_plugins_run(const lmc_cli *cli, const lmc_plugins_words *words) {
    lmc_error error = LMC_ERROR_INIT;
    char *extra = extra_of(words->config, &error);
    if (extra == NULL) {
        fprintf(cli->err, "--config is not usable: %s\n", error.text);
        return LMC_EXIT_FAILED;
    }
    const lmc_plugin_host_options options = {.locations = words->names,
                                             .location_count = (size_t)words->name_count,
                                             .role = words->role,
                                             .worker_count = words->worker_count,
                                             .worker_id = words->worker_id,
                                             .config = words->config,
                                             .extra = extra,
                                             .grace_ns = lmc_ns_of_seconds(words->grace)};
    int status = LMC_EXIT_FAILED;
    lmc_log_read_environment();
    if (lmc_log_start(&error) == LMC_OK && lmc_stop_signals_install(&error) == LMC_OK) {
        status = supervise(&options);
        lmc_stop_signals_remove();
    } else {
        LMC_ERROR("%s", error.text);
    }
    lmc_log_stop();
    free(extra);
    return status;
}
