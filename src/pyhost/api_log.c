/* _lmcache_host: the log and the configuration. */
#include "pyhost/python.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json_writer.h"

#define OUTPUT_LOGGER "lmcache.python" /* of what modules print */
#define PATIENCE_NS                                                           \
    (LMC_NS_PER_S / 2) /* of printing, with a full log, before lines are lost \
                        */

/* ---- the log ---- */

static bool offer(const char *logger, int level, const char *file, int line, lmc_slice text) {
    return lmc_py_server->lmc_log_offer(logger, (lmc_log_level)level, file, line, "", text);
}

/* What modules print may wait a little for room; their log lines never wait. */
static bool offer_patiently(const char *logger, int level, const char *file, int line,
                            lmc_slice text) {
    static int64_t patience_ends; /* guarded by the GIL */
    int64_t now = lmc_now(&lmc_system_clock);
    int64_t deadline = now + PATIENCE_NS;
    bool taken = offer(logger, level, file, line, text);
    if (taken || now < patience_ends)
        return taken;
    while (!taken && lmc_now(&lmc_system_clock) < deadline) {
        Py_BEGIN_ALLOW_THREADS;
        nanosleep(&(struct timespec){.tv_nsec = LMC_NS_PER_MS}, NULL);
        Py_END_ALLOW_THREADS;
        taken = offer(logger, level, file, line, text);
    }
    if (!taken)
        patience_ends = lmc_now(&lmc_system_clock) + LMC_NS_PER_S;
    return taken;
}

static void count_lost(const char *logger) {
    static uint64_t lost; /* guarded by the GIL */
    static lmc_log_limit limit;
    lost++;
    if (lmc_py_server->lmc_log_allow(&limit, NULL)) {
        lmc_py_server->lmc_log_write(
            LMC_LOG_WARNING, logger, __FILE_NAME__, __LINE__,
            "%llu lines of Python modules were dropped: stderr is read "
            "too slowly",
            (unsigned long long)lost);
        lost = 0;
    }
}

static void log_line(const char *logger, int level, const char *file, int line,
                     lmc_slice text) {
    bool printed = strcmp(logger, OUTPUT_LOGGER) == 0;
    if (!(printed ? offer_patiently : offer)(logger, level, file, line, text))
        count_lost(logger);
}

/* In a forked child the log's thread does not live, and its lock may be held for ever. */
static PyObject *write_plainly(PyObject *message) {
    PyObject *bytes = PyUnicode_AsEncodedString(message, "utf-8", "backslashreplace");
    if (bytes == NULL)
        return NULL;
    if (write(STDERR_FILENO, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        errno = 0; /* there is nobody to tell */
    Py_DECREF(bytes);
    return Py_NewRef(Py_None);
}

static PyObject *log_message(PyObject *module, PyObject *arguments) {
    int level, line;
    const char *logger, *file;
    PyObject *message;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "issiU", &level, &logger, &file, &line, &message))
        return NULL;
    if (lmc_py_is_child())
        return write_plainly(message);
    if (!lmc_py_server->lmc_log_enabled((lmc_log_level)level, logger))
        return Py_NewRef(Py_None);
    PyObject *bytes = PyUnicode_AsEncodedString(message, "utf-8", "backslashreplace");
    if (bytes == NULL)
        return NULL;
    const char *at = PyBytes_AS_STRING(bytes), *end = at + PyBytes_GET_SIZE(bytes);
    do {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        log_line(logger, level, file, line, lmc_slice_of(at, (size_t)(stop - at)));
        at = stop + 1;
    } while (at < end);
    Py_DECREF(bytes);
    return Py_NewRef(Py_None);
}

static PyObject *log_level(PyObject *module, PyObject *logger) {
    (void)module;
    const char *name = PyUnicode_AsUTF8(logger);
    if (name != NULL && lmc_py_is_child())
        return PyLong_FromLong(LMC_LOG_INFO);
    return name != NULL ? PyLong_FromLong(lmc_py_server->lmc_log_level_of(name)) : NULL;
}

/* ---- configuration ---- */

static PyObject *take_text(lmc_buffer *buffer) {
    PyObject *text =
        buffer->failed
            ? PyErr_NoMemory()
            : PyUnicode_DecodeUTF8(buffer->data, (Py_ssize_t)buffer->size, "surrogateescape");
    lmc_buffer_fini(buffer);
    return text;
}

/* The modules run in the server and get what it was given, secrets included. */
static PyObject *config_json(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    static char pass[] = "pass";
    lmc_config open = *lmc_py_options->config;
    lmc_buffer out = LMC_BUFFER_INIT;
    open.mp.runtime_plugin_secrets = pass;
    if (lmc_py_server->lmc_config_render(&open, LMC_CONFIG_PLUGIN, &out) != LMC_OK)
        out.failed = true;
    return take_text(&out);
}

static PyObject *server_modules_json(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    const lmc_mp_config *mp = &lmc_py_options->config->mp;
    lmc_buffer out = LMC_BUFFER_INIT;
    lmc_json_writer json;
    lmc_json_start(&json, &out, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    lmc_json_list_begin(&json);
    for (size_t i = 0; i < mp->server_module_count; i++) {
        const lmc_module_spec *spec = &mp->server_modules[i];
        lmc_json_object_begin(&json);
        lmc_json_member_text(&json, "module_path", spec->module_path);
        if (spec->factory_name != NULL)
            lmc_json_member_text(&json, "factory_name", spec->factory_name);
        lmc_json_name(&json, "config");
        lmc_json_raw(&json, lmc_text(spec->config));
        lmc_json_object_end(&json);
    }
    lmc_json_list_end(&json);
    if (lmc_json_finish(&json) != LMC_OK)
        out.failed = true;
    return take_text(&out);
}

PyMethodDef lmc_py_log_functions[] = {
    {"log", log_message, METH_VARARGS, NULL},
    {"log_level", log_level, METH_O, NULL},
    {"config_json", config_json, METH_NOARGS, NULL},
    {"server_modules_json", server_modules_json, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
