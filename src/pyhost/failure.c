#include "pyhost/python.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void take_exception(PyObject **type, PyObject **value, PyObject **traceback) {
    PyErr_Fetch(type, value, traceback);
    PyErr_NormalizeException(type, value, traceback);
    if (*traceback != NULL && *value != NULL)
        PyException_SetTraceback(*value, *traceback);
    PyErr_Clear();
}

/* (text, lines) from the package, which knows how to ask an exception that itself raises. */
static void describe(lmc_py_failure *failure, PyObject *value) {
    PyObject *described =
        lmc_py_bootstrap != NULL && value != NULL
            ? PyObject_CallMethod(lmc_py_bootstrap, "describe_exception", "O", value)
            : NULL;
    PyObject *text = NULL, *lines = NULL;
    if (described != NULL && PyArg_ParseTuple(described, "UO", &text, &lines)) {
        const char *utf8 = PyUnicode_AsUTF8(text);
        failure->text = utf8 != NULL ? strdup(utf8) : NULL;
        failure->lines = PySequence_Check(lines) ? Py_NewRef(lines) : NULL;
    } else if (value != NULL) {
        PyErr_Clear();
        PyObject *plain = PyObject_Str(value);
        const char *utf8 = plain != NULL ? PyUnicode_AsUTF8(plain) : NULL;
        failure->text = utf8 != NULL ? strdup(utf8) : NULL;
        Py_XDECREF(plain);
    }
    Py_XDECREF(described);
    PyErr_Clear();
}

static int exit_code_of(PyObject *value) {
    PyObject *code = PyObject_GetAttrString(value, "code");
    int number = code != NULL && PyLong_Check(code) ? (int)PyLong_AsLong(code) : 1;
    if (code == Py_None)
        number = 0;
    Py_XDECREF(code);
    PyErr_Clear();
    return number;
}

void lmc_py_failure_take(lmc_py_failure *failure) {
    PyObject *type, *value, *traceback;
    *failure = (lmc_py_failure){0};
    take_exception(&type, &value, &traceback);
    if (lmc_py_is_child()) /* sys.exit() in a child that a handler forked */
        lmc_py_end_child(value != NULL && PyErr_GivenExceptionMatches(value, PyExc_SystemExit)
                             ? exit_code_of(value)
                             : 1);
    describe(failure, value);
    if (value != NULL) {
        failure->not_built_in = PyErr_GivenExceptionMatches(value, lmc_py_start_error);
        failure->not_implemented =
            PyErr_GivenExceptionMatches(value, PyExc_NotImplementedError);
    }
    if (failure->text == NULL)
        failure->text = strdup("an exception without a text");
    if (failure->not_built_in)
        Py_CLEAR(failure->lines);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

void lmc_py_failure_drop(lmc_py_failure *failure) {
    free(failure->text);
    Py_XDECREF(failure->lines);
    *failure = (lmc_py_failure){0};
}

/* One log line per line of the text. */
static void log_lines(const char *logger, const char *text) {
    while (*text != '\0') {
        size_t size = strcspn(text, "\n");
        if (size > 0)
            lmc_py_server->lmc_log_write(LMC_LOG_ERROR, logger, "python", 0, "%.*s", (int)size,
                                         text);
        text += size + (text[size] == '\n');
    }
}

void lmc_py_failure_log(const lmc_py_failure *failure, const char *logger) {
    if (failure->lines == NULL || !lmc_py_server->lmc_log_enabled(LMC_LOG_ERROR, logger))
        return;
    Py_ssize_t count = PySequence_Size(failure->lines);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *line = PySequence_GetItem(failure->lines, i);
        const char *text =
            line != NULL && PyUnicode_Check(line) ? PyUnicode_AsUTF8(line) : NULL;
        if (text != NULL)
            log_lines(logger, text);
        Py_XDECREF(line);
    }
    PyErr_Clear();
}

lmc_status lmc_py_fail(lmc_error *error, const char *prefix) {
    lmc_py_failure failure;
    lmc_py_failure_take(&failure);
    lmc_py_failure_log(&failure, "lmcache.python");
    lmc_error_set(error, LMC_FAILED, "%s%s", failure.not_built_in ? "" : prefix, failure.text);
    lmc_py_failure_drop(&failure);
    return LMC_FAILED;
}

void lmc_py_report(const char *logger, lmc_log_limit *limit, const char *headline) {
    lmc_py_failure failure;
    uint64_t suppressed = 0;
    lmc_py_failure_take(&failure);
    bool shown = lmc_py_server->lmc_log_enabled(LMC_LOG_ERROR, logger) &&
                 (limit == NULL || lmc_py_server->lmc_log_allow(limit, &suppressed));
    if (shown) {
        char more[60] = "";
        if (suppressed > 0)
            snprintf(more, sizeof more, " (%llu more not shown)",
                     (unsigned long long)suppressed);
        lmc_py_server->lmc_log_write(LMC_LOG_ERROR, logger, "python", 0, "%s: %s%s", headline,
                                     failure.text, more);
        lmc_py_failure_log(&failure, logger);
    }
    lmc_py_failure_drop(&failure);
}
