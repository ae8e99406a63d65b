#include "module/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "module/build.h"
#include "module/own.h"

typedef struct fixture {
    lmc_context shared;
    lmc_module_record record;
    lmc_build build;
} fixture;

static int calls;

static void answer(void *self, lmc_http_call *call) {
    calls += *(int *)self;
    lmc_slice id = lmc_http_call_segment(call, "id");
    assert_null(lmc_http_call_segment(call, "i").data);
    lmc_http_call_answer(call, 200, "text/plain", id.data, id.size);
}

static void open_routes(fixture *f) {
    *f = (fixture){.shared = {.routes = lmc_routes_create()}};
    assert_non_null(f->shared.routes);
    lmc_module_record_init(&f->record, "OneModule", true, &f->shared);
    f->build = (lmc_build){.context = &f->record.context};
}

static void close_routes(fixture *f) {
    lmc_routes_destroy(f->shared.routes);
    lmc_module_record_fini(&f->record);
}

static lmc_status add(fixture *f, const char *method, const char *path) {
    return lmc_build_add_route(&f->build, method, path, answer, NULL);
}

/* Finds what stands behind /ext. */
static lmc_status find(const fixture *f, const char *method, const char *const *words,
                       const lmc_route **route, char *allow) {
    lmc_slice segments[8];
    size_t count = 0;
    for (; words[count] != NULL; count++)
        segments[count] = lmc_text(words[count]);
    return lmc_routes_find(f->shared.routes, segments, count, method, route, allow);
}

static void a_route_takes_its_path_and_method_only(void **state) {
    (void)state;
    fixture f;
    const lmc_route *route = NULL;
    char allow[LMC_ROUTE_ALLOW_MAX];
    open_routes(&f);
    assert_int_equal(add(&f, "GET", "/items/{id}"), LMC_OK);
    assert_int_equal(add(&f, "DELETE", "/items/{id}"), LMC_OK);
    assert_int_equal(add(&f, "GET", "/"), LMC_OK);
#define FIND(method, ...) \
    find(&f, method, (const char *const[]){__VA_ARGS__, NULL}, &route, allow)
    assert_int_equal(FIND("GET", "OneModule"), LMC_OK);
    assert_int_equal(FIND("GET", "OneModule", "items", "7"), LMC_OK);
    assert_int_equal(FIND("HEAD", "OneModule", "items", "7"), LMC_OK);
    assert_int_equal(FIND("PUT", "OneModule", "items", "7"), LMC_INVALID);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    assert_int_equal(FIND("DELETE", "OneModule", "items", "7"), LMC_OK);
    assert_string_equal(allow, "");
    assert_int_equal(FIND("GET", "OneModule", "items"), LMC_NOT_FOUND);
    assert_int_equal(FIND("GET", "OneModule", "items", "7", "8"), LMC_NOT_FOUND);
    assert_int_equal(FIND("GET", "TwoModule", "items", "7"), LMC_NOT_FOUND);
    assert_int_equal(lmc_routes_find(NULL, NULL, 0, "GET", &route, allow), LMC_NOT_FOUND);
    close_routes(&f);
}

static void what_cannot_be_a_route_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",   "items", "//",    "/a/",           "/a//b", "/{}",
                                      "/{", "/a}b",  "/a b",  "/a%20b",        "/a?b",  "/{a}b",
                                      NULL, "/{a",   "/a/{}", "/1/2/3/4/5/6/7"};
    fixture f;
    open_routes(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(add(&f, "GET", bad[i]), LMC_INVALID);
    assert_int_equal(add(&f, "HEAD", "/a"), LMC_INVALID);
    assert_int_equal(add(&f, NULL, "/a"), LMC_INVALID);
    assert_int_equal(lmc_build_add_route(&f.build, "GET", "/a", NULL, NULL), LMC_INVALID);
    assert_int_equal(add(&f, "GET", "/1/2/3/4/5/6"), LMC_OK);
    assert_int_equal(add(&f, "GET", "/{a}/b"), LMC_OK);
    assert_int_equal(add(&f, "GET", "/{c}/b"), LMC_INVALID); /* the same */
    assert_int_equal(add(&f, "PUT", "/{c}/b"), LMC_OK);
    f.record.context.routes = NULL; /* no HTTP port */
    assert_int_equal(add(&f, "GET", "/z"), LMC_DECLINED);
    close_routes(&f);
}

static void a_module_that_is_absent_has_no_routes(void **state) {
    (void)state;
    fixture f;
    const lmc_route *route = NULL;
    char allow[LMC_ROUTE_ALLOW_MAX];
    open_routes(&f);
    assert_int_equal(add(&f, "GET", "/a"), LMC_OK);
    assert_int_equal(add(&f, "GET", "/b"), LMC_OK);
    lmc_routes_drop(f.shared.routes, &f.record.own);
    lmc_routes_drop(NULL, &f.record.own);
    assert_int_equal(FIND("GET", "OneModule", "a"), LMC_NOT_FOUND);
    close_routes(&f);
}

static void a_call_is_charged_to_its_module(void **state) {
    (void)state;
    fixture f;
    const lmc_route *route = NULL;
    char allow[LMC_ROUTE_ALLOW_MAX];
    lmc_buffer reply = LMC_BUFFER_INIT;
    lmc_slice segments[] = {lmc_text("OneModule"), lmc_text("seven")};
    int by = 3;
    open_routes(&f);
    assert_int_equal(add(&f, "GET", "/{id}"), LMC_OK);
    lmc_routes_bind(f.shared.routes, &f.record.own, &by);
    assert_int_equal(FIND("GET", "OneModule", "seven"), LMC_OK);
    lmc_http_call call = {
        .method = "GET", .segments = segments, .segment_count = 2, .reply = &reply};
    lmc_route_run(route, &call);
    assert_int_equal(calls, 3);
    assert_int_equal(call.status, 200);
    assert_true(lmc_slice_is(lmc_slice_of(reply.data, reply.size), "seven"));
    assert_int_equal(f.record.own.account.calls, 1);
    assert_int_equal(f.record.own.account.in_flight, 0);
    assert_int_equal(f.record.own.in_routes, 0);
    lmc_buffer_fini(&reply);
    close_routes(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_takes_its_path_and_method_only),
        cmocka_unit_test(what_cannot_be_a_route_is_refused),
        cmocka_unit_test(a_module_that_is_absent_has_no_routes),
        cmocka_unit_test(a_call_is_charged_to_its_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
