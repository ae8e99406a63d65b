#include "module/composition.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "module/build.h"
#include "module/closing.h"
#include "module/envelope.h"
#include "module/graph.h"
#include "module/own.h"
#include "module/registrar.h"

#define LMC_LOGGER "lmcache.module"

typedef struct built_module {
    const lmc_composition_options *options;
    lmc_module_class class;
    void *self;
    lmc_module_own *own;
    lmc_owner owner;
} built_module;

struct lmc_added_module {
    lmc_module_record record;
    lmc_module_class class;
    void *self;
    lmc_added_module *next;
};

struct lmc_composition {
    lmc_composition_options options;
    lmc_module_class *classes; /* in our size; what a smaller one lacks is zero */
    size_t *order;
    lmc_module_record *records; /* by class */
    lmc_arena arena;            /* what modules asked of their configuration */
    built_module *built;        /* in construction order */
    size_t built_count, built_room;
    lmc_added_module *added; /* latest first */
    lmc_router *router;
    lmc_status_collector *status;
    lmc_closing *closings;
};

/* ---- what create() of a module may ask about others ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void *not_built(const lmc_composition *c, const char *class_name, lmc_error *error) {
    lmc_buffer text = LMC_BUFFER_INIT;
    const char **names = calloc(c->built_count + 1, sizeof *names);
    for (size_t i = 0; names != NULL && i < c->built_count; i++)
        names[i] = c->built[i].class.name;
    if (names != NULL)
        qsort(names, c->built_count, sizeof *names, by_name);
    for (size_t i = 0; names != NULL && i < c->built_count; i++)
        lmc_buffer_printf(&text, "%s'%s'", i > 0 ? ", " : "", names[i]);
    lmc_error_set(error, LMC_NOT_FOUND, "Module '%s' is not built yet; built so far: [%s]",
                  class_name, text.data != NULL ? text.data : "");
    lmc_buffer_fini(&text);
    free(names);
    return NULL;
}

void *lmc_composition_find(const lmc_composition *composition, const char *class_name) {
    for (size_t i = 0; i < composition->built_count; i++)
        if (strcmp(composition->built[i].class.name, class_name) == 0)
            return composition->built[i].self;
    return NULL;
}

void *lmc_build_require(lmc_build *build, const char *class_name, lmc_error *error) {
    void *self = lmc_composition_find(build->composition, class_name);
    return self != NULL ? self : not_built(build->composition, class_name, error);
}

/* ---- building ---- */

static lmc_status check_class(const lmc_module_class *class, lmc_error *error) {
    if (class->name == NULL || class->name[0] == '\0' || class->create == NULL)
        return lmc_error_set(error, LMC_INVALID, "a server module class is incomplete");
    if ((class->flags & ~LMC_MODULE_DEFERRED) != 0)
        return lmc_error_set(error, LMC_INVALID, "%s has unknown flags 0x%x", class->name,
                             (unsigned)class->flags);
    return LMC_OK;
}

static lmc_status take_classes(lmc_composition *c, lmc_error *error) {
    for (size_t i = 0; i < c->options.class_count; i++) {
        const lmc_module_class *class = c->options.classes[i];
        size_t size = class->size < sizeof *class ? class->size : sizeof *class;
        memcpy(&c->classes[i], class, size);
        lmc_status status = check_class(&c->classes[i], error);
        if (status != LMC_OK)
            return status;
    }
    return lmc_graph_order(c->classes, c->options.class_count, c->order, error);
}

/* A module that was built takes its place; on failure the caller closes it with the others. */
static lmc_status adopt(lmc_composition *c, const built_module *module, lmc_error *error) {
    const lmc_module_class *class = &module->class;
    c->built[c->built_count++] = *module;
    lmc_module_own_meter(module->own, c->options.context->metrics);
    lmc_status status = lmc_router_add_of(c->router, class->envelopes, &module->owner, error);
    if (status == LMC_OK && class->liveness != NULL)
        status = lmc_liveness_add(c->options.context->liveness, class->name, class->liveness,
                                  module->self, module->owner.outside, error);
    if (status == LMC_OK && class->report_status != NULL)
        status = lmc_status_collector_add(c->status, class->name, class->report_status,
                                          module->self);
    return status;
}

static lmc_slice config_of(const lmc_composition *c, const char *class_name) {
    lmc_slice config = {0};
    if (c->options.config_for != NULL)
        config = c->options.config_for(c->options.arg, class_name);
    return config.data != NULL ? config : lmc_text("{}");
}

/* ---- modules that others made ---- */

