/*
 * Python values as messages of the schema: first as MessagePack, shaped by the schema, then by
 * the codec of the wire, which checks them as it checks a peer's.
 */
#include "pyhost/python.h"

#include "base/bytes.h"
#include "base/error.h"
#include "rpc/msgpack.h"

/* MessagePack heads, by way of a writer that writes into a few bytes. */
static void put_array(lmc_buffer *out, size_t count) {
    uint8_t head[8];
    lmc_mp_writer writer = {.out = head};
    lmc_mp_write_array(&writer, count);
    lmc_buffer_append(out, head, writer.size);
}

static void put_map(lmc_buffer *out, size_t count) {
    uint8_t head[8];
    lmc_mp_writer writer = {.out = head};
    lmc_mp_write_map(&writer, count);
    lmc_buffer_append(out, head, writer.size);
}

static void put_name(lmc_buffer *out, const char *name) {
    uint8_t text[96];
    lmc_mp_writer writer = {.out = text};
    lmc_mp_write_name(&writer, name);
    lmc_buffer_append(out, text, writer.size);
}

static bool put_nil(lmc_buffer *out) {
    lmc_buffer_char(out, (char)0xc0);
    return true;
}

static bool wrong(const lmc_member_def *member, const char *wanted, PyObject *value) {
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %.100s", member->name, wanted,
                     Py_TYPE(value)->tp_name);
    return false;
}

/* ---- single values ---- */

static bool pack_int(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    PyObject *number = PyNumber_Index(value);
    if (number == NULL) {
        PyErr_Clear();
        return wrong(member, "an int", value);
    }
    int overflow;
    long long plain = PyLong_AsLongLongAndOverflow(number, &overflow);
    uint8_t head[16];
    lmc_mp_writer writer = {.out = head};
    lmc_mp_write_int(&writer, plain);
    lmc_buffer_append(out, head, writer.size);
    if (overflow != 0)
        PyErr_Format(PyExc_OverflowError, "%s does not fit in 64 bits", member->name);
    Py_DECREF(number);
    return overflow == 0;
}

static bool pack_bool(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    int truth = PyBool_Check(value) || PyLong_Check(value) ? PyObject_IsTrue(value) : -1;
    if (truth < 0)
        return wrong(member, "a bool", value);
    return lmc_py_pack(out, truth ? Py_True : Py_False);
}

static bool pack_float(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    PyObject *number = PyNumber_Float(value);
    if (number == NULL) {
        PyErr_Clear();
        return wrong(member, "a float", value);
    }
    bool packed = lmc_py_pack(out, number);
    Py_DECREF(number);
    return packed;
}

/* A text; for a tag also an integer, or an enum member that has either as its value. */
static bool pack_text(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    bool tag = member->kind == LMC_KIND_TAG;
    if (PyUnicode_Check(value) || (tag && PyLong_Check(value)))
        return lmc_py_pack(out, value);
    PyObject *inner = PyObject_GetAttrString(value, "value");
    PyErr_Clear();
    bool usable = inner != NULL && (PyUnicode_Check(inner) || (tag && PyLong_Check(inner)));
    bool packed = usable ? lmc_py_pack(out, inner) : wrong(member, "a str", value);
    Py_XDECREF(inner);
    return packed;
}

static bool pack_bytes(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    if (!PyObject_CheckBuffer(value))
        return wrong(member, "bytes", value);
    return lmc_py_pack(out, value);
}

