/* Classes in Python as module classes: from their description to built, and closed. */
#include "pyhost/python.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "module/build.h"

static lmc_py_module **modules;
static size_t module_count;
static bool subscribers_stopped;
lmc_py_module *lmc_py_current;
lmc_zmq_server *lmc_py_zmq_server;

size_t lmc_py_class_count(void) { return module_count; }

const lmc_module_class *lmc_py_class_at(size_t index, const char **module_path) {
    *module_path = modules[index]->module_path;
    return &modules[index]->class;
}

PyObject *lmc_py_ask(const char *name, const lmc_py_module *module) {
    return PyObject_CallMethod(lmc_py_bootstrap, name, "n", (Py_ssize_t)module->index);
}

/* ---- reading dicts of the package ---- */

/* Borrowed; TypeError when it is missing. */
static PyObject *get(PyObject *dict, const char *name) {
    PyObject *value = PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : NULL;
    if (value == NULL)
        PyErr_Format(PyExc_TypeError, "lmcache._bootstrap gave no '%s'", name);
    return value;
}

/* A copy; NULL with an exception, or without one for None. */
static char *get_text(PyObject *dict, const char *name) {
    PyObject *value = get(dict, name);
    if (value == NULL || value == Py_None)
        return NULL;
    const char *text = PyUnicode_AsUTF8(value);
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        PyErr_NoMemory();
    return copy;
}

static int get_bool(PyObject *dict, const char *name) {
    PyObject *value = get(dict, name);
    return value != NULL ? PyObject_IsTrue(value) : -1;
}

static lmc_status create(lmc_build *lent, void **self, lmc_error *error);
static void close_module(void *self);
static lmc_status register_zmq(void *self, lmc_zmq_server *server, lmc_error *error);
static lmc_status register_grpc(void *self, lmc_grpc_server *server, lmc_error *error);

/* ---- classes ---- */

static bool is_class_name(const char *name) {
    bool good = *name != '\0';
    for (; *name != '\0'; name++)
        good = good && (isalnum((unsigned char)*name) || *name == '_');
    return good;
}

static bool take_depends(lmc_py_module *module, PyObject *row) {
    PyObject *names = get(row, "dependencies");
    PyObject *fast = names != NULL ? PySequence_Fast(names, "dependencies is no list") : NULL;
    Py_ssize_t count = fast != NULL ? PySequence_Fast_GET_SIZE(fast) : 0;
    module->depends = calloc((size_t)count + 1, sizeof *module->depends);
    bool taken = fast != NULL && module->depends != NULL;
    for (Py_ssize_t i = 0; taken && i < count; i++) {
        const char *name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(fast, i));
        module->depends[i] = name != NULL ? strdup(name) : NULL;
        taken = module->depends[i] != NULL;
    }
    Py_XDECREF(fast);
    return taken;
}

static void fill_class(lmc_py_module *module, bool deferred) {
    snprintf(module->logger, sizeof module->logger, "lmcache.module.%.100s", module->name);
    module->class = (lmc_module_class){
        .size = sizeof module->class,
        .flags = deferred ? LMC_MODULE_DEFERRED : 0,
        .name = module->name,
        .version = module->version,
        .depends = (const char *const *)module->depends,
        .create = create,
        .close = close_module,
        .report_status = lmc_py_report_status,
        .operations = module->operations,
        .envelopes = module->envelopes,
    };
}

static bool describe(lmc_py_module *module, PyObject *row) {
    module->name = get_text(row, "name");
    module->module_path = get_text(row, "module_path");
    module->version = get_text(row, "version");
    int deferred = get_bool(row, "deferred");
    module->envelopes = calloc(LMC_PY_METHODS_MAX + 1, sizeof *module->envelopes);
    if (PyErr_Occurred() || !take_depends(module, row))
        return false;
    if (module->name == NULL || module->module_path == NULL || module->envelopes == NULL) {
        PyErr_NoMemory();
        return false;
    }
    if (!is_class_name(module->name)) {
        PyErr_Format(PyExc_ValueError, "'%s' is no name for a server module", module->name);
        return false;
    }
    fill_class(module, deferred > 0);
    return true;
}

