#include "module/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

typedef struct graph {
    const lmc_module_class *classes;
    size_t count;
    bool *edges; /* [from * count + to]: `from` depends on `to` */
    bool *done;
    bool *seen; /* of one search */
} graph;

static size_t find_class(const graph *g, const char *name) {
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->classes[i].name, name) == 0)
            return i;
    return g->count;
}

static bool graph_init(graph *g, const lmc_module_class *classes, size_t count) {
    *g = (graph){.classes = classes, .count = count};
    size_t room = count > 0 ? count : 1;
    g->edges = calloc(room, room * sizeof *g->edges);
    g->done = calloc(room, sizeof *g->done);
    g->seen = calloc(room, sizeof *g->seen);
    return g->edges != NULL && g->done != NULL && g->seen != NULL;
}

static void graph_fini(graph *g) {
    free(g->edges);
    free(g->done);
    free(g->seen);
}

static lmc_status connect_class(graph *g, size_t from, lmc_error *error) {
    const lmc_module_class *class = &g->classes[from];
    if (find_class(g, class->name) != from)
        return lmc_error_set(error, LMC_INVALID, "duplicate server module class: %s",
                             class->name);
    for (const char *const *name = class->depends; name != NULL && *name != NULL; name++) {
        size_t to = find_class(g, *name);
        if (to == g->count)
            return lmc_error_set(error, LMC_INVALID,
                                 "%s depends on '%s', which is not a discoverable module "
                                 "(check the module_name spelling).",
                                 class->name, *name);
        g->edges[from * g->count + to] = true;
    }
    return LMC_OK;
}

static bool is_ready(const graph *g, size_t index) {
    for (size_t to = 0; to < g->count; to++)
        if (g->edges[index * g->count + to] && !g->done[to])
            return false;
    return !g->done[index];
}

/* The next class to build: the first ready one, deferred ones last; count when there is none.
 */
static size_t next_ready(const graph *g) {
    size_t deferred = g->count;
    for (size_t i = 0; i < g->count; i++) {
        if (!is_ready(g, i))
            continue;
        if ((g->classes[i].flags & LMC_MODULE_DEFERRED) == 0)
            return i;
        if (deferred == g->count)
            deferred = i;
    }
    return deferred;
}

static bool reaches(graph *g, size_t from, size_t goal) {
    for (size_t to = 0; to < g->count; to++) {
        if (!g->edges[from * g->count + to] || g->seen[to])
            continue;
        g->seen[to] = true;
        if (to == goal || reaches(g, to, goal))
            return true;
    }
    return false;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lmc_status cycle_error(graph *g, lmc_error *error) {
    lmc_buffer text = LMC_BUFFER_INIT;
    const char **names = calloc(g->count, sizeof *names);
    size_t found = 0;
    for (size_t i = 0; names != NULL && i < g->count; i++) {
        memset(g->seen, 0, g->count * sizeof *g->seen);
        if (!g->done[i] && reaches(g, i, i))
            names[found++] = g->classes[i].name;
    }
    if (found > 0)
        qsort(names, found, sizeof *names, by_name);
    for (size_t i = 0; i < found; i++)
        lmc_buffer_printf(&text, "%s%s", i > 0 ? ", " : "", names[i]);
    lmc_status status = lmc_error_set(error, LMC_INVALID, "Module dependency cycle among: %s",
                                      text.data != NULL ? text.data : "");
    lmc_buffer_fini(&text);
    free(names);
    return status;
}

lmc_status lmc_graph_order(const lmc_module_class *classes, size_t count, size_t *order,
                           lmc_error *error) {
    graph g;
    lmc_status status = LMC_OK;
    if (!graph_init(&g, classes, count))
        status = lmc_error_set(error, LMC_NO_MEMORY, "no memory to order server modules");
    for (size_t i = 0; status == LMC_OK && i < count; i++)
        status = connect_class(&g, i, error);
    for (size_t built = 0; status == LMC_OK && built < count; built++) {
        size_t next = next_ready(&g);
        if (next == count) {
            status = cycle_error(&g, error);
            break;
        }
        g.done[next] = true;
        order[built] = next;
    }
    graph_fini(&g);
    return status;
}
