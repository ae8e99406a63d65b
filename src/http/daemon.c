#include "http/daemon.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "http/exchange.h"
#include "http/listener.h"

#define LMC_LOGGER "lmcache.http"

#define POOL_THREADS 2
#define POOL_QUEUE 128
#define BODIES_MAX ((size_t)32 << 20)      /* of all requests whose body is kept */
#define SMALL_BODY ((size_t)4 << 10)       /* controls: always taken */
#define REPLIES_MAX ((size_t)128 << 20)    /* of all replies that were not read yet */
#define SMALL_REPLY ((size_t)64 << 10)     /* most /metrics and /status: always sent */
#define MODULE_LIMIT_NS (2 * LMC_NS_PER_S) /* for routes of modules to return at the stop */
#define LAST_REPLIES_MS 500                /* stop waits this long for replies to leave */

static void fill_defaults(lmc_http_config *config) {
    if (config->body_limit == 0)
        config->body_limit = 1u << 20;
    if (config->connection_limit == 0)
        config->connection_limit = 4096; /* idle ones must not keep probes out */
    if (config->idle_timeout_s == 0)
        config->idle_timeout_s = 30;
}

static void announce(const lmc_http *http) {
    char name[320];
    lmc_http_listener_name(http->config.host, http->port, name, sizeof name);
    if (http->config.metrics_only) {
        LMC_INFO("Serving only /metrics on http://%s (--no-http)", name);
        return;
    }
    LMC_INFO("Starting LMCache HTTP server on http://%s", name);
    if (lmc_http_listener_is_loopback(http->listen_fd))
        LMC_INFO("HTTP API bound to loopback only; pass --http-host 0.0.0.0 to expose it");
}

/* A port that is taken can be changed: says with which option. */
static lmc_status name_option(const lmc_http *http, lmc_status status, lmc_error *error) {
    if (status != LMC_BUSY || error == NULL)
        return status;
    lmc_error cause = *error;
    lmc_error_clear(error);
    return lmc_error_set(error, status, "%s; %s chooses another", cause.text,
                         http->config.metrics_only ? "--prometheus-port" : "--http-port");
}

/* What is left once nothing runs. */
static void release(lmc_http *http) {
    if (http->listen_fd >= 0)
        close(http->listen_fd);
    lmc_http_quotas_destroy(http->quotas);
    free(http);
}

lmc_status lmc_http_create(const lmc_http_config *config, const lmc_http_provider *provider,
                           lmc_http **out, lmc_error *error) {
    lmc_http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the HTTP server");
    http->config = *config;
    http->provider = *provider;
    http->port = config->port;
    http->listen_fd = -1;
    http->bodies = (lmc_http_budget){.limit = BODIES_MAX, .small = SMALL_BODY};
    http->replies = (lmc_http_budget){.limit = REPLIES_MAX, .small = SMALL_REPLY};
    fill_defaults(&http->config);
    lmc_status status = LMC_OK;
    http->quotas = lmc_http_quotas_create();
    if (http->quotas == NULL)
        status = lmc_error_set(error, LMC_NO_MEMORY, "no memory for the HTTP server");
    if (status == LMC_OK)
        status = name_option(
            http, lmc_http_listener_bind(config->host, &http->port, &http->listen_fd, error),
            error);
    if (status != LMC_OK) {
        release(http);
        return status;
    }
    announce(http);
    *out = http;
    return LMC_OK;
}

uint16_t lmc_http_port(const lmc_http *http) { return http->port; }

/* The library complains about what peers do; that is not worth more than DEBUG. */
static void library_log(void *arg, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void library_log(void *arg, const char *format, va_list args) {
    (void)arg;
    lmc_buffer text = LMC_BUFFER_INIT;
    lmc_buffer_vprintf(&text, format, args);
    while (text.size > 0 && text.data[text.size - 1] == '\n')
        text.data[--text.size] = '\0';
    if (!text.failed && text.size > 0)
        LMC_DEBUG("%s", text.data);
    lmc_buffer_fini(&text);
}

/* Not epoll: the library's edge-triggered loop overlooks the end of a connection that arrives
 * together with half a request, and keeps its place until the idle timeout. */
static struct MHD_Daemon *start_daemon(lmc_http *http) {
    return MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            MHD_USE_ITC,
        0, NULL, NULL, lmc_http_on_access, http, MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, http->listen_fd, MHD_OPTION_URI_LOG_CALLBACK,
        lmc_http_on_target, http, MHD_OPTION_NOTIFY_CONNECTION, lmc_http_on_connection, http,
        MHD_OPTION_NOTIFY_COMPLETED, lmc_http_on_completed, http, MHD_OPTION_CONNECTION_LIMIT,
        http->config.connection_limit, MHD_OPTION_CONNECTION_TIMEOUT,
        http->config.idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)LMC_HTTP_HEAD_MEMORY, MHD_OPTION_END);
}

lmc_status lmc_http_start(lmc_http *http, lmc_error *error) {
    lmc_status status = name_option(
        http, lmc_http_listener_listen(http->listen_fd, http->config.host, http->port, error),
        error);
    if (status == LMC_OK)
        status = lmc_http_pool_create(POOL_THREADS, POOL_QUEUE, lmc_http_run_on_pool,
                                      lmc_http_refuse_on_pool, &http->pool, error);
    if (status == LMC_OK && http->provider.find_module_route != NULL)
        status = lmc_http_pool_create(POOL_THREADS, POOL_QUEUE, lmc_http_run_on_pool,
                                      lmc_http_refuse_on_pool, &http->module_pool, error);
    if (status != LMC_OK)
        return status;
    /* The event thread must not be the one that a stop signal is delivered to. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    http->daemon = start_daemon(http);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (http->daemon == NULL)
        return lmc_error_set(error, LMC_FAILED, "cannot start the HTTP event thread");
    if (!http->config.metrics_only)
        LMC_INFO("LMCache HTTP server initialized");
    return LMC_OK;
}

static void await_last_replies(lmc_http *http) {
    for (int ms = 0; ms < LAST_REPLIES_MS && atomic_load(&http->active) > 0; ms += 5)
        usleep(5000);
}

void lmc_http_stop(lmc_http *http) {
    if (http->is_stuck)
        return;
    if (http->daemon != NULL) {
        if (!http->config.metrics_only)
            LMC_INFO("Shutting down LMCache HTTP server...");
        atomic_store(&http->stopping, true);
        MHD_quiesce_daemon(http->daemon);
    }
    if (http->listen_fd >= 0)
        close(http->listen_fd);
    http->listen_fd = -1;
    if (http->pool != NULL)
        lmc_http_pool_stop(http->pool);
    if (http->module_pool != NULL &&
        !lmc_http_pool_stop_within(http->module_pool, MODULE_LIMIT_NS)) {
        LMC_ERROR("a module's HTTP route has not returned; its clients get no answer");
        http->is_stuck = true;
        return;
    }
    if (http->daemon != NULL) {
        await_last_replies(http);
        MHD_stop_daemon(http->daemon);
    }
    http->daemon = NULL;
    lmc_http_pool_destroy(http->pool);
    lmc_http_pool_destroy(http->module_pool);
    http->pool = http->module_pool = NULL;
}

bool lmc_http_is_stuck(const lmc_http *http) { return http->is_stuck; }

void lmc_http_destroy(lmc_http *http) {
    if (http == NULL || http->is_stuck)
        return;
    lmc_http_stop(http);
    if (!http->is_stuck)
        release(http);
}
