/* _lmcache_host: hashing, sessions, the storage manager, layouts. */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/bytes.h"

/* The server as modules see it; NULL with an exception before they are built. */
static lmc_context *context(void) {
    lmc_context *found = lmc_py_is_child() ? NULL : lmc_py_server->context(lmc_py_server->arg);
    if (found == NULL || found->cache == NULL) {
        PyErr_SetString(PyExc_RuntimeError, lmc_py_is_child()
                                                ? "the server is not in this forked child"
                                                : "the server is not there yet");
        return NULL;
    }
    return found;
}

static lmc_cache *cache(void) {
    lmc_context *found = context();
    return found != NULL ? found->cache : NULL;
}

/* ---- hashing ---- */

static PyObject *chunk_size(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyLong_FromLongLong(lmc_py_options->config->mp.chunk_size);
}

/* Token ids of any sequence; free() them. NULL with an exception. */
static uint32_t *read_tokens(PyObject *sequence, size_t *count) {
    PyObject *fast = PySequence_Fast(sequence, "token ids must be a sequence");
    if (fast == NULL)
        return NULL;
    *count = (size_t)PySequence_Fast_GET_SIZE(fast);
    uint32_t *tokens = malloc((*count + 1) * sizeof *tokens);
    if (tokens == NULL)
        PyErr_NoMemory();
    for (size_t i = 0; tokens != NULL && i < *count; i++) {
        PyObject *number = PyNumber_Index(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
        int overflow = 0;
        long long id = number != NULL ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
        Py_XDECREF(number);
        if (!PyErr_Occurred() && (overflow != 0 || id < 0 || id > UINT32_MAX))
            PyErr_SetString(PyExc_ValueError, "a token id must be in [0, 2**32)");
        if (PyErr_Occurred()) {
            free(tokens);
            tokens = NULL;
        } else {
            tokens[i] = (uint32_t)id;
        }
    }
    Py_DECREF(fast);
    return tokens;
}

static PyObject *list_hashes(const uint8_t *hashes, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *hash = PyBytes_FromStringAndSize(
            (const char *)hashes + i * LMC_CHUNK_HASH_SIZE, LMC_CHUNK_HASH_SIZE);
        if (hash == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, hash);
    }
    return list;
}

static PyObject *hash_tokens(const uint8_t *previous, const uint32_t *tokens, size_t count) {
    lmc_cache *core = cache();
    if (core == NULL)
        return NULL;
    size_t room = count / lmc_py_server->lmc_cache_chunk_size(core);
    uint8_t *hashes = malloc(room * LMC_CHUNK_HASH_SIZE + 1);
    if (hashes == NULL)
        return PyErr_NoMemory();
    size_t made;
    Py_BEGIN_ALLOW_THREADS;
    made = lmc_py_server->lmc_cache_hash(core, previous, tokens, count, hashes, room);
    Py_END_ALLOW_THREADS;
    PyObject *list = list_hashes(hashes, made);
    free(hashes);
    return list;
}

static PyObject *hash_chunks(PyObject *module, PyObject *arguments) {
    PyObject *sequence;
    Py_buffer previous = {0};
    size_t count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O|z*", &sequence, &previous))
        return NULL;
    PyObject *list = NULL;
    if (previous.buf != NULL && previous.len != LMC_CHUNK_HASH_SIZE)
        PyErr_Format(PyExc_ValueError, "a hash has %d bytes", LMC_CHUNK_HASH_SIZE);
    else {
        uint32_t *tokens = read_tokens(sequence, &count);
        if (tokens != NULL)
            list = hash_tokens(previous.buf, tokens, count);
        free(tokens);
    }
    if (previous.obj != NULL)
        PyBuffer_Release(&previous);
    return list;
}

/* ---- sessions ---- */

static PyObject *session_count(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    lmc_cache *core = cache();
    return core != NULL ? PyLong_FromSize_t(lmc_py_server->lmc_cache_active_sessions(core))
                        : NULL;
}

static PyObject *session_hashes(PyObject *module, PyObject *arguments) {
    const char *id;
    Py_ssize_t size, first = 0;
    (void)module;
    lmc_cache *core = cache();
    if (core == NULL || !PyArg_ParseTuple(arguments, "s#|n", &id, &size, &first))
        return NULL;
    lmc_slice session = lmc_slice_of(id, (size_t)size);
    size_t room = 0, count = 1;
    uint8_t *hashes = NULL;
    while (count > room) { /* once more when it grew meanwhile */
        room = count;
        uint8_t *grown = realloc(hashes, room * LMC_CHUNK_HASH_SIZE);
        if (grown == NULL) {
            free(hashes);
            return PyErr_NoMemory();
        }
        hashes = grown;
        count = lmc_py_server->lmc_cache_session_hashes(
            core, session, first > 0 ? (size_t)first : 0, hashes, room);
    }
    PyObject *list = list_hashes(hashes, count);
    free(hashes);
    return list;
}

static PyObject *end_session(PyObject *module, PyObject *arguments) {
    const char *id;
    Py_ssize_t size;
    (void)module;
    lmc_cache *core = cache();
    if (core == NULL || !PyArg_ParseTuple(arguments, "s#", &id, &size))
        return NULL;
    lmc_py_server->lmc_cache_end_session(core, lmc_slice_of(id, (size_t)size));
    return Py_NewRef(Py_None);
}

/* ---- storage ---- */