/* Room for one more, also of what closing them takes. */
static bool make_room(lmc_composition *c) {
    size_t room = c->built_room + 1;
    built_module *built = realloc(c->built, room * sizeof *built);
    if (built != NULL)
        c->built = built;
    lmc_closing *closings = realloc(c->closings, room * sizeof *closings);
    if (closings != NULL)
        c->closings = closings;
    if (built == NULL || closings == NULL)
        return false;
    c->built_room = room;
    return true;
}

lmc_status lmc_build_add(lmc_build *build, const lmc_module_class *class, void *self,
                         lmc_error *error) {
    lmc_added_module *added = calloc(1, sizeof *added);
    lmc_added_module **end = &build->added;
    if (added == NULL || !make_room(build->composition)) {
        free(added);
        return lmc_error_set(error, LMC_NO_MEMORY, "%s: no memory for a module", class->name);
    }
    added->class = *class;
    added->self = self;
    while (*end != NULL)
        end = &(*end)->next;
    *end = added;
    return LMC_OK;
}

static int64_t close_limit(const lmc_composition *c) {
    return c->options.close_limit_ns > 0 ? c->options.close_limit_ns : LMC_CLOSE_LIMIT_NS;
}

/* A module that is absent after all hears and holds nothing any more. */
static void forget(lmc_composition *c, lmc_module_own *own) {
    lmc_events_drop(c->options.context->events, own->name, close_limit(c));
    lmc_routes_drop(c->options.context->routes, own);
    if (own->tidy != NULL)
        own->tidy(own);
}

/* The failure of a hook, with the class's name before it unless the text begins with that. */
static lmc_status explain(const lmc_module_class *class, const char *hook, lmc_status status,
                          const lmc_error *cause, lmc_error *error) {
    size_t size = strlen(class->name);
    status = status < 0 ? status : LMC_FAILED;
    if (cause->text[0] == '\0')
        return lmc_error_set(error, status, "%s: %s: %s", class->name, hook,
                             lmc_status_name(status));
    if (strncmp(cause->text, class->name, size) == 0 && cause->text[size] == ':')
        return lmc_error_set(error, status, "%s", cause->text);
    return lmc_error_set(error, status, "%s: %s", class->name, cause->text);
}

/* Those that the module made take their places; `status` not LMC_OK: only to be closed. */
static lmc_status adopt_added(lmc_composition *c, lmc_added_module *added, lmc_status status,
                              lmc_error *error) {
    while (added != NULL) {
        lmc_added_module *next = added->next;
        lmc_module_record_init(&added->record, added->class.name, true, c->options.context);
        built_module module = {.options = &c->options,
                               .class = added->class,
                               .self = added->self,
                               .own = &added->record.own,
                               .owner = {.name = added->class.name,
                                         .self = added->self,
                                         .outside = true,
                                         .account = &added->record.own.account}};
        if (status == LMC_OK)
            status = adopt(c, &module, error);
        else
            c->built[c->built_count++] = module;
        added->next = c->added;
        c->added = added;
        added = next;
    }
    return status;
}

static lmc_status build_one(lmc_composition *c, size_t index, lmc_error *error) {
    const lmc_module_class *class = &c->classes[index];
    lmc_module_record *record = &c->records[index];
    bool outside = index >= c->options.built_in_count;
    lmc_module_record_init(record, class->name, outside, c->options.context);
    lmc_build build = {.composition = c,
                       .class = class,
                       .own_class = &c->classes[index],
                       .context = outside ? &record->context : c->options.context,
                       .config = config_of(c, class->name),
                       .arena = &c->arena};
    lmc_error cause = LMC_ERROR_INIT;
    void *self = NULL;
    lmc_lock_assert_none();
    lmc_status status = class->create(&build, &self, &cause);
    if (status != LMC_OK) {
        forget(c, &record->own);
        status =
            status == LMC_DECLINED ? LMC_OK : explain(class, "create", status, &cause, error);
        if (status == LMC_OK && build.added == NULL)
            LMC_DEBUG("%s is not loaded%s%s", class->name, cause.text[0] != '\0' ? ": " : "",
                      cause.text);
        return adopt_added(c, build.added, status, error);
    }
    if (self == NULL)
        self = &c->classes[index]; /* a module without state; NULL means not built */
    lmc_routes_bind(c->options.context->routes, &record->own, self);
    built_module module = {.options = &c->options,
                           .class = *class,
                           .self = self,
                           .own = &record->own,
                           .owner = {.name = class->name,
                                     .self = self,
                                     .outside = outside,
                                     .account = &record->own.account}};
    status = adopt(c, &module, error);
    return adopt_added(c, build.added, status, error);
}

