/*
 * The modules of the server as Python code calls them: each from the moment that it is built
 * until it is closed. Before the registry of handlers is complete it stands in for that.
 *
 * The main thread adds to the list, at its head only, and empties it when nobody calls any
 * more; so whoever has seen a member may keep it.
 */
#include "pyhost/python.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define CLOSED (UINT32_C(1) << 31)

struct lmc_py_callee {
    const char *name;
    const lmc_operation *operations;
    const lmc_liveness *liveness; /* NULL: it keeps nothing per worker */
    void *self;
    bool outside;
    _Atomic uint32_t state; /* calls that are inside, and CLOSED */
    struct lmc_py_callee *earlier;
};

static _Atomic(lmc_py_callee *) latest;

static lmc_py_callee *find(const char *name) {
    lmc_py_callee *at = atomic_load_explicit(&latest, memory_order_acquire);
    while (at != NULL && strcmp(at->name, name) != 0)
        at = at->earlier;
    return at;
}

/* ---- built ---- */

static void note(void *arg, const lmc_module_row *row) {
    (void)arg;
    if (find(row->name) != NULL)
        return;
    lmc_py_callee *added = calloc(1, sizeof *added);
    if (added == NULL)
        return; /* it cannot be called, and says so */
    *added = (lmc_py_callee){.name = row->name,
                             .operations = row->class->operations,
                             .liveness = row->class->liveness,
                             .self = row->self,
                             .outside = strcmp(row->origin, "built-in") != 0,
                             .earlier = atomic_load(&latest)};
    atomic_store_explicit(&latest, added, memory_order_release);
}

void lmc_py_note_built(lmc_composition *composition) {
    if (composition != NULL)
        lmc_py_server->lmc_composition_each(composition, note, NULL);
}

static bool insert_name(PyObject *list, const char *name) {
    PyObject *text = PyUnicode_FromString(name);
    bool inserted = text != NULL && PyList_Insert(list, 0, text) == 0;
    Py_XDECREF(text);
    return inserted;
}

PyObject *lmc_py_built_names(void) {
    PyObject *list = PyList_New(0);
    lmc_py_callee *at = atomic_load_explicit(&latest, memory_order_acquire);
    for (; list != NULL && at != NULL; at = at->earlier)
        if ((atomic_load(&at->state) & CLOSED) == 0 && !insert_name(list, at->name))
            Py_CLEAR(list);
    return list;
}

/* ---- called ---- */

lmc_py_callee *lmc_py_callee_enter(const char *name) {
    lmc_py_callee *callee = find(name);
    if (callee == NULL) {
        PyErr_Format(PyExc_RuntimeError, "%s is not built yet", name);
        return NULL;
    }
    if ((atomic_fetch_add(&callee->state, 1) & CLOSED) == 0)
        return callee;
    atomic_fetch_sub(&callee->state, 1);
    PyErr_Format(PyExc_RuntimeError, "%s is closed", name);
    return NULL;
}

void lmc_py_callee_leave(lmc_py_callee *callee) { atomic_fetch_sub(&callee->state, 1); }

static const lmc_operation *operation_of(const lmc_py_callee *callee, const char *name) {
    const lmc_operation *at = callee->operations;
    while (at != NULL && at->name != NULL && strcmp(at->name, name) != 0)
        at++;
    return at != NULL && at->name != NULL ? at : NULL;
}

/* One that ranks behind the callee, or is it: built earlier, or built in where it is not. */
static bool is_behind(const lmc_py_callee *callee, const lmc_py_callee *other, bool earlier) {
    return other->outside == callee->outside ? earlier : !other->outside;
}

/* Takes in the handlers of one kind, latest first; returns how many. */
static size_t collect(lmc_handler *chain, const lmc_py_callee *callee,
                      const lmc_operation_def *operation, bool outside) {
    bool earlier = false;
    size_t count = 0;
    for (const lmc_py_callee *at = atomic_load(&latest); at != NULL; at = at->earlier) {
        earlier |= at == callee;
        const lmc_operation *entry = operation_of(at, operation->name);
        if (at->outside != outside || entry == NULL || !is_behind(callee, at, earlier))
            continue;
        if (chain != NULL)
            chain[count] = (lmc_handler){.operation = operation,
                                         .entry = entry,
                                         .self = at->self,
                                         .owner = at->name,
                                         .outside = outside};
        count++;
    }
    return count;
}

lmc_handler *lmc_py_callee_chain(const lmc_py_callee *callee,
                                 const lmc_operation_def *operation) {
    size_t outside = collect(NULL, callee, operation, true);
    size_t count = outside + collect(NULL, callee, operation, false);
    lmc_handler *chain = calloc(count + 1, sizeof *chain);
    if (chain == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    collect(chain, callee, operation, true);
    collect(chain + outside, callee, operation, false);
    for (size_t i = 0; i + 1 < count; i++)
        chain[i].replaced = &chain[i + 1];
    return chain;
}

bool lmc_py_callee_handles(const lmc_py_callee *callee, const char *operation) {
    return operation_of(callee, operation) != NULL;
}

const lmc_liveness *lmc_py_callee_liveness(const lmc_py_callee *callee, void **self) {
    *self = callee->self;
    return callee->liveness;
}

/* ---- closed ---- */

void lmc_py_close_callee(const char *name) {
    lmc_py_callee *callee = find(name);
    if (callee == NULL)
        return;
    atomic_fetch_or(&callee->state, CLOSED);
    while ((atomic_load(&callee->state) & ~CLOSED) != 0) /* the one who closes has a limit */
        nanosleep(&(struct timespec){.tv_nsec = LMC_NS_PER_MS}, NULL);
}

void lmc_py_forget_callees(void) {
    lmc_py_callee *at = atomic_exchange(&latest, NULL);
    while (at != NULL) {
        lmc_py_callee *earlier = at->earlier;
        free(at);
        at = earlier;
    }
}
