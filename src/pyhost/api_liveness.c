/* _lmcache_host: the workers that modules of the server keep state for, as Python code asks. */
#include "pyhost/python.h"

#include "base/clock.h"

/* A target that has been entered; false with an exception, RuntimeError: it is none. */
typedef struct live_target {
    lmc_py_callee *callee;
    const lmc_liveness *liveness;
    void *self;
} live_target;

static bool enter(live_target *target, const char *name) {
    target->callee = lmc_py_is_child() ? NULL : lmc_py_callee_enter(name);
    if (target->callee == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "the server is not in this forked child");
        return false;
    }
    target->liveness = lmc_py_callee_liveness(target->callee, &target->self);
    if (target->liveness != NULL)
        return true;
    lmc_py_callee_leave(target->callee);
    PyErr_Format(PyExc_RuntimeError, "%s keeps no state of workers", name);
    return false;
}

static PyObject *tell(PyObject *arguments, bool drop) {
    const char *name;
    long long id;
    live_target target;
    if (!PyArg_ParseTuple(arguments, "sL", &name, &id) || !enter(&target, name))
        return NULL;
    void (*call)(void *self, int64_t instance_id) =
        drop ? target.liveness->drop_instance_state : target.liveness->touch_instance;
    Py_BEGIN_ALLOW_THREADS;
    if (call != NULL)
        call(target.self, id);
    lmc_py_callee_leave(target.callee);
    Py_END_ALLOW_THREADS;
    return Py_NewRef(Py_None);
}

static PyObject *touch(PyObject *module, PyObject *arguments) {
    (void)module;
    return tell(arguments, false);
}

static PyObject *drop(PyObject *module, PyObject *arguments) {
    (void)module;
    return tell(arguments, true);
}

static PyObject *tracked(PyObject *module, PyObject *arguments) {
    const char *name;
    live_target target;
    int64_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s", &name) || !enter(&target, name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (target.liveness->tracked_instance_count != NULL)
        count = target.liveness->tracked_instance_count(target.self);
    lmc_py_callee_leave(target.callee);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLongLong(count);
}

/* Called without the GIL. */
typedef struct reaped_ids {
    int64_t ids[1024];
    size_t count;
} reaped_ids;

static void found(void *arg, int64_t instance_id) {
    reaped_ids *reaped = arg;
    if (reaped->count < sizeof reaped->ids / sizeof reaped->ids[0])
        reaped->ids[reaped->count++] = instance_id;
}

static PyObject *reap(PyObject *module, PyObject *arguments) {
    const char *name;
    double timeout, grace;
    live_target target;
    reaped_ids reaped = {.count = 0};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sdd", &name, &timeout, &grace) || !enter(&target, name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (target.liveness->reap_stale_instances != NULL)
        target.liveness->reap_stale_instances(target.self, lmc_ns_of_seconds(timeout),
                                              lmc_ns_of_seconds(grace), found, &reaped);
    lmc_py_callee_leave(target.callee);
    Py_END_ALLOW_THREADS;
    PyObject *list = PyList_New((Py_ssize_t)reaped.count);
    for (size_t i = 0; list != NULL && i < reaped.count; i++) {
        PyObject *id = PyLong_FromLongLong(reaped.ids[i]);
        if (id == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, id);
    }
    return list;
}

PyMethodDef lmc_py_liveness_functions[] = {
    {"touch_instance", touch, METH_VARARGS, NULL},
    {"drop_instance_state", drop, METH_VARARGS, NULL},
    {"tracked_instance_count", tracked, METH_VARARGS, NULL},
    {"reap_stale_instances", reap, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