/* Contents of a device memory wrapper. */
static bool pack_wrapper(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    uint8_t head[8];
    Py_buffer view;
    if (!PyObject_CheckBuffer(value) || PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0)
        return wrong(member, "bytes", value);
    uint8_t *at = head;
    *at++ = 0xc9;
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (uint8_t)((size_t)view.len >> shift);
    *at++ = LMC_MP_EXT_WRAPPER;
    lmc_buffer_append(out, head, (size_t)(at - head));
    lmc_buffer_append(out, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return true;
}

/* ---- lists ---- */

typedef bool (*pack_item)(lmc_buffer *out, const lmc_member_def *member, PyObject *value);

static bool pack_list(lmc_buffer *out, const lmc_member_def *member, PyObject *value,
                      pack_item pack) {
    if (PyUnicode_Check(value) || PyBytes_Check(value))
        return wrong(member, "a list", value);
    PyObject *fast = PySequence_Fast(value, "");
    if (fast == NULL) {
        PyErr_Clear();
        return wrong(member, "a list", value);
    }
    put_array(out, (size_t)PySequence_Fast_GET_SIZE(fast));
    bool packed = true;
    for (Py_ssize_t i = 0; packed && i < PySequence_Fast_GET_SIZE(fast); i++)
        packed = pack(out, member, PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    return packed;
}

static bool pack_ints(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    return pack_list(out, member, value, pack_int);
}

static bool pack_bools(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    return pack_list(out, member, value, pack_bool);
}

static bool pack_part(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    if (value == Py_None && member->kind == LMC_KIND_SPARSE_LIST)
        return put_nil(out);
    return lmc_py_pack_message(out, member->part, value);
}

/* A mapping whose keys and values are the two members of the part. */
static bool pack_entries(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    PyObject *items = PyMapping_Check(value) ? PyMapping_Items(value) : NULL;
    if (items == NULL)
        return wrong(member, "a dict", value);
    put_map(out, (size_t)PyList_GET_SIZE(items));
    bool packed = true;
    for (Py_ssize_t i = 0; packed && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i);
        packed =
            lmc_py_pack_member(out, &member->part->members[0], PyTuple_GET_ITEM(pair, 0)) &&
            lmc_py_pack_member(out, &member->part->members[1], PyTuple_GET_ITEM(pair, 1));
    }
    Py_DECREF(items);
    return packed;
}

static bool pack_map(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    if (!PyMapping_Check(value) || PyUnicode_Check(value))
        return wrong(member, "a dict", value);
    return lmc_py_pack(out, value);
}

/* ---- members and messages ---- */

static bool pack_list_member(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    switch (member->kind) {
    case LMC_KIND_TOKENS:
    case LMC_KIND_INTS:
        return pack_ints(out, member, value);
    case LMC_KIND_INT_LISTS:
        return pack_list(out, member, value, pack_ints);
    case LMC_KIND_BOOL_LISTS:
        return pack_list(out, member, value, pack_bools);
    case LMC_KIND_TEXTS:
        return pack_list(out, member, value, pack_text);
    case LMC_KIND_BLOBS:
        return pack_list(out, member, value, pack_bytes);
    case LMC_KIND_WRAPPERS:
        return pack_list(out, member, value, pack_wrapper);
    case LMC_KIND_ENTRIES:
        return pack_entries(out, member, value);
    default:
        return pack_list(out, member, value, pack_part);
    }
}

bool lmc_py_pack_member(lmc_buffer *out, const lmc_member_def *member, PyObject *value) {
    if (value == Py_None)
        return put_nil(out);
    switch (member->kind) {
    case LMC_KIND_INT:
        return pack_int(out, member, value);
    case LMC_KIND_BOOL:
        return pack_bool(out, member, value);
    case LMC_KIND_FLOAT:
        return pack_float(out, member, value);
    case LMC_KIND_TEXT:
    case LMC_KIND_TAG:
        return pack_text(out, member, value);
    case LMC_KIND_BYTES:
    case LMC_KIND_DATA:
        return pack_bytes(out, member, value);
    case LMC_KIND_MAP:
        return pack_map(out, member, value);
    case LMC_KIND_MESSAGE:
        return lmc_py_pack_message(out, member->part, value);
    default:
        return pack_list_member(out, member, value);
    }
}

/* The member of a mapping, or the attribute of an object; NULL without exception: none. */
static PyObject *look_up(PyObject *value, const char *name) {
    if (PyDict_Check(value)) {
        PyObject *found = PyDict_GetItemString(value, name);
        return Py_XNewRef(found);
    }
    PyObject *found = PyObject_GetAttrString(value, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        if (PyMapping_Check(value) && PyMapping_HasKeyString(value, name))
            found = PyMapping_GetItemString(value, name);
    }
    return found;
}

static bool pack_as_map(lmc_buffer *out, const lmc_message_def *message, PyObject *value) {
    PyObject *found[64] = {NULL};
    size_t count = 0;
    bool packed = true;
    for (uint32_t i = 0; packed && i < message->member_count; i++) {
        found[i] = look_up(value, message->members[i].name);
        packed = found[i] != NULL || !PyErr_Occurred();
        count += found[i] != NULL;
    }
    if (packed)
        put_map(out, count);
    for (uint32_t i = 0; i < message->member_count; i++) {
        if (packed && found[i] != NULL) {
            put_name(out, message->members[i].name);
            packed = lmc_py_pack_member(out, &message->members[i], found[i]);
        }
        Py_XDECREF(found[i]);
    }
    return packed;
}

static bool pack_as_tuple(lmc_buffer *out, const lmc_message_def *message, PyObject *value) {
    Py_ssize_t count = PySequence_Check(value) ? PySequence_Size(value) : -1;
    if (count < 0 || count > (Py_ssize_t)message->member_count) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s must be a tuple of %u values, not %R",
                         message->name, (unsigned)message->member_count, value);
        return false;
    }
    put_array(out, (size_t)count);
    bool packed = true;
    for (Py_ssize_t i = 0; packed && i < count; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        packed = item != NULL && lmc_py_pack_member(out, &message->members[i], item);
        Py_XDECREF(item);
    }
    return packed;
}

