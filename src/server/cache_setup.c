#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/state.h"

static void fill_l1(const lmc_server *server, const lmc_l1_manager_config *manager,
                    lmc_l1_config *l1) {
    const lmc_l1_memory_config *memory = &manager->memory_config;
    bool lru = strcmp(manager->eviction.eviction_policy, "LRU") == 0;
    *l1 = (lmc_l1_config){.capacity = (uint64_t)memory->size_in_bytes,
                          .init_size = (uint64_t)memory->init_size_in_bytes,
                          .align = (uint64_t)memory->align_bytes,
                          .use_lazy = memory->use_lazy,
                          .use_hugepages = memory->use_hugepages,
                          .shm_name = memory->shm_name,
                          .shm_mode = server->config->mp.shm_mode,
                          .policy = lru ? LMC_EVICT_LRU : LMC_EVICT_NONE,
                          .watermark = manager->eviction.trigger_watermark,
                          .eviction_ratio = manager->eviction.eviction_ratio};
}

lmc_status lmc_server_create_cache(lmc_server *server, lmc_error *error) {
    const lmc_mp_config *mp = &server->config->mp;
    const lmc_l1_manager_config *manager = &server->config->storage_manager.l1_managers[0];
    lmc_cache_observer observer = lmc_server_observer(server);
    lmc_cache_config config = {
        .chunk_size = (uint32_t)mp->chunk_size,
        .read_ttl_ns = lmc_ns_of_seconds((double)manager->read_ttl_seconds),
        .write_ttl_ns = lmc_ns_of_seconds((double)manager->write_ttl_seconds),
        .session_ttl_ns = lmc_ns_of_seconds(mp->session_ttl_seconds),
        .session_lease_ns = lmc_ns_of_seconds(mp->session_lease_seconds),
        .disconnect_lease_ns = lmc_ns_of_seconds(mp->disconnect_lease_seconds)};
    fill_l1(server, manager, &config.l1);
    return lmc_cache_create(&config, &lmc_system_clock, &observer, &server->cache, error);
}

void lmc_server_unlink_pool(const lmc_server *server) {
    char name[280];
    if (server->cache == NULL)
        return;
    const char *pool = lmc_l1_pool_name(lmc_cache_l1(server->cache));
    int size = snprintf(name, sizeof name, "/%s", pool);
    if (*pool != '\0' && size > 0 && (size_t)size < sizeof name)
        shm_unlink(name);
}
