#include "dispatch/dispatcher.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

lmc_status lmc_dispatcher_prepare(const lmc_registry *registry, lmc_dispatcher **dispatcher,
                                  lmc_error *error) {
    lmc_dispatcher *made = calloc(1, sizeof *made);
    *dispatcher = made;
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the dispatcher");
    made->registry = registry;
    return LMC_OK;
}

lmc_status lmc_dispatcher_start(lmc_dispatcher *dispatcher, const lmc_pools_options *options,
                                lmc_error *error) {
    return lmc_pools_create(options, dispatcher->registry, &dispatcher->pools, error);
}

lmc_status lmc_dispatcher_create(const lmc_pools_options *options, const lmc_registry *registry,
                                 lmc_dispatcher **dispatcher, lmc_error *error) {
    lmc_status status = lmc_dispatcher_prepare(registry, dispatcher, error);
    if (status == LMC_OK)
        status = lmc_dispatcher_start(*dispatcher, options, error);
    if (status != LMC_OK) {
        free(*dispatcher);
        *dispatcher = NULL;
    }
    return status;
}

void lmc_dispatcher_destroy(lmc_dispatcher *dispatcher) {
    if (dispatcher == NULL)
        return;
    lmc_pools_destroy(dispatcher->pools);
    free(dispatcher);
}

/* A registration from outside the tree must take effect before any later request (D8). */
static bool is_outside_registration(const lmc_exchange *x) {
    return x->handler->place == LMC_PLACE_SERIAL &&
           (strncmp(x->operation->name, "register_", 9) == 0 ||
            strncmp(x->operation->name, "unregister_", 11) == 0);
}

static void hold(lmc_dispatcher *dispatcher, lmc_exchange *x) {
    x->next = NULL;
    if (dispatcher->held_last != NULL)
        dispatcher->held_last->next = x;
    else
        dispatcher->held_first = x;
    dispatcher->held_last = x;
}

static lmc_exchange *release(lmc_dispatcher *dispatcher) {
    lmc_exchange *x = dispatcher->held_first;
    if (x == NULL)
        return NULL;
    dispatcher->held_first = x->next;
    if (x->next == NULL)
        dispatcher->held_last = NULL;
    return x;
}

static void place(lmc_dispatcher *dispatcher, lmc_exchange *x) {
    if (x->handler->place == LMC_PLACE_INLINE) {
        lmc_exchange_run(x);
        return;
    }
    if (x->handler->answers_at_once != NULL && lmc_exchange_run_at_once(x))
        return;
    x->is_barrier = is_outside_registration(x);
    if (x->is_barrier)
        dispatcher->barrier = true;
    lmc_pools_submit_later(dispatcher->pools, x);
}

void lmc_dispatch(lmc_exchange *x) {
    lmc_dispatcher *dispatcher = x->dispatcher;
    lmc_dispatch_count(dispatcher, LMC_COUNT_DISPATCHED);
    if (dispatcher->barrier)
        hold(dispatcher, x);
    else
        place(dispatcher, x);
}

void lmc_dispatch_ended(lmc_dispatcher *dispatcher, lmc_exchange *x) {
    if (!x->is_barrier)
        return;
    dispatcher->barrier = false;
    while (!dispatcher->barrier && (x = release(dispatcher)) != NULL)
        place(dispatcher, x);
}

void lmc_dispatch_refuse_queued(lmc_dispatcher *dispatcher) {
    lmc_exchange *x;
    while ((x = release(dispatcher)) != NULL)
        lmc_exchange_refuse(x, LMC_CLOSED);
    lmc_pools_refuse_queued(dispatcher->pools);
}
