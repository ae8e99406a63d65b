/* _lmcache_host: operations and messages as data, MessagePack. */
#include "pyhost/python.h"

#include "base/bytes.h"

static const char *kind_name(lmc_kind kind) {
    static const char *const names[LMC_KINDS] = {
        "INT",    "BOOL",    "FLOAT",     "TEXT",        "TAG",    "BYTES", "DATA",
        "TOKENS", "INTS",    "INT_LISTS", "BOOL_LISTS",  "TEXTS",  "BLOBS", "WRAPPERS",
        "MAP",    "MESSAGE", "LIST",      "SPARSE_LIST", "ENTRIES"};
    return names[kind];
}

static const char *presence_name(lmc_presence presence) {
    static const char *const names[] = {"REQUIRED", "DEFAULT",  "ZMQ_DEFAULT",
                                        "OPTIONAL", "NULLABLE", "EXTRA"};
    return names[presence];
}

static const char *form_name(lmc_form form) {
    static const char *const names[] = {"FRAMES", "MAP", "TUPLE", "RESULT", "BARE", "VOID"};
    return names[form];
}

static const char *scheduling_name(uint32_t scheduling) {
    return scheduling == LMC_SYNC       ? "SYNC"
           : scheduling == LMC_AFFINITY ? "AFFINITY"
                                        : "BLOCKING";
}

static PyObject *describe_members(const lmc_message_def *message) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < message->member_count; i++) {
        const lmc_member_def *member = &message->members[i];
        PyObject *row = Py_BuildValue("(sssz)", member->name, kind_name(member->kind),
                                      presence_name(member->presence),
                                      member->part != NULL ? member->part->name : NULL);
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *describe_operation(const lmc_operation_def *operation) {
    PyObject *request = describe_members(operation->request);
    PyObject *reply = request != NULL ? describe_members(operation->reply) : NULL;
    if (reply == NULL) {
        Py_XDECREF(request);
        return NULL;
    }
    return Py_BuildValue(
        "{s:s,s:N,s:s,s:N,s:s,s:i,s:O}", "scheduling", scheduling_name(operation->scheduling),
        "request", request, "request_form", form_name(operation->request->form), "reply", reply,
        "reply_form", form_name(operation->reply->form), "legacy_id", (int)operation->legacy_id,
        "pends", operation->may_pend ? Py_True : Py_False);
}

static PyObject *operations(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    PyObject *all = PyDict_New();
    for (size_t i = 0; all != NULL && i < lmc_operation_count(); i++) {
        const lmc_operation_def *operation = lmc_operation_at(i);
        PyObject *row = describe_operation(operation);
        if (row == NULL || PyDict_SetItemString(all, operation->name, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    return all;
}

static PyObject *set_message_types(PyObject *module, PyObject *types) {
    (void)module;
    if (!PyDict_Check(types))
        return PyErr_Format(PyExc_TypeError, "message types are a dict");
    if (!lmc_py_set_message_types(types))
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *msgpack_pack(PyObject *module, PyObject *value) {
    (void)module;
    lmc_buffer out = LMC_BUFFER_INIT;
    PyObject *bytes = NULL;
    if (lmc_py_pack(&out, value))
        bytes = PyBytes_FromStringAndSize(out.data, (Py_ssize_t)out.size);
    lmc_buffer_fini(&out);
    return bytes;
}

static PyObject *msgpack_unpack(PyObject *module, PyObject *bytes) {
    Py_buffer view;
    (void)module;
    if (PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *value = lmc_py_from_msgpack(lmc_slice_of(view.buf, (size_t)view.len));
    PyBuffer_Release(&view);
    return value;
}

PyMethodDef lmc_py_schema_functions[] = {
    {"operations", operations, METH_NOARGS, NULL},
    {"set_message_types", set_message_types, METH_O, NULL},
    {"msgpack_pack", msgpack_pack, METH_O, NULL},
    {"msgpack_unpack", msgpack_unpack, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
