/* Requests that Python answers: from the call to the function and back. */
#include "pyhost/python.h"

#include "base/bytes.h"
#include "base/error.h"
#include "pyhost/call_of.h"

#define LEND_FROM ((size_t)64 << 10) /* smaller results are copied, not lent */

static _Thread_local uint64_t connection; /* of the request that is being answered */

uint64_t lmc_py_connection(void) { return connection; }

/* How a call ends, decided with the GIL and carried out without it. */
typedef struct outcome {
    lmc_status status;
    char *text; /* NULL: none */
} outcome;

static void finish(lmc_call *call, outcome *end) {
    if (end->text != NULL)
        lmc_py_server->lmc_fail(call, end->status, end->text);
    else
        lmc_py_server->lmc_complete(call, end->status);
    free(end->text);
}

/* The current exception is the outcome; its traceback goes to the log. */
static void take_failure(const lmc_py_module *module, outcome *end) {
    static lmc_log_limit limit;
    lmc_py_failure failure;
    lmc_py_failure_take(&failure);
    if (lmc_py_server->lmc_log_allow(&limit, NULL))
        lmc_py_failure_log(&failure, module->logger);
    end->status = LMC_FAILED;
    end->text = failure.text;
    failure.text = NULL;
    lmc_py_failure_drop(&failure);
}

static outcome closed(void) {
    if (lmc_py_is_child())
        lmc_py_end_child(0);
    return (outcome){.status = LMC_CLOSED};
}

/* ---- envelopes ---- */

static const lmc_py_method *find_method(const lmc_py_module *module, lmc_slice name) {
    size_t low = 0, high = module->method_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        lmc_slice there = lmc_text(module->methods[middle].name);
        size_t shared = there.size < name.size ? there.size : name.size;
        int order = memcmp(there.data, name.data, shared);
        if (order == 0 && there.size == name.size)
            return &module->methods[middle];
        if (order < 0 || (order == 0 && there.size < name.size))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static PyObject *join_payload(const lmc_pieces *payload) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)payload->size);
    char *at = bytes != NULL ? PyBytes_AS_STRING(bytes) : NULL;
    for (size_t i = 0; at != NULL && i < payload->count; i++) {
        memcpy(at, payload->items[i].data, payload->items[i].size);
        at += payload->items[i].size;
    }
    return bytes;
}

typedef struct lent {
    Py_buffer view;
} lent;

static void give_back(void *arg) {
    lent *bytes = arg;
    bool entered = lmc_py_enter_any();
    if (entered || PyGILState_Check())
        PyBuffer_Release(&bytes->view);
    if (entered)
        lmc_py_leave();
    free(bytes);
}

/* Takes over the view. */
static bool lend(lmc_call *call, lmc_pieces *out, Py_buffer *view) {
    lent *bytes = malloc(sizeof *bytes);
    if (bytes != NULL) {
        bytes->view = *view;
        if (lmc_py_server->lmc_call_lend(call, out, view->buf, (size_t)view->len, give_back,
                                         bytes))
            return true;
        free(bytes);
    }
    PyBuffer_Release(view);
    return false;
}

