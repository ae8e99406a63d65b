/* _lmcache_host: what a module may do inside register_zmq_services(). Main thread. */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "module/registrar.h"

static bool check_inside(void) {
    if (lmc_py_zmq_server != NULL && lmc_py_current != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "only inside register_zmq_services()");
    return false;
}

static PyObject *add_handler(PyObject *module, PyObject *arguments) {
    const char *name, *type;
    int affinity;
    PyObject *function;
    Py_ssize_t arity;
    lmc_error error = LMC_ERROR_INIT;
    (void)module;
    if (!check_inside() ||
        !PyArg_ParseTuple(arguments, "sspOn", &name, &type, &affinity, &function, &arity))
        return NULL;
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text(name));
    if (operation == NULL)
        return PyErr_Format(PyExc_KeyError, "%s", name);
    uint32_t scheduling = strcmp(type, "SYNC") == 0 ? LMC_SYNC
                          : affinity                ? LMC_AFFINITY
                                                    : LMC_NORMAL;
    lmc_py_handler *handler = &lmc_py_current->handlers[operation->index];
    Py_XSETREF(handler->function, Py_NewRef(function));
    handler->arity = arity;
    if (lmc_py_server->lmc_zmq_server_add_handler(lmc_py_zmq_server, operation->name,
                                                  scheduling, lmc_py_handle_operation,
                                                  &error) != LMC_OK)
        return PyErr_Format(PyExc_ValueError, "%s", error.text);
    return Py_NewRef(Py_None);
}

/* Terminated names, borrowed from the list; free() the array. */
static const char **read_names(PyObject *fast) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    if (names == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; names != NULL && i < count; i++) {
        names[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(fast, i));
        if (names[i] == NULL) {
            free(names);
            return NULL;
        }
    }
    return names;
}

static PyObject *add_pool(PyObject *module, PyObject *arguments) {
    PyObject *list;
    long workers;
    int affinity;
    lmc_error error = LMC_ERROR_INIT;
    (void)module;
    if (!check_inside() || !PyArg_ParseTuple(arguments, "Olp", &list, &workers, &affinity))
        return NULL;
    PyObject *fast = PySequence_Fast(list, "operations must be a list");
    const char **names = fast != NULL ? read_names(fast) : NULL;
    lmc_status status = LMC_OK;
    if (names != NULL)
        status = (affinity ? lmc_py_server->lmc_zmq_server_add_affinity_pool
                           : lmc_py_server->lmc_zmq_server_add_normal_pool)(
            lmc_py_zmq_server, names, workers > 0 ? (uint32_t)workers : 1, &error);
    Py_XDECREF(fast);
    free(names);
    if (status != LMC_OK)
        PyErr_SetString(strstr(error.text, "SyncRequestHandler") != NULL ? PyExc_TypeError
                                                                         : PyExc_ValueError,
                        error.text);
    if (PyErr_Occurred())
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *handlers(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    lmc_registry *registry = lmc_py_zmq_server != NULL
                                 ? lmc_py_zmq_server->registry
                                 : lmc_py_server->registry(lmc_py_server->arg);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && registry != NULL && i < lmc_operation_count(); i++) {
        const lmc_operation_def *operation = lmc_operation_at(i);
        const lmc_handler *winner = lmc_py_server->lmc_registry_find(registry, operation);
        if (winner == NULL)
            continue;
        uint32_t scheduling = winner->entry->scheduling;
        PyObject *type = PyUnicode_FromString(scheduling == LMC_SYNC       ? "SYNC"
                                              : scheduling == LMC_AFFINITY ? "AFFINITY"
                                                                           : "BLOCKING");
        if (type == NULL || PyDict_SetItemString(dict, operation->name, type) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(type);
    }
    return dict;
}

PyMethodDef lmc_py_registrar_functions[] = {
    {"zmq_add_handler", add_handler, METH_VARARGS, NULL},
    {"zmq_add_pool", add_pool, METH_VARARGS, NULL},
    {"zmq_handlers", handlers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
