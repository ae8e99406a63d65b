/* MessagePack without a schema, both ways. */
#include "pyhost/python.h"

#include "rpc/msgpack.h"

/* ---- reading ---- */

static PyObject *read_value(lmc_mp_reader *in, int depth);

static PyObject *read_uint64(lmc_mp_reader *in) {
    uint64_t value = 0;
    for (int i = 1; i <= 8; i++)
        value = value << 8 | in->at[i];
    in->at += 9;
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *read_int(lmc_mp_reader *in) {
    int64_t value;
    if (lmc_mp_left(in) >= 9 && *in->at == 0xcf)
        return read_uint64(in);
    return lmc_mp_read_int(in, &value) ? PyLong_FromLongLong(value) : NULL;
}

static PyObject *read_array(lmc_mp_reader *in, int depth) {
    size_t count;
    if (!lmc_mp_read_array(in, &count))
        return NULL;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = read_value(in, depth + 1);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *read_map(lmc_mp_reader *in, int depth) {
    size_t count;
    if (!lmc_mp_read_map(in, &count))
        return NULL;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < count; i++) {
        PyObject *key = read_value(in, depth + 1);
        PyObject *value = key != NULL ? read_value(in, depth + 1) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

/* Device memory wrappers as their bytes, other extensions as (type, bytes). */
static PyObject *read_ext(lmc_mp_reader *in) {
    int8_t type;
    lmc_slice bytes;
    if (!lmc_mp_read_ext(in, &type, &bytes))
        return NULL;
    if (type == LMC_MP_EXT_WRAPPER)
        return PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
    return Py_BuildValue("(iy#)", (int)type, bytes.data, (Py_ssize_t)bytes.size);
}

static PyObject *read_plain(lmc_mp_reader *in) {
    lmc_slice bytes;
    double real;
    bool truth;
    switch (lmc_mp_peek(in)) {
    case LMC_MP_NIL:
        return lmc_mp_read_nil(in) ? Py_NewRef(Py_None) : NULL;
    case LMC_MP_BOOL:
        return lmc_mp_read_bool(in, &truth) ? PyBool_FromLong(truth) : NULL;
    case LMC_MP_INT:
        return read_int(in);
    case LMC_MP_FLOAT:
        return lmc_mp_read_float(in, &real) ? PyFloat_FromDouble(real) : NULL;
    case LMC_MP_TEXT:
        return lmc_mp_read_text(in, &bytes)
                   ? PyUnicode_DecodeUTF8(bytes.data, (Py_ssize_t)bytes.size, NULL)
                   : NULL;
    case LMC_MP_BYTES:
        return lmc_mp_read_bytes(in, &bytes)
                   ? PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size)
                   : NULL;
    case LMC_MP_EXT:
        return read_ext(in);
    default:
        return NULL;
    }
}

static PyObject *read_value(lmc_mp_reader *in, int depth) {
    if (depth > LMC_MP_DEPTH)
        return NULL;
    switch (lmc_mp_peek(in)) {
    case LMC_MP_ARRAY:
        return read_array(in, depth);
    case LMC_MP_MAP:
        return read_map(in, depth);
    default:
        return read_plain(in);
    }
}

PyObject *lmc_py_from_msgpack(lmc_slice bytes) {
    lmc_mp_reader in = lmc_mp_reader_of(bytes);
    PyObject *value = read_value(&in, 0);
    if (value != NULL && lmc_mp_left(&in) > 0)
        Py_CLEAR(value);
    if (value == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "not exactly one MessagePack value");
    return value;
}

/* ---- writing ---- */

#define PACK_DEPTH 64

/* A head, or a value that has no more than that. */
#define PUT(out, write, ...)                           \
    do {                                               \
        uint8_t head_[16];                             \
        lmc_mp_writer writer_ = {.out = head_};        \
        write(&writer_, __VA_ARGS__);                  \
        lmc_buffer_append((out), head_, writer_.size); \
    } while (0)

static bool pack(lmc_buffer *out, PyObject *value, int depth);

static bool pack_int(lmc_buffer *out, PyObject *value) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow <= 0) {
        if (overflow < 0)
            PyErr_SetString(PyExc_OverflowError, "an integer below -2^63");
        else if (number != -1 || !PyErr_Occurred())
            PUT(out, lmc_mp_write_int, number);
        return !PyErr_Occurred();
    }
    unsigned long long large = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred())
        return false;
    uint8_t bytes[9] = {0xcf};
    for (int i = 8; i > 0; i--, large >>= 8)
        bytes[i] = (uint8_t)large;
    lmc_buffer_append(out, bytes, sizeof bytes);
    return true;
}

