/*
 * registrar.h: what register_zmq() of one module is lent. Main thread.
 */
#ifndef LMC_MODULE_REGISTRAR_H
#define LMC_MODULE_REGISTRAR_H

#include "dispatch/registry.h"

struct lmc_zmq_server {
    lmc_registry *registry;
    const lmc_owner *owner;      /* the module */
    void *(*context)(void *arg); /* the libzmq context of modules; NULL: there is none */
    void *arg;
};

#endif
