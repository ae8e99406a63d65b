/* Structs of the schema as Python values, for the handlers that get them. */
#include "pyhost/python.h"

#include "rpc/msgpack.h"

/* ---- classes that stand for messages ---- */

#define TYPES_MAX 64

static struct {
    const lmc_message_def *message;
    PyObject *factory;
} types[TYPES_MAX];
static size_t type_count;

void lmc_py_forget_message_types(void) {
    for (; type_count > 0; type_count--)
        Py_CLEAR(types[type_count - 1].factory);
}

bool lmc_py_set_message_types(PyObject *given) {
    PyObject *name, *factory;
    Py_ssize_t at = 0;
    lmc_py_forget_message_types();
    while (PyDict_Next(given, &at, &name, &factory)) {
        const char *text = PyUnicode_AsUTF8(name);
        if (text == NULL)
            return false;
        const lmc_message_def *message = lmc_message_by_name(text);
        if (message == NULL || type_count == TYPES_MAX) {
            PyErr_Format(PyExc_KeyError, "no message '%s'", text);
            return false;
        }
        types[type_count].message = message;
        types[type_count++].factory = Py_NewRef(factory);
    }
    return true;
}

/* Takes over `plain`. By name: the server's tables and the host's own are not the same ones. */
static PyObject *as_type(const lmc_message_def *message, PyObject *plain) {
    for (size_t i = 0; plain != NULL && i < type_count; i++) {
        if (strcmp(types[i].message->name, message->name) != 0)
            continue;
        PyObject *typed = PyObject_CallOneArg(types[i].factory, plain);
        Py_DECREF(plain);
        return typed;
    }
    return plain;
}

/* ---- values ---- */

static PyObject *text_of(lmc_slice text) {
    return PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "surrogateescape");
}

static PyObject *bytes_of(lmc_slice bytes) {
    return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
}

static PyObject *pieces_of(const lmc_pieces *pieces) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)pieces->size);
    char *at = bytes != NULL ? PyBytes_AS_STRING(bytes) : NULL;
    for (size_t i = 0; at != NULL && i < pieces->count; i++) {
        if (pieces->items[i].size > 0)
            memcpy(at, pieces->items[i].data, pieces->items[i].size);
        at += pieces->items[i].size;
    }
    return bytes;
}

/* A list of `count` items that make(items, i) returns. */
static PyObject *list_of(const void *items, size_t count,
                         PyObject *(*make)(const void *items, size_t index)) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = make(items, i);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *make_token(const void *items, size_t i) {
    return PyLong_FromUnsignedLong(((const uint32_t *)items)[i]);
}
static PyObject *make_int(const void *items, size_t i) {
    return PyLong_FromLongLong(((const int64_t *)items)[i]);
}
static PyObject *make_bool(const void *items, size_t i) {
    return PyBool_FromLong(((const bool *)items)[i]);
}
static PyObject *make_ints(const void *items, size_t i) {
    const lmc_ints *ints = &((const lmc_ints *)items)[i];
    return list_of(ints->items, ints->count, make_int);
}
static PyObject *make_bools(const void *items, size_t i) {
    const lmc_bools *bools = &((const lmc_bools *)items)[i];
    return list_of(bools->items, bools->count, make_bool);
}
static PyObject *make_text(const void *items, size_t i) {
    return text_of(((const lmc_slice *)items)[i]);
}
static PyObject *make_bytes(const void *items, size_t i) {
    return bytes_of(((const lmc_slice *)items)[i]);
}

static PyObject *tokens_of(const lmc_tokens *tokens) {
    if (tokens->ids == NULL && tokens->count > 0)
        return Py_NewRef(Py_None);
    return list_of(tokens->ids, tokens->count, make_token);
}

