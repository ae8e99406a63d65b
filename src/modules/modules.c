#include "modules/modules.h"

#include <string.h>

const lmc_module_class *const *lmc_built_in_modules(size_t *count) {
    static const lmc_module_class *const classes[] = {
        &lmc_lookup_module,
        &lmc_p2p_controller,
        &lmc_lmcache_driven_transfer_module,
        &lmc_engine_driven_transfer_module,
        &lmc_qstore_module,
        &lmc_blend_module,
        &lmc_kv_event_module,
        &lmc_management_module,
    };
    *count = sizeof classes / sizeof classes[0];
    return classes;
}

const char *lmc_unserved_reason(const char *operation) {
    static const struct {
        const char *prefix, *reason;
    } reasons[] = {
        {"p2p_", "peer-to-peer (--p2p-advertise-url) is not built"},
        {"cb_", "blending (--engine-type blend) is not built"},
        {"register_q_cache", "storing queries (--enable transfer_query) is not built"},
        {"unregister_q_cache", "storing queries (--enable transfer_query) is not built"},
        {"store_q", "storing queries (--enable transfer_query) is not built"},
        {"poll_kv_events", "KV events are not built"},
        {"store_with_chunk_events", "chunk events are not built"},
        {"release_chunk_store_events", "chunk events are not built"},
        {"negotiate_chunk_size", "the chunk size is fixed by --chunk-size"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strncmp(operation, reasons[i].prefix, strlen(reasons[i].prefix)) == 0)
            return reasons[i].reason;
    return NULL;
}
