#include "dispatch/inner_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

typedef struct asked {
    lmc_handler handler;
    lmc_operation entry;
    lmc_buffer frame;
    bool has_frame;
    lmc_error error;
    uint64_t connection; /* that the handler saw */
    lmc_thread later;
} asked;

/* ---- handlers ---- */

static void answer_at_once(void *self, lmc_call *call) {
    lmc_get_chunk_size_reply *reply = lmc_call_reply(call);
    ((asked *)self)->connection = lmc_call_connection(call);
    reply->chunk_size = 77;
    lmc_complete(call, LMC_OK);
}

static void complete_later(void *arg) { lmc_complete(arg, LMC_OK); }

static void answer_later(void *self, lmc_call *call) {
    lmc_get_chunk_size_reply *reply = lmc_call_reply(call);
    reply->chunk_size = 78;
    assert_int_equal(
        lmc_thread_start(&((asked *)self)->later, "later", complete_later, call, NULL), LMC_OK);
}

static void refuse(void *self, lmc_call *call) {
    (void)self;
    lmc_fail(call, LMC_FAILED, "no reason");
}

static void say_pending(void *self, lmc_call *call) {
    (void)self;
    lmc_complete(call, LMC_AGAIN);
}

/* ---- asking ---- */

static lmc_status ask(asked *a, const char *operation, void (*handle)(void *, lmc_call *),
                      const char *frame) {
    *a = (asked){.error = LMC_ERROR_INIT,
                 .entry = {.name = operation, .scheduling = LMC_NORMAL, .handle = handle}};
    a->handler = (lmc_handler){.operation = lmc_operation_by_name(lmc_text(operation)),
                               .entry = &a->entry,
                               .self = a,
                               .owner = "Asked"};
    lmc_slice frames[] = {lmc_text(frame)};
    lmc_inner_call call = {.handler = &a->handler,
                           .frames = frames,
                           .frame_count = frame != NULL ? 1 : 0,
                           .connection = 5};
    return lmc_inner_call_run(&call, &a->frame, &a->has_frame, &a->error);
}

static void expect_frame(asked *a, const char *bytes) {
    assert_true(a->has_frame);
    assert_int_equal(a->frame.size, strlen(bytes));
    assert_memory_equal(a->frame.data, bytes, a->frame.size);
    lmc_buffer_fini(&a->frame);
}

static void a_handler_is_asked_on_behalf_of_a_connection(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "get_chunk_size", answer_at_once, NULL), LMC_OK);
    assert_int_equal(a.connection, 5);
    expect_frame(&a, "\x4d");
}

static void an_answer_that_comes_later_is_waited_for(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "get_chunk_size", answer_later, NULL), LMC_OK);
    lmc_thread_join(&a.later);
    expect_frame(&a, "\x4e");
}

static void a_failure_without_a_negative_is_an_error_with_its_text(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "get_chunk_size", refuse, NULL), LMC_FAILED);
    assert_false(a.has_frame);
    assert_string_equal(a.error.text, "get_chunk_size: no reason");
}

static void a_failure_with_a_negative_is_that(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "query_prefetch_status", refuse, "\xa1r"), LMC_OK);
    assert_true(a.has_frame);
    assert_int_equal(a.frame.size, 1);
    assert_int_equal(a.frame.data[0], 0);
    lmc_buffer_fini(&a.frame);
}

static void still_pending_is_no_frame(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "query_prefetch_status", say_pending, "\xa1r"), LMC_OK);
    assert_false(a.has_frame);
    lmc_buffer_fini(&a.frame);
}

static void a_request_that_does_not_decode_reaches_no_handler(void **state) {
    asked a;
    (void)state;
    assert_int_equal(ask(&a, "query_prefetch_status", answer_at_once, "\x07"), LMC_MALFORMED);
    assert_int_equal(a.connection, 0);
    assert_non_null(strstr(a.error.text, "query_prefetch_status"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_is_asked_on_behalf_of_a_connection),
        cmocka_unit_test(an_answer_that_comes_later_is_waited_for),
        cmocka_unit_test(a_failure_without_a_negative_is_an_error_with_its_text),
        cmocka_unit_test(a_failure_with_a_negative_is_that),
        cmocka_unit_test(still_pending_is_no_frame),
        cmocka_unit_test(a_request_that_does_not_decode_reaches_no_handler),
    };
    lmc_log_set_level("lmcache", LMC_LOG_CRITICAL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