/* One more, without anything in it yet; NULL with an exception. */
static lmc_py_module *add_module(size_t index) {
    lmc_py_module **grown = realloc(modules, (module_count + 1) * sizeof(lmc_py_module *));
    lmc_py_module *added = calloc(1, sizeof *added);
    if (grown != NULL)
        modules = grown;
    if (grown == NULL || added == NULL) {
        free(added);
        PyErr_NoMemory();
        return NULL;
    }
    added->index = index;
    modules[module_count++] = added;
    return added;
}

/* ---- build ---- */

static lmc_py_module *find_module(const char *name) {
    for (size_t i = 0; i < module_count; i++)
        if (strcmp(modules[i]->name, name) == 0)
            return modules[i];
    return NULL;
}

static bool take_operation(lmc_py_module *module, size_t at, PyObject *row) {
    PyObject *name = get(row, "operation"), *type = get(row, "handler_type");
    PyObject *function = get(row, "handler"), *arity = get(row, "arity");
    int affinity = get_bool(row, "affinity");
    if (PyErr_Occurred())
        return false;
    const char *text = PyUnicode_AsUTF8(name), *kind = PyUnicode_AsUTF8(type);
    if (text == NULL || kind == NULL)
        return false;
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text(text));
    if (operation == NULL || at >= LMC_OP_COUNT) {
        PyErr_SetObject(PyExc_KeyError, name);
        return false;
    }
    lmc_py_handler *handler = &module->handlers[operation->index];
    Py_XSETREF(handler->function, Py_NewRef(function));
    handler->arity = PyLong_AsSsize_t(arity);
    module->operations[at] = (lmc_operation){
        .name = operation->name,
        .scheduling = strcmp(kind, "SYNC") == 0 ? LMC_SYNC
                      : affinity                ? LMC_AFFINITY
                                                : LMC_NORMAL,
        .handle = lmc_py_handle_operation,
    };
    return !PyErr_Occurred();
}

static bool take_operations(lmc_py_module *module, PyObject *built) {
    PyObject *rows = get(built, "operations");
    PyObject *fast = rows != NULL ? PySequence_Fast(rows, "operations is no list") : NULL;
    bool taken = fast != NULL;
    for (Py_ssize_t i = 0; taken && i < PySequence_Fast_GET_SIZE(fast); i++)
        taken = take_operation(module, (size_t)i, PySequence_Fast_GET_ITEM(fast, i));
    Py_XDECREF(fast);
    return taken;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const lmc_py_method *)a)->name, ((const lmc_py_method *)b)->name);
}

static bool take_method(lmc_py_module *module, PyObject *row) {
    char *name = get_text(row, "method");
    PyObject *function = name != NULL ? get(row, "handler") : NULL;
    if (function == NULL) {
        free(name);
        return false;
    }
    module->methods[module->method_count++] = (lmc_py_method){name, Py_NewRef(function)};
    return true;
}

static bool take_methods(lmc_py_module *module, PyObject *built) {
    PyObject *rows = get(built, "envelopes");
    PyObject *fast = rows != NULL ? PySequence_Fast(rows, "envelopes is no list") : NULL;
    Py_ssize_t count = fast != NULL ? PySequence_Fast_GET_SIZE(fast) : 0;
    bool taken = fast != NULL && count <= LMC_PY_METHODS_MAX;
    if (fast != NULL && !taken)
        PyErr_Format(PyExc_ValueError, "more than %d server module methods",
                     LMC_PY_METHODS_MAX);
    module->methods = calloc((size_t)count + 1, sizeof *module->methods);
    for (Py_ssize_t i = 0; taken && module->methods != NULL && i < count; i++)
        taken = take_method(module, PySequence_Fast_GET_ITEM(fast, i));
    Py_XDECREF(fast);
    if (!taken || module->methods == NULL)
        return false;
    qsort(module->methods, module->method_count, sizeof *module->methods, by_name);
    for (size_t i = 0; i < module->method_count; i++)
        module->envelopes[i] =
            (lmc_envelope){.method = module->methods[i].name, .handle = lmc_py_handle_envelope};
    return true;
}

