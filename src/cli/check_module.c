/* check-module: what a server would find in a module, without one. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/cli.h"
#include "config/config.h"
#include "config/json_value.h"
#include "module/graph.h"
#include "modules/modules.h"
#include "native/native.h"
#include "server/rehearsal.h"

#define PATHS_MAX 64

static const char usage[] =
    "usage: %s check-module [-h] [--config JSON] [--factory NAME] PATH [PATH ...]\n";

static const char help[] =
    "\nLoads server modules and shows their classes, dependencies and handlers, and "
    "everything\n"
    "that a server would refuse, each with what to do about it.\n\n"
    "  PATH           a shared object, or the dotted path of a module in Python, which is\n"
    "                 always built and closed; several when they depend on each other\n"
    "  --config JSON  also builds and closes them, as a server would, with this\n"
    "                 configuration for the last one\n"
    "  --factory NAME the function of the last one, in Python, that makes its modules: the\n"
    "                 factory_name of --server-module\n\n"
    "Exit status: 0 nothing is wrong, 1 something is, 2 wrong usage.\n";

typedef struct checked_files {
    const char *paths[PATHS_MAX];
    lmc_native_file *files[PATHS_MAX];
    size_t count;
    const char *config, *factory;
    bool help, python;
    lmc_violations violations;
} checked_files;

static int complain(const lmc_cli *cli, const char *what, const char *word) {
    fprintf(cli->err, usage, cli->program);
    fprintf(cli->err, "%s check-module: error: %s%s\n", cli->program, what, word);
    return LMC_EXIT_USAGE;
}

static int parse(const lmc_cli *cli, int count, char *const *words, checked_files *checked) {
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "-h") == 0 || strcmp(words[i], "--help") == 0) {
            checked->help = true;
            return 0;
        }
        bool factory = strcmp(words[i], "--factory") == 0;
        if (factory || strcmp(words[i], "--config") == 0) {
            if (++i == count)
                return complain(cli,
                                factory ? "argument --factory: expected one argument"
                                        : "argument --config: expected one argument",
                                "");
            *(factory ? &checked->factory : &checked->config) = words[i];
        } else if (words[i][0] == '-' || checked->count == PATHS_MAX) {
            return complain(cli, "unrecognized arguments: ", words[i]);
        } else {
            checked->paths[checked->count++] = words[i];
        }
    }
    if (checked->count == 0)
        return complain(cli, "the following arguments are required: ", "PATH");
    return 0;
}

/* ---- what is there ---- */

/* As its author has written it. */
static void show_operation(const lmc_cli *cli, const lmc_operation *entry, bool python) {
    static const char *const classes[][3] = {
        {"SYNC", "NORMAL", "AFFINITY"}, {"SYNC", "BLOCKING", "BLOCKING with client affinity"}};
    fprintf(cli->out, "  overrides   %s (%s)\n", entry->name,
            classes[python][entry->scheduling]);
}

static void show_class(const lmc_cli *cli, const lmc_module_class *class, bool python) {
    fprintf(cli->out, "%s%s%s\n", class->name, class->version != NULL ? " " : "",
            class->version != NULL ? class->version : "");
    for (const char *const *name = class->depends; name != NULL && *name != NULL; name++)
        fprintf(cli->out, "  depends on  %s\n", *name);
    for (const lmc_envelope *e = class->envelopes; e != NULL && e->method != NULL; e++)
        fprintf(cli->out, "  method      %s\n", e->method);
    for (const lmc_operation *o = class->operations; o != NULL && o->name != NULL; o++)
        show_operation(cli, o, python);
    fprintf(cli->out, "  hooks       create%s%s%s%s%s\n", class->close != NULL ? ", close" : "",
            class->report_status != NULL ? ", report_status" : "",
            class->liveness != NULL ? ", liveness" : "",
            class->register_zmq == NULL ? ""
            : python                    ? ", register_zmq_services"
                                        : ", register_zmq",
            class->register_grpc == NULL ? ""
            : python                     ? ", register_grpc_services"
                                         : ", register_grpc");
}

static void show_file(const lmc_cli *cli, const lmc_native_file *file) {
    fprintf(cli->out, "%s: module ABI %u.%u%s%s\n", file->path, (unsigned)file->abi_major,
            (unsigned)file->abi_minor, file->built_with != NULL ? ", " : "",
            file->built_with != NULL ? file->built_with : "");
    for (size_t i = 0; i < file->class_count; i++)
        show_class(cli, &file->classes[i], false);
}

/* ---- what is wrong ---- */

static const char *fix_of(const char *what) {
    if (strncmp(what, "duplicate", strlen("duplicate")) == 0)
        return "name each file once; if they are two, give one of the classes another name";
    if (strstr(what, "cycle") != NULL)
        return "take one of the dependencies away, or ask for it later than in create";
    return "if it is a class of another module, name that one too: check-module OTHER.so "
           "THIS.so";
}

