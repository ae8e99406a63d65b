#include "module/envelope.h"

#include <stdlib.h>
#include <string.h>

#include <lmcached/messages.h>

#include "base/bytes.h"
#include "base/error.h"
#include "dispatch/exchange.h"

typedef struct method_entry {
    const lmc_envelope *envelope;
    void *self;
    lmc_account *account;
} method_entry;

struct lmc_router {
    method_entry *entries; /* sorted by method */
    size_t count, capacity;
    bool outside; /* some method is of a module from outside */
};

lmc_router *lmc_router_create(void) { return calloc(1, sizeof(lmc_router)); }

void lmc_router_destroy(lmc_router *router) {
    if (router == NULL)
        return;
    free(router->entries);
    free(router);
}

/* Order of bytes, a prefix before what it begins: as Python sorts names. */
static int compare_method(lmc_slice name, const char *method) {
    size_t size = strlen(method);
    size_t shorter = name.size < size ? name.size : size;
    int order = shorter > 0 ? memcmp(name.data, method, shorter) : 0;
    return order != 0 ? order : (name.size > size) - (name.size < size);
}

/* Where the method is, or where it would be inserted. */
static bool find_method(const lmc_router *router, lmc_slice name, size_t *at) {
    size_t low = 0, high = router->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_method(name, router->entries[middle].envelope->method);
        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *at = low;
    return false;
}

static bool grow(lmc_router *router) {
    if (router->count < router->capacity)
        return true;
    size_t capacity = router->capacity > 0 ? 2 * router->capacity : 8;
    method_entry *entries = realloc(router->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    router->entries = entries;
    router->capacity = capacity;
    return true;
}

static lmc_status add_method(lmc_router *router, const lmc_envelope *envelope,
                             const lmc_owner *owner, lmc_error *error) {
    size_t at;
    if (envelope->handle == NULL)
        return lmc_error_set(error, LMC_INVALID,
                             "%s has no handler for server module method %s", owner->name,
                             envelope->method);
    if (strchr(envelope->method, '.') == NULL)
        return lmc_error_set(error, LMC_INVALID,
                             "server module handler method must be namespaced (%s: '%s')",
                             owner->name, envelope->method);
    if (find_method(router, lmc_text(envelope->method), &at))
        return lmc_error_set(error, LMC_INVALID, "duplicate server module method: %s",
                             envelope->method);
    if (!grow(router))
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory for the methods of %s",
                             owner->name);
    memmove(&router->entries[at + 1], &router->entries[at],
            (router->count - at) * sizeof *router->entries);
    router->entries[at] = (method_entry){envelope, owner->self, owner->account};
    router->count++;
    router->outside |= owner->outside;
    return LMC_OK;
}

lmc_status lmc_router_add_of(lmc_router *router, const lmc_envelope *envelopes,
                             const lmc_owner *owner, lmc_error *error) {
    lmc_status status = LMC_OK;
    for (; status == LMC_OK && envelopes != NULL && envelopes->method != NULL; envelopes++)
        status = add_method(router, envelopes, owner, error);
    return status;
}

lmc_status lmc_router_add(lmc_router *router, const lmc_envelope *envelopes, void *self,
                          const char *owner, lmc_error *error) {
    return lmc_router_add_of(router, envelopes, &(lmc_owner){.name = owner, .self = self},
                             error);
}

static void answer_unknown(lmc_call *call, lmc_slice method) {
    static const char prefix[] = "unknown server module method: ";
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    size_t size = sizeof prefix - 1 + method.size;
    char *text = lmc_call_alloc(call, size);
    if (text == NULL) {
        lmc_complete(call, LMC_NO_MEMORY);
        return;
    }
    memcpy(text, prefix, sizeof prefix - 1);
    if (method.size > 0)
        memcpy(text + sizeof prefix - 1, method.data, method.size);
    reply->error = lmc_slice_of(text, size);
    lmc_complete(call, LMC_OK);
}

static void handle_server_module_call(void *self, lmc_call *call) {
    const lmc_router *router = self;
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    size_t at;
    if (!find_method(router, request->method, &at)) {
        answer_unknown(call, request->method);
        return;
    }
    reply->success = true; /* a handler that fails is answered with the negative instead */
    const method_entry *entry = &router->entries[at];
    lmc_call_charge(call, entry->account, entry->envelope->method);
    entry->envelope->handle(entry->self, call);
}

/* So that nobody's mistake waits for a module's handler. */
static bool is_unknown(const void *self, const void *request) {
    const lmc_server_module_call_request *call = request;
    size_t at;
    return !find_method(self, call->method, &at);
}

static const lmc_operation *operations_of(const lmc_router *router) {
    static const lmc_operation operations[] = {
        {.name = "server_module_call",
         .scheduling = LMC_NORMAL,
         .handle = handle_server_module_call},
        {.name = NULL},
    };
    static const lmc_operation outside[] = {
        {.name = "server_module_call",
         .scheduling = LMC_NORMAL,
         .flags = LMC_RUNS_OUTSIDE,
         .handle = handle_server_module_call},
        {.name = NULL},
    };
    return router->outside ? outside : operations;
}

lmc_status lmc_router_register(lmc_router *router, lmc_registry *registry, lmc_error *error) {
    lmc_owner owner = {.name = "EnvelopeRouter",
                       .self = router,
                       .answers_at_once = router->outside ? is_unknown : NULL};
    return lmc_registry_add_of(registry, operations_of(router), &owner, error);
}

lmc_status lmc_router_report_status(void *self, lmc_writer *writer) {
    const lmc_router *router = self;
    if (router->count == 0)
        return LMC_OK;
    lmc_write_object_begin(writer, "server_module_plugins");
    lmc_write_list_begin(writer, "methods");
    for (size_t i = 0; i < router->count; i++)
        lmc_write_text(writer, NULL, lmc_text(router->entries[i].envelope->method));
    lmc_write_list_end(writer);
    lmc_write_object_end(writer);
    return LMC_OK;
}