static PyObject *parts_of(const lmc_message_def *part, const lmc_part_list *parts,
                          bool sparse) {
    PyObject *list = PyList_New((Py_ssize_t)parts->count);
    for (size_t i = 0; list != NULL && i < parts->count; i++) {
        const char *base = (const char *)parts->items + i * part->size;
        uint64_t present;
        memcpy(&present, base, sizeof present);
        PyObject *item =
            sparse && present == 0 ? Py_NewRef(Py_None) : lmc_py_from_message(part, base);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *member_of(const lmc_member_def *member, const void *base);

/* A dict of parts that are (key, value). */
static PyObject *entries_of(const lmc_message_def *part, const lmc_part_list *parts) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < parts->count; i++) {
        const char *base = (const char *)parts->items + i * part->size;
        PyObject *key = member_of(&part->members[0], base);
        PyObject *value = key != NULL ? member_of(&part->members[1], base) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *map_of(lmc_slice map) {
    return map.data == NULL ? PyDict_New() : lmc_py_from_msgpack(map);
}

/* Two functions, so that neither is long: values of one piece, and values of several. */
static PyObject *list_member_of(const lmc_member_def *member, const void *at) {
    const lmc_part_list *parts = at;
    switch (member->kind) {
    case LMC_KIND_TOKENS:
        return tokens_of(at);
    case LMC_KIND_INTS:
        return make_ints(at, 0);
    case LMC_KIND_INT_LISTS:
        return list_of(parts->items, parts->count, make_ints);
    case LMC_KIND_BOOL_LISTS:
        return list_of(parts->items, parts->count, make_bools);
    case LMC_KIND_TEXTS:
        return list_of(parts->items, parts->count, make_text);
    case LMC_KIND_BLOBS:
    case LMC_KIND_WRAPPERS:
        return list_of(parts->items, parts->count, make_bytes);
    case LMC_KIND_LIST:
        return parts_of(member->part, at, false);
    case LMC_KIND_SPARSE_LIST:
        return parts_of(member->part, at, true);
    case LMC_KIND_ENTRIES:
        return entries_of(member->part, at);
    default:
        PyErr_Format(PyExc_SystemError, "kind %d of member %s", (int)member->kind,
                     member->name);
        return NULL;
    }
}

static PyObject *member_of(const lmc_member_def *member, const void *base) {
    const void *at = (const char *)base + member->offset;
    uint64_t present;
    memcpy(&present, base, sizeof present);
    if (lmc_member_has_bit(member) && (present & member->bit) == 0)
        return Py_NewRef(Py_None);
    switch (member->kind) {
    case LMC_KIND_INT:
        return make_int(at, 0);
    case LMC_KIND_BOOL:
        return make_bool(at, 0);
    case LMC_KIND_FLOAT:
        return PyFloat_FromDouble(*(const double *)at);
    case LMC_KIND_TEXT:
    case LMC_KIND_TAG:
        return make_text(at, 0);
    case LMC_KIND_BYTES:
        return make_bytes(at, 0);
    case LMC_KIND_DATA:
        return pieces_of(at);
    case LMC_KIND_MAP:
        return map_of(*(const lmc_slice *)at);
    case LMC_KIND_MESSAGE:
        return lmc_py_from_message(member->part, at);
    default:
        return list_member_of(member, at);
    }
}

PyObject *lmc_py_from_message(const lmc_message_def *message, const void *base) {
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && i < message->member_count; i++) {
        const lmc_member_def *member = &message->members[i];
        PyObject *name = PyUnicode_InternFromString(member->name);
        PyObject *value = name != NULL ? member_of(member, base) : NULL;
        if (value == NULL || PyDict_SetItem(dict, name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return as_type(message, dict);
}

/* ---- requests ---- */

PyObject *lmc_py_arguments(const lmc_operation_def *operation, const void *request,
                           Py_ssize_t arity) {
    const lmc_message_def *message = operation->request;
    bool whole = message->form == LMC_FORM_MAP;
    Py_ssize_t count = whole ? 1 : (Py_ssize_t)message->member_count;
    if (arity < count)
        count = arity;
    PyObject *arguments = PyTuple_New(count);
    for (Py_ssize_t i = 0; arguments != NULL && i < count; i++) {
        PyObject *value = whole ? lmc_py_from_message(message, request)
                                : member_of(&message->members[i], request);
        if (value == NULL)
            Py_CLEAR(arguments);
        else
            PyTuple_SET_ITEM(arguments, i, value);
    }
    return arguments;
}
