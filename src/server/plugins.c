#include "server/plugins.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "module/status_writer.h"
#include "runtime_plugin/host.h"

#define LMC_LOGGER "lmcache.plugin"

static lmc_plugin_host *host_of(const lmc_server *server) {
    return atomic_load(&server->plugins);
}

static double in_seconds(int64_t ns) { return (double)ns / (double)LMC_NS_PER_S; }

/* ---- start and stop ---- */

static lmc_status launch(lmc_server *server, const char *config, lmc_error *error) {
    const lmc_mp_config *mp = &server->config->mp;
    const lmc_plugin_host_options options = {
        .locations = mp->runtime_plugin_config.locations.items,
        .location_count = mp->runtime_plugin_config.locations.count,
        .role = "",
        .worker_count = 1,
        .worker_id = 0,
        .config = config,
        .extra = mp->runtime_plugin_config.extra_config,
        .grace_ns = lmc_ns_of_seconds(mp->runtime_plugin_stop_grace_seconds)};
    lmc_plugin_host *host = NULL;
    LMC_INFO("Runtime plugins get the configuration: mp_config, storage_manager_config, "
             "obs_config%s%s",
             server->config->http.no_http ? "" : ", http_config",
             strcmp(options.extra, "{}") == 0 ? "" : ", runtime_plugin_extra_config");
    lmc_status status = lmc_plugin_host_start(&options, &host, error);
    atomic_store(&server->plugins, host);
    return status;
}

lmc_status lmc_server_start_plugins(lmc_server *server, lmc_error *error) {
    lmc_buffer config = LMC_BUFFER_INIT;
    (void)error;
    if (server->config->mp.runtime_plugin_config.locations.count == 0)
        return LMC_OK;
    lmc_error cause = LMC_ERROR_INIT;
    lmc_status status = lmc_config_render(server->config, LMC_CONFIG_PLUGIN, &config);
    if (status == LMC_OK)
        status = launch(server, config.data, &cause);
    if (status != LMC_OK)
        LMC_ERROR("Runtime plugins are not started: %s",
                  cause.text[0] != '\0' ? cause.text : lmc_status_name(status));
    lmc_buffer_fini(&config);
    return LMC_OK;
}

void lmc_server_stop_plugins(lmc_server *server) {
    lmc_plugin_host *host = host_of(server);
    if (host != NULL)
        lmc_plugin_host_stop(host);
}

void lmc_server_destroy_plugins(lmc_server *server) {
    lmc_plugin_host_destroy(atomic_exchange(&server->plugins, NULL));
}

/* ---- status ---- */

static void write_number(lmc_writer *writer, const char *name, bool known, int64_t value) {
    if (known)
        lmc_write_int(writer, name, value);
    else
        lmc_write_null(writer, name);
}

static double uptime(const lmc_plugin_row *row) {
    return row->report.pid > 0 ? in_seconds(lmc_now(&lmc_system_clock) - row->report.started_ns)
                               : 0;
}

static void write_row(lmc_writer *writer, const lmc_plugin_row *row) {
    const lmc_plugin_report *report = &row->report;
    lmc_write_object_begin(writer, NULL);
    lmc_write_text(writer, "name", lmc_text(row->name));
    lmc_write_text(writer, "path", lmc_text(row->path));
    write_number(writer, "pid", report->pid > 0, report->pid);
    lmc_write_text(writer, "state", lmc_text(lmc_plugin_state_name(report->state)));
    write_number(writer, "exit_code", report->exit_code != LMC_PLUGIN_UNSET, report->exit_code);
    lmc_write_int(writer, "restarts", report->restarts);
    lmc_write_text(writer, "restart_policy", lmc_text(row->restart));
    lmc_write_real(writer, "uptime_seconds", uptime(row));
    lmc_write_int(writer, "lines", (int64_t)row->lines);
    if (row->split_stderr)
        lmc_write_int(writer, "stderr_lines", (int64_t)row->stderr_lines);
    lmc_write_int(writer, "bytes", (int64_t)row->bytes);
    lmc_write_int(writer, "dropped_lines", (int64_t)row->dropped_lines);
    lmc_write_object_end(writer);
}

static void write_list(const lmc_server *server, lmc_writer *writer, const char *name) {
    lmc_plugin_host *host = host_of(server);
    size_t count = 0;
    lmc_plugin_row *rows = host != NULL ? lmc_plugin_host_rows(host, &count) : NULL;
    lmc_write_list_begin(writer, name);
    for (size_t i = 0; i < count; i++)
        write_row(writer, &rows[i]);
    lmc_write_list_end(writer);
    free(rows);
}

void lmc_server_report_plugins(const lmc_server *server, lmc_writer *writer) {
    lmc_plugin_host *host = host_of(server);
    int64_t guardian = host != NULL ? lmc_plugin_host_guardian(host) : 0;
    write_list(server, writer, "runtime_plugins");
    int64_t watcher = host != NULL ? lmc_plugin_host_watcher(host) : 0;
    write_number(writer, "plugin_guardian", guardian > 0, guardian);
    write_number(writer, "plugin_watcher", watcher > 0, watcher);
}

/* ---- metrics ---- */

