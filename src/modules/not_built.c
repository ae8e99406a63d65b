/*
 * not_built.c: built-in classes whose function does not exist yet. They are in the graph, so
 * that other modules may depend on them by name, and decline to be built (D71).
 */
#include "base/error.h"
#include "modules/modules.h"

static lmc_status decline(lmc_error *error, const char *reason) {
    lmc_error_set(error, LMC_DECLINED, "%s", reason);
    return LMC_DECLINED;
}

static lmc_status create_lmcache_driven(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    return decline(error, "transfers driven by the server are not built; engines use the "
                          "engine_driven transfer mode");
}

static lmc_status create_qstore(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    return decline(error, "storing queries is not built");
}

static lmc_status create_blend(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    return decline(error, "blending is not built");
}

static lmc_status create_kv_events(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    return decline(error, "KV events are not built");
}

static const char *const on_lmcache_driven[] = {"LMCacheDrivenTransferModule", NULL};

const lmc_module_class lmc_lmcache_driven_transfer_module = {
    .size = sizeof(lmc_module_class),
    .name = "LMCacheDrivenTransferModule",
    .create = create_lmcache_driven,
};

const lmc_module_class lmc_qstore_module = {
    .size = sizeof(lmc_module_class),
    .name = "QStoreModule",
    .depends = on_lmcache_driven,
    .create = create_qstore,
};

const lmc_module_class lmc_blend_module = {
    .size = sizeof(lmc_module_class),
    .name = "BlendModule",
    .depends = on_lmcache_driven,
    .create = create_blend,
};

const lmc_module_class lmc_kv_event_module = {
    .size = sizeof(lmc_module_class),
    .name = "KVEventModule",
    .create = create_kv_events,
};
