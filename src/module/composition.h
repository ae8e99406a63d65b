/*
 * composition.h: the modules of one server, from classes to closed.
 *
 * create orders the classes, builds them, and closes what was built if one fails. The
 * composition owns the modules' handles and the router; it borrows the classes and the context.
 * create, register, close and destroy belong to the main thread; status may be asked from any
 * thread until close.
 */
#ifndef LMC_MODULE_COMPOSITION_H
#define LMC_MODULE_COMPOSITION_H

#include <lmcached/module.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "dispatch/registry.h"
#include "module/status.h"

#define LMC_CLOSE_LIMIT_NS (10 * LMC_NS_PER_S)
#define LMC_STATUS_BUDGET_NS LMC_NS_PER_S

typedef struct lmc_composition lmc_composition;

typedef struct lmc_composition_options {
    const lmc_module_class *const *classes;
    size_t class_count;
    size_t built_in_count; /* so many of the first are built in, the others are from outside */
    lmc_context *context;  /* its liveness set takes in the modules that have one */
    /* A class's configuration, {NULL, 0} for none; the text lives as long as the server. NULL:
     * none has any. */
    lmc_slice (*config_for)(void *arg, const char *class_name);
    /* What status says a module from outside is; NULL: "native". */
    const char *(*origin_of)(void *arg, const char *class_name);
    /* A module that was built is about to be closed; may wait. NULL: nobody wants to know. */
    void (*closing)(void *arg, const char *class_name);
    /* One module's close() hangs and the others are closed: ends the process. On a thread that
     * is not the main one, see closing.h. NULL: waits for that close. */
    void (*take_over)(void *arg);
    void *arg;
    int64_t close_limit_ns, status_budget_ns; /* 0: the limits above */
} lmc_composition_options;

lmc_status lmc_composition_create(const lmc_composition_options *options,
                                  lmc_composition **composition, lmc_error *error);
/* Adds every module's handlers, in construction order, then the router's. */
lmc_status lmc_composition_register(lmc_composition *composition, lmc_registry *registry,
                                    lmc_error *error);

/*
 * Calls register_zmq() of every module that has one, in construction order. `context` gives the
 * libzmq context of modules, see lmc_zmq_server_context(). The registry is not frozen yet.
 */
lmc_status lmc_composition_register_zmq(lmc_composition *composition, lmc_registry *registry,
                                        void *(*context)(void *arg), void *arg,
                                        lmc_error *error);

typedef struct lmc_module_row {
    const char *name, *version; /* version may be NULL */
    const char *origin;         /* "built-in", "native", ... */
    const lmc_account *account;
    const lmc_module_class *class; /* constant until destroy */
    void *self;
} lmc_module_row;
/* Every module that was built, in construction order. Any thread until destroy. */
void lmc_composition_each(const lmc_composition *composition,
                          void (*visit)(void *arg, const lmc_module_row *row), void *arg);

lmc_status_collector *lmc_composition_status(lmc_composition *composition);
size_t lmc_composition_count(const lmc_composition *composition);
/* `self` of a module that was built; NULL: there is none of that name. */
void *lmc_composition_find(const lmc_composition *composition, const char *class_name);

/*
 * After the last call has returned: stops the event bus and the reaper, then closes in reverse
 * order, each within the limit. True: all closed. False: one was abandoned, and take_over has
 * been called after the rest. Once.
 */
bool lmc_composition_close(lmc_composition *composition);
/* After close and after the last call has ended, which is charged to its module until then;
 * accepts NULL. */
void lmc_composition_destroy(lmc_composition *composition);

#endif
