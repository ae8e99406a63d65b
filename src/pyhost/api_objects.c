/*
 * _lmcache_host: objects of the cache, held open. A HeldObject is the bytes of one, where they
 * lie: a read-only buffer. The object stays there until the buffer is released and collected.
 */
#include "pyhost/python.h"

typedef struct held_object {
    PyObject_HEAD lmc_cache *cache; /* NULL: given back */
    lmc_object_ref ref;
    Py_ssize_t views;
    struct held_object *before, *after; /* all that are held; guarded by the GIL */
} held_object;

static held_object *held;

static void take_in(held_object *object) {
    object->before = NULL;
    object->after = held;
    if (held != NULL)
        held->before = object;
    held = object;
}

static void take_out(held_object *object) {
    if (object->before != NULL)
        object->before->after = object->after;
    else if (held == object)
        held = object->after;
    if (object->after != NULL)
        object->after->before = object->before;
    object->before = object->after = NULL;
}

static void give_back(held_object *object) {
    lmc_cache *cache = object->cache;
    object->cache = NULL;
    take_out(object);
    if (cache != NULL && !lmc_py_is_child())
        lmc_py_server->lmc_cache_let_go(cache, object->ref);
}

static void dealloc(PyObject *self) {
    give_back((held_object *)self);
    Py_TYPE(self)->tp_free(self);
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    held_object *object = (held_object *)self;
    if (object->cache == NULL || lmc_py_is_child()) {
        PyErr_SetString(PyExc_BufferError, "the object was given back");
        return -1;
    }
    lmc_l1 *l1 = lmc_py_server->lmc_cache_l1(object->cache);
    if (PyBuffer_FillInfo(view, self, lmc_py_server->lmc_l1_data(l1, object->ref),
                          (Py_ssize_t)lmc_py_server->lmc_l1_size(l1, object->ref), 1,
                          flags) < 0)
        return -1;
    object->views++;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view) {
    (void)view;
    ((held_object *)self)->views--;
}

static PyObject *release(PyObject *self, PyObject *none) {
    (void)none;
    if (((held_object *)self)->views > 0) {
        PyErr_SetString(PyExc_BufferError, "somebody still looks at the object");
        return NULL;
    }
    give_back((held_object *)self);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"release", release, METH_NOARGS, "Gives the object back."},
    {NULL, NULL, 0, NULL},
};

static PyBufferProcs buffer = {get_buffer, release_buffer};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_lmcache_host.HeldObject",
    .tp_basicsize = sizeof(held_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = dealloc,
    .tp_as_buffer = &buffer,
    .tp_methods = methods,
    .tp_doc = "The bytes of an object of the cache, where they lie.",
};

bool lmc_py_add_object_type(PyObject *module) {
    return PyType_Ready(&type) == 0 &&
           PyModule_AddObjectRef(module, "HeldObject", (PyObject *)&type) == 0;
}

PyObject *lmc_py_hold(lmc_cache *cache, const lmc_object_key *key) {
    lmc_object_ref ref;
    if (lmc_py_server->lmc_cache_hold(cache, key, &ref) != LMC_OK)
        return Py_NewRef(Py_None);
    held_object *object = (held_object *)type.tp_alloc(&type, 0);
    if (object == NULL) {
        lmc_py_server->lmc_cache_let_go(cache, ref);
        return NULL;
    }
    object->cache = cache;
    object->ref = ref;
    take_in(object);
    return (PyObject *)object;
}

/* The cache goes; what is still held of it must not be given back any more. */
void lmc_py_forget_objects(void) {
    while (held != NULL) {
        held->cache = NULL;
        take_out(held);
    }
}
