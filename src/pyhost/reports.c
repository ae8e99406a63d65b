/* Liveness and status of modules in Python: no GIL is held when these are called. */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

/* ---- liveness ---- */

static void report(const lmc_py_module *module, const char *what) {
    static lmc_log_limit limit;
    char headline[200];
    snprintf(headline, sizeof headline, "%s() of server module %s failed", what, module->name);
    lmc_py_report(module->logger, &limit, headline);
}

static void tell(lmc_py_module *module, int which, const char *what, int64_t instance_id) {
    if (!lmc_py_enter())
        return;
    PyObject *result =
        module->liveness[which] != NULL
            ? PyObject_CallFunction(module->liveness[which], "L", (long long)instance_id)
            : Py_NewRef(Py_None);
    if (result == NULL)
        report(module, what);
    Py_XDECREF(result);
    lmc_py_leave();
}

static void touch(void *self, int64_t instance_id) {
    tell(self, LMC_PY_TOUCH, "touch_instance", instance_id);
}

static void drop(void *self, int64_t instance_id) {
    tell(self, LMC_PY_DROP, "drop_instance_state", instance_id);
}

static int64_t *ids_of(PyObject *list, size_t *count) {
    PyObject *fast = list != Py_None
                         ? PySequence_Fast(list, "reap_stale_instances() must return a list")
                         : PyTuple_New(0);
    Py_ssize_t size = fast != NULL ? PySequence_Fast_GET_SIZE(fast) : 0;
    int64_t *ids = fast != NULL ? calloc((size_t)size + 1, sizeof *ids) : NULL;
    *count = 0;
    for (Py_ssize_t i = 0; ids != NULL && i < size; i++) {
        ids[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, i));
        if (PyErr_Occurred())
            break;
        *count = (size_t)i + 1;
    }
    Py_XDECREF(fast);
    return ids;
}

static void reap(void *self, int64_t timeout_ns, int64_t grace_ns,
                 void (*found)(void *arg, int64_t instance_id), void *arg) {
    lmc_py_module *module = self;
    size_t count = 0;
    int64_t *ids = NULL;
    if (!lmc_py_enter())
        return;
    PyObject *method = module->liveness[LMC_PY_REAP];
    PyObject *result =
        method != NULL ? PyObject_CallFunction(method, "dd", (double)timeout_ns / LMC_NS_PER_S,
                                               (double)grace_ns / LMC_NS_PER_S)
                       : Py_NewRef(Py_None);
    if (result != NULL)
        ids = ids_of(result, &count);
    if (PyErr_Occurred())
        report(module, "reap_stale_instances");
    Py_XDECREF(result);
    lmc_py_leave();
    for (size_t i = 0; i < count; i++)
        found(arg, ids[i]);
    free(ids);
}

static int64_t count_tracked(void *self) {
    lmc_py_module *module = self;
    int64_t count = 0;
    if (!lmc_py_enter())
        return 0;
    PyObject *method = module->liveness[LMC_PY_COUNT_TRACKED];
    PyObject *result = method != NULL ? PyObject_CallNoArgs(method) : PyLong_FromLong(0);
    if (result != NULL)
        count = PyLong_AsLongLong(result);
    if (PyErr_Occurred()) {
        count = 0;
        report(module, "tracked_instance_count");
    }
    Py_XDECREF(result);
    lmc_py_leave();
    return count;
}

const lmc_liveness lmc_py_liveness = {
    .touch_instance = touch,
    .reap_stale_instances = reap,
    .tracked_instance_count = count_tracked,
    .drop_instance_state = drop,
};

/* ---- status ---- */

static void write_members(lmc_writer *writer, const lmc_json_value *object) {
    for (const lmc_json_value *at = object->first; at != NULL; at = at->next) {
        char name[512];
        snprintf(name, sizeof name, "%.*s", LMC_SLICE_ARGS(at->name));
        lmc_py_server->lmc_write_json(writer, name, at->source);
    }
}

static lmc_status write_status(lmc_writer *writer, const char *json) {
    const lmc_json_value *value = NULL;
    lmc_error error = LMC_ERROR_INIT;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    lmc_status status = lmc_py_server->lmc_json_read(&arena, lmc_text(json), &value, &error);
    if (status == LMC_OK && value->kind == LMC_JSON_IS_OBJECT)
        write_members(writer, value);
    else
        lmc_py_server->lmc_writer_fail(writer, status == LMC_OK ? "report_status() gave no dict"
                                                                : error.text);
    bool good = status == LMC_OK && value->kind == LMC_JSON_IS_OBJECT;
    lmc_arena_fini(&arena);
    return good ? LMC_OK : LMC_FAILED;
}

/* The status as JSON text, or NULL: then the writer knows why not. */
static char *ask_status(lmc_py_module *module, lmc_writer *writer) {
    static lmc_log_limit limit;
    PyObject *json = lmc_py_ask("report_status", module);
    const char *text = json != NULL && PyUnicode_Check(json) ? PyUnicode_AsUTF8(json) : NULL;
    char *copy = text != NULL ? strdup(text) : NULL;
    if (copy == NULL) {
        lmc_py_failure failure;
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "report_status() gave no text");
        lmc_py_failure_take(&failure);
        lmc_py_server->lmc_writer_fail(writer, failure.text);
        if (lmc_py_server->lmc_log_allow(&limit, NULL)) {
            lmc_py_server->lmc_log_write(LMC_LOG_ERROR, module->logger, "python", 0,
                                         "report_status() of server module %s failed: %s",
                                         module->name, failure.text);
            lmc_py_failure_log(&failure, module->logger);
        }
        lmc_py_failure_drop(&failure);
    }
    Py_XDECREF(json);
    return copy;
}

lmc_status lmc_py_report_status(void *self, lmc_writer *writer) {
    lmc_py_module *module = self;
    if (!lmc_py_enter())
        return LMC_CLOSED;
    char *json = module->instance != NULL ? ask_status(module, writer) : strdup("{}");
    lmc_py_leave();
    lmc_status status = json != NULL ? write_status(writer, json) : LMC_FAILED;
    free(json);
    return status;
}
