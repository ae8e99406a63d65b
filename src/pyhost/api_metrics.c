/* _lmcache_host: metric families of modules in Python. */
#include "pyhost/python.h"

#include <ctype.h>

#include "base/bytes.h"
#include "base/error.h"

#define METRIC "lmcache.metric" /* name of the capsules */

/* "HelloModule" as "lmcached_module_hello_module". */
static void write_prefix(char *out, size_t room, const char *owner) {
    size_t used = (size_t)snprintf(out, room, "lmcached_module_");
    for (size_t i = 0; owner[i] != '\0' && used + 2 < room; i++) {
        unsigned char c = (unsigned char)owner[i];
        bool after_word = i > 0 && islower((unsigned char)owner[i - 1]);
        bool before_word = i > 0 && owner[i - 1] != '_' && islower((unsigned char)owner[i + 1]);
        if (isupper(c) && (after_word || before_word))
            out[used++] = '_';
        out[used++] = (char)tolower(c);
    }
    out[used] = '\0';
}

static PyObject *declare(PyObject *arguments, lmc_metric_type type) {
    const char *owner, *name, *help, *label;
    lmc_error error = LMC_ERROR_INIT;
    char prefix[160];
    if (!PyArg_ParseTuple(arguments, "sssz", &owner, &name, &help, &label))
        return NULL;
    lmc_context *context = lmc_py_server->context(lmc_py_server->arg);
    if (context == NULL || context->late_metrics == NULL)
        return Py_NewRef(Py_None);
    write_prefix(prefix, sizeof prefix, owner);
    lmc_metric *metric = lmc_py_server->lmc_late_metrics_declare(
        context->late_metrics, type, prefix, name, help, label, &error);
    if (metric == NULL) {
        PyErr_SetString(PyExc_ValueError, error.text);
        return NULL;
    }
    return PyCapsule_New(metric, METRIC, NULL);
}

static PyObject *metric_counter(PyObject *module, PyObject *arguments) {
    (void)module;
    return declare(arguments, LMC_COUNTER);
}

static PyObject *metric_gauge(PyObject *module, PyObject *arguments) {
    (void)module;
    return declare(arguments, LMC_GAUGE);
}

static bool read_metric(PyObject *capsule, lmc_metric **metric) {
    *metric = capsule != Py_None ? PyCapsule_GetPointer(capsule, METRIC) : NULL;
    return capsule == Py_None || *metric != NULL;
}

static PyObject *metric_add(PyObject *module, PyObject *arguments) {
    PyObject *capsule;
    const char *label;
    long long by;
    lmc_metric *metric;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OsL", &capsule, &label, &by) ||
        !read_metric(capsule, &metric))
        return NULL;
    lmc_py_server->lmc_metric_add(metric, lmc_text(label), by);
    return Py_NewRef(Py_None);
}

static PyObject *metric_set(PyObject *module, PyObject *arguments) {
    PyObject *capsule;
    const char *label;
    double to;
    lmc_metric *metric;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Osd", &capsule, &label, &to) ||
        !read_metric(capsule, &metric))
        return NULL;
    lmc_py_server->lmc_metric_set(metric, lmc_text(label), to);
    return Py_NewRef(Py_None);
}

PyMethodDef lmc_py_metric_functions[] = {
    {"metric_counter", metric_counter, METH_VARARGS, NULL},
    {"metric_gauge", metric_gauge, METH_VARARGS, NULL},
    {"metric_add", metric_add, METH_VARARGS, NULL},
    {"metric_set", metric_set, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
