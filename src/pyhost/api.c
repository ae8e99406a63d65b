/* The module _lmcache_host: its constants, and the functions of the other api_*.c. */
#include "pyhost/python.h"

#define HOST_MODULE "_lmcache_host"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = HOST_MODULE,
    .m_doc = "What lmcached offers to the package lmcache; see lmcache/_host.pyi.",
    .m_size = -1,
};

static bool add_functions(PyObject *module) {
    PyMethodDef *const tables[] = {lmc_py_log_functions,      lmc_py_schema_functions,
                                   lmc_py_cache_functions,    lmc_py_event_functions,
                                   lmc_py_metric_functions,   lmc_py_call_functions,
                                   lmc_py_liveness_functions, lmc_py_registrar_functions};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (PyModule_AddFunctions(module, tables[i]) < 0)
            return false;
    return true;
}

static bool add_arguments(PyObject *module) {
    PyObject *list = PyList_New(0);
    for (const char *const *word = lmc_py_options->argv; list != NULL && *word != NULL;
         word++) {
        PyObject *text = PyUnicode_DecodeFSDefault(*word);
        if (text == NULL || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    bool added = list != NULL && PyModule_AddObjectRef(module, "SERVER_ARGV", list) == 0;
    Py_XDECREF(list);
    return added;
}

PyObject *lmc_py_make_host_module(void) {
    PyObject *module = PyModule_Create(&definition);
    lmc_py_start_error = PyErr_NewException(HOST_MODULE ".StartError", PyExc_Exception, NULL);
    if (module == NULL || lmc_py_start_error == NULL || !add_functions(module) ||
        !add_arguments(module) || !lmc_py_add_object_type(module) ||
        PyModule_AddObjectRef(module, "StartError", lmc_py_start_error) < 0 ||
        PyModule_AddStringConstant(module, "VERSION", LMC_VERSION) < 0 ||
        PyModule_AddObjectRef(module, "REHEARSAL",
                              lmc_py_options->rehearsal ? Py_True : Py_False) < 0 ||
        PyModule_AddIntConstant(module, "HASH_SIZE", LMC_CHUNK_HASH_SIZE) < 0)
        Py_CLEAR(module);
    return module;
}
