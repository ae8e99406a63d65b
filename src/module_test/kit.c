#include "module_test/kit.h"

#include <dirent.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "config/config.h"

#define SETTLE_TRIES 200 /* of 10 ms: threads that were joined may take a moment to vanish */

void lmc_kit_complain(lmc_kit *kit, const char *fix, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(kit->out, "FAIL  %s: ", kit->step);
    vfprintf(kit->out, format, args);
    fprintf(kit->out, "\n      fix: %s\n", fix);
    va_end(args);
    kit->step_failed = true;
}

lmc_rehearsal *lmc_kit_open(lmc_kit *kit) {
    lmc_rehearsal_options options = {.paths = kit->paths,
                                     .path_count = kit->path_count,
                                     .config = kit->config,
                                     .factory = kit->factory};
    lmc_error error = LMC_ERROR_INIT;
    lmc_rehearsal *rehearsal = NULL;
    if (lmc_rehearsal_open(&options, &rehearsal, &error) != LMC_OK)
        lmc_kit_complain(
            kit, "see the text; what it needs is given with --config, --factory, --with",
            "the server does not start: %s", error.text);
    return rehearsal;
}

void lmc_kit_close(lmc_kit *kit, lmc_rehearsal *rehearsal) {
    uint64_t open = rehearsal != NULL ? lmc_rehearsal_open_objects(rehearsal) : 0;
    if (open > 0)
        lmc_kit_complain(kit, "close what lmc_object_open() gave, soon after",
                         "%llu objects are held open although nothing is going on",
                         (unsigned long long)open);
    fflush(kit->out); /* a close that hangs ends the process */
    if (!lmc_rehearsal_close(rehearsal))
        lmc_kit_complain(kit, "a handler must return; what takes long completes its call later",
                         "a handler has not returned within 5 s");
}

/* ---- what must be back where it was ---- */

static size_t count_entries(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count;
}

int64_t lmc_kit_resident(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    long long pages = 0;
    if (file != NULL && fscanf(file, "%*s %lld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

bool lmc_kit_is_python(const lmc_kit *kit) {
    return !lmc_module_path_is_native(kit->paths[kit->path_count - 1]);
}

static bool settles(const char *path, size_t before, size_t *now) {
    for (int i = 0; i < SETTLE_TRIES; i++) {
        *now = count_entries(path);
        if (*now <= before)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10 * LMC_NS_PER_MS}, NULL);
    }
    return false;
}

/* Threads and files of this process that the module has not ended. */
static void check_rest(lmc_kit *kit, size_t threads, size_t files) {
    size_t now;
    if (!settles("/proc/self/task", threads, &now))
        lmc_kit_complain(kit, "join every thread in close()", "%zu threads are left behind",
                         now - threads);
    if (!settles("/proc/self/fd", files, &now))
        lmc_kit_complain(kit, "close every file and socket in close()",
                         "%zu descriptors are left behind", now - files);
}

static void run_step(lmc_kit *kit, const char *name, void (*step)(lmc_kit *kit)) {
    size_t threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
    /* Loading one in Python starts what stays: the interpreter, the process's ZMQ context. */
    bool stays = kit->file == NULL && lmc_kit_is_python(kit);
    kit->step = name;
    kit->step_failed = false;
    step(kit);
    if (!stays)
        check_rest(kit, threads, files);
    if (!kit->step_failed)
        fprintf(kit->out, "ok    %s\n", name);
    *(kit->step_failed ? &kit->failed : &kit->passed) += 1;
    fflush(kit->out);
}

int lmc_kit_run(lmc_kit *kit) {
    static const struct {
        const char *name;
        void (*run)(lmc_kit *kit);
    } steps[] = {
        {"refuse: what is damaged is not loaded", lmc_kit_refuse},
        {"live: built and closed again and again", lmc_kit_live},
        {"unwind: closed when a later module fails", lmc_kit_unwind},
        {"config: a wrong type is refused with a text, or ignored", lmc_kit_doubt_config},
        {"methods: each completes each call once", lmc_kit_call_methods},
        {"override: each replaced operation completes each call once", lmc_kit_override},
        {"reap: instances come and go", lmc_kit_reap},
        {"status: valid, in time, and its own", lmc_kit_report},
    };
    run_step(kit, "load: as a server would", lmc_kit_load);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && kit->file != NULL; i++)
        run_step(kit, steps[i].name, steps[i].run);
    fprintf(kit->out, "%u passed, %u failed\n", kit->passed, kit->failed);
    lmc_native_free(kit->file);
    kit->file = NULL;
    return kit->failed > 0;
}