static bool pack_text(lmc_buffer *out, PyObject *value) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    uint8_t head[5];
    size_t used = 0;
    if (text == NULL)
        return false;
    if (size < 32)
        head[used++] = (uint8_t)(0xa0 | size);
    else if (size < 256)
        head[used++] = 0xd9;
    else
        head[used++] = size < 65536 ? 0xda : 0xdb;
    for (int shift = size < 32      ? -8
                     : size < 256   ? 0
                     : size < 65536 ? 8
                                    : 24;
         shift >= 0; shift -= 8)
        head[used++] = (uint8_t)(size >> shift);
    lmc_buffer_append(out, head, used);
    lmc_buffer_append(out, text, (size_t)size);
    return true;
}

static bool pack_bytes(lmc_buffer *out, PyObject *value) {
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return false;
    PUT(out, lmc_mp_write_bytes_head, (size_t)view.len);
    lmc_buffer_append(out, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return true;
}

static bool pack_sequence(lmc_buffer *out, PyObject *value, int depth) {
    Py_ssize_t count = PySequence_Size(value);
    bool packed = count >= 0;
    if (packed)
        PUT(out, lmc_mp_write_array, (size_t)count);
    for (Py_ssize_t i = 0; packed && i < count; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        packed = item != NULL && pack(out, item, depth + 1);
        Py_XDECREF(item);
    }
    return packed;
}

static bool pack_mapping(lmc_buffer *out, PyObject *value, int depth) {
    PyObject *items = PyMapping_Items(value);
    Py_ssize_t count = items != NULL ? PyList_GET_SIZE(items) : 0;
    bool packed = items != NULL;
    if (packed)
        PUT(out, lmc_mp_write_map, (size_t)count);
    for (Py_ssize_t i = 0; packed && i < count; i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        packed = PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 &&
                 pack(out, PyTuple_GET_ITEM(pair, 0), depth + 1) &&
                 pack(out, PyTuple_GET_ITEM(pair, 1), depth + 1);
    }
    Py_XDECREF(items);
    return packed;
}

static bool is_mapping(PyObject *value) {
    return PyDict_Check(value) ||
           (PyMapping_Check(value) && PyObject_HasAttrString(value, "keys"));
}

static bool pack(lmc_buffer *out, PyObject *value, int depth) {
    if (depth > PACK_DEPTH) {
        PyErr_SetString(PyExc_ValueError, "nested too deeply for MessagePack");
        return false;
    }
    if (value == Py_None)
        lmc_buffer_char(out, (char)0xc0);
    else if (PyBool_Check(value))
        PUT(out, lmc_mp_write_bool, value == Py_True);
    else if (PyLong_Check(value))
        return pack_int(out, value);
    else if (PyFloat_Check(value))
        PUT(out, lmc_mp_write_float, PyFloat_AS_DOUBLE(value));
    else if (PyUnicode_Check(value))
        return pack_text(out, value);
    else if (PyObject_CheckBuffer(value))
        return pack_bytes(out, value);
    else if (PyList_Check(value) || PyTuple_Check(value))
        return pack_sequence(out, value, depth);
    else if (is_mapping(value))
        return pack_mapping(out, value, depth);
    else
        PyErr_Format(PyExc_TypeError, "%.100s cannot be written as MessagePack",
                     Py_TYPE(value)->tp_name);
    return !PyErr_Occurred();
}

bool lmc_py_pack(lmc_buffer *out, PyObject *value) {
    if (!pack(out, value, 0))
        return false;
    if (out->failed)
        PyErr_NoMemory();
    return !out->failed;
}
