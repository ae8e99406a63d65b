/* _lmcache_host: other modules and their operations, called from Python. */
#include "pyhost/python.h"

#include "base/bytes.h"
#include "base/error.h"

/* ---- which modules there are ---- */

static void append_name(void *arg, const lmc_module_row *row) {
    PyObject *list = *(PyObject **)arg;
    PyObject *name = list != NULL ? PyUnicode_FromString(row->name) : NULL;
    if (name != NULL && PyList_Append(list, name) < 0)
        Py_CLEAR(*(PyObject **)arg);
    Py_XDECREF(name);
}

static PyObject *built_modules(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    PyObject *list = PyList_New(0);
    lmc_composition *composition = lmc_py_composition;
    if (composition == NULL)
        composition = lmc_py_server->composition(lmc_py_server->arg);
    if (composition != NULL)
        lmc_py_server->lmc_composition_each(composition, append_name, &list);
    return list;
}

static const lmc_module_class *find_class(const char *name) {
    for (size_t i = 0; i < lmc_py_options->class_count; i++)
        if (strcmp(lmc_py_options->classes[i]->name, name) == 0)
            return lmc_py_options->classes[i];
    return NULL;
}

static PyObject *module_operations(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    const lmc_module_class *class = text != NULL ? find_class(text) : NULL;
    if (class == NULL)
        return text != NULL ? PyErr_Format(PyExc_KeyError, "%s", text) : NULL;
    PyObject *list = PyList_New(0);
    for (const lmc_operation *at = class->operations;
         list != NULL && at != NULL && at->name != NULL; at++) {
        PyObject *operation = PyUnicode_FromString(at->name);
        if (operation == NULL || PyList_Append(list, operation) < 0)
            Py_CLEAR(list);
        Py_XDECREF(operation);
    }
    return list;
}

/* ---- calling ---- */

/* The module's own handler, wherever it stands in the chain. */
static const lmc_handler *find_handler(const char *module, const char *operation) {
    lmc_registry *registry =
        lmc_py_is_child() ? NULL : lmc_py_server->registry(lmc_py_server->arg);
    const lmc_operation_def *definition = lmc_operation_by_name(lmc_text(operation));
    if (registry == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "operations can be called once all modules are built");
        return NULL;
    }
    const lmc_handler *at =
        definition != NULL ? lmc_py_server->lmc_registry_find(registry, definition) : NULL;
    while (at != NULL && strcmp(at->owner, module) != 0)
        at = at->replaced;
    if (at == NULL)
        PyErr_Format(PyExc_KeyError, "%s does not handle '%s'", module, operation);
    return at;
}

typedef struct packed_request {
    lmc_buffer bytes;
    size_t ends[LMC_FRAMES_MAX];
    size_t count;
} packed_request;

/* One frame per member, or one for the whole message. */
static bool pack_request(packed_request *packed, const lmc_operation_def *operation,
                         PyObject *arguments) {
    const lmc_message_def *message = operation->request;
    bool whole = message->form == LMC_FORM_MAP;
    Py_ssize_t most = whole ? 1 : (Py_ssize_t)message->member_count;
    Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    if (count > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments but %zd were given",
                     operation->name, most, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GET_ITEM(arguments, i);
        if (!(whole ? lmc_py_pack_message(&packed->bytes, message, value)
                    : lmc_py_pack_member(&packed->bytes, &message->members[i], value)))
            return false;
        packed->ends[packed->count++] = packed->bytes.size;
    }
    if (packed->bytes.failed)
        PyErr_NoMemory();
    return !packed->bytes.failed;
}

static PyObject *run(const lmc_handler *handler, const packed_request *packed) {
    lmc_slice frames[LMC_FRAMES_MAX];
    lmc_buffer frame = LMC_BUFFER_INIT;
    lmc_error error = LMC_ERROR_INIT;
    bool has_frame = false;
    for (size_t i = 0; i < packed->count; i++) {
        size_t from = i > 0 ? packed->ends[i - 1] : 0;
        frames[i] = lmc_slice_of(packed->bytes.data + from, packed->ends[i] - from);
    }
    lmc_inner_call call = {.handler = handler,
                           .dispatcher = lmc_py_server->dispatcher(lmc_py_server->arg),
                           .frames = frames,
                           .frame_count = packed->count,
                           .connection = lmc_py_connection()};
    lmc_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = lmc_py_server->lmc_inner_call_run(&call, &frame, &has_frame, &error);
    Py_END_ALLOW_THREADS;
    PyObject *result = NULL;
    if (status != LMC_OK)
        PyErr_SetString(PyExc_RuntimeError, error.text);
    else if (!has_frame)
        result = Py_NewRef(Py_None);
    else
        result = lmc_py_from_msgpack(lmc_slice_of(frame.data, frame.size));
    lmc_buffer_fini(&frame);
    return result;
}

static PyObject *call_operation(PyObject *module, PyObject *given) {
    const char *name, *operation;
    PyObject *arguments;
    packed_request packed = {0};
    (void)module;
    if (!PyArg_ParseTuple(given, "ssO!", &name, &operation, &PyTuple_Type, &arguments))
        return NULL;
    const lmc_handler *handler = find_handler(name, operation);
    PyObject *result = NULL;
    if (handler != NULL && pack_request(&packed, handler->operation, arguments))
        result = run(handler, &packed);
    lmc_buffer_fini(&packed.bytes);
    if (result != NULL && PyList_Check(result) &&
        (handler->operation->reply->form == LMC_FORM_RESULT ||
         handler->operation->reply->form == LMC_FORM_TUPLE))
        Py_SETREF(result, PyList_AsTuple(result));
    return result;
}

PyMethodDef lmc_py_call_functions[] = {
    {"built_modules", built_modules, METH_NOARGS, NULL},
    {"module_operations", module_operations, METH_O, NULL},
    {"call_operation", call_operation, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
