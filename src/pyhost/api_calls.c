/* _lmcache_host: other modules and their operations, called from Python. */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"

/* ---- which modules there are ---- */

static PyObject *built_modules(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return lmc_py_built_names();
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

/* What a call needs of the module that it goes to. */
typedef struct call_target {
    lmc_py_callee *callee;
    const lmc_handler *handler;
    lmc_handler *made; /* NULL: the handler is the registry's */
} call_target;

/* The module's own handler, wherever it stands in the chain; before there is a registry, one
 * that is made for this call. */
static void find_handler(call_target *target, const char *module,
                         const lmc_operation_def *operation) {
    lmc_registry *registry = lmc_py_server->registry(lmc_py_server->arg);
    if (registry == NULL) {
        target->made = lmc_py_callee_chain(target->callee, operation);
        target->handler = target->made;
        return;
    }
    target->handler = lmc_py_server->lmc_registry_find(registry, operation);
    while (target->handler != NULL && strcmp(target->handler->owner, module) != 0)
        target->handler = target->handler->replaced;
}

/* False with an exception; leave_target() is due in any case. */
static bool enter_target(call_target *target, const char *module, const char *operation) {
    const lmc_operation_def *definition = lmc_operation_by_name(lmc_text(operation));
    if (lmc_py_is_child())
        PyErr_SetString(PyExc_RuntimeError, "the server is not in this forked child");
    else
        target->callee = lmc_py_callee_enter(module);
    if (target->callee == NULL)
        return false;
    if (definition != NULL && lmc_py_callee_handles(target->callee, operation))
        find_handler(target, module, definition);
    if (target->handler == NULL && !PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "%s does not handle '%s'", module, operation);
    return target->handler != NULL;
}

static void leave_target(call_target *target) {
    free(target->made);
    if (target->callee != NULL)
        lmc_py_callee_leave(target->callee);
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
    call_target target = {0};
    (void)module;
    if (!PyArg_ParseTuple(given, "ssO!", &name, &operation, &PyTuple_Type, &arguments))
        return NULL;
    PyObject *result = NULL;
    if (enter_target(&target, name, operation) &&
        pack_request(&packed, target.handler->operation, arguments))
        result = run(target.handler, &packed);
    lmc_buffer_fini(&packed.bytes);
    if (result != NULL && PyList_Check(result) &&
        (target.handler->operation->reply->form == LMC_FORM_RESULT ||
         target.handler->operation->reply->form == LMC_FORM_TUPLE))
        Py_SETREF(result, PyList_AsTuple(result));
    leave_target(&target);
    return result;
}

PyMethodDef lmc_py_call_functions[] = {
    {"built_modules", built_modules, METH_NOARGS, NULL},
    {"module_operations", module_operations, METH_O, NULL},
    {"call_operation", call_operation, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
