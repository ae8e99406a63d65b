#include "module/registrar.h"

#include "base/error.h"

void *lmc_zmq_server_context(lmc_zmq_server *server) {
    return server->context != NULL ? server->context(server->arg) : NULL;
}

lmc_status lmc_zmq_server_add_handler(lmc_zmq_server *server, const char *operation,
                                      uint32_t scheduling,
                                      void (*handle)(void *self, lmc_call *call),
                                      lmc_error *error) {
    lmc_operation entry = {.name = operation, .scheduling = scheduling, .handle = handle};
    if (operation == NULL || handle == NULL)
        return lmc_error_set(error, LMC_INVALID, "a handler needs an operation and a function");
    return lmc_registry_set(server->registry, &entry, server->owner, error);
}

lmc_status lmc_zmq_server_add_normal_pool(lmc_zmq_server *server, const char *const *operations,
                                          uint32_t max_workers, lmc_error *error) {
    return lmc_registry_add_pool(server->registry, operations, max_workers, false, error);
}

lmc_status lmc_zmq_server_add_affinity_pool(lmc_zmq_server *server,
                                            const char *const *operations, uint32_t max_workers,
                                            lmc_error *error) {
    return lmc_registry_add_pool(server->registry, operations, max_workers, true, error);
}