static void log_composition(const lmc_composition *c) {
    lmc_buffer text = LMC_BUFFER_INIT;
    for (size_t i = 0; i < c->built_count; i++) {
        const lmc_module_class *class = &c->built[i].class;
        lmc_buffer_printf(&text, "%s%s(dependencies=[", i > 0 ? ", " : "", class->name);
        for (const char *const *name = class->depends; name != NULL && *name != NULL; name++)
            lmc_buffer_printf(&text, "%s%s", name != class->depends ? ", " : "", *name);
        lmc_buffer_text(&text, "])");
    }
    LMC_INFO("Composed %zu server modules: %s", c->built_count,
             text.data != NULL ? text.data : "");
    lmc_buffer_fini(&text);
}

static void write_account(lmc_writer *writer, const lmc_account *account) {
    lmc_write_int(writer, "calls", (int64_t)atomic_load(&account->calls));
    lmc_write_int(writer, "errors", (int64_t)atomic_load(&account->errors));
    if (account->outside)
        lmc_write_int(writer, "in_flight", atomic_load(&account->in_flight));
    lmc_write_int(writer, "slow_calls", (int64_t)atomic_load(&account->slow));
    lmc_write_object_begin(writer, "seconds");
    lmc_write_int(writer, "count", (int64_t)atomic_load(&account->measured));
    lmc_write_real(writer, "sum",
                   (double)atomic_load(&account->busy_ns) / (double)LMC_NS_PER_S);
    lmc_write_real(writer, "max",
                   (double)atomic_load(&account->longest_ns) / (double)LMC_NS_PER_S);
    lmc_write_object_end(writer);
}

static void write_module(void *arg, const lmc_module_row *row) {
    lmc_writer *writer = arg;
    lmc_write_object_begin(writer, row->name);
    lmc_write_text(writer, "origin", lmc_text(row->origin));
    if (row->version != NULL)
        lmc_write_text(writer, "version", lmc_text(row->version));
    write_account(writer, row->account);
    lmc_write_object_end(writer);
}

static lmc_status report_modules(void *self, lmc_writer *writer) {
    lmc_write_object_begin(writer, "server_modules");
    lmc_composition_each(self, write_module, writer);
    lmc_write_object_end(writer);
    return LMC_OK;
}

static bool allocate(lmc_composition *c) {
    size_t room = c->options.class_count > 0 ? c->options.class_count : 1;
    c->built_room = room;
    int64_t budget = c->options.status_budget_ns;
    c->classes = calloc(room, sizeof *c->classes);
    c->order = calloc(room, sizeof *c->order);
    c->records = calloc(room, sizeof *c->records);
    lmc_arena_init(&c->arena, 0);
    c->built = calloc(room, sizeof *c->built);
    c->closings = calloc(room, sizeof *c->closings);
    c->router = lmc_router_create();
    c->status = lmc_status_collector_create(budget > 0 ? budget : LMC_STATUS_BUDGET_NS);
    return c->classes != NULL && c->order != NULL && c->records != NULL && c->built != NULL &&
           c->closings != NULL && c->router != NULL && c->status != NULL;
}

lmc_status lmc_composition_create(const lmc_composition_options *options,
                                  lmc_composition **composition, lmc_error *error) {
    lmc_composition *c = calloc(1, sizeof *c);
    lmc_status status = LMC_NO_MEMORY;
    *composition = NULL;
    if (c == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for server modules");
    c->options = *options;
    if (allocate(c))
        status = take_classes(c, error);
    if (status == LMC_OK)
        status = lmc_status_collector_add(c->status, "server_modules", report_modules, c);
    for (size_t i = 0; i < options->class_count && status == LMC_OK; i++)
        status = build_one(c, c->order[i], error);
    if (status == LMC_OK)
        status = lmc_status_collector_add(c->status, "server_module_plugins",
                                          lmc_router_report_status, c->router);
    if (status != LMC_OK) {
        lmc_error_set(error, status, "no memory for server modules");
        lmc_composition_close(c);
        lmc_composition_destroy(c);
        return status;
    }
    log_composition(c);
    *composition = c;
    return LMC_OK;
}

lmc_status lmc_composition_register(lmc_composition *composition, lmc_registry *registry,
                                    lmc_error *error) {
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < composition->built_count && status == LMC_OK; i++) {
        const built_module *module = &composition->built[i];
        status = lmc_registry_add_of(registry, module->class.operations, &module->owner, error);
    }
    if (status == LMC_OK)
        status = lmc_router_register(composition->router, registry, error);
    return status;
}

