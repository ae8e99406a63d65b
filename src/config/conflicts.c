/* Ports that exclude each other, and options that others leave without effect. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/host.h"
#include "config/parsing.h"

static bool is_any(const char *address) {
    return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

/* Whether both surely lead to one address; what only a look-up tells, binding finds out. */
static bool is_one_host(const char *one, const char *other) {
    char bare[2][256];
    const char *addresses[2];
    lmc_host_bare(one, bare[0], sizeof bare[0]);
    lmc_host_bare(other, bare[1], sizeof bare[1]);
    addresses[0] = lmc_host_address(bare[0]);
    addresses[1] = lmc_host_address(bare[1]);
    bool one_family =
        (strchr(addresses[0], ':') == NULL) == (strchr(addresses[1], ':') == NULL);
    return strcasecmp(addresses[0], addresses[1]) == 0 ||
           (one_family && (is_any(addresses[0]) || is_any(addresses[1])));
}

/* The HTTP listener has --http-host, whichever option gives its port. */
static lmc_status check_ports(lmc_parsing *parsing) {
    const lmc_config *config = parsing->config;
    bool no_http = config->http.no_http;
    int64_t port = no_http ? config->observability.prometheus_port : config->http.http_port;
    if (port != config->mp.port || port == 0 ||
        !is_one_host(config->mp.host, config->http.http_host))
        return LMC_OK;
    return lmc_error_set(parsing->error, LMC_INVALID,
                         "--port and %s are both %lld on one host (--host %s, --http-host %s); "
                         "they need ports of their own",
                         no_http ? "--prometheus-port" : "--http-port", (long long)port,
                         config->mp.host, config->http.http_host);
}

static bool has_shared_memory(const lmc_config *config) {
    const lmc_storage_config *storage = &config->storage_manager;
    for (size_t i = 0; i < storage->l1_manager_count; i++)
        if (storage->l1_managers[i].memory_config.shm_name[0] != '\0')
            return true;
    return config->mp.shm_name[0] != '\0';
}

static lmc_status note_unless(lmc_parsing *parsing, bool effective, const char *flag,
                              const char *why) {
    if (effective || !lmc_parsing_given(parsing, flag))
        return LMC_OK;
    return lmc_parsing_notice(parsing, LMC_LOG_WARNING, "%s has no effect %s", flag, why);
}

lmc_status lmc_check_conflicts(lmc_parsing *parsing) {
    const lmc_config *config = parsing->config;
    bool http = !config->http.no_http;
    const struct {
        bool effective;
        const char *flag, *why;
    } rows[] = {
        {http, "--http-port",
         "beside --no-http, where --prometheus-port is the only HTTP port"},
        {http, "--enable-plugin-control", "beside --no-http: it controls over the HTTP port"},
        {has_shared_memory(config), "--shm-mode",
         "without --shm-name: there is no pool to map"},
    };
    lmc_status status = check_ports(parsing);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == LMC_OK; i++)
        status = note_unless(parsing, rows[i].effective, rows[i].flag, rows[i].why);
    if (status == LMC_OK && http && lmc_parsing_given(parsing, "--prometheus-port"))
        status = lmc_parsing_notice(
            parsing, LMC_LOG_INFO,
            "--prometheus-port has no effect without --no-http: /metrics is on --http-port");
    return status;
}
