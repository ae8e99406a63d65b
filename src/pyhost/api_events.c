/*
 * _lmcache_host: the event bus and metrics. The bus is the server's; an event that a Python
 * module publishes carries its dict as it is for subscribers in Python, and what is text or
 * number of it for native ones. The bus thread takes the GIL for a subscriber in Python only.
 */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

static lmc_events *bus(void) {
    lmc_context *context =
        lmc_py_is_child() ? NULL : lmc_py_server->context(lmc_py_server->arg);
    return context != NULL ? context->events : NULL;
}

static const char python_metadata; /* the kind of object that our events carry */

/* ---- subscribing ---- */

typedef struct subscriber { /* lives as long as the bus, which never forgets it */
    PyObject *callback;
    char *owner;
    struct subscriber *next;
} subscriber;
static subscriber *subscribers; /* guarded by the GIL */

static bool set_item(PyObject *dict, const char *name, PyObject *value) {
    bool set = value != NULL && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return set;
}

static void put_int(void *dict, const char *member, int64_t value) {
    set_item(dict, member, PyLong_FromLongLong(value));
}
static void put_real(void *dict, const char *member, double value) {
    set_item(dict, member, PyFloat_FromDouble(value));
}
static void put_text(void *dict, const char *member, lmc_slice value) {
    set_item(dict, member, PyUnicode_DecodeUTF8(value.data, (Py_ssize_t)value.size, "replace"));
}

/* ---- members that are lists ---- */

/* A class of the Python package; borrowed, and kept as long as the process. */
static PyObject *class_of(const char *module_name, const char *name, PyObject **kept) {
    PyObject *module = *kept == NULL ? PyImport_ImportModule(module_name) : NULL;
    if (module != NULL)
        *kept = PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return *kept;
}

/* Takes item and list; NULL when either is. */
static PyObject *append(PyObject *list, PyObject *item) {
    if (list != NULL && (item == NULL || PyList_Append(list, item) != 0))
        Py_CLEAR(list);
    Py_XDECREF(item);
    return list;
}

static PyObject *key_from(const lmc_object_key *key) {
    static PyObject *kept;
    PyObject *made = class_of("lmcache.v1.distributed.api", "ObjectKey", &kept);
    return made == NULL
               ? NULL
               : PyObject_CallFunction(made, "y#s#LLs#", key->chunk_hash.data,
                                       (Py_ssize_t)key->chunk_hash.size, key->model_name.data,
                                       (Py_ssize_t)key->model_name.size,
                                       (long long)key->kv_rank, (long long)key->object_group_id,
                                       key->cache_salt.data != NULL ? key->cache_salt.data : "",
                                       (Py_ssize_t)key->cache_salt.size);
}

static void put_keys(void *dict, const char *member, const lmc_object_key_list *value) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < value->count; i++)
        list = append(list, key_from(&value->items[i]));
    set_item(dict, member, list);
}

static PyObject *ints_from(const lmc_ints *value) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < value->count; i++)
        list = append(list, PyLong_FromLongLong(value->items[i]));
    return list;
}

static void put_ints(void *dict, const char *member, const lmc_ints *value) {
    set_item(dict, member, ints_from(value));
}

static void put_int_lists(void *dict, const char *member, const lmc_int_lists *value) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < value->count; i++)
        list = append(list, ints_from(&value->items[i]));
    set_item(dict, member, list);
}

static void put_slices(void *dict, const char *member, const lmc_slices *value, bool are_text) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < value->count; i++) {
        const char *data = value->items[i].data != NULL ? value->items[i].data : "";
        Py_ssize_t size = (Py_ssize_t)value->items[i].size;
        list = append(list, are_text ? PyUnicode_DecodeUTF8(data, size, "replace")
                                     : PyBytes_FromStringAndSize(data, size));
    }
    set_item(dict, member, list);
}

static PyObject *metadata_of(const lmc_event *event) {
    static const lmc_event_visitor visitor = {.integer = put_int,
                                              .real = put_real,
                                              .text = put_text,
                                              .keys = put_keys,
                                              .ints = put_ints,
                                              .int_lists = put_int_lists,
                                              .slices = put_slices};
    PyObject *kept = lmc_py_server->lmc_event_attached(event, &python_metadata);
    if (kept != NULL)
        return Py_NewRef(kept);
    PyObject *dict = PyDict_New();
    if (dict != NULL)
        lmc_py_server->lmc_event_each(event, &visitor, dict);
    return dict;
}