static lmc_status reply_bytes(lmc_call *call, lmc_pieces *out, PyObject *result) {
    Py_buffer view;
    if (PyObject_GetBuffer(result, &view, PyBUF_SIMPLE) < 0)
        return LMC_FAILED;
    if ((size_t)view.len >= LEND_FROM)
        return lend(call, out, &view) ? LMC_OK : LMC_NO_MEMORY;
    bool copied = lmc_py_server->lmc_call_copy(call, out, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return copied ? LMC_OK : LMC_NO_MEMORY;
}

static void refuse_type(const char *method, PyObject *result) {
    PyErr_Format(lmc_py_start_error, "server module method %s returned %.200s, expected bytes",
                 method, Py_TYPE(result)->tp_name);
    if (PyCoro_CheckExact(result)) { /* it would complain that it was never awaited */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_XDECREF(PyObject_CallMethod(result, "close", NULL));
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    }
}

static outcome call_method(lmc_py_module *module, const lmc_py_method *method, lmc_call *call,
                           const lmc_server_module_call_request *request) {
    lmc_server_module_call_reply *reply = lmc_call_reply_of(call);
    outcome end = {.status = LMC_OK};
    PyObject *payload = join_payload(&request->payload);
    PyObject *result = payload != NULL ? PyObject_CallOneArg(method->function, payload) : NULL;
    Py_XDECREF(payload);
    if (lmc_py_is_child() && result != NULL)
        lmc_py_end_child(0);
    if (result != NULL && PyObject_CheckBuffer(result))
        end.status = reply_bytes(call, &reply->payload, result);
    else if (result != NULL)
        refuse_type(method->name, result);
    if (PyErr_Occurred())
        take_failure(module, &end);
    Py_XDECREF(result);
    return end;
}

void lmc_py_handle_envelope(void *self, lmc_call *call) {
    lmc_py_module *module = self;
    const lmc_server_module_call_request *request = lmc_call_request_of(call);
    const lmc_py_method *method = find_method(module, request->method);
    outcome end = {.status = LMC_NOT_FOUND};
    if (method != NULL && lmc_py_enter()) {
        connection = lmc_call_exchange(call)->peer->id;
        end = call_method(module, method, call, request);
        connection = 0;
        lmc_py_leave();
    } else if (method != NULL) {
        end = closed();
    }
    finish(call, &end);
}

/* ---- operations ---- */

/* The result as the reply struct: by way of its wire form, which checks it. */
static lmc_status fill_reply(lmc_call *call, const lmc_operation_def *operation,
                             PyObject *result) {
    lmc_buffer frame = LMC_BUFFER_INIT;
    lmc_error error = LMC_ERROR_INIT;
    lmc_arena *arena = lmc_call_arena(call);
    bool pending = false;
    bool packed = lmc_py_pack_result(&frame, operation, result, &pending);
    lmc_status status = pending ? LMC_AGAIN : LMC_OK;
    char *kept = packed && frame.size > 0 ? lmc_arena_alloc(arena, frame.size) : NULL;
    if (kept != NULL) {
        memcpy(kept, frame.data, frame.size);
        if (lmc_zmq_decode_reply(operation, lmc_slice_of(kept, frame.size), arena,
                                 lmc_call_reply_of(call), &error) != LMC_OK)
            PyErr_Format(PyExc_TypeError, "the result of '%s' is not what it should be: %s",
                         operation->name, error.text);
    } else if (packed && frame.size > 0) {
        status = LMC_NO_MEMORY;
    }
    lmc_buffer_fini(&frame);
    return PyErr_Occurred() ? LMC_FAILED : status;
}

static outcome call_function(lmc_py_module *module, const lmc_py_handler *handler,
                             lmc_call *call, const lmc_operation_def *operation) {
    outcome end = {.status = LMC_FAILED};
    PyObject *arguments =
        lmc_py_arguments(operation, lmc_call_request_of(call), handler->arity);
    PyObject *result =
        arguments != NULL ? PyObject_CallObject(handler->function, arguments) : NULL;
    Py_XDECREF(arguments);
    if (lmc_py_is_child() && result != NULL)
        lmc_py_end_child(0);
    if (result != NULL)
        end.status = fill_reply(call, operation, result);
    Py_XDECREF(result);
    if (PyErr_Occurred())
        take_failure(module, &end);
    return end;
}

void lmc_py_handle_operation(void *self, lmc_call *call) {
    lmc_py_module *module = self;
    /* By our own table, whose messages the types are kept for. */
    const lmc_operation_def *operation =
        lmc_operation_at(lmc_call_exchange(call)->operation->index);
    outcome end = {.status = LMC_NOT_FOUND};
    if (lmc_py_enter()) {
        connection = lmc_call_exchange(call)->peer->id;
        const lmc_py_handler *handler = &module->handlers[operation->index];
        if (handler->function != NULL)
            end = call_function(module, handler, call, operation);
        connection = 0;
        lmc_py_leave();
    } else {
        end = closed();
    }
    finish(call, &end);
}