static bool take_liveness(lmc_py_module *module, PyObject *built) {
    PyObject *row = get(built, "liveness");
    if (row == NULL || row == Py_None)
        return row != NULL;
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != LMC_PY_LIVENESS) {
        PyErr_SetString(PyExc_TypeError, "liveness is no tuple of four methods");
        return false;
    }
    for (Py_ssize_t i = 0; i < LMC_PY_LIVENESS; i++)
        Py_XSETREF(module->liveness[i], Py_NewRef(PyTuple_GET_ITEM(row, i)));
    module->class.liveness = &lmc_py_liveness;
    return true;
}

static bool take_registrars(lmc_py_module *module, PyObject *built) {
    int zmq = get_bool(built, "registers_zmq"), grpc = get_bool(built, "registers_grpc");
    module->class.register_zmq = zmq > 0 ? register_zmq : NULL;
    module->class.register_grpc = grpc > 0 ? register_grpc : NULL;
    return !PyErr_Occurred();
}

static bool take_built(lmc_py_module *module, PyObject *built) {
    PyObject *instance = get(built, "instance");
    if (instance == NULL || !take_operations(module, built) || !take_methods(module, built) ||
        !take_liveness(module, built) || !take_registrars(module, built))
        return false;
    module->instance = Py_NewRef(instance);
    return true;
}

/* A module that the factory made: an entry of its own, which it is not in load()'s list. */
static lmc_status add_made(lmc_build *lent, PyObject *row, lmc_error *error) {
    PyObject *index = get(row, "index");
    lmc_py_module *made = index != NULL ? add_module(PyLong_AsSize_t(index)) : NULL;
    if (made == NULL || PyErr_Occurred() || !describe(made, row) || !take_built(made, row))
        return lmc_py_fail(error, "");
    return lmc_py_server->lmc_build_add(lent, &made->class, made, error);
}

static lmc_status add_all_made(lmc_build *lent, PyObject *rows, lmc_error *error) {
    PyObject *fast = PySequence_Fast(rows, "made is no list");
    lmc_status status = LMC_DECLINED; /* the factory itself is no module */
    if (fast == NULL)
        return lmc_py_fail(error, "");
    for (Py_ssize_t i = 0; status == LMC_DECLINED && i < PySequence_Fast_GET_SIZE(fast); i++)
        if (add_made(lent, PySequence_Fast_GET_ITEM(fast, i), error) != LMC_OK)
            status = LMC_FAILED;
    Py_DECREF(fast);
    return status;
}

static lmc_status build(lmc_build *lent, lmc_py_module *module, lmc_error *error) {
    lmc_py_current = module;
    PyObject *built = lmc_py_ask("create", module);
    lmc_py_current = NULL;
    PyObject *made =
        built != NULL && PyDict_Check(built) ? PyDict_GetItemString(built, "made") : NULL;
    lmc_status status = LMC_OK;
    if (built == Py_None)
        status = LMC_DECLINED;
    else if (made != NULL)
        status = add_all_made(lent, made, error);
    else if (built == NULL || !take_built(module, built))
        status = lmc_py_fail(error, "");
    Py_XDECREF(built);
    return status;
}

static lmc_status create(lmc_build *lent, void **self, lmc_error *error) {
    lmc_py_module *module = find_module(lent->class->name);
    if (module == NULL || !lmc_py_enter())
        return lmc_error_set(error, LMC_CLOSED, "the Python interpreter has ended");
    lmc_py_keep_signals();
    lmc_py_note_built(lent->composition);
    lmc_status status = build(lent, module, error);
    lmc_py_restore_signals(module->name);
    lmc_py_leave();
    *self = module;
    if (status == LMC_OK)
        *lent->own_class = module->class;
    return status;
}

/* ---- registrars, the end ---- */

static lmc_status register_zmq(void *self, lmc_zmq_server *server, lmc_error *error) {
    lmc_py_module *module = self;
    if (!lmc_py_enter())
        return lmc_error_set(error, LMC_CLOSED, "the Python interpreter has ended");
    lmc_py_keep_signals();
    lmc_py_current = module;
    lmc_py_zmq_server = server;
    PyObject *result = lmc_py_ask("register_zmq", module);
    lmc_status status = result != NULL ? LMC_OK : lmc_py_fail(error, "");
    Py_XDECREF(result);
    lmc_py_current = NULL;
    lmc_py_zmq_server = NULL;
    lmc_py_restore_signals(module->name);
    lmc_py_leave();
    return status;
}

