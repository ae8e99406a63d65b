#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define NAME_SIZE 16
#define SHORT_SLICE_NS 100000u /* the shortest that the kernel grants */

typedef struct start {
    void (*run)(void *arg);
    void *arg;
    char name[NAME_SIZE];
} start;

static void *enter(void *arg) {
    start begin = *(start *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), begin.name);
    begin.run(begin.arg);
    return NULL;
}

static void asynchronous_signals(sigset_t *set) {
    static const int synchronous[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                      SIGTRAP, SIGABRT, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++)
        sigdelset(set, synchronous[i]);
}

lmc_status lmc_thread_start(lmc_thread *thread, const char *name, void (*run)(void *arg),
                            void *arg, lmc_error *error) {
    thread->started = false;
    start *begin = malloc(sizeof *begin);
    if (begin == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for thread %s", name);
    begin->run = run;
    begin->arg = arg;
    snprintf(begin->name, sizeof begin->name, "%s", name);
    sigset_t block, before;
    asynchronous_signals(&block);
    pthread_sigmask(SIG_SETMASK, &block, &before);
    int result = pthread_create(&thread->handle, NULL, enter, begin);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        free(begin);
        return lmc_error_set_errno(error, LMC_FAILED, result, "cannot start thread %s", name);
    }
    thread->started = true;
    return LMC_OK;
}

void lmc_thread_join(lmc_thread *thread) {
    if (!thread->started)
        return;
    pthread_join(thread->handle, NULL);
    thread->started = false;
}

void lmc_thread_lowest_priority(void) {
    struct sched_param parameters = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &parameters) != 0)
        setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
}

/* The kernel's struct sched_attr, first version; its own header and libc's cannot both be used.
 */
typedef struct kernel_sched_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} kernel_sched_attr;

void lmc_thread_short_slices(bool on) {
    kernel_sched_attr attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != SCHED_OTHER)
        return;
    attr.runtime = on ? SHORT_SLICE_NS : 0;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