bool lmc_py_pack_message(lmc_buffer *out, const lmc_message_def *message, PyObject *value) {
    switch (message->form) {
    case LMC_FORM_BARE:
        return lmc_py_pack_member(out, &message->members[0], value);
    case LMC_FORM_TUPLE:
    case LMC_FORM_RESULT:
        return pack_as_tuple(out, message, value);
    case LMC_FORM_VOID:
        return true;
    default:
        return pack_as_map(out, message, value);
    }
}

bool lmc_py_pack_result(lmc_buffer *out, const lmc_operation_def *operation, PyObject *result,
                        bool *pending) {
    *pending = result == Py_None && operation->may_pend;
    if (*pending || operation->is_void)
        return true;
    if (!lmc_py_pack_message(out, operation->reply, result))
        return false;
    if (out->failed)
        PyErr_NoMemory();
    return !out->failed;
}

/* ---- keys of objects ---- */

bool lmc_py_to_object_key(PyObject *value, lmc_arena *arena, lmc_object_key *key) {
    /* The request of p2p_unlock_objects is a list of such keys: the codec does the rest. */
    const lmc_operation_def *operation = lmc_operation_by_name(lmc_text("p2p_unlock_objects"));
    lmc_buffer frame = LMC_BUFFER_INIT;
    lmc_p2p_unlock_objects_request request = {0};
    lmc_error error = LMC_ERROR_INIT;
    put_array(&frame, 1);
    bool packed = lmc_py_pack_message(&frame, lmc_message_by_name("object_key"), value);
    char *kept = packed ? lmc_arena_alloc(arena, frame.size) : NULL;
    if (packed && kept == NULL)
        PyErr_NoMemory();
    if (kept != NULL) {
        memcpy(kept, frame.data, frame.size);
        lmc_slice frames[] = {lmc_slice_of(kept, frame.size)};
        if (lmc_zmq_decode_request(operation, frames, 1, arena, &request, &error) != LMC_OK)
            PyErr_Format(PyExc_ValueError, "not a key of an object: %s", error.text);
        else
            *key = request.keys.items[0];
    }
    lmc_buffer_fini(&frame);
    return !PyErr_Occurred();
}