/* Duplicate classes, missing dependencies, cycles: what only shows beside the built-in ones. */
static void check_graph(checked_files *checked) {
    size_t count;
    const lmc_module_class *const *built_in = lmc_built_in_modules(&count);
    size_t total = count;
    for (size_t i = 0; i < checked->count; i++)
        total += checked->files[i] != NULL ? checked->files[i]->class_count : 0;
    lmc_module_class *classes = calloc(total + 1, sizeof *classes);
    size_t *order = calloc(total + 1, sizeof *order);
    lmc_error error = LMC_ERROR_INIT;
    checked->violations.failed |= classes == NULL || order == NULL;
    if (classes != NULL && order != NULL) {
        for (size_t i = 0; i < count; i++)
            classes[i] = *built_in[i];
        for (size_t i = 0; i < checked->count; i++)
            for (size_t k = 0; checked->files[i] != NULL && k < checked->files[i]->class_count;
                 k++)
                classes[count++] = checked->files[i]->classes[k];
        if (lmc_graph_order(classes, count, order, &error) != LMC_OK)
            lmc_violations_add(&checked->violations, fix_of(error.text), "%s", error.text);
    }
    free(classes);
    free(order);
}

/* A class in Python is known once it is built. */
static void show_python(void *arg, const lmc_module_row *row) {
    if (strcmp(row->origin, "python") == 0)
        show_class(arg, row->class, true);
}

/* As a server would from start to stop, but for requests. */
static void rehearse(const lmc_cli *cli, checked_files *checked) {
    lmc_rehearsal_options options = {.paths = checked->paths,
                                     .path_count = checked->count,
                                     .config = checked->config,
                                     .factory = checked->factory};
    lmc_error error = LMC_ERROR_INIT;
    lmc_rehearsal *rehearsal;
    if (lmc_rehearsal_open(&options, &rehearsal, &error) != LMC_OK) {
        lmc_violations_add(&checked->violations, "", "%s", error.text);
        return;
    }
    lmc_rehearsal_each(rehearsal, show_python, (void *)(uintptr_t)cli);
    lmc_buffer status = LMC_BUFFER_INIT;
    if (lmc_rehearsal_status(rehearsal, &status) == LMC_OK &&
        strstr(status.data, "\"status_errors\"") != NULL)
        lmc_violations_add(
            &checked->violations,
            "report_status must return LMC_OK within a second, having ended every "
            "object and list it began",
            "report_status: %s", strstr(status.data, "\"status_errors\""));
    lmc_buffer_fini(&status);
    fprintf(cli->out, "built, asked for its status, and about to be closed\n");
    fflush(cli->out);
    if (!lmc_rehearsal_close(rehearsal))
        lmc_violations_add(&checked->violations, "a handler must return", "it did not stop");
}

static void check_all(const lmc_cli *cli, checked_files *checked) {
    for (size_t i = 0; i < checked->count; i++) {
        lmc_error error = LMC_ERROR_INIT;
        if (!lmc_module_path_is_native(checked->paths[i]))
            checked->python = true;
        else if (lmc_native_open(checked->paths[i], &checked->files[i], &checked->violations,
                                 &error) == LMC_OK)
            show_file(cli, checked->files[i]);
        else if (checked->violations.count == 0)
            lmc_violations_add(&checked->violations, "", "%s", error.text);
    }
    if (checked->violations.count == 0 && !checked->python)
        check_graph(checked);
    if (checked->violations.count == 0 && (checked->config != NULL || checked->python))
        rehearse(cli, checked);
}

/* A fix is shown where there is one that the text does not tell. */
static void show_violation(const lmc_cli *cli, const lmc_violation *violation) {
    fprintf(cli->out, "violation: %s\n", violation->text);
    if (violation->fix[0] != '\0')
        fprintf(cli->out, "      fix: %s\n", violation->fix);
}

static int show_violations(const lmc_cli *cli, const lmc_violations *violations) {
    for (size_t i = 0; i < violations->count; i++)
        show_violation(cli, &violations->items[i]);
    if (violations->failed)
        fprintf(cli->err, "Command failed: out of memory\n");
    if (violations->count == 0 && !violations->failed)
        fprintf(cli->out, "nothing is wrong\n");
    else
        fprintf(cli->out, "%zu violation%s\n", violations->count,
                violations->count == 1 ? "" : "s");
    return violations->count == 0 && !violations->failed ? 0 : LMC_EXIT_FAILED;
}

int lmc_command_check_module(lmc_cli *cli, int count, char *const *words) {
    checked_files checked = {0};
    int result = parse(cli, count, words, &checked);
    if (result != 0)
        return result;
    if (checked.help) {
        fprintf(cli->out, usage, cli->program);
        fprintf(cli->out, "%s", help);
        return 0;
    }
    if (checked.factory != NULL && lmc_module_path_is_native(checked.paths[checked.count - 1]))
        return complain(cli, "argument --factory: not a module in Python: ",
                        checked.paths[checked.count - 1]);
    if (checked.config != NULL && !lmc_json_is_object_text(checked.config))
        return complain(cli, "argument --config: not a JSON object: ", checked.config);
    lmc_log_set_level("lmcache", LMC_LOG_WARNING);
    check_all(cli, &checked);
    result = show_violations(cli, &checked.violations);
    for (size_t i = 0; i < checked.count; i++)
        lmc_native_free(checked.files[i]);
    lmc_violations_fini(&checked.violations);
    return result;
}