static void receive(void *arg, const lmc_event *event) {
    static lmc_log_limit limit;
    const subscriber *to = arg;
    lmc_slice session = lmc_py_server->lmc_event_session(event);
    double time = (double)lmc_py_server->lmc_event_time_ns(event) / (double)LMC_NS_PER_S;
    char headline[200];
    if (!lmc_py_enter())
        return;
    PyObject *metadata = metadata_of(event);
    PyObject *result =
        metadata != NULL && !PyErr_Occurred()
            ? PyObject_CallFunction(to->callback, "ss#Od", lmc_py_server->lmc_event_name(event),
                                    session.data, (Py_ssize_t)session.size, metadata, time)
            : NULL;
    if (result == NULL) {
        snprintf(headline, sizeof headline, "event subscriber of %.60s failed at %.80s",
                 to->owner, lmc_py_server->lmc_event_name(event));
        lmc_py_report("lmcache.events", &limit, headline);
        lmc_py_server->lmc_events_failed(bus(), to->owner);
    }
    Py_XDECREF(result);
    Py_XDECREF(metadata);
    lmc_py_leave();
}

static PyObject *subscribe(PyObject *module, PyObject *arguments) {
    const char *name, *owner;
    PyObject *callback;
    lmc_error error = LMC_ERROR_INIT;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sOs", &name, &callback, &owner))
        return NULL;
    subscriber *added = calloc(1, sizeof *added);
    char *copy = strdup(owner);
    if (added == NULL || copy == NULL) {
        free(added);
        free(copy);
        return PyErr_NoMemory();
    }
    *added = (subscriber){Py_NewRef(callback), copy, NULL};
    lmc_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = lmc_py_server->lmc_events_subscribe(bus(), copy, name, receive, added, &error);
    Py_END_ALLOW_THREADS;
    if (status == LMC_OK) {
        added->next = subscribers;
        subscribers = added;
        return Py_NewRef(Py_None);
    }
    Py_DECREF(added->callback);
    free(copy);
    free(added);
    PyErr_SetString(PyExc_RuntimeError,
                    error.text[0] != '\0' ? error.text : "there is no event bus");
    return NULL;
}

void lmc_py_forget_subscribers(bool alive) {
    while (subscribers != NULL) {
        subscriber *next = subscribers->next;
        if (alive)
            Py_DECREF(subscribers->callback);
        free(subscribers->owner);
        free(subscribers);
        subscribers = next;
    }
}

static PyObject *has_bus(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyBool_FromLong(bus() != NULL);
}

static PyObject *has_subscribers(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    return text != NULL ? PyBool_FromLong(lmc_py_server->lmc_events_wanted(bus(), text)) : NULL;
}

/* ---- publishing ---- */

static void release(void *object) {
    bool entered = lmc_py_enter_any();
    if (entered || PyGILState_Check())
        Py_DECREF((PyObject *)object);
    if (entered)
        lmc_py_leave();
}

static void copy_members(lmc_event *event, PyObject *metadata) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(metadata, &at, &name, &value)) {
        const char *member = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        Py_ssize_t size = 0;
        int overflow = 0;
        if (member == NULL)
            continue;
        if (PyLong_Check(value))
            lmc_py_server->lmc_event_put_int(event, member,
                                             PyLong_AsLongLongAndOverflow(value, &overflow));
        else if (PyFloat_Check(value))
            lmc_py_server->lmc_event_put_real(event, member, PyFloat_AS_DOUBLE(value));
        else if (PyUnicode_Check(value)) {
            const char *text = PyUnicode_AsUTF8AndSize(value, &size);
            if (text != NULL)
                lmc_py_server->lmc_event_put_text(event, member,
                                                  lmc_slice_of(text, (size_t)size));
        }
    }
    PyErr_Clear();
}

static PyObject *publish(PyObject *module, PyObject *arguments) {
    const char *name, *session;
    Py_ssize_t size;
    PyObject *metadata;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "ss#O!", &name, &session, &size, &PyDict_Type, &metadata))
        return NULL;
    lmc_event *event =
        lmc_py_server->lmc_events_begin(bus(), name, lmc_slice_of(session, (size_t)size));
    if (event == NULL)
        return Py_NewRef(Py_None);
    copy_members(event, metadata);
    lmc_py_server->lmc_event_attach(event, &python_metadata, Py_NewRef(metadata), release);
    double now = (double)lmc_system_clock.wall_ns(&lmc_system_clock) / (double)LMC_NS_PER_S;
    Py_BEGIN_ALLOW_THREADS;
    lmc_py_server->lmc_event_publish(event);
    Py_END_ALLOW_THREADS;
    return PyFloat_FromDouble(now);
}

static PyObject *events_dropped(PyObject *module, PyObject *none) {
    lmc_events_report report;
    (void)module;
    (void)none;
    lmc_py_server->lmc_events_report_get(bus(), &report);
    return PyLong_FromUnsignedLongLong(report.dropped);
}

PyMethodDef lmc_py_event_functions[] = {
    {"subscribe", subscribe, METH_VARARGS, NULL},
    {"has_bus", has_bus, METH_NOARGS, NULL},
    {"has_subscribers", has_subscribers, METH_O, NULL},
    {"publish", publish, METH_VARARGS, NULL},
    {"events_dropped", events_dropped, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
