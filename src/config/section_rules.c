/* Rules of sections mp, observability and coordinator that look at more than one value. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "config/json_value.h"
#include "config/option_value.h"
#include "config/parsing.h"
#include "config/python_text.h"

static lmc_status check_workers(lmc_parsing *parsing) {
    lmc_mp_config *mp = &parsing->config->mp;
    double reap = mp->worker_reap_timeout_seconds;
    double grace = mp->worker_registration_grace_seconds;
    lmc_buffer message = LMC_BUFFER_INIT;
    if (mp->max_gpu_workers == LMC_CONFIG_UNSET)
        mp->max_gpu_workers = mp->max_workers;
    if (mp->max_cpu_workers == LMC_CONFIG_UNSET)
        mp->max_cpu_workers = mp->max_workers;
    if (!isfinite(reap) || (reap != 0 && reap < 30)) {
        lmc_buffer_text(&message,
                        "worker reap timeout must be 0 (disabled) or >= 30s; keep it >= 3 x "
                        "your configured lmcache.mp.heartbeat_interval (default 10s); got ");
        lmc_repr_float(&message, reap);
    } else if (!isfinite(grace) || grace < reap) {
        lmc_buffer_text(&message,
                        "worker registration grace must be >= the worker reap timeout (");
        lmc_repr_float(&message, reap);
        lmc_buffer_text(&message, "s); got ");
        lmc_repr_float(&message, grace);
    } else {
        return LMC_OK;
    }
    return lmc_parsing_reject(parsing, LMC_INVALID, &message);
}

/* Unknown names; a known one that is not built is refused later. */
static lmc_status check_names(lmc_parsing *parsing) {
    lmc_mp_config *mp = &parsing->config->mp;
    lmc_buffer message = LMC_BUFFER_INIT;
    if (!lmc_word_in("blake3,sha256_cbor,sha256_cbor_64bit,builtin", mp->hash_algorithm)) {
        lmc_buffer_text(&message, "unknown hash algorithm ");
        lmc_repr_text(&message, lmc_text(mp->hash_algorithm));
        lmc_buffer_text(&message, "; known: blake3, sha256_cbor, builtin");
        return lmc_parsing_reject(parsing, LMC_INVALID, &message);
    }
    for (size_t i = 0; i < mp->enable.count; i++) {
        if (strcmp(mp->enable.items[i], "transfer_query") == 0)
            continue;
        lmc_buffer_text(&message, "Unknown --enable name ");
        lmc_repr_text(&message, lmc_text(mp->enable.items[i]));
        lmc_buffer_text(&message, "; known: transfer_query");
        return lmc_parsing_reject(parsing, LMC_INVALID, &message);
    }
    return LMC_OK;
}

static lmc_status set_text(char **field, const char *text) {
    char *copy = strdup(text);
    if (copy == NULL)
        return LMC_NO_MEMORY;
    free(*field);
    *field = copy;
    return LMC_OK;
}

static lmc_status check_plugin_config(lmc_parsing *parsing) {
    char **text = &parsing->config->mp.runtime_plugin_config.extra_config;
    lmc_error detail = LMC_ERROR_INIT;
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    if (**text == '\0')
        return set_text(text, "{}");
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_json_read(&arena, lmc_text(*text), &value, &detail);
    if (status == LMC_MALFORMED)
        status = lmc_error_set(parsing->error, LMC_INVALID,
                               "--runtime-plugin-config is not valid JSON: %s", detail.text);
    else if (status == LMC_OK && value->kind == LMC_JSON_IS_NULL)
        status = set_text(text, "{}");
    else if (status == LMC_OK && value->kind != LMC_JSON_IS_OBJECT)
        status = lmc_error_set(parsing->error, LMC_INVALID,
                               "--runtime-plugin-config must be a JSON object");
    lmc_arena_fini(&arena);
    return status;
}

static lmc_status choose_instance_id(lmc_parsing *parsing) {
    char uuid[37];
    if (parsing->config->mp.instance_id != NULL)
        return LMC_OK;
    lmc_uuid4(uuid);
    return set_text(&parsing->config->mp.instance_id, uuid);
}

static lmc_status check_p2p(lmc_parsing *parsing) {
    const lmc_config *config = parsing->config;
    const lmc_l1_flags *l1 = &config->storage_manager.flags;
    if (config->mp.p2p_config.advertise_url[0] == '\0')
        return LMC_OK;
    if (config->coordinator.url[0] == '\0')
        return lmc_error_set(
            parsing->error, LMC_INVALID,
            "P2P requires a coordinator for peer discovery: set --coordinator-url (or "
            "LMCACHE_COORDINATOR_URL) when --p2p-advertise-url is set.");
    if (l1->devdax_path != NULL || l1->gds_path != NULL || l1->managers.count > 1)
        return lmc_error_set(
            parsing->error, LMC_INVALID,
            "P2P requires a single L1 memory region the transfer channel can register; it is "
            "incompatible with GDS L1 (--gds-l1-path) and Device-DAX L1 (--l1-devdax-path).");
    return LMC_OK;
}

static lmc_status check_observability(lmc_parsing *parsing) {
    lmc_config *config = parsing->config;
    lmc_observability_config *observability = &config->observability;
    lmc_eviction_config *eviction = &config->storage_manager.eviction_config;
    const char *text = NULL;
    if (observability->tracing_enabled && observability->otlp_endpoint == NULL)
        text =
            "--enable-tracing requires --otlp-endpoint to be set. Tracing needs an OTLP gRPC "
            "endpoint to export spans.";
    else if (observability->extra_logging_enabled && !observability->enabled)
        text = "--enable-extra-logging requires the observability EventBus; remove "
               "--disable-observability.";
    else if (config->coordinator.event_reporting && !observability->enabled)
        text = "--coordinator-event-reporting rides the observability event bus: remove "
               "--disable-observability to report cache events.";
    eviction->extra_logging_enabled = observability->extra_logging_enabled;
    eviction->extra_logging_interval = observability->extra_logging_interval;
    return text == NULL ? LMC_OK : lmc_error_set(parsing->error, LMC_INVALID, "%s", text);
}

lmc_status lmc_check_sections(lmc_parsing *parsing) {
    static lmc_status (*const checks[])(lmc_parsing *) = {
        check_workers,      check_names, check_plugin_config,
        choose_instance_id, check_p2p,   check_observability,
    };
    parsing->config->mp.session_ttl_seconds = 600;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        lmc_status status = checks[i](parsing);
        if (status != LMC_OK)
            return status;
    }
    return LMC_OK;
}
