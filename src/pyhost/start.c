/* The interpreter from start to end, and the one symbol that the server looks for. */
#include "pyhost/python.h"

#include <stdlib.h>

#include "base/error.h"

const lmc_pyhost_server *lmc_py_server;
const lmc_pyhost_options *lmc_py_options;
PyObject *lmc_py_bootstrap, *lmc_py_start_error;
static bool running;

/* ---- start ---- */

static PyStatus set_text(PyConfig *config, wchar_t **member, const char *text) {
    return PyConfig_SetBytesString(config, member, text);
}

static PyStatus set_arguments(PyConfig *config, const char *const *argv) {
    Py_ssize_t count = 0;
    while (argv[count] != NULL)
        count++;
    return PyConfig_SetBytesArgv(config, count, (char *const *)(uintptr_t)argv);
}

/*
 * As `python3` itself would start, with the environment's say, but without signal handlers, and
 * leaving locale and C streams as they are. The home is that of the executable; setting that is
 * enough, since PATH is asked only when it is unknown.
 */
static PyStatus configure(PyConfig *config, const lmc_py_interpreter *chosen) {
    PyConfig_InitPythonConfig(config);
    config->install_signal_handlers = 0;
    config->configure_c_stdio = 0;
    config->buffered_stdio = 0;
    config->parse_argv = 0;
    PyStatus status = set_text(config, &config->program_name, chosen->executable);
    if (!PyStatus_Exception(status))
        status = set_text(config, &config->executable, chosen->executable);
    if (!PyStatus_Exception(status))
        status = set_arguments(config, lmc_py_options->argv);
    return status;
}

static lmc_status explain(PyStatus status, lmc_error *error) {
    return lmc_error_set(error, LMC_FAILED, "Python cannot be started: %s%s%s",
                         status.func != NULL ? status.func : "",
                         status.func != NULL ? ": " : "",
                         status.err_msg != NULL ? status.err_msg : "it wants to exit");
}

static lmc_status initialize(const lmc_py_interpreter *chosen, lmc_error *error) {
    PyPreConfig before;
    PyConfig config;
    PyPreConfig_InitPythonConfig(&before);
    before.coerce_c_locale = 0;
    before.configure_locale = 0;
    before.parse_argv = 0;
    PyStatus status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status))
        return explain(status, error);
    PyImport_AppendInittab("_lmcache_host", lmc_py_make_host_module);
    status = configure(&config, chosen);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return PyStatus_Exception(status) ? explain(status, error) : LMC_OK;
}

static bool prepend_path(const char *directory) {
    PyObject *path = PySys_GetObject("path");
    PyObject *text = PyUnicode_DecodeFSDefault(directory);
    bool added = path != NULL && text != NULL && PyList_Insert(path, 0, text) == 0;
    Py_XDECREF(text);
    return added;
}

static bool set_up(void) {
    if (!prepend_path(lmc_py_options->package_dir))
        return false;
    PyObject *host = PyImport_ImportModule("_lmcache_host");
    lmc_py_bootstrap = host != NULL ? PyImport_ImportModule("lmcache._bootstrap") : NULL;
    Py_XDECREF(host);
    PyObject *result =
        lmc_py_bootstrap != NULL ? PyObject_CallMethod(lmc_py_bootstrap, "setup", NULL) : NULL;
    Py_XDECREF(result);
    return result != NULL;
}

static lmc_status open_host(const lmc_pyhost_options *options, lmc_error *error) {
    lmc_py_interpreter chosen;
    lmc_py_options = options;
    lmc_py_server = options->server;
    if (running)
        return LMC_OK;
    lmc_status status = lmc_py_choose(options->interpreter, &chosen, error);
    if (status != LMC_OK)
        return status;
    lmc_py_keep_signals();
    status = initialize(&chosen, error);
    if (status != LMC_OK)
        return status;
    running = true;
    lmc_py_adopt_main();
    if (!set_up())
        status = lmc_py_fail(error, "the package lmcache of the Python host: ");
    lmc_py_restore_signals("the Python host");
    lmc_py_leave();
    return status;
}

static char home[4096];

static const char *prefix(void) {
    if (home[0] != '\0' || !lmc_py_enter())
        return home;
    PyObject *text = PySys_GetObject("prefix"); /* borrowed */
    const char *utf8 = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    snprintf(home, sizeof home, "%s", utf8 != NULL ? utf8 : "?");
    PyErr_Clear();
    lmc_py_leave();
    return home;
}

/* ---- end ---- */

/* Names of threads that still run after exit functions and the budget; NULL: it failed. */
static PyObject *run_exit_functions(int64_t budget_ns) {
    PyObject *left = PyObject_CallMethod(lmc_py_bootstrap, "finish", "d",
                                         (double)budget_ns / (double)LMC_NS_PER_S);
    if (left == NULL)
        lmc_py_report("lmcache.python", NULL, "the end of Python modules");
    return left;
}

static void tell_left(PyObject *left) {
    for (Py_ssize_t i = 0; i < PySequence_Size(left); i++) {
        PyObject *name = PySequence_GetItem(left, i);
        const char *text =
            name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        lmc_py_server->lmc_log_write(
            LMC_LOG_WARNING, "lmcache.python", __FILE_NAME__, __LINE__,
            "thread '%s' of a Python module has not ended; the server does not wait for it",
            text != NULL ? text : "?");
        Py_XDECREF(name);
    }
    PyErr_Clear();
}

static bool finish(int64_t budget_ns) {
    if (!running || !lmc_py_enter())
        return true;
    running = false;
    PyObject *left = lmc_py_bootstrap != NULL ? run_exit_functions(budget_ns) : NULL;
    bool all = lmc_py_bootstrap == NULL ||
               (left != NULL && PySequence_Check(left) && PySequence_Size(left) == 0);
    if (left != NULL && !all)
        tell_left(left);
    Py_XDECREF(left);
    lmc_py_forget_message_types();
    Py_CLEAR(lmc_py_bootstrap);
    lmc_py_end_entering();
    if (!all) {
        PyEval_SaveThread(); /* what still runs goes on until the process ends */
        return false;
    }
    Py_FinalizeEx();
    return true;
}

static void note_all(void) {
    lmc_py_note_built(lmc_py_server->composition(lmc_py_server->arg));
}

/* What Python code of the last world still has must not reach for it any more. */
static void release(void) {
    bool entered = running && lmc_py_enter();
    lmc_py_forget_callees();
    lmc_py_forget_subscribers(entered);
    lmc_py_forget_objects();
    if (entered)
        lmc_py_leave();
    lmc_py_drop_classes();
}

__attribute__((visibility("default"))) extern const lmc_pyhost lmcached_python_host;
const lmc_pyhost lmcached_python_host = {
    .size = sizeof(lmc_pyhost),
    .server_size = sizeof(lmc_pyhost_server),
    .python_version = PY_VERSION,
    .prefix = prefix,
    .open = open_host,
    .load = lmc_py_load,
    .class_count = lmc_py_class_count,
    .class_at = lmc_py_class_at,
    .composed = note_all,
    .closing = lmc_py_close_callee,
    .finish = finish,
    .release = release,
};