static void collect(const lmc_server *server, lmc_samples *samples,
                    bool (*value)(const lmc_plugin_row *row, double *number)) {
    lmc_plugin_host *host = host_of(server);
    size_t count = 0;
    double number;
    lmc_plugin_row *rows = host != NULL ? lmc_plugin_host_rows(host, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (value(&rows[i], &number))
            lmc_samples_add_text(samples, rows[i].name, number);
    free(rows);
}

static void collect_states(void *server, lmc_samples *samples) {
    lmc_plugin_host *host = host_of(server);
    size_t count = 0;
    lmc_plugin_row *rows = host != NULL ? lmc_plugin_host_rows(host, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        const lmc_slice labels[] = {lmc_text(rows[i].name),
                                    lmc_text(lmc_plugin_state_name(rows[i].report.state))};
        lmc_samples_add(samples, labels, 1);
    }
    free(rows);
}

#define COLLECTOR(name, condition, expression)                         \
    static bool name##_of(const lmc_plugin_row *row, double *number) { \
        *number = (double)(expression);                                \
        return (condition);                                            \
    }                                                                  \
    static void collect_##name(void *server, lmc_samples *samples) {   \
        collect(server, samples, name##_of);                           \
    }

COLLECTOR(pid, true, row->report.pid)
COLLECTOR(restarts, true, row->report.restarts)
COLLECTOR(exit_code, row->report.exit_code != LMC_PLUGIN_UNSET, row->report.exit_code)
COLLECTOR(uptime, true, uptime(row))
COLLECTOR(lines, true, row->lines)
COLLECTOR(bytes, true, row->bytes)
COLLECTOR(dropped, true, row->dropped_lines)

void lmc_server_attach_plugin_metrics(lmc_server *server) {
    static const struct {
        lmc_family_id family;
        void (*collect)(void *server, lmc_samples *samples);
    } collectors[] = {
        {LMC_M_PLUGIN_STATE, collect_states},      {LMC_M_PLUGIN_PID, collect_pid},
        {LMC_M_PLUGIN_RESTARTS, collect_restarts}, {LMC_M_PLUGIN_EXIT_CODE, collect_exit_code},
        {LMC_M_PLUGIN_UPTIME, collect_uptime},     {LMC_M_PLUGIN_LINES, collect_lines},
        {LMC_M_PLUGIN_BYTES, collect_bytes},       {LMC_M_PLUGIN_DROPPED, collect_dropped},
    };
    for (size_t i = 0; i < sizeof collectors / sizeof collectors[0]; i++)
        lmc_metrics_collect(server->metrics, collectors[i].family, collectors[i].collect,
                            server);
}

/* ---- HTTP ---- */

static lmc_status write_plugins(void *self, lmc_buffer *out) {
    lmc_writer writer;
    lmc_writer_init(&writer);
    write_list(self, &writer, "plugins");
    lmc_status status = lmc_writer_finish(&writer);
    if (status == LMC_OK) {
        lmc_slice value = lmc_writer_value(&writer, 0);
        lmc_buffer_text(out, "{\"plugins\":");
        lmc_buffer_append(out, value.data, value.size);
        lmc_buffer_char(out, '}');
        status = out->failed ? LMC_NO_MEMORY : LMC_OK;
    }
    lmc_writer_fini(&writer);
    return status;
}

static lmc_status no_plugin(lmc_slice name, lmc_error *error) {
    return lmc_error_set(error, LMC_NOT_FOUND, "there is no runtime plugin %.*s",
                         LMC_SLICE_ARGS(name));
}

static lmc_status control(void *self, lmc_slice name, const char *action, lmc_error *error) {
    lmc_plugin_host *host = host_of(self);
    lmc_plugin_action wanted = strcmp(action, "start") == 0  ? LMC_PLUGIN_START
                               : strcmp(action, "stop") == 0 ? LMC_PLUGIN_STOP
                                                             : LMC_PLUGIN_RESTART;
    if (host == NULL)
        return no_plugin(name, error);
    lmc_status status = lmc_plugin_host_control(host, name, wanted, error);
    if (status == LMC_OK)
        LMC_INFO("Runtime plugin %.*s: %s asked for via HTTP API", LMC_SLICE_ARGS(name),
                 action);
    return status;
}

static void write_line(lmc_json_writer *json, const lmc_tail_line *line) {
    lmc_json_object_begin(json);
    lmc_json_member_uint(json, "sequence", line->sequence);
    lmc_json_member_real(json, "time", in_seconds(line->wall_ns));
    lmc_json_member_text(json, "stream", line->stream == 2 ? "stderr" : "stdout");
    lmc_json_member_text(json, "level", lmc_log_level_name(line->level));
    lmc_json_member_slice(json, "text", lmc_slice_of(line->text, line->size));
    lmc_json_object_end(json);
}

static lmc_status write_logs(void *self, lmc_slice name, uint64_t after, uint64_t most,
                             lmc_buffer *out, lmc_error *error) {
    lmc_plugin_host *host = host_of(self);
    lmc_tail_line *lines = NULL;
    lmc_json_writer json;
    uint64_t next = 0;
    if (host == NULL ||
        lmc_plugin_host_logs(host, name, after, (size_t)most, &lines, &next) != LMC_OK)
        return no_plugin(name, error);
    lmc_json_start(&json, out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_object_begin(&json);
    lmc_json_member_slice(&json, "name", name);
    lmc_json_name(&json, "lines");
    lmc_json_list_begin(&json);
    for (const lmc_tail_line *at = lines; at != NULL; at = at->next)
        write_line(&json, at);
    lmc_json_list_end(&json);
    lmc_json_member_uint(&json, "next", next);
    lmc_json_object_end(&json);
    lmc_tail_lines_free(lines);
    return lmc_json_finish(&json);
}

void lmc_server_offer_plugins(const lmc_server *server, lmc_http_provider *provider) {
    provider->write_plugins = write_plugins;
    if (!server->config->mp.plugin_control)
        return;
    provider->control_plugin = control;
    provider->write_plugin_logs = write_logs;
}
