/* What modules may ask of the server beside the cache: its log, metrics, events, configuration.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "module/context.h"
#include "module/status_writer.h"

#define LMC_LOGGER "lmcache.module"

static const char *logger_of(const lmc_context *context) {
    return context->own != NULL ? context->own->logger : LMC_LOGGER;
}

static const char *name_of(const lmc_context *context) {
    return context->own != NULL ? context->own->name : "the server";
}

static lmc_log_level level_of(uint32_t level) {
    if (level >= LMC_LEVEL_ERROR)
        return LMC_LOG_ERROR;
    if (level >= LMC_LEVEL_WARNING)
        return LMC_LOG_WARNING;
    return level >= LMC_LEVEL_INFO ? LMC_LOG_INFO : LMC_LOG_DEBUG;
}

void lmc_log_at(lmc_context *context, uint32_t level, const char *file, int line,
                const char *format, ...) {
    char text[LMC_LOG_LINE_MAX];
    const char *slash = strrchr(file, '/');
    if (!lmc_log_enabled(level_of(level), logger_of(context)))
        return;
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size >= 0)
        lmc_log_write(level_of(level), logger_of(context), slash != NULL ? slash + 1 : file,
                      line, "%s", text);
}

void lmc_write_failure(lmc_writer *writer, const char *text) { lmc_writer_fail(writer, text); }

/* ---- metrics ---- */

static lmc_metric *declare(lmc_context *context, lmc_metric_type type, const char *name,
                           const char *help, const char *label) {
    lmc_error error = LMC_ERROR_INIT;
    const char *prefix = context->own != NULL ? context->own->prefix : "lmcached";
    lmc_metric *metric = lmc_late_metrics_declare(context->late_metrics, type, prefix, name,
                                                  help, label, &error);
    if (error.text[0] != '\0')
        LMC_WARNING("%s: %s", name_of(context), error.text);
    return metric;
}

lmc_metric *lmc_metric_counter(lmc_context *context, const char *name, const char *help,
                               const char *label) {
    return declare(context, LMC_COUNTER, name, help, label);
}

lmc_metric *lmc_metric_gauge(lmc_context *context, const char *name, const char *help,
                             const char *label) {
    return declare(context, LMC_GAUGE, name, help, label);
}

/* ---- events ---- */

lmc_status lmc_subscribe(lmc_context *context, const char *event_name,
                         void (*receive)(void *arg, const lmc_event *event), void *arg,
                         lmc_error *error) {
    return lmc_events_subscribe(context->events, name_of(context), event_name, receive, arg,
                                error);
}

lmc_event *lmc_event_begin(lmc_context *context, const char *event_name, lmc_slice session) {
    return lmc_events_begin(context->events, event_name, session);
}

/* ---- configuration ---- */

lmc_slice lmc_server_config(lmc_context *context) {
    return context->config_text.data != NULL ? context->config_text : lmc_text("{}");
}