/* There is no gRPC transport that would call it yet; the package says so. */
static lmc_status register_grpc(void *self, lmc_grpc_server *server, lmc_error *error) {
    (void)self;
    (void)server;
    return lmc_error_set(error, LMC_FAILED, "there is no gRPC transport");
}

/* The bus has stopped before the first module is closed. */
static void stop_subscribers(void) {
    if (subscribers_stopped)
        return;
    subscribers_stopped = true;
    PyObject *result = PyObject_CallMethod(lmc_py_bootstrap, "stop_subscribers", NULL);
    if (result == NULL)
        lmc_py_report("lmcache.python", NULL, "stopping event subscribers failed");
    Py_XDECREF(result);
}

static void forget(lmc_py_module *module) {
    Py_CLEAR(module->instance);
    for (size_t i = 0; i < LMC_OP_COUNT; i++)
        Py_CLEAR(module->handlers[i].function);
    for (size_t i = 0; i < module->method_count; i++)
        Py_CLEAR(module->methods[i].function);
    for (size_t i = 0; i < LMC_PY_LIVENESS; i++)
        Py_CLEAR(module->liveness[i]);
}

static void close_module(void *self) {
    lmc_py_module *module = self;
    char headline[160];
    if (!lmc_py_enter())
        return;
    lmc_py_keep_signals();
    stop_subscribers();
    PyObject *result = lmc_py_ask("close", module);
    snprintf(headline, sizeof headline, "close() of server module %s failed", module->name);
    if (result == NULL)
        lmc_py_report(module->logger, NULL, headline);
    Py_XDECREF(result);
    forget(module);
    lmc_py_restore_signals(module->name);
    lmc_py_leave();
}

/* ---- load ---- */

static bool take_rows(PyObject *rows) {
    PyObject *fast = PySequence_Fast(rows, "lmcache._bootstrap.load() gave no list");
    bool taken = fast != NULL;
    for (Py_ssize_t i = 0; taken && i < PySequence_Fast_GET_SIZE(fast); i++) {
        lmc_py_module *module = add_module((size_t)i);
        taken = module != NULL && describe(module, PySequence_Fast_GET_ITEM(fast, i));
    }
    Py_XDECREF(fast);
    return taken;
}

static PyObject *class_names(size_t from, size_t to) {
    PyObject *list = PyList_New(0);
    for (size_t i = from; list != NULL && i < to; i++) {
        PyObject *name = PyUnicode_FromString(lmc_py_options->classes[i]->name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

lmc_status lmc_py_load(lmc_error *error) {
    const lmc_pyhost_options *options = lmc_py_options;
    if (!lmc_py_enter())
        return lmc_error_set(error, LMC_CLOSED, "the Python interpreter has ended");
    lmc_py_keep_signals();
    PyObject *built_in = class_names(0, options->built_in_count);
    PyObject *native = class_names(options->built_in_count, options->class_count);
    PyObject *rows = built_in != NULL && native != NULL
                         ? PyObject_CallMethod(lmc_py_bootstrap, "load", "OO", built_in, native)
                         : NULL;
    lmc_status status = rows != NULL && take_rows(rows) ? LMC_OK : lmc_py_fail(error, "");
    Py_XDECREF(rows);
    Py_XDECREF(native);
    Py_XDECREF(built_in);
    lmc_py_restore_signals("a server module");
    lmc_py_leave();
    return status;
}

void lmc_py_drop_classes(void) {
    for (size_t i = 0; i < module_count; i++) {
        lmc_py_module *module = modules[i];
        for (size_t k = 0; k < module->method_count; k++)
            free(module->methods[k].name);
        for (size_t k = 0; module->depends != NULL && module->depends[k] != NULL; k++)
            free(module->depends[k]);
        free(module->depends);
        free(module->methods);
        free(module->envelopes);
        free(module->module_path);
        free(module->version);
        free(module->name);
        free(module);
    }
    free(modules);
    modules = NULL;
    module_count = 0;
    subscribers_stopped = false;
}