lmc_status lmc_composition_register_zmq(lmc_composition *composition, lmc_registry *registry,
                                        void *(*context)(void *arg), void *arg,
                                        lmc_error *error) {
    lmc_status status = LMC_OK;
    for (size_t i = 0; i < composition->built_count && status == LMC_OK; i++) {
        const built_module *module = &composition->built[i];
        lmc_zmq_server server = {
            .registry = registry, .owner = &module->owner, .context = context, .arg = arg};
        lmc_error cause = LMC_ERROR_INIT;
        if (module->class.register_zmq == NULL)
            continue;
        lmc_lock_assert_none();
        status = module->class.register_zmq(module->self, &server, &cause);
        if (status != LMC_OK)
            status = explain(&module->class, "register_zmq", status, &cause, error);
    }
    return status;
}

static const char *origin_of(const lmc_composition *c, const built_module *module) {
    if (!module->owner.outside)
        return "built-in";
    return c->options.origin_of != NULL
               ? c->options.origin_of(c->options.arg, module->class.name)
               : "native";
}

void lmc_composition_each(const lmc_composition *composition,
                          void (*visit)(void *arg, const lmc_module_row *row), void *arg) {
    for (size_t i = 0; i < composition->built_count; i++) {
        const built_module *module = &composition->built[i];
        visit(arg, &(lmc_module_row){.name = module->class.name,
                                     .version = module->class.version,
                                     .origin = origin_of(composition, module),
                                     .account = &module->own->account,
                                     .class = &module->class,
                                     .self = module->self});
    }
}

lmc_status_collector *lmc_composition_status(lmc_composition *composition) {
    return composition->status;
}

size_t lmc_composition_count(const lmc_composition *composition) {
    return composition->built_count;
}

/* ---- closing ---- */

static void close_module(void *arg) {
    const built_module *module = arg;
    if (module->options->closing != NULL)
        module->options->closing(module->options->arg, module->class.name);
    if (module->class.close != NULL)
        module->class.close(module->self);
    if (module->own->tidy != NULL)
        module->own->tidy(module->own);
}

/* A module that a thread is still in cannot be closed: the thread would use what close frees.
 */
static void plan_closings(lmc_composition *c, bool reaper_quiet) {
    for (size_t i = 0; i < c->built_count; i++) {
        built_module *module = &c->built[c->built_count - 1 - i];
        bool busy = lmc_status_collector_is_late(c->status, module->self) ||
                    lmc_events_is_in(c->options.context->events, module->class.name) ||
                    atomic_load(&module->own->in_routes) > 0 ||
                    (!reaper_quiet && module->class.liveness != NULL);
        if (busy)
            LMC_ERROR("%s has not returned from a call; it is not closed", module->class.name);
        c->closings[i] = (lmc_closing){
            .name = module->class.name, .close = busy ? NULL : close_module, .self = module};
    }
}

static void wait_for_close(void *arg) { (void)arg; }

bool lmc_composition_close(lmc_composition *composition) {
    lmc_composition *c = composition;
    int64_t limit = close_limit(c);
    bool quiet = true;
    lmc_events_stop(c->options.context->events, limit);
    if (c->options.context->liveness != NULL)
        quiet = lmc_liveness_stop(c->options.context->liveness, limit);
    if (c->status != NULL)
        lmc_status_collector_stop(c->status, limit / 10);
    if (c->built_count == 0)
        return true;
    plan_closings(c, quiet);
    return lmc_close_in_order(
        c->closings, c->built_count, limit,
        c->options.take_over != NULL ? c->options.take_over : wait_for_close, c->options.arg);
}

/* What calls that were never completed are charged to: their handlers may still do so. */
static struct {
    lmc_module_record *records;
    lmc_added_module *added;
} left_behind;

static bool has_calls(const lmc_composition *c) {
    bool in_flight = false;
    for (size_t i = 0; c->records != NULL && i < c->options.class_count; i++)
        in_flight |= atomic_load(&c->records[i].own.account.in_flight) > 0;
    for (lmc_added_module *at = c->added; at != NULL; at = at->next)
        in_flight |= atomic_load(&at->record.own.account.in_flight) > 0;
    return in_flight;
}

static void free_records(lmc_composition *c) {
    if (has_calls(c)) {
        left_behind.records = c->records;
        left_behind.added = c->added;
        return;
    }
    for (size_t i = 0; c->records != NULL && i < c->options.class_count; i++)
        lmc_module_record_fini(&c->records[i]);
    free(c->records);
    while (c->added != NULL) {
        lmc_added_module *next = c->added->next;
        lmc_module_record_fini(&c->added->record);
        free(c->added);
        c->added = next;
    }
}

void lmc_composition_destroy(lmc_composition *composition) {
    if (composition == NULL)
        return;
    lmc_status_collector_destroy(composition->status);
    lmc_router_destroy(composition->router);
    free_records(composition);
    lmc_arena_fini(&composition->arena);
    free(composition->closings);
    free(composition->built);
    free(composition->order);
    free(composition->classes);
    free(composition);
}