static PyObject *storage_status_json(PyObject *module, PyObject *none) {
    lmc_buffer out = LMC_BUFFER_INIT;
    (void)module;
    (void)none;
    if (context() == NULL)
        return NULL;
    lmc_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = lmc_py_server->storage_status(lmc_py_server->arg, &out);
    Py_END_ALLOW_THREADS;
    PyObject *text = status == LMC_OK && !out.failed
                         ? PyUnicode_DecodeUTF8(out.data, (Py_ssize_t)out.size, "replace")
                         : PyErr_NoMemory();
    lmc_buffer_fini(&out);
    return text;
}

static PyObject *clear(PyObject *module, PyObject *arguments) {
    int force;
    (void)module;
    lmc_cache *core = cache();
    if (core == NULL || !PyArg_ParseTuple(arguments, "p", &force))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    lmc_py_server->lmc_cache_clear(core, force != 0);
    Py_END_ALLOW_THREADS;
    return Py_NewRef(Py_None);
}

static PyObject *memcheck(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    lmc_cache *core = cache();
    bool sound;
    if (core == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    sound = lmc_py_server->lmc_l1_check(lmc_py_server->lmc_cache_l1(core));
    Py_END_ALLOW_THREADS;
    return PyBool_FromLong(sound);
}

static PyObject *memory_usage(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    lmc_cache *core = cache();
    lmc_l1_report report;
    if (core == NULL)
        return NULL;
    lmc_py_server->lmc_l1_report_get(lmc_py_server->lmc_cache_l1(core), &report);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "capacity_bytes",
                         (unsigned long long)report.capacity_bytes, "used_bytes",
                         (unsigned long long)report.used_bytes, "staging_bytes",
                         (unsigned long long)report.staging_bytes, "resident_objects",
                         (unsigned long long)report.resident_count, "staging_objects",
                         (unsigned long long)report.staging_count, "read_locked_objects",
                         (unsigned long long)report.read_locked_count);
}

/* The object at a key, held; None when it is not in memory. */
static PyObject *object_hold(PyObject *module, PyObject *value) {
    lmc_cache *core = cache();
    lmc_object_key key;
    lmc_arena arena;
    PyObject *result = NULL;
    (void)module;
    lmc_arena_init(&arena, 0);
    if (core != NULL && lmc_py_to_object_key(value, &arena, &key))
        result = lmc_py_hold(core, &key);
    lmc_arena_fini(&arena);
    return result;
}

static PyObject *objects_present(PyObject *module, PyObject *keys) {
    (void)module;
    PyObject *fast = PySequence_Fast(keys, "keys must be a list");
    PyObject *list = fast != NULL ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list != NULL && i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *found = object_hold(NULL, PySequence_Fast_GET_ITEM(fast, i));
        if (found == NULL || PyList_Append(list, found == Py_None ? Py_False : Py_True) < 0)
            Py_CLEAR(list);
        Py_XDECREF(found);
    }
    Py_XDECREF(fast);
    return list;
}

static PyObject *shm_pool(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    lmc_cache *core = cache();
    if (core == NULL)
        return NULL;
    lmc_l1 *l1 = lmc_py_server->lmc_cache_l1(core);
    const char *name = lmc_py_server->lmc_l1_pool_name(l1);
    unsigned long long size = *name != '\0' ? lmc_py_server->lmc_l1_capacity(l1) : 0;
    return Py_BuildValue("(sK)", name, size);
}

/* ---- layouts ---- */

static PyObject *describe_layout(const lmc_chunk_layout *layout) {
    PyObject *dims = PyList_New((Py_ssize_t)layout->dim_count);
    for (uint32_t i = 0; dims != NULL && i < layout->dim_count; i++)
        PyList_SET_ITEM(dims, (Py_ssize_t)i, PyLong_FromLongLong(layout->dims[i]));
    if (dims == NULL)
        return NULL;
    return Py_BuildValue("{s:K,s:L,s:N,s:s,s:O}", "bytes", (unsigned long long)layout->size,
                         "window", (long long)layout->window, "dims", dims, "dtype",
                         layout->dtype, "is_extra", layout->extra ? Py_True : Py_False);
}

static PyObject *model_layouts(PyObject *module, PyObject *arguments) {
    const char *name;
    Py_ssize_t size;
    long long world_size;
    (void)module;
    lmc_cache *core = cache();
    if (core == NULL || !PyArg_ParseTuple(arguments, "s#L", &name, &size, &world_size))
        return NULL;
    PyObject *list = PyList_New(0);
    lmc_chunk_layout layout;
    for (uint32_t group = 0;
         list != NULL && lmc_py_server->lmc_cache_layout(core, lmc_slice_of(name, (size_t)size),
                                                         world_size, group, &layout) == LMC_OK;
         group++) {
        PyObject *row = describe_layout(&layout);
        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyMethodDef lmc_py_cache_functions[] = {
    {"chunk_size", chunk_size, METH_NOARGS, NULL},
    {"hash_chunks", hash_chunks, METH_VARARGS, NULL},
    {"session_count", session_count, METH_NOARGS, NULL},
    {"session_hashes", session_hashes, METH_VARARGS, NULL},
    {"end_session", end_session, METH_VARARGS, NULL},
    {"storage_status_json", storage_status_json, METH_NOARGS, NULL},
    {"clear", clear, METH_VARARGS, NULL},
    {"memcheck", memcheck, METH_NOARGS, NULL},
    {"memory_usage", memory_usage, METH_NOARGS, NULL},
    {"objects_present", objects_present, METH_O, NULL},
    {"object_hold", object_hold, METH_O, NULL},
    {"shm_pool", shm_pool, METH_NOARGS, NULL},
    {"model_layouts", model_layouts, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
