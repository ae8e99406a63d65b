#include "pyhost/python.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static PyInterpreterState *interpreter;
static atomic_bool ended;  /* nobody enters any more */
static atomic_bool forked; /* this process is a child of the server */
static pthread_key_t at_thread_end;
static _Thread_local PyThreadState *own; /* of this thread, for life */

/* ---- a thread's state ---- */

static void give_back_state(void *state) {
    if (atomic_load(&ended) || atomic_load(&forked))
        return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
    own = NULL;
}

static void note_fork(void) { atomic_store(&forked, true); }

void lmc_py_adopt_main(void) {
    own = PyThreadState_Get();
    interpreter = own->interp;
    pthread_key_create(&at_thread_end, give_back_state);
    pthread_atfork(NULL, NULL, note_fork);
}

/* Threads of the server block signals, and what Python starts there would inherit that: a child
 * could not be stopped. The server's handlers may run on any thread. */
static void unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static bool make_state(void) {
    unblock_signals();
    own = PyThreadState_New(interpreter);
    if (own != NULL)
        pthread_setspecific(at_thread_end, own);
    return own != NULL;
}

bool lmc_py_enter(void) {
    if (atomic_load_explicit(&ended, memory_order_relaxed) ||
        atomic_load_explicit(&forked, memory_order_relaxed))
        return false;
    if (own == NULL && !make_state())
        return false;
    PyEval_RestoreThread(own);
    return true;
}

void lmc_py_leave(void) { PyEval_SaveThread(); }

bool lmc_py_enter_any(void) {
    if (own != NULL && PyGILState_Check())
        return false;
    if (own != NULL)
        return lmc_py_enter();
    /* A thread that Python made has a state of Python's, which it may have set aside. */
    PyThreadState *state = PyGILState_GetThisThreadState();
    if (state != NULL && PyGILState_Check())
        return false;
    if (state != NULL) {
        PyEval_RestoreThread(state);
        return true;
    }
    return lmc_py_enter();
}

void lmc_py_end_entering(void) { atomic_store(&ended, true); }

/* ---- forked children ---- */

bool lmc_py_is_child(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

void lmc_py_end_child(int exit_code) {
    static const char text[] = "lmcached: a child that a server module forked returned from "
                               "its handler; it ends here\n";
    if (exit_code == 0 && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        exit_code = 1;
    _exit(exit_code);
}
