/*
 * hello: the smallest useful server module. It answers one method, hello.greet, with a greeting
 * for whoever the payload names, and counts the greetings in /status.
 *
 *     make && lmcached server ... --server-module '{"module_path": "./hello.so"}'
 *     lmcached call tcp://localhost:5555 hello.greet World
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lmcached/module.h>

typedef struct hello {
    lmc_slice greeting;
    atomic_llong count;
} hello;

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    hello *made = calloc(1, sizeof *made);
    if (made == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "no memory");
    made->greeting = (lmc_slice){"Hello", 5};
    *self = made;
    return lmc_build_config_text(build, "greeting", &made->greeting, error);
}

static void greet(void *self, lmc_call *call) {
    hello *h = self;
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    lmc_slice name = lmc_call_join(call, &request->payload);
    char *text = lmc_call_alloc(call, h->greeting.size + name.size + 3);
    if (text == NULL || name.size == 0) {
        lmc_fail(call, LMC_INVALID, "whom shall I greet?");
        return;
    }
    memcpy(text, h->greeting.data, h->greeting.size);
    memcpy(text + h->greeting.size, ", ", 2);
    memcpy(text + h->greeting.size + 2, name.data, name.size);
    lmc_call_lend(call, &reply->payload, text, h->greeting.size + 2 + name.size, NULL, NULL);
    atomic_fetch_add(&h->count, 1);
    lmc_complete(call, LMC_OK);
}

static lmc_status report(void *self, lmc_writer *writer) {
    lmc_write_int(writer, "greetings", atomic_load(&((hello *)self)->count));
    return LMC_OK;
}

static const lmc_envelope envelopes[] = {{.method = "hello.greet", .handle = greet}, {0}};
static const lmc_module_class hello_class = {.size = sizeof hello_class,
                                             .name = "HelloModule",
                                             .create = create,
                                             .close = free,
                                             .report_status = report,
                                             .envelopes = envelopes};
LMC_MODULE(&hello_class);
