/*
 * routes.c: a module for the house tests that answers on the HTTP port.
 *
 * Configuration: {"add": "GET /path"}, one more route; {"decline": true}.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lmcached/messages.h>
#include <lmcached/module.h>

#ifndef NAME
#define NAME "RoutesModule"
#endif

static void say(lmc_http_call *call, uint32_t status, const char *text) {
    lmc_http_call_answer(call, status, "text/plain", text, strlen(text));
}

/* "METHOD id=ID q=Q body=BODY" */
static void show(void *self, lmc_http_call *call) {
    char text[512];
    lmc_slice id = lmc_http_call_segment(call, "id"), q = {"none", 4};
    lmc_slice body = lmc_http_call_body(call);
    (void)self;
    lmc_http_call_query(call, "q", &q);
    snprintf(text, sizeof text, "%s id=%.*s q=%.*s body=%.*s", lmc_http_call_method(call),
             (int)id.size, (const char *)id.data, (int)q.size, (const char *)q.data,
             (int)body.size, (const char *)body.data);
    say(call, 200, text);
}

static void root(void *self, lmc_http_call *call) {
    (void)self;
    lmc_http_call_answer(call, 201, "application/json", "{\"root\": true}", 14);
}

static void silent(void *self, lmc_http_call *call) { (void)self, (void)call; }

static void twice(void *self, lmc_http_call *call) {
    (void)self;
    say(call, 200, "first");
    say(call, 200, "second");
}

static void odd(void *self, lmc_http_call *call) {
    (void)self;
    lmc_http_call_answer(call, 200, "text/plain\r\nX-Injected: 1", "x", 1);
    lmc_http_call_answer(call, 42, "text/plain", "x", 1);
}

static void hang(void *self, lmc_http_call *call) {
    (void)self, (void)call;
    for (;;)
        sleep(60);
}

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    static const struct {
        const char *method, *path;
        void (*handle)(void *self, lmc_http_call *call);
    } routes[] = {
        {"GET", "/", root},         {"GET", "/items/{id}", show}, {"POST", "/items/{id}", show},
        {"GET", "/silent", silent}, {"GET", "/twice", twice},     {"GET", "/odd", odd},
        {"GET", "/hang", hang}};
    lmc_slice add = {0};
    bool decline = false;
    lmc_status status = LMC_OK;
    (void)self;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0] && status == LMC_OK; i++)
        status = lmc_build_add_route(build, routes[i].method, routes[i].path, routes[i].handle,
                                     error);
    if (status == LMC_OK)
        status = lmc_build_config_text(build, "add", &add, error);
    if (status == LMC_OK && add.size > 0) {
        char text[300];
        snprintf(text, sizeof text, "%.*s", (int)add.size, (const char *)add.data);
        char *path = text, *method = strsep(&path, " ");
        status = lmc_build_add_route(build, method, path, show, error);
    }
    if (status == LMC_OK)
        status = lmc_build_config_bool(build, "decline", &decline, error);
    return status == LMC_OK && decline ? LMC_DECLINED : status;
}

static const lmc_module_class class = {.size = sizeof class, .name = NAME, .create = create};
LMC_MODULE(&class);
